// How far predicted medians may be off by what is not known exactly of the parameters.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "sim/results/stage_table.h"

namespace marrow::results {

struct Interval {
  double low = 0, high = 0;
};
/// Of medians in ns, by interval_name().
using Intervals = std::map<std::string, Interval>;

std::string interval_name(std::uint32_t run_index, std::string_view stage);

/// Around the median with an error of its own, independent of what the interval is from: deviations
/// add as squares.
Interval widened(const Interval& interval, double median, double error_percent);

/// A line for each run and stage: median and where it lies with 90 %.
void write_table(std::ostream& out, const StageTable& table, const Intervals& intervals,
                 std::size_t samples);

}  // namespace marrow::results
