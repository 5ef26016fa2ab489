// Which lines are near and which are far: as a capture recorded it, or inferred from its
// uncontended runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/common/placement.h"
#include "sim/config/recipe.h"
#include "sim/machine.h"
#include "traces/trace.h"

namespace marrow::validate {

/// What a capture tells of its placement. Sides are relative: pages and SMs that no observation
/// connects keep the sides that the seed gave them.
class InferredPlacement {
 public:
  /// One access as seen: from this SM, the page is far or not. sure: no other page explains it.
  void see_side(std::uint32_t sm, const std::string& region, std::uint64_t page, bool far,
                bool sure);
  /// Round trip from this SM to the line, beyond the mean near or far one.
  void see_distance(std::uint32_t sm, const std::string& region, std::uint64_t line, double cycles);

  /// Corrects a drawn placement.
  void apply(const config::Recipe& recipe, const QueueLayout& layout, Placement& placement) const;

  const std::vector<std::string>& runs() const { return runs_; }

 private:
  friend InferredPlacement infer_placement(trace::Reader&, sim::Machine&, const std::string&,
                                           std::uint64_t, const config::SystemSpec&);
  struct Seen {
    std::uint32_t sm;
    std::string region;
    std::uint64_t page;
    bool far;
    bool sure;
  };
  const Seen* find(std::uint32_t sm, const std::string& region, std::uint64_t page) const;

  std::vector<Seen> seen_;
  std::map<std::pair<std::uint32_t, std::pair<std::string, std::uint64_t>>, double> distances_;
  std::vector<std::string> runs_;
};

/// As the run's own record has it, with nothing inferred: sides as measured, distances from the
/// capture's mean near and far line. Throws InputError if the run names a word that the recipe does
/// not have.
InferredPlacement recorded_placement(const trace::Header& header, const trace::Run& run,
                                     const config::Recipe& recipe, const QueueLayout& layout);

/// What is known of a whole trace's placement.
class KnownPlacement {
 public:
  KnownPlacement() = default;  ///< nothing
  /// Uses what is recorded; infers (infer_placement()) only if no run has a record.
  KnownPlacement(trace::Reader& reader, sim::Machine& machine, const std::string& config_dir,
                 std::uint64_t seed, const config::SystemSpec& spec);

  /// Corrects a run's drawn placement; a run without a record in a trace that has some is left as
  /// drawn.
  void apply(const trace::Run& run, const config::Recipe& recipe, const QueueLayout& layout,
             Placement& placement) const;
  /// The runs from which it was inferred; none where it was recorded.
  const std::vector<std::string>& runs() const { return inferred_.runs(); }
  bool empty() const { return !recorded_ && runs().empty(); }

 private:
  bool recorded_ = false;
  trace::Header header_;
  InferredPlacement inferred_;
};

/// The runs of a trace in which every queue has one warp and whose recipe tells what they show
/// (`placed_by`), as few of them as show all queue words,
/// entry pages and SMs that any of them shows.
std::vector<std::string> placement_runs(trace::Reader& reader, const std::string& config_dir);

/// Replays those runs and reads off, stage by stage (the recipes' `placed_by`), where each word
/// must lie for the predicted medians to be the measured ones. Empty if the trace has no such run.
InferredPlacement infer_placement(trace::Reader& reader, sim::Machine& machine,
                                  const std::string& config_dir, std::uint64_t seed,
                                  const config::SystemSpec& spec);

}  // namespace marrow::validate
