#include "sim/results/operation_table.h"

#include <fmt/format.h>

namespace marrow::results {

std::vector<OperationRow> OperationTable::Run::rows() const {
  std::vector<OperationRow> rows;
  for (std::size_t kind = 0; kind < kOpKindCount; ++kind)
    if (alone[kind].count() > 0) rows.push_back({std::string(kOpKindNames[kind]), &alone[kind]});
  if (to_quiet.count() > 0) rows.push_back({to_quiet_from + " to quiet", &to_quiet});
  if (to_wait.count() > 0) rows.push_back({to_wait_from + " to wait", &to_wait});
  return rows;
}

bool OperationTable::Run::plain() const {
  for (std::size_t kind = 0; kind < kOpKindCount; ++kind)
    if (alone[kind].count() > 0 && !is_message(static_cast<OpKind>(kind))) return false;
  return true;
}

void OperationTable::begin_run(std::uint32_t index, std::string_view name) {
  runs_[index].name = name;
}

void OperationTable::on_operation(const Operation& operation) {
  Run& run = runs_[operation.run];
  run.alone[static_cast<std::size_t>(operation.kind)].add(operation.end_ps - operation.begin_ps);
  const auto lane = std::make_pair(operation.run, operation.warp);
  if (is_message(operation.kind)) {
    last_message_[lane] = operation;
    return;
  }
  const bool quiet = operation.kind == OpKind::kQuiet, wait = operation.kind == OpKind::kWait;
  const auto message = last_message_.find(lane);
  if (message == last_message_.end() || (!quiet && !wait)) return;
  (quiet ? run.to_quiet : run.to_wait).add(operation.end_ps - message->second.begin_ps);
  (quiet ? run.to_quiet_from : run.to_wait_from) =
      kOpKindNames[static_cast<std::size_t>(message->second.kind)];
  last_message_.erase(message);
}

void write_table(std::ostream& out, const OperationTable& table) {
  bool head = true;
  for (const auto& [index, run] : table.runs()) {
    if (run.plain()) continue;
    if (head)
      out << fmt::format("{:<40} {:>10} {:>11} {:>11} {:>11}\n", "operations, call to return",
                         "count", "median ns", "p90 ns", "p99 ns");
    head = false;
    for (const OperationRow& row : run.rows()) {
      const Distribution& d = *row.times;
      const auto ns = [&](double p) {
        return static_cast<double>(d.quantile(p)) / static_cast<double>(kPsPerNs);
      };
      out << fmt::format("{:<40} {:>10} {:>11.0f} {:>11.0f} {:>11.0f}\n",
                         run.name + ": " + row.what, d.count(), ns(0.5), ns(0.9), ns(0.99));
    }
  }
  if (!head) out << '\n';
}

}  // namespace marrow::results
