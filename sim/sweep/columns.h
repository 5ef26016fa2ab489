// What the tables of a study's results have in common: which columns, how a cell is written.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "sim/sweep/results.h"

namespace marrow::sweep {

/// Columns of the metrics that any point has, in the order of the study's metrics.
std::vector<std::string> metric_columns(const Results& results);
/// Keys that are set by an axis of another name, in order.
std::vector<std::string> tied_keys(const Study& study);
/// What the point sets a key to; empty: what the base has.
std::string setting(const Point& point, const std::string& key);
/// Of rates and goodputs, more is better; of times, less.
bool more_is_better(const std::string& column);
/// Three digits or so.
std::string decimals(double value);
/// Columns as wide as their longest cell; the first `texts` to the left, numbers to the right.
void write_aligned(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                   std::size_t texts);

}  // namespace marrow::sweep
