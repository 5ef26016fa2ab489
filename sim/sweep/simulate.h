// One point of a study.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/points.h"

namespace marrow::sweep {

/// What a point showed. A column's name ends with its unit, as put_completion_median_ns.
struct Outcome {
  std::vector<std::pair<std::string, double>> metrics;
  std::string error;  ///< why there are none; empty: there are
};

/// Simulates it here, with every placement that the study draws, and pools them. Throws InputError.
Outcome simulate(const Study& study, const Point& point);

/// As one line of text and back: {"metrics":{...}} or {"error":"..."}.
std::string as_line(const Outcome& outcome);
/// An error where `line` is no such text.
Outcome from_line(const std::string& line);

/// simulate() as a line; whatever it throws is the line's error.
std::string simulate_to_line(const Study& study, const Point& point);

/// The column that holds a metric's typical value: "put_completion_median_ns", "rate_mmsg_per_s".
std::string main_column(const std::string& metric);
/// The columns that the study's metrics may have, in the order of tables.
std::vector<std::string> possible_columns(const Study& study);

}  // namespace marrow::sweep
