// Replays a trace on a machine, run by run, in constant memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/common/observer.h"
#include "models/common/placement.h"
#include "sim/config/recipe.h"
#include "sim/machine.h"
#include "traces/trace.h"

namespace marrow::sim {

struct ReplayOptions {
  std::string config_dir;                  ///< where protocols/ is
  std::optional<std::string> protocol;     ///< instead of the trace's own
  std::vector<std::string> protocol_sets;  ///< "x=v" of --set protocol.x=v
  std::uint64_t seed = 1;
  /// Which runs to replay; empty: all.
  std::function<bool(const trace::Run&)> selects;
  /// A run that cannot be simulated (Run::not_replayable) is left out; may be empty.
  std::function<void(const trace::Run&)> on_left_out;
  /// Before a run starts; may be empty.
  std::function<void(std::uint32_t index, const trace::Run&, const config::Recipe&)> on_run;
  /// Once a run has ended; may be empty.
  std::function<void(std::uint32_t index, const trace::Run&)> on_run_end;
  /// Each operation with captured times, as it is handed to its lane; may be empty.
  std::function<void(std::uint32_t index, const trace::Run&, const trace::Op&)> on_measured;
  /// Corrects a run's drawn placement; may be empty.
  std::function<void(const trace::Run&, const config::Recipe&, const QueueLayout&, Placement&)>
      place;
};

/// Is this run asked for? only: run names, or "cfg=4" for "cfg 4"; empty: all are.
bool run_selected(const std::vector<std::string>& only, const std::string& run);

/// Returns the number of runs replayed. Throws InputError for what the trace or a recipe asks that
/// cannot be done.
std::uint32_t replay(trace::Reader& reader, Machine& machine, const ReplayOptions& options,
                     Observer* observer);

}  // namespace marrow::sim
