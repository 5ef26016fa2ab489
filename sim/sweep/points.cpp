#include "sim/sweep/points.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "models/common/random.h"

namespace marrow::sweep {

namespace {

std::vector<Point> grid(const Study& study) {
  std::vector<Point> points = {{}};
  for (const Axis& axis : study.axes) {
    std::vector<Point> longer;
    for (const Point& point : points)
      for (const Value& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  return points;
}

std::vector<Point> one_at_a_time(const Study& study) {
  Point base;
  for (const Axis& axis : study.axes) base.push_back(axis.base);
  std::vector<Point> points = {base};
  for (std::size_t a = 0; a < study.axes.size(); ++a)
    for (const Value& value : study.axes[a].values) {
      if (value.label == base[a].label) continue;
      points.push_back(base);
      points.back()[a] = value;
    }
  return points;
}

/// The value at `share` (0 to 1) of an axis.
Value value_at(const Axis& axis, double share) {
  if (!axis.values.empty()) {
    const auto count = static_cast<double>(axis.values.size());
    return axis.values[static_cast<std::size_t>(share * count)];
  }
  double number = axis.logarithmic ? axis.from * std::pow(axis.to / axis.from, share)
                                   : axis.from + share * (axis.to - axis.from);
  if (axis.whole) number = std::round(number);
  Value value{number_text(number), number, {}};
  for (const std::string& key : axis.keys) value.settings.emplace_back(key, value.label);
  return value;
}

std::vector<Point> latin_hypercube(const Study& study) {
  std::vector<Point> points(study.points);
  std::vector<std::size_t> parts(study.points);
  Random random(study.seed + 1);  // from 1 on: the seed 0 is as good as any
  for (int i = 0; i < 64; ++i) random.next();
  for (const Axis& axis : study.axes) {
    std::iota(parts.begin(), parts.end(), std::size_t{0});
    for (std::size_t i = parts.size(); i > 1; --i)
      std::swap(parts[i - 1],
                parts[static_cast<std::size_t>(random.unit() * static_cast<double>(i))]);
    for (std::size_t p = 0; p < points.size(); ++p)
      points[p].push_back(value_at(
          axis, (static_cast<double>(parts[p]) + 0.5) / static_cast<double>(points.size())));
  }
  return points;
}

}  // namespace

std::vector<Point> points_of(const Study& study) {
  switch (study.mode) {
    case Mode::kGrid:
      return grid(study);
    case Mode::kOneAtATime:
      return one_at_a_time(study);
    case Mode::kLatinHypercube:
      break;
  }
  return latin_hypercube(study);
}

Setup setup_of(const Study& study, const Point& point) {
  Setup setup = study.base;
  for (const Value& value : point) apply(setup, value, study);
  return setup;
}

}  // namespace marrow::sweep
