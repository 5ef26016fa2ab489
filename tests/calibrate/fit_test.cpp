// Does the fit find what hand calculation says: values, intervals, correlations, and which
// parameters the data do not tell? Every model here is linear: row d is predicted as slopes[d] * x.
#include "validate/calibrate/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace marrow::calibrate {
namespace {

using Slopes = std::vector<std::vector<double>>;

Evaluate linear(const Slopes& slopes) {
  return [slopes](const std::vector<std::vector<double>>& points) {
    std::vector<std::vector<double>> all;
    for (const auto& point : points) {
      all.emplace_back();
      for (const auto& row : slopes) {
        double sum = 0;
        for (std::size_t i = 0; i < row.size(); ++i) sum += row[i] * point[i];
        all.back().push_back(sum);
      }
    }
    return all;
  };
}

Knob knob(const std::string& key, double value, double low, double high) {
  return {key, value, low, high, (high - low) / 2};
}

Fit fit_linear(const std::vector<Knob>& knobs, const std::vector<Datum>& data,
               const Slopes& slopes) {
  return fit(knobs, data, linear(slopes), {});
}

// 10 and 12, each uncertain by 1: their mean. Both are off by 1, so the sum of squares is 2 with
// one degree of freedom and the standard error sqrt(1/2) grows by sqrt(2) to 1. How far each datum
// disagrees: 1. Half the interval: 1.645 * sqrt(1 + 1).
TEST(Fit, MeanOfTwoDataAndItsIntervalByHand) {
  const Fit result =
      fit_linear({knob("a", 5, 0, 40)}, {{10, 1, false}, {12, 1, false}}, {{1}, {1}});
  const Estimate& a = result.estimates.at(0);
  ASSERT_EQ(a.verdict, Verdict::kFitted);
  EXPECT_NEAR(a.value, 11, 1e-3);
  EXPECT_NEAR(a.high - a.value, 1.645 * std::sqrt(2.0), 0.01);
  EXPECT_NEAR(a.value - a.low, 1.645 * std::sqrt(2.0), 0.01);
  EXPECT_EQ(a.told_by, (std::vector<std::size_t>{0, 1}));
  EXPECT_NEAR(result.scatter, 1, 1e-3);
}

// a + b = 3 and a + 0.9 b = 2.8, each to 0.001. The inverse of [[2, 1.9], [1.9, 1.81]] is
// [[181, -190], [-190, 200]]: standard errors 0.001 * sqrt(181) and sqrt(200), correlation
// -190 / sqrt(181 * 200).
TEST(Fit, StandardErrorsAndCorrelationByHand) {
  const Fit result = fit_linear({knob("a", 2, 0, 4), knob("b", 1, 0, 4)},
                                {{3, 0.001, false}, {2.8, 0.001, false}}, {{1, 1}, {1, 0.9}});
  EXPECT_NEAR(result.estimates[0].value, 1, 0.01);
  EXPECT_NEAR(result.estimates[1].value, 2, 0.01);
  EXPECT_NEAR(result.estimates[0].high - result.estimates[0].value,
              1.645 * 0.001 * std::sqrt(181.0), 1e-3);
  EXPECT_NEAR(result.estimates[1].high - result.estimates[1].value,
              1.645 * 0.001 * std::sqrt(200.0), 1e-3);
  ASSERT_EQ(result.correlations.size(), 1U);
  EXPECT_NEAR(result.correlations[0].rho, -190 / std::sqrt(181.0 * 200.0), 1e-4);
}

TEST(Fit, OfTwoThatOnlyTheirSumShowsTheBetterKnownIsKept) {
  const std::vector<Knob> knobs = {{"known", 2, 1, 3, 0.1}, {"free", 5, 1, 9, 4}};
  const Fit result = fit_linear(knobs, {{9, 0.01, false}, {9, 0.01, false}}, {{1, 1}, {1, 1}});
  EXPECT_EQ(result.estimates[0].verdict, Verdict::kUndetermined);
  EXPECT_EQ(result.estimates[0].value, 2) << "as it was";
  EXPECT_EQ(result.estimates[1].verdict, Verdict::kFitted);
  EXPECT_NEAR(result.estimates[1].value, 7, 0.01) << "what is left of 9";
  ASSERT_EQ(result.correlations.size(), 1U);
  EXPECT_LT(result.correlations[0].rho, -0.99);
}

TEST(Fit, WhatNoDatumMovesWithIsToldAndLeft) {
  const Fit result =
      fit_linear({knob("a", 5, 0, 40), knob("idle", 3, 0, 9)}, {{10, 1, false}}, {{1, 0}});
  EXPECT_EQ(result.estimates[1].verdict, Verdict::kUnmoved);
  EXPECT_EQ(result.estimates[1].value, 3);
  EXPECT_NEAR(result.estimates[0].value, 10, 1e-3);
}

TEST(Fit, HeldOutDataDoNotPull) {
  const Fit result =
      fit_linear({knob("a", 5, 0, 40)}, {{10, 0.1, false}, {30, 0.1, true}}, {{1}, {1}});
  EXPECT_NEAR(result.estimates[0].value, 10, 1e-2);
  EXPECT_NEAR(result.after[1], 10, 1e-2) << "predicted all the same";
}

// Nine at 5 and one at 50, each to 0.1. In squares the mean would be 9.5. Beyond two standard
// errors the one pulls with a constant force of 2, against 9 (x - 5) / 0.1: x = 5 + 0.2 / 9.
TEST(Fit, OneDatumThatNothingExplainsPullsWithAConstantForce) {
  std::vector<Datum> data(9, {5, 0.1, false});
  data.push_back({50, 0.1, false});
  const Fit result = fit_linear({knob("a", 7, 0, 60)}, data, Slopes(10, {1}));
  EXPECT_NEAR(result.estimates[0].value, 5 + 0.2 / 9, 1e-3);
}

TEST(Fit, StaysInItsRangeAndSaysSo) {
  const Fit result = fit_linear({knob("a", 5, 0, 8)}, {{10, 1, false}}, {{1}});
  EXPECT_NEAR(result.estimates[0].value, 8, 1e-6);
  EXPECT_TRUE(result.estimates[0].at_bound);
}

// 3 + cos(x) - x / 10 has hollows near 3.2 (1.7) and 9.5 (1.05): 1.3 is reached in the second
// alone.
TEST(Fit, SeveralStartsGetOutOfAHollow) {
  const Evaluate evaluate = [](const std::vector<std::vector<double>>& points) {
    std::vector<std::vector<double>> all;
    for (const auto& point : points) all.push_back({3 + std::cos(point[0]) - 0.1 * point[0]});
    return all;
  };
  const std::vector<Knob> knobs = {{"a", 2.5, 0, 12, 12}};
  const std::vector<Datum> data = {{1.3, 0.01, false}};
  FitOptions one, many;
  one.starts = 1;
  many.starts = 8;
  EXPECT_GT(fit(knobs, data, evaluate, one).after[0], 1.6);
  const Fit best = fit(knobs, data, evaluate, many);
  EXPECT_EQ(best.estimates[0].verdict, Verdict::kFitted);
  EXPECT_NEAR(best.after[0], 1.3, 0.01);
}

}  // namespace
}  // namespace marrow::calibrate
