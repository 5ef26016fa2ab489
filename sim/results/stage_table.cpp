#include "sim/results/stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/results/csv.h"

namespace marrow::results {
namespace {

constexpr double kBarCells = 30;

double ns(double ps) { return ps / static_cast<double>(kPsPerNs); }
double ns(Ps ps) { return ns(static_cast<double>(ps)); }

/// Three digits or more, and no more decimals than a model can mean.
std::string digits(Ps ps) {
  const double value = ns(ps);
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string bar(double share) {
  const auto halves = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 2 * kBarCells));
  std::string line;
  for (int i = 0; i < halves / 2; ++i) line += "━";
  if (halves % 2 != 0) line += "╸";
  return line;
}

}  // namespace

void StageTimes::add(const Journey& journey) {
  for (std::size_t s = 0; s < kStageCount; ++s)
    if (journey.stage_ps[s] != 0) stages_[s].add(journey.stage_ps[s]);
  if (journey.waited) completion_.add(journey.waited_ps);
  put_.add(journey.put_ps());
  end_to_end_.add(journey.end_to_end_ps());
}

void StageTimes::merge(const StageTimes& other) {
  for (std::size_t s = 0; s < kStageCount; ++s) stages_[s].merge(other.stages_[s]);
  completion_.merge(other.completion_);
  put_.merge(other.put_);
  end_to_end_.merge(other.end_to_end_);
}

std::vector<StageRow> StageTimes::rows() const {
  std::vector<StageRow> rows;
  const double whole = end_to_end_.sum();
  const auto row = [&](std::string_view stage, const Distribution& times, bool tiles) {
    if (times.count() > 0)
      rows.push_back({stage, &times, whole > 0 ? times.sum() / whole : 0, tiles});
  };
  for (std::size_t s = 0; s < kStageCount; ++s) row(kStageNames[s], stages_[s], true);
  row("completion", completion_, false);
  row("put", put_, false);
  row("end_to_end", end_to_end_, false);
  return rows;
}

StageTable::Run& StageTable::run(std::uint32_t index) {
  if (last_ == nullptr || last_index_ != index) {
    last_ = &runs_.try_emplace(index, Run{fmt::format("run {}", index), {}}).first->second;
    last_index_ = index;
  }
  return *last_;
}

void StageTable::begin_run(std::uint32_t index, std::string_view name) { run(index).name = name; }

void StageTable::on_journey(const Journey& journey) { run(journey.run).times.add(journey); }

StageTimes StageTable::total() const {
  StageTimes total;
  for (const auto& [index, run] : runs_) total.merge(run.times);
  return total;
}

void write_table(std::ostream& out, std::string_view heading, const StageTimes& times) {
  out << fmt::format("{}: {} message{}\n", heading, times.messages(),
                     times.messages() == 1 ? "" : "s");
  if (times.messages() == 0) return;
  out << fmt::format("{:<17} {:>10} {:>11} {:>11} {:>11} {:>7}\n", "stage", "count", "median ns",
                     "p90 ns", "p99 ns", "share");
  bool above_line = true;
  for (const StageRow& row : times.rows()) {
    if (above_line && !row.tiles) {
      out << fmt::format("{:-<72}\n", "");
      above_line = false;
    }
    const Distribution& d = *row.times;
    out << fmt::format("{:<17} {:>10} {:>11} {:>11} {:>11} {:>5.1f} %", row.stage, d.count(),
                       digits(d.quantile(0.5)), digits(d.quantile(0.9)), digits(d.quantile(0.99)),
                       100 * row.share);
    const std::string line = row.tiles ? bar(row.share) : "";
    out << (line.empty() ? "" : "  ") << line << '\n';
  }
}

void write_table(std::ostream& out, const StageTable& table) {
  for (const auto& [index, run] : table.runs()) {
    write_table(out, run.name, run.times);
    out << '\n';
  }
  if (table.runs().size() != 1)
    write_table(out, fmt::format("all {} runs", table.runs().size()), table.total());
}

void write_csv(std::ostream& out, const StageTable& table) {
  out << "run,stage,count,median_ns,p90_ns,p99_ns,mean_ns,share\n";
  for (const auto& [index, run] : table.runs())
    for (const StageRow& row : run.times.rows()) {
      const Distribution& d = *row.times;
      out << fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(run.name), row.stage, d.count(),
                         ns(d.quantile(0.5)), ns(d.quantile(0.9)), ns(d.quantile(0.99)),
                         ns(d.mean()), row.share);
    }
}

}  // namespace marrow::results
