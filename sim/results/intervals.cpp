#include "sim/results/intervals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace marrow::results {

std::string interval_name(std::uint32_t run_index, std::string_view stage) {
  return fmt::format("{} {}", run_index, stage);
}

Interval widened(const Interval& interval, double median, double error_percent) {
  const double error = median * error_percent / 100;
  return {median - std::hypot(std::max(0.0, median - interval.low), error),
          median + std::hypot(std::max(0.0, interval.high - median), error)};
}

void write_table(std::ostream& out, const StageTable& table, const Intervals& intervals,
                 std::size_t samples) {
  out << fmt::format(
      "\nWhere the medians lie with 90 %, by {} samples of the parameters' intervals [ns]\n\n",
      samples);
  out << fmt::format("{:<12} {:<20} {:>10} {:>10} {:>10}\n", "run", "stage", "low", "median",
                     "high");
  for (const auto& [index, run] : table.runs())
    for (const StageRow& row : run.times.rows()) {
      const auto it = intervals.find(interval_name(index, row.stage));
      if (it == intervals.end()) continue;
      out << fmt::format(
          "{:<12} {:<20} {:>10.1f} {:>10.1f} {:>10.1f}\n", run.name, row.stage, it->second.low,
          static_cast<double>(row.times->quantile(0.5)) / static_cast<double>(kPsPerNs),
          it->second.high);
    }
}

}  // namespace marrow::results
