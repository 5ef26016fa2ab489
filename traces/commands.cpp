#include "traces/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/common/error.h"
#include "traces/counters.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxCount = std::numeric_limits<std::uint64_t>::max();

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  return a > kMaxCount - b ? kMaxCount : a + b;
}
std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > kMaxCount / b ? kMaxCount : a * b;
}

/// What a run holds, counted by reading it. A record with a count is that many operations.
struct Totals {
  std::uint64_t records = 0, ops = 0, bytes = 0, measured = 0;
  double first_ns = std::numeric_limits<double>::max(), last_ns = 0;

  void count(const Op& op, double sm_clock_ghz) {
    ++records;
    ops = add(ops, op.count);
    bytes = add(bytes, multiply(op.bytes, op.count));
    if (!op.measured) return;
    const Measured& m = *op.measured;
    measured = add(measured, op.count);
    const auto cycles =
        std::accumulate(m.stage_cycles.begin(), m.stage_cycles.end(), std::uint64_t{0});
    const auto start_ns = static_cast<double>(m.start_ns);
    first_ns = std::min(first_ns, start_ns);
    const double took = static_cast<double>(
        cycles + (op.kind == OpKind::kCompute ? op.compute_cycles : std::uint64_t{0}));
    last_ns = std::max(last_ns, start_ns + (sm_clock_ghz > 0 ? took / sm_clock_ghz : 0));
  }
  /// From the first start to the end of the last measured stage; 0 where nothing was measured.
  double duration_ns() const { return measured == 0 ? 0 : last_ns - first_ns; }
  std::string_view measured_word() const {
    return measured == 0 ? "no" : measured == ops ? "yes" : "partly";
  }
};

std::string choices_text(const Run& run) {
  std::string text;
  for (const auto& [key, value] : run.choices)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text.empty() ? "-" : text;
}

void print_table(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns,
                 std::ostream& out) {
  std::vector<std::size_t> width(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i < left_columns ? fmt::format("{:<{}}  ", row[i], width[i])
                               : fmt::format("{:>{}}  ", row[i], width[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

}  // namespace

const std::vector<ImportFormat>& import_formats() {
  static const std::vector<ImportFormat> formats = {
      {"host-consumer-csv", "puts into queues in host memory, a CPU thread consumes",
       import_host_consumer_csv},
      {"device-consumer-csv", "puts into queues in GPU memory, a warp on another SM consumes",
       import_device_consumer_csv},
      {"peer-consumer-csv", "puts into queues in GPU memory, a warp on another GPU consumes",
       import_peer_consumer_csv},
      {"workload-yaml", "a workload described by hand, nothing measured", import_workload_yaml},
      {"capture", "puts as marrow-capture or the stamping wrapper wrote them", import_capture},
      {"perftest", "linux-rdma perftest (ib_write_lat, ib_read_bw, ...): tables or JSON",
       import_perftest},
      {"nvshmem-perftest", "NVSHMEM's perftest (shmem_put_latency, ...): tables or && PERF lines",
       import_nvshmem_perftest},
      {"nccl-tests", "nccl-tests (all_reduce_perf, ...): tables or the JSON of -J",
       import_nccl_tests},
      {"gin-proxy-log", "TRACE lines of NCCL's GIN proxy: seen, submitted, completed",
       import_gin_proxy_log},
      {"nsys-sqlite", "Nsight Systems' SQLite export: kernels, NVTX ranges, NIC metrics",
       import_nsys_sqlite},
      {"mlx5-counters", "a NIC's hw_counters (folder or printout), ethtool -S, rdma statistic",
       import_mlx5_counters},
  };
  return formats;
}

void import_file(const std::string& format, const std::string& file, const std::string& out,
                 const ImportOptions& options) {
  std::vector<std::string_view> names;
  for (const ImportFormat& f : import_formats()) names.push_back(f.name);
  const auto at = std::find(names.begin(), names.end(), format);
  if (at == names.end())
    throw InputError("import", fmt::format("unknown format '{}'", shown(format)),
                     choose_from(format, names));
  if (options.after && format != "mlx5-counters")
    throw InputError("--after", fmt::format("'{}' has no later snapshot", format),
                     "it is for mlx5-counters");
  if (!(options.sm_clock_ghz > 0 && options.sm_clock_ghz <= 100))
    throw InputError("--sm-clock-ghz", fmt::format("{} is out of range", options.sm_clock_ghz),
                     "write a clock above 0 and up to 100 GHz");
  std::error_code ignored;
  if (std::filesystem::equivalent(file, out, ignored))
    throw InputError(out, "is the file to import itself", "name another file with --out");
  import_formats()[static_cast<std::size_t>(at - names.begin())].import(file, out, options);
}

namespace {

Json as_json(const std::vector<Counter>& counters) {
  Json all = Json::array();
  for (const Counter& c : counters)
    all.push_back({{"device", c.device},
                   {"counter", c.name},
                   {"value", c.value},
                   {"unit", c.unit.empty() ? "count" : c.unit},
                   {"taken", c.taken}});
  return all;
}

Json as_json(const std::vector<Summary>& summaries) {
  Json all = Json::array();
  for (const Summary& s : summaries)
    all.push_back({{"metric", s.metric},
                   {"statistic", s.statistic},
                   {"value", s.value},
                   {"unit", s.unit},
                   {"count", s.count},
                   {"note", s.note}});
  return all;
}

using Table = std::vector<std::vector<std::string>>;

void print_counters(const Header& header, const Requests& requests, std::ostream& out) {
  if (header.counters.empty()) return;
  Table rows = {{"device", "counter", "value", "unit", "taken"}};
  for (const Counter& c : header.counters)
    rows.push_back({c.device.empty() ? "-" : c.device, c.name, fmt::format("{:.15g}", c.value),
                    c.unit.empty() ? "count" : c.unit, c.taken});
  out << '\n';
  print_table(rows, 2, out);
  for (const CounterCheck& check : check_counters(header, requests))
    out << fmt::format("{}: {:.15g} counted, {:.15g} asked for by the trace's operations\n",
                       check.name, check.counted, check.expected);
}

}  // namespace

void info(Reader& reader, const std::string& name, bool json, std::ostream& out) {
  const Header& header = reader.header();
  Json runs = Json::array();
  Table rows = {
      {"run", "protocol", "choices", "warps", "queues", "ops", "bytes", "measured", "duration_us"}};
  Table measured = {{"run", "measured", "statistic", "value", "unit", "count", "what it is"}};
  std::map<std::string, std::uint64_t> left_out;  // by reason
  Requests requests;
  Op op;
  while (const std::optional<Run> run = reader.next_run()) {
    Totals totals;
    while (reader.next_op(op)) {
      totals.count(op, header.sm_clock_ghz);
      requests.add(op);
    }
    if (json) {
      runs.push_back({{"name", run->name},
                      {"protocol", run->protocol},
                      {"choices", run->choices},
                      {"warps", run->lanes.size()},
                      {"queues", run->queues},
                      {"puts_per_warp", run->puts_per_lane},
                      {"records", totals.records},
                      {"ops", totals.ops},
                      {"bytes", totals.bytes},
                      {"measured_ops", totals.measured},
                      {"measured_stages", run->measured_stages},
                      {"duration_ns", totals.duration_ns()},
                      {"summaries", as_json(run->summaries)},
                      {"not_replayable", run->not_replayable}});
      continue;
    }
    if (!run->not_replayable.empty()) ++left_out[run->not_replayable];
    for (const Summary& s : run->summaries)
      measured.push_back({run->name, s.metric, s.statistic, fmt::format("{:.6g}", s.value), s.unit,
                          s.count == 0 ? "-" : std::to_string(s.count),
                          s.note.empty() ? "-" : s.note});
    rows.push_back({run->name, run->protocol.empty() ? "-" : run->protocol, choices_text(*run),
                    std::to_string(run->lanes.size()), std::to_string(run->queues),
                    std::to_string(totals.ops), std::to_string(totals.bytes),
                    std::string(totals.measured_word()),
                    totals.measured ? fmt::format("{:.1f}", totals.duration_ns() / 1000) : "-"});
  }
  if (json) {
    out << Json{{"schema", "marrow.trace.info/1"},
                {"file", name},
                {"machine", header.machine},
                {"origin", header.origin},
                {"facts", header.facts},
                {"sm_clock_ghz", header.sm_clock_ghz},
                {"counters", as_json(header.counters)},
                {"runs", runs}}
               .dump(2, ' ', false, Json::error_handler_t::replace)
        << '\n';
    return;
  }
  out << "machine   " << header.machine << "\norigin    " << header.origin << '\n';
  if (header.sm_clock_ghz > 0) out << fmt::format("SM clock  {} GHz\n", header.sm_clock_ghz);
  for (const auto& [fact, value] : header.facts) out << fmt::format("{:<9} {}\n", fact, value);
  if (rows.size() > 1) {
    out << '\n';
    print_table(rows, 3, out);
  }
  if (measured.size() > 1) {
    out << '\n';
    print_table(measured, 3, out);
  }
  for (const auto& [reason, count] : left_out)
    out << fmt::format("\n{} {} not to be replayed: {}\n", count,
                       count == 1 ? "run is" : "runs are", reason);
  print_counters(header, requests, out);
}

void check(Reader& reader, const std::string& name, std::ostream& out) {
  std::uint64_t runs = 0;
  Totals totals;
  Op op;
  for (; reader.next_run(); ++runs)
    while (reader.next_op(op)) totals.count(op, 0);
  out << fmt::format("{}: OK: {} runs, {} operations in {} records, {} of them measured\n", name,
                     runs, totals.ops, totals.records, totals.measured);
}

void dump(Reader& reader, const std::string& file, std::optional<std::string> only_run,
          std::uint64_t limit, std::ostream& out) {
  std::vector<std::string> names;
  bool found = false;
  std::uint64_t lines = 0;
  Op op;
  while (const std::optional<Run> run = reader.next_run()) {
    if (only_run && run->name != *only_run) {
      names.push_back(run->name);
      continue;
    }
    found = true;
    while (reader.next_op(op)) {
      if (limit != 0 && lines++ == limit) return;
      Json line = {{"run", run->name},
                   {"kind", name(op.kind)},
                   {"warp", op.warp},
                   {"bytes", op.bytes},
                   {"flush", op.flush},
                   {"wait", op.wait},
                   {"compute_cycles", op.compute_cycles},
                   {"count", op.count}};
      if (op.measured) {
        const Measured& m = *op.measured;
        Json stages = Json::object();
        for (std::size_t i = 0; i < m.stage_cycles.size(); ++i)
          stages[run->measured_stages[i]] = m.stage_cycles[i];
        line["measured"] = {{"start_ns", m.start_ns},
                            {"stage_cycles", stages},
                            {"polls", m.polls},
                            {"index", m.index},
                            {"rang", m.rang},
                            {"timed_out", m.timed_out},
                            {"consumer_seen_ns", m.consumer_seen_ns},
                            {"consumer_read_ns", m.consumer_read_ns},
                            {"consumer_done_ns", m.consumer_done_ns}};
      }
      out << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    }
  }
  if (only_run && !found) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw InputError(file, fmt::format("has no run '{}'", shown(*only_run)),
                     choose_from(*only_run, known));
  }
}

}  // namespace marrow::trace
