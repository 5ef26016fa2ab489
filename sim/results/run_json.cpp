#include "sim/results/run_json.h"

#include <cmath>

namespace marrow::results {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  // A count is written as one: 1200, not 1200.0.
  if (std::trunc(value) == value && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

Json ns(double ps) { return number(ps / static_cast<double>(kPsPerNs)); }
Json ns(Ps ps) { return ns(static_cast<double>(ps)); }

Json stages(const StageTimes& times) {
  Json rows = Json::array();
  for (const StageRow& row : times.rows()) {
    const Distribution& d = *row.times;
    rows.push_back({{"stage", row.stage},
                    {"count", d.count()},
                    {"p10_ns", ns(d.quantile(0.1))},
                    {"median_ns", ns(d.quantile(0.5))},
                    {"p90_ns", ns(d.quantile(0.9))},
                    {"p99_ns", ns(d.quantile(0.99))},
                    {"mean_ns", ns(d.mean())},
                    {"share", number(row.share)}});
  }
  return rows;
}

}  // namespace

void write_json(std::ostream& out, const RunInfo& info, const StageTable& table,
                const OperationTable& operations, const KernelTable& kernels,
                const Counters& counters, const MeasuredTable& measured,
                const Intervals& intervals) {
  Json runs = Json::array();
  for (const auto& [index, run] : table.runs()) {
    Json spent = Json::array();
    if (const auto it = operations.runs().find(index); it != operations.runs().end())
      for (const OperationRow& row : it->second.rows())
        spent.push_back({{"operation", row.what},
                         {"count", row.times->count()},
                         {"median_ns", ns(row.times->quantile(0.5))},
                         {"p90_ns", ns(row.times->quantile(0.9))},
                         {"p99_ns", ns(row.times->quantile(0.99))},
                         {"mean_ns", ns(row.times->mean())}});
    Json of_run = stages(run.times);
    for (Json& row : of_run)
      if (const auto it =
              intervals.find(interval_name(index, row["stage"].get_ref<const std::string&>()));
          it != intervals.end())
        row["interval_ns"] = {it->second.low, it->second.high};
    Json result = {{"index", index},
                   {"run", run.name},
                   {"messages", run.times.messages()},
                   {"stages", of_run},
                   {"operations", spent}};
    if (const auto it = kernels.runs().find(index); it != kernels.runs().end()) {
      Json parts = Json::array();
      for (const KernelRow& row : it->second.rows())
        parts.push_back({{"part", row.what},
                         {"count", row.times->count()},
                         {"median_ns", ns(row.times->quantile(0.5))},
                         {"p90_ns", ns(row.times->quantile(0.9))},
                         {"p99_ns", ns(row.times->quantile(0.99))},
                         {"mean_ns", ns(row.times->mean())},
                         {"share", number(row.share)}});
      result["kernels"] = parts;
    }
    runs.push_back(result);
  }
  const StageTimes all = table.total();
  Json counted = Json::array();
  for (const Counter& c : counters.all())
    counted.push_back(
        {{"block", c.block}, {"counter", c.name}, {"value", number(c.value)}, {"unit", c.unit}});
  Json beside = Json::array();
  for (const MeasuredRow& row : measured.rows())
    beside.push_back({{"run", row.run},
                      {"metric", row.measured.metric},
                      {"statistic", row.measured.statistic},
                      {"unit", row.measured.unit},
                      {"measured", number(row.measured.value)},
                      {"predicted", number(row.predicted)},
                      {"error", row.error()}});
  const Json result = {{"schema", "marrow.run/1"},
                       {"system", info.system},
                       {"protocols", info.protocols},
                       {"trace", info.trace},
                       {"seed", info.seed},
                       {"runs", runs},
                       {"total", {{"messages", all.messages()}, {"stages", stages(all)}}},
                       {"counters", counted},
                       {"measured", beside},
                       {"provenance", info.provenance}};
  // Names come from files and need not be UTF-8.
  out << result.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace marrow::results
