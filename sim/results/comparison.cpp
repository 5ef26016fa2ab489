#include "sim/results/comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/results/csv.h"

namespace marrow::results {

namespace {

double ns(const Distribution& times, double p) {
  return static_cast<double>(times.quantile(p)) / static_cast<double>(kPsPerNs);
}

}  // namespace

void Comparison::begin_protocol(std::string_view protocol) {
  const auto it = std::find(names_.begin(), names_.end(), protocol);
  const auto at = static_cast<std::size_t>(it - names_.begin());
  if (it == names_.end()) {
    names_.emplace_back(protocol);
    sides_.emplace_back();
  }
  side_ = &sides_[at];
}

void Comparison::begin_run(std::uint32_t index, std::string_view name) {
  runs_[index] = name;
  side_->stages.begin_run(index, name);
  side_->operations.begin_run(index, name);
}

void Comparison::on_journey(const Journey& journey) {
  if (journey.pe == 0) side_->stages.on_journey(journey);
}

void Comparison::on_operation(const Operation& operation) {
  if (operation.pe != 0) return;
  side_->operations.on_operation(operation);
  if (is_message(operation.kind)) side_->bytes.try_emplace(operation.run, operation.bytes);
}

Compared Comparison::at(std::uint32_t run, std::size_t protocol) const {
  const Side& side = sides_[protocol];
  Compared compared;
  if (const auto it = side.bytes.find(run); it != side.bytes.end()) compared.bytes = it->second;
  const auto& operations = side.operations.runs().at(run);
  const StageTimes& stages = side.stages.runs().at(run).times;
  compared.messages = stages.messages();
  const std::vector<StageRow> rows = stages.rows();
  if (!rows.empty()) {
    compared.times = rows.back().times;
    compared.what = rows.back().stage;
  }
  for (const OperationRow& row : operations.rows())
    if (row.times == &operations.to_quiet || row.times == &operations.to_wait) {
      compared.times = row.times;
      compared.what = row.times == &operations.to_quiet ? "message to quiet" : "message to wait";
      break;
    }
  return compared;
}

void write_table(std::ostream& out, const Comparison& comparison) {
  const auto& names = comparison.protocols();
  std::size_t first = 3;
  for (const auto& [index, run] : comparison.runs()) first = std::max(first, run.size());
  out << fmt::format("{:<{}}", "run", first);
  for (const std::string& name : names) out << fmt::format("  {:>20}", name);
  out << fmt::format("\n{:<{}}", "", first);
  for (std::size_t i = 0; i < names.size(); ++i)
    out << fmt::format("  {:>12}  {:>6}", "us", "times");
  out << '\n';
  for (const auto& [index, run] : comparison.runs()) {
    double least = 0;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (const Compared c = comparison.at(index, i); c.times != nullptr) {
        const double median = ns(*c.times, 0.5);
        least = least == 0 ? median : std::min(least, median);
      }
    out << fmt::format("{:<{}}", run, first);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Compared c = comparison.at(index, i);
      if (c.times == nullptr)
        out << fmt::format("  {:>12}  {:>6}", "-", "-");
      else
        out << fmt::format("  {:>12.2f}  {:>6.2f}", ns(*c.times, 0.5) / 1000,
                           ns(*c.times, 0.5) / least);
    }
    out << '\n';
  }
}

void write_csv(std::ostream& out, const Comparison& comparison) {
  out << "run,bytes,protocol,what,messages,median_ns,p90_ns,p99_ns\n";
  for (const auto& [index, run] : comparison.runs())
    for (std::size_t i = 0; i < comparison.protocols().size(); ++i) {
      const Compared c = comparison.at(index, i);
      if (c.times == nullptr) continue;
      out << fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(run), c.bytes,
                         csv_field(comparison.protocols()[i]), c.what, c.messages,
                         ns(*c.times, 0.5), ns(*c.times, 0.9), ns(*c.times, 0.99));
    }
}

nlohmann::ordered_json as_json(const Comparison& comparison) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [index, run] : comparison.runs())
    for (std::size_t i = 0; i < comparison.protocols().size(); ++i) {
      const Compared c = comparison.at(index, i);
      if (c.times == nullptr) continue;
      rows.push_back({{"index", index},
                      {"run", run},
                      {"bytes", c.bytes},
                      {"protocol", comparison.protocols()[i]},
                      {"what", c.what},
                      {"messages", c.messages},
                      {"median_ns", ns(*c.times, 0.5)},
                      {"p90_ns", ns(*c.times, 0.9)},
                      {"p99_ns", ns(*c.times, 0.99)}});
    }
  return rows;
}

}  // namespace marrow::results
