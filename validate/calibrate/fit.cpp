#include "validate/calibrate/fit.h"

#include <ceres/ceres.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "models/common/error.h"
#include "sim/sweep/points.h"

namespace marrow::calibrate {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using Points = std::vector<std::vector<double>>;

// Errors of more standard errors than this count linearly: the models lack something there.
constexpr double kLossFrom = 2;
// Of the searched range, each way from a point: small against it, large against whole picoseconds.
constexpr double kStep = 0.01;
constexpr double kHalf90 = 1.645;
constexpr double kCorrelated = 0.9;  // pairs from here on are told
constexpr double kTrade = 0.3;       // pairs from here on are not judged both at once

/// The knobs that are still fitted; parameters of the search run from 0 to 1.
class Search : public ceres::EvaluationCallback {
 public:
  Search(const std::vector<Knob>& knobs, const std::vector<Datum>& data, const Evaluate& evaluate,
         std::vector<std::size_t> free, std::vector<double> values)
      : knobs_(knobs),
        data_(data),
        evaluate_(evaluate),
        free_(std::move(free)),
        values_(std::move(values)),
        x(free_.size()) {
    for (std::size_t i = 0; i < free_.size(); ++i) {
      const Knob& knob = knobs_[free_[i]];
      x[i] = (values_[free_[i]] - knob.low) / (knob.high - knob.low);
    }
  }

  void PrepareForEvaluation(bool jacobians, bool new_point) override {
    if (new_point) predicted_ = {}, slopes_ = {};
    Points points;
    if (predicted_.empty()) points.push_back(values_at(x));
    std::vector<double> spans;
    if (jacobians && slopes_.size() == 0)
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::vector<double> down = x, up = x;
        up[i] = x[i] + kStep > 1 ? x[i] - kStep : x[i] + kStep;
        if (central_) down[i] = std::max(0.0, x[i] - kStep), up[i] = std::min(1.0, x[i] + kStep);
        spans.push_back(up[i] - down[i]);
        points.push_back(values_at(up));
        if (central_) points.push_back(values_at(down));
      }
    if (points.empty()) return;
    Points predictions = evaluate_(points);
    std::size_t next = 0;
    if (predicted_.empty()) predicted_ = std::move(predictions[next++]);
    if (spans.empty()) return;
    slopes_.resize(static_cast<Eigen::Index>(data_.size()), static_cast<Eigen::Index>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::vector<double>& up = predictions[next++];
      const std::vector<double>& down = central_ ? predictions[next++] : predicted_;
      for (std::size_t d = 0; d < data_.size(); ++d)
        slopes_(static_cast<Eigen::Index>(d), static_cast<Eigen::Index>(i)) =
            (up[d] - down[d]) / spans[i];
    }
  }

  /// Minimises from x; returns the cost.
  double solve() {
    ceres::Problem::Options options;
    options.evaluation_callback = this;
    ceres::Problem problem(options);
    problem.AddParameterBlock(x.data(), static_cast<int>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      problem.SetParameterLowerBound(x.data(), static_cast<int>(i), 0);
      problem.SetParameterUpperBound(x.data(), static_cast<int>(i), 1);
    }
    for (std::size_t d = 0; d < data_.size(); ++d)
      if (!data_[d].held_out)
        problem.AddResidualBlock(new Residual(*this, d), new ceres::HuberLoss(kLossFrom), x.data());
    ceres::Solver::Options solver;
    solver.linear_solver_type = ceres::DENSE_QR;
    solver.logging_type = ceres::SILENT;
    solver.num_threads = 1;
    solver.max_num_iterations = 30;
    solver.function_tolerance = 1e-4;
    solver.parameter_tolerance = 1e-5;
    ceres::Solver::Summary summary;
    ceres::Solve(solver, &problem, &summary);
    if (summary.termination_type == ceres::FAILURE)
      throw InputError("calibration", "the search failed: " + summary.message,
                       "fit fewer parameters (--parameters)");
    return summary.final_cost;
  }

  /// Predictions and slopes at x, the latter from both sides.
  void look() {
    central_ = true;
    PrepareForEvaluation(true, true);
    central_ = false;
  }
  const std::vector<double>& predicted() const { return predicted_; }
  const MatrixXd& slopes() const { return slopes_; }
  const std::vector<std::size_t>& free() const { return free_; }

  std::vector<double> values_at(const std::vector<double>& at) const {
    std::vector<double> values = values_;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Knob& knob = knobs_[free_[i]];
      values[free_[i]] = knob.low + at[i] * (knob.high - knob.low);
    }
    return values;
  }

 private:
  class Residual : public ceres::CostFunction {
   public:
    Residual(const Search& search, std::size_t datum) : search_(search), datum_(datum) {
      set_num_residuals(1);
      mutable_parameter_block_sizes()->push_back(static_cast<int>(search.x.size()));
    }
    bool Evaluate(double const* const*, double* residuals, double** jacobians) const override {
      const Datum& datum = search_.data_[datum_];
      residuals[0] = (search_.predicted_[datum_] - datum.measured) / datum.uncertainty;
      if (jacobians && jacobians[0])
        for (std::size_t i = 0; i < search_.x.size(); ++i)
          jacobians[0][i] =
              search_.slopes_(static_cast<Eigen::Index>(datum_), static_cast<Eigen::Index>(i)) /
              datum.uncertainty;
      return std::isfinite(residuals[0]);
    }

   private:
    const Search& search_;
    std::size_t datum_;
  };

  const std::vector<Knob>& knobs_;
  const std::vector<Datum>& data_;
  const Evaluate& evaluate_;
  const std::vector<std::size_t> free_;
  const std::vector<double> values_;
  std::vector<double> predicted_;
  MatrixXd slopes_;
  bool central_ = false;

 public:
  std::vector<double> x;
};

/// What the data say of the free knobs at the search's point, in parts of their ranges.
struct Worth {
  VectorXd standard_error, disagreement;
  MatrixXd correlation;
  double scatter = 0;
  std::vector<std::vector<std::size_t>> told_by;
};

Worth worth_of(const Search& search, const std::vector<Datum>& data) {
  const auto count = static_cast<Eigen::Index>(search.x.size());
  MatrixXd information = MatrixXd::Zero(count, count);
  VectorXd shared_squares = VectorXd::Zero(count), shared_weight = VectorXd::Zero(count);
  double squares = 0, rows = 0;
  std::vector<std::vector<std::pair<double, std::size_t>>> tellers(search.x.size());
  for (std::size_t d = 0; d < data.size(); ++d) {
    if (data[d].held_out) continue;
    const double error = (search.predicted()[d] - data[d].measured) / data[d].uncertainty;
    const VectorXd slope =
        search.slopes().row(static_cast<Eigen::Index>(d)).transpose() / data[d].uncertainty;
    // As the loss has it: beyond its corner a datum pulls with a constant force.
    const double weight = std::min(1.0, kLossFrom / std::max(std::abs(error), 1e-12));
    information += weight * slope * slope.transpose();
    squares += weight * error * error;
    ++rows;
    // A datum says most of the parameter that moves it most.
    const double all = slope.squaredNorm();
    if (all <= 0) continue;
    for (Eigen::Index i = 0; i < count; ++i) {
      const double share = weight * slope[i] * slope[i] / all;
      shared_squares[i] += share * error * error;
      shared_weight[i] += share * slope[i] * slope[i];
      if (2 * slope[i] * slope[i] > all)
        tellers[static_cast<std::size_t>(i)].emplace_back(-weight * slope[i] * slope[i], d);
    }
  }
  Worth worth;
  for (auto& list : tellers) {
    std::sort(list.begin(), list.end());
    worth.told_by.emplace_back();
    for (const auto& [weight, datum] : list) worth.told_by.back().push_back(datum);
  }
  worth.scatter = rows > 0 ? std::sqrt(squares / rows) : 0;
  const double excess =
      rows > static_cast<double>(count) ? squares / (rows - static_cast<double>(count)) : 1;
  // Directions that nothing tells get a variance far beyond any range, not an infinite one.
  constexpr double kNothing = 1e-9;
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(information);
  const VectorXd inverse = solver.eigenvalues().cwiseMax(kNothing).cwiseInverse();
  const MatrixXd covariance =
      solver.eigenvectors() * inverse.asDiagonal() * solver.eigenvectors().transpose();
  worth.standard_error = covariance.diagonal().cwiseSqrt() * std::sqrt(std::max(1.0, excess));
  worth.disagreement = VectorXd::Zero(count);
  for (Eigen::Index i = 0; i < count; ++i)
    if (shared_weight[i] > 0)
      worth.disagreement[i] = std::sqrt(shared_squares[i] / shared_weight[i]);
  const VectorXd scale = covariance.diagonal().cwiseSqrt().cwiseInverse();
  worth.correlation = scale.asDiagonal() * covariance * scale.asDiagonal();
  return worth;
}

std::vector<std::vector<double>> starting_points(std::size_t starts, std::size_t dimensions,
                                                 std::uint64_t seed) {
  if (starts < 2 || dimensions == 0) return {};
  sweep::Study study;
  study.mode = sweep::Mode::kLatinHypercube;
  study.points = starts - 1;
  study.seed = seed;
  sweep::Axis axis;
  axis.to = 1;
  study.axes.assign(dimensions, axis);
  std::vector<std::vector<double>> points;
  for (const sweep::Point& point : sweep::points_of(study)) {
    points.emplace_back();
    for (const sweep::Value& value : point) points.back().push_back(*value.number);
  }
  return points;
}

}  // namespace

Fit fit(const std::vector<Knob>& knobs, const std::vector<Datum>& data, const Evaluate& evaluate,
        const FitOptions& options) {
  if (std::none_of(data.begin(), data.end(), [](const Datum& d) { return !d.held_out; }))
    throw InputError("calibration", "no measured row is left to fit to",
                     "give a probe with rows that the models predict, or a smaller --hold-out");
  Fit result;
  std::vector<double> values;
  for (const Knob& knob : knobs) {
    values.push_back(knob.value);
    result.estimates.push_back(
        {knob.key, Verdict::kUnmoved, knob.value, knob.value, knob.value, knob.value, false, {}});
  }
  std::vector<std::size_t> free(knobs.size());
  std::iota(free.begin(), free.end(), std::size_t{0});

  // What moves nothing at the start is not searched at all.
  {
    Search here(knobs, data, evaluate, free, values);
    here.look();
    result.before = result.after = here.predicted();
    std::vector<std::size_t> moving;
    for (const std::size_t k : free) {
      double most = 0;
      for (std::size_t d = 0; d < data.size(); ++d)
        if (!data[d].held_out)
          most = std::max(most, std::abs(here.slopes()(static_cast<Eigen::Index>(d),
                                                       static_cast<Eigen::Index>(k))) /
                                    data[d].uncertainty);
      // Over its whole range it moves no datum by a tenth of what that is uncertain by.
      if (most > 0.1) moving.push_back(k);
    }
    free = std::move(moving);
  }

  bool first = true;
  while (!free.empty()) {
    Search search(knobs, data, evaluate, free, values);
    if (first) {
      std::vector<std::vector<double>> starts = {search.x};
      for (auto& point : starting_points(options.starts, free.size(), options.seed))
        starts.push_back(std::move(point));
      std::vector<double> best;
      for (const std::vector<double>& start : starts) {
        search.x = start;
        result.costs.push_back(search.solve());
        if (result.costs.back() <= *std::min_element(result.costs.begin(), result.costs.end()))
          best = search.x;
      }
      search.x = best;
    } else {
      search.solve();
    }
    search.look();
    const Worth worth = worth_of(search, data);
    if (first) {
      for (Eigen::Index i = 0; i < worth.correlation.rows(); ++i)
        for (Eigen::Index j = i + 1; j < worth.correlation.cols(); ++j)
          if (std::abs(worth.correlation(i, j)) >= kCorrelated)
            result.correlations.push_back({knobs[free[static_cast<std::size_t>(i)]].key,
                                           knobs[free[static_cast<std::size_t>(j)]].key,
                                           worth.correlation(i, j)});
      std::stable_sort(
          result.correlations.begin(), result.correlations.end(),
          [](const auto& a, const auto& b) { return std::abs(a.rho) > std::abs(b.rho); });
      first = false;
    }
    // What the data leave most open, against what is known without them, is taken out first; with
    // it whatever is open as well and does not trade with what is out already.
    const auto open = [&](std::size_t i) {
      const Knob& knob = knobs[free[i]];
      return 2 * kHalf90 * worth.standard_error[static_cast<Eigen::Index>(i)] *
             (knob.high - knob.low) / knob.known_width;
    };
    std::vector<std::size_t> order(free.size()), out;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return open(a) > open(b); });
    for (const std::size_t i : order)
      if (open(i) > 1 && std::none_of(out.begin(), out.end(), [&](std::size_t o) {
            return std::abs(worth.correlation(static_cast<Eigen::Index>(i),
                                              static_cast<Eigen::Index>(o))) > kTrade;
          }))
        out.push_back(i);
    values = search.values_at(search.x);
    if (!out.empty()) {
      std::sort(out.rbegin(), out.rend());
      for (const std::size_t i : out) {
        result.estimates[free[i]].verdict = Verdict::kUndetermined;
        values[free[i]] = knobs[free[i]].value;
        free.erase(free.begin() + static_cast<std::ptrdiff_t>(i));
      }
      continue;
    }
    result.after = search.predicted();
    result.scatter = worth.scatter;
    for (std::size_t i = 0; i < free.size(); ++i) {
      const Knob& knob = knobs[free[i]];
      const auto e = static_cast<Eigen::Index>(i);
      Estimate& estimate = result.estimates[free[i]];
      estimate.verdict = Verdict::kFitted;
      estimate.value = values[free[i]];
      const double half = kHalf90 * (knob.high - knob.low) *
                          std::hypot(worth.standard_error[e], worth.disagreement[e]);
      estimate.low = estimate.value - half;
      estimate.high = estimate.value + half;
      constexpr double kNear = 1e-3;
      estimate.at_bound = search.x[i] < kNear || search.x[i] > 1 - kNear;
      estimate.told_by = worth.told_by[i];
    }
    break;
  }
  return result;
}

}  // namespace marrow::calibrate
