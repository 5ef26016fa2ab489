// What a study's points say of its axes: how much each moves each metric, and what pays most.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/simulate.h"

namespace marrow::sweep {

/// One line of sensitivity.csv.
struct Sensitivity {
  /// elasticity: percent of the metric for each percent of the axis at the base point, by central
  ///   difference between the nearest values around it, one-sided where there is one side.
  /// change: metric over that of the base point, less 1.
  /// variance_share: first order. Latin hypercube: squared standardised coefficients of a linear
  ///   regression on ranks. Grid: variance of the means by the axis's values over that of all.
  /// fit: share of the ranks' variance that the regression explains; no axis.
  /// stage_share: of end_to_end at the base point (one at a time), or the mean over all points:
  /// what
  ///   a stage that nothing overlaps would save if it were free; no axis, the metric is the stage.
  std::string what;
  std::string axis, value, metric;
  double result = 0;
};

/// Percent for each percent at `base` from the points around it (x, y), base included or not;
/// nothing where base or its y is 0 or no other x is there.
std::optional<double> elasticity(double base_x, double base_y,
                                 const std::vector<std::pair<double, double>>& points);

/// Squared standardised coefficients of y on x (by column), all as ranks, with the share of the
/// variance explained as last element; empty where there are too few points or x is degenerate.
std::vector<double> rank_shares(const std::vector<std::vector<double>>& columns,
                                const std::vector<double>& y);

/// Points that failed are left out.
std::vector<Sensitivity> sensitivities(const Study& study, const std::vector<Point>& points,
                                       const std::vector<Outcome>& outcomes);

/// The value of a column; nothing where the point has it not.
std::optional<double> value_of(const Outcome& outcome, const std::string& column);

/// The column that changes are ranked by: the study's target, else the first of its metrics that
/// its points show.
std::string target_column(const Study& study, const std::vector<Outcome>& outcomes);

}  // namespace marrow::sweep
