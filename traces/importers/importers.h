// Makes traces of captured files, of benchmarks' output and of workloads written by hand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/trace.h"

namespace marrow::trace {

struct ImportOptions {
  std::optional<std::string> machine;  ///< default: from the file's name, or what the file says
  double sm_clock_ghz = 1.98;          ///< clock of the captured cycle counts
  std::optional<std::string> after;    ///< mlx5-counters: the later snapshot
  std::vector<Counter> counters = {};  ///< to be put into the trace beside what the file holds
};

/// Puts into queues in host memory, consumed by a CPU thread. All importers throw InputError naming
/// file, line and column or key (of a database: table and row); `out` appears only if the whole of
/// `in` was good. None but the consumer captures (one configuration) keeps more than a few rows.
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
/// Output of linux-rdma perftest (ib_write_lat, ib_read_bw, ...), text or JSON: a run for each row.
void import_perftest(const std::string& in, const std::string& out,
                     const ImportOptions& options = {});
/// Output of NVSHMEM's perftest, for people or for machines: a run for each row.
void import_nvshmem_perftest(const std::string& in, const std::string& out,
                             const ImportOptions& options = {});
/// Output of nccl-tests, text or the JSON of -J: a run for each row, none to be replayed.
void import_nccl_tests(const std::string& in, const std::string& out,
                       const ImportOptions& options = {});
/// TRACE lines of NCCL's GIN proxy: a run for each process, an operation for each descriptor.
void import_gin_proxy_log(const std::string& in, const std::string& out,
                          const ImportOptions& options = {});
/// Nsight Systems' SQLite export: a run for each kernel and NVTX range, counters of the NICs.
void import_nsys_sqlite(const std::string& in, const std::string& out,
                        const ImportOptions& options = {});
/// Counters of an mlx5 NIC: a folder or a printout, and where options.after names a second one the
/// difference. A trace without runs.
void import_mlx5_counters(const std::string& in, const std::string& out,
                          const ImportOptions& options = {});

/// The format whose header line this is ("device-consumer-csv"), or empty.
std::string csv_format_of(std::string_view header_line);

}  // namespace marrow::trace
