// What a report keeps of a CSV of messages: quantiles and bins, whose size does not grow with the
// number of messages.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace marrow::report {

/// The header's beginning, by which such a file (`marrow run --messages-csv`) is known.
inline constexpr const char* kMessagesHead = "run,warp,sm,queue,index,op,start_ns,";

/// Reads a CSV of messages, plain or gzipped, in memory that does not grow with its length. Gives
///   {probabilities[], runs[] {run, messages,
///                             stages[] {stage, count, mean_ns, quantiles_ns[]},
///                             over_time {bin_ns, bins[] [begin, count, p10, median, p90, max]},
///                             by_size[] {bytes, count, p10_ns, median_ns, p90_ns}}}
/// with quantiles_ns at the probabilities; over_time, by start, and by_size are of end_to_end.
/// Stages that no message passed are absent. Throws InputError naming file and line.
nlohmann::ordered_json summarize_messages(const std::string& path);

}  // namespace marrow::report
