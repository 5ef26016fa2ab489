#include "sim/sweep/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace marrow::sweep {

namespace {

const std::string kStagePrefix = "stage.", kShareSuffix = "_share";

/// Ranks from 0, equal values sharing their mean rank.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranked(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t j = i;
    while (j < order.size() && values[order[j]] == values[order[i]]) ++j;
    for (std::size_t k = i; k < j; ++k) ranked[order[k]] = static_cast<double>(i + j - 1) / 2;
    i = j;
  }
  return ranked;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Less the mean, over the standard deviation; false if it has none.
bool standardise(std::vector<double>& values) {
  const double middle = mean(values);
  double squares = 0;
  for (double& value : values) {
    value -= middle;
    squares += value * value;
  }
  if (squares <= 0) return false;
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  for (double& value : values) value /= deviation;
  return true;
}

/// Solves a x = b by elimination with pivots; false if a is singular.
bool solve(std::vector<std::vector<double>> a, std::vector<double>& b) {
  constexpr double kSingular = 1e-9;
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    if (std::abs(a[pivot][k]) < kSingular) return false;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return true;
}

/// Columns that every point with a result has, in order; shares aside, which are told by stage.
std::vector<std::string> common_columns(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> columns;
  bool first = true;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) continue;
    if (first)
      for (const auto& [name, value] : outcome.metrics)
        if (!name.ends_with(kShareSuffix)) columns.push_back(name);
    first = false;
    std::erase_if(columns, [&](const std::string& c) { return !value_of(outcome, c); });
  }
  return columns;
}

void one_at_a_time(const Study& study, const std::vector<Point>& points,
                   const std::vector<Outcome>& outcomes, std::vector<Sensitivity>& found) {
  const Outcome& base = outcomes.front();
  if (!base.error.empty()) return;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    const Axis& axis = study.axes[a];
    for (const auto& [column, base_y] : base.metrics) {
      std::vector<std::pair<double, double>> around;
      for (std::size_t p = 1; p < points.size(); ++p) {
        if (points[p][a].label == axis.base.label) continue;
        const auto y = value_of(outcomes[p], column);
        if (!y) continue;
        if (points[p][a].number) around.emplace_back(*points[p][a].number, *y);
        if (base_y != 0)
          found.push_back({"change", axis.name, points[p][a].label, column, *y / base_y - 1});
      }
      if (!axis.base.number) continue;
      if (const auto slope = elasticity(*axis.base.number, base_y, around))
        found.push_back({"elasticity", axis.name, axis.base.label, column, *slope});
    }
  }
}

void latin_hypercube(const Study& study, const std::vector<Point>& points,
                     const std::vector<Outcome>& outcomes, std::vector<Sensitivity>& found) {
  std::vector<std::vector<double>> columns(study.axes.size());
  for (std::size_t a = 0; a < study.axes.size(); ++a)
    for (std::size_t p = 0; p < points.size(); ++p) {
      if (!outcomes[p].error.empty()) continue;
      // What is no number is ranked as it is listed.
      const auto& values = study.axes[a].values;
      const bool numeric = std::all_of(values.begin(), values.end(),
                                       [](const Value& v) { return v.number.has_value(); });
      const auto at = std::find_if(values.begin(), values.end(),
                                   [&](const Value& v) { return v.label == points[p][a].label; });
      columns[a].push_back(numeric ? *points[p][a].number
                                   : static_cast<double>(at - values.begin()));
    }
  for (const std::string& metric : common_columns(outcomes)) {
    std::vector<double> y;
    for (const Outcome& outcome : outcomes)
      if (outcome.error.empty()) y.push_back(*value_of(outcome, metric));
    const std::vector<double> shares = rank_shares(columns, y);
    if (shares.empty()) continue;
    for (std::size_t a = 0; a < study.axes.size(); ++a)
      found.push_back({"variance_share", study.axes[a].name, "", metric, shares[a]});
    found.push_back({"fit", "", "", metric, shares.back()});
  }
}

void grid(const Study& study, const std::vector<Point>& points,
          const std::vector<Outcome>& outcomes, std::vector<Sensitivity>& found) {
  for (const std::string& metric : common_columns(outcomes)) {
    std::vector<double> all;
    for (const Outcome& outcome : outcomes)
      if (outcome.error.empty()) all.push_back(*value_of(outcome, metric));
    const double middle = mean(all);
    double total = 0;
    for (const double y : all) total += (y - middle) * (y - middle);
    if (total <= 0) continue;
    for (std::size_t a = 0; a < study.axes.size(); ++a) {
      std::map<std::string, std::vector<double>> by_value;
      for (std::size_t p = 0; p < points.size(); ++p)
        if (outcomes[p].error.empty())
          by_value[points[p][a].label].push_back(*value_of(outcomes[p], metric));
      double between = 0;
      for (const auto& [label, values] : by_value)
        between += static_cast<double>(values.size()) * std::pow(mean(values) - middle, 2);
      found.push_back({"variance_share", study.axes[a].name, "", metric, between / total});
    }
  }
}

void stage_shares(const Study& study, const std::vector<Outcome>& outcomes,
                  std::vector<Sensitivity>& found) {
  std::map<std::string, double> sums;
  double count = 0;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) continue;
    ++count;
    for (const auto& [name, value] : outcome.metrics)
      if (name.starts_with(kStagePrefix) && name.ends_with(kShareSuffix)) sums[name] += value;
    if (study.mode == Mode::kOneAtATime) break;
  }
  for (const std::string_view stage : kStageNames) {
    const auto it = sums.find(kStagePrefix + std::string(stage) + kShareSuffix);
    if (it != sums.end())
      found.push_back({"stage_share", "", "", std::string(stage), it->second / count});
  }
}

}  // namespace

std::optional<double> elasticity(double base_x, double base_y,
                                 const std::vector<std::pair<double, double>>& points) {
  if (base_x == 0 || base_y == 0) return std::nullopt;
  std::pair<double, double> below{base_x, base_y}, above{base_x, base_y};
  for (const auto& point : points) {
    if (point.first < base_x && (below.first == base_x || point.first > below.first)) below = point;
    if (point.first > base_x && (above.first == base_x || point.first < above.first)) above = point;
  }
  if (below.first == above.first) return std::nullopt;
  return (above.second - below.second) / (above.first - below.first) * base_x / base_y;
}

std::vector<double> rank_shares(const std::vector<std::vector<double>>& columns,
                                const std::vector<double>& y) {
  const std::size_t n = columns.size();
  if (y.size() < n + 2) return {};
  std::vector<double> target = ranks(y);
  if (!standardise(target)) return {};
  std::vector<std::vector<double>> x;
  for (const std::vector<double>& column : columns) {
    x.push_back(ranks(column));
    if (!standardise(x.back())) return {};
  }
  const auto correlation = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / static_cast<double>(a.size());
  };
  std::vector<std::vector<double>> matrix(n, std::vector<double>(n));
  std::vector<double> with_target(n);
  for (std::size_t i = 0; i < n; ++i) {
    with_target[i] = correlation(x[i], target);
    for (std::size_t j = 0; j < n; ++j) matrix[i][j] = correlation(x[i], x[j]);
  }
  std::vector<double> coefficients = with_target;
  if (!solve(matrix, coefficients)) return {};
  std::vector<double> shares;
  double explained = 0;
  for (std::size_t i = 0; i < n; ++i) {
    shares.push_back(coefficients[i] * coefficients[i]);
    explained += coefficients[i] * with_target[i];
  }
  shares.push_back(explained);
  return shares;
}

std::vector<Sensitivity> sensitivities(const Study& study, const std::vector<Point>& points,
                                       const std::vector<Outcome>& outcomes) {
  std::vector<Sensitivity> found;
  stage_shares(study, outcomes, found);
  if (study.mode == Mode::kOneAtATime) one_at_a_time(study, points, outcomes, found);
  if (study.mode == Mode::kLatinHypercube) latin_hypercube(study, points, outcomes, found);
  if (study.mode == Mode::kGrid) grid(study, points, outcomes, found);
  return found;
}

std::optional<double> value_of(const Outcome& outcome, const std::string& column) {
  for (const auto& [name, value] : outcome.metrics)
    if (name == column) return value;
  return std::nullopt;
}

std::string target_column(const Study& study, const std::vector<Outcome>& outcomes) {
  std::vector<std::string> wanted = study.metrics;
  if (!study.target.empty()) wanted = {study.target};
  for (const std::string& metric : wanted)
    for (const Outcome& outcome : outcomes)
      if (value_of(outcome, main_column(metric))) return main_column(metric);
  return "";
}

}  // namespace marrow::sweep
