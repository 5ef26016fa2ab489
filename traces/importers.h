// Makes traces of captured CSV files and of workloads written by hand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace marrow::trace {

struct ImportOptions {
  std::optional<std::string> machine;  ///< default: from the file's name, or what the file says
  double sm_clock_ghz = 1.98;          ///< clock of the captured cycle counts
};

/// Puts into queues in host memory, consumed by a CPU thread. All importers throw InputError naming
/// file, line and column or key; `out` appears only if the whole of `in` was good.
void import_host_consumer_csv(const std::string& in, const std::string& out,
                              const ImportOptions& options = {});
/// Puts into queues in GPU memory, consumed by a warp on another SM.
void import_device_consumer_csv(const std::string& in, const std::string& out,
                                const ImportOptions& options = {});
/// Puts into queues in GPU memory, consumed by a warp on another GPU.
void import_peer_consumer_csv(const std::string& in, const std::string& out,
                              const ImportOptions& options = {});
/// What marrow-capture or the stamping wrapper wrote (JSON lines, docs/capture.md).
void import_capture(const std::string& in, const std::string& out,
                    const ImportOptions& options = {});
/// A workload described by hand; nothing in it is measured.
void import_workload_yaml(const std::string& in, const std::string& out,
                          const ImportOptions& options = {});

/// The format whose header line this is ("device-consumer-csv"), or empty.
std::string csv_format_of(std::string_view header_line);

}  // namespace marrow::trace
