// The machine-readable result of a run.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "sim/results/counters.h"
#include "sim/results/intervals.h"
#include "sim/results/kernel_table.h"
#include "sim/results/measured_table.h"
#include "sim/results/operation_table.h"
#include "sim/results/stage_table.h"

namespace marrow::results {

/// What was run.
struct RunInfo {
  std::string system;
  std::vector<std::string> protocols;
  std::string trace;
  std::uint64_t seed = 0;
  /// What the prediction rests on; written as it is.
  nlohmann::ordered_json provenance = nlohmann::ordered_json::object();
};

/// One JSON object, schema "marrow.run/1":
///   {schema, system, protocols[], trace, seed,
///    runs[] {index, run, messages, stages[], operations[]}, total {messages, stages[]},
///    counters[] {block, counter, value, unit}, measured[], provenance}
/// with stages[] {stage, count, p10_ns, median_ns, p90_ns, p99_ns, mean_ns, share}. A stage that no
/// message passed is absent; a run's stages have interval_ns [low, high] of the median where there
/// are intervals. operations[] {operation, count, median_ns, p90_ns, p99_ns, mean_ns},
/// from call to return. A run whose kernels a CPU thread launches has kernels[]
/// {part, count, median_ns, p90_ns, p99_ns, mean_ns, share} as well. measured[] {run, metric,
/// statistic, unit, measured, predicted, error}: what the trace says of a run as a whole, where the
/// simulation shows the same.
void write_json(std::ostream& out, const RunInfo& info, const StageTable& table,
                const OperationTable& operations, const KernelTable& kernels,
                const Counters& counters, const MeasuredTable& measured = {},
                const Intervals& intervals = {});

}  // namespace marrow::results
