// Which lines are near and which are far, inferred from a capture's uncontended runs.
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
  bool empty() const { return runs_.empty(); }

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

/// The runs of a trace in which every queue has one warp, as few of them as show all queue words,
/// entry pages and SMs that any of them shows.
std::vector<std::string> placement_runs(trace::Reader& reader, const std::string& config_dir);

/// Replays those runs and reads off, stage by stage (the recipes' `placed_by`), where each word
/// must lie for the predicted medians to be the measured ones. Empty if the trace has no such run.
InferredPlacement infer_placement(trace::Reader& reader, sim::Machine& machine,
                                  const std::string& config_dir, std::uint64_t seed,
                                  const config::SystemSpec& spec);

}  // namespace marrow::validate
