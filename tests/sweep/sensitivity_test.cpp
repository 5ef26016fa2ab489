// Are elasticities, variance shares and gains right, for functions known by hand?
#include "sim/sweep/sensitivity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace marrow::sweep {
namespace {

Axis axis(const std::string& name, double base) {
  Axis axis;
  axis.name = name;
  axis.base = {number_text(base), base, {}};
  return axis;
}

Point point(std::initializer_list<double> numbers) {
  Point point;
  for (const double number : numbers) point.push_back({number_text(number), number, {}});
  return point;
}

Outcome shows(double put_ns) { return {{{"put_completion_median_ns", put_ns}}, ""}; }

double found(const std::vector<Sensitivity>& all, const std::string& what, const std::string& axis,
             const std::string& value = "") {
  for (const Sensitivity& s : all)
    if (s.what == what && s.axis == axis && (value.empty() || s.value == value)) return s.result;
  ADD_FAILURE() << "no " << what << " of " << axis;
  return std::nan("");
}

TEST(Elasticity, IsTheExponentOfAPower) {
  // y = 3 x^2 at x = 10: central difference (3*121 - 3*81) / 2 * 10 / 300 = 2 exactly.
  EXPECT_DOUBLE_EQ(*elasticity(10, 300, {{9, 243}, {11, 363}}), 2);
  // One side alone: (3*121 - 300) / 1 * 10 / 300 = 2.1.
  EXPECT_DOUBLE_EQ(*elasticity(10, 300, {{11, 363}}), 2.1);
  // The nearest values count, not the outermost.
  EXPECT_DOUBLE_EQ(*elasticity(10, 300, {{0, 0}, {9, 243}, {11, 363}, {100, 30000}}), 2);
  EXPECT_FALSE(elasticity(0, 300, {{1, 400}}));
  EXPECT_FALSE(elasticity(10, 0, {{11, 1}}));
  EXPECT_FALSE(elasticity(10, 300, {{10, 300}}));
}

TEST(Sensitivities, OfAStudyOneAtATime) {
  // y = 2 a + b^2 at a = 10, b = 5: 45. Elasticity of a: 2 * 10 / 45; of b: 2 * 25 / 45.
  Study study;
  study.mode = Mode::kOneAtATime;
  study.axes = {axis("a", 10), axis("b", 5)};
  const std::vector<Point> points = {point({10, 5}), point({9, 5}),  point({11, 5}),
                                     point({10, 4}), point({10, 6}), point({0, 5})};
  std::vector<Outcome> outcomes = {shows(45), shows(43), shows(47),
                                   shows(36), shows(56), shows(25)};
  const auto all = sensitivities(study, points, outcomes);
  EXPECT_NEAR(found(all, "elasticity", "a"), 20.0 / 45, 1e-12);
  EXPECT_NEAR(found(all, "elasticity", "b"), 50.0 / 45, 1e-12);
  EXPECT_NEAR(found(all, "change", "a", "0"), -20.0 / 45, 1e-12);
  EXPECT_NEAR(found(all, "change", "b", "6"), 11.0 / 45, 1e-12);

  outcomes[1] = {{}, "failed"};  // then one side: the same, y is linear in a
  EXPECT_NEAR(found(sensitivities(study, points, outcomes), "elasticity", "a"), 20.0 / 45, 1e-12);
}

TEST(Sensitivities, VarianceSharesOfAFullGrid) {
  // y = 3 a + b, a and b each -1 or 1: variances 9 and 1 of 10.
  Study study;
  study.axes = {axis("a", 0), axis("b", 0)};
  const auto all =
      sensitivities(study, {point({-1, -1}), point({-1, 1}), point({1, -1}), point({1, 1})},
                    {shows(-4), shows(-2), shows(2), shows(4)});
  EXPECT_NEAR(found(all, "variance_share", "a"), 0.9, 1e-12);
  EXPECT_NEAR(found(all, "variance_share", "b"), 0.1, 1e-12);
}

TEST(RankShares, SeeAMonotonicFunctionAsOne) {
  // y = exp(x1) alone: its ranks are those of x1; x2 is uncorrelated with x1 by construction.
  const std::vector<double> x1 = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<double> x2 = {1, -1, -1, 1, 1, -1, -1, 1};
  std::vector<double> y;
  for (const double x : x1) y.push_back(std::exp(x));
  const auto shares = rank_shares({x1, x2}, y);
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_NEAR(shares[0], 1, 1e-12);
  EXPECT_NEAR(shares[1], 0, 1e-12);
  EXPECT_NEAR(shares[2], 1, 1e-12);
}

TEST(RankShares, AreSquaredCorrelationsWhereTheColumnsAreOrthogonal) {
  // Ranks of y = 0 1 2 3 against x1 = 0 0 1 1, x2 = 0 1 0 1: correlations 2/sqrt(5), 1/sqrt(5).
  const auto shares = rank_shares({{0, 0, 1, 1}, {0, 1, 0, 1}}, {0, 1, 2, 3});
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_NEAR(shares[0], 0.8, 1e-12);
  EXPECT_NEAR(shares[1], 0.2, 1e-12);
  EXPECT_TRUE(rank_shares({{0, 0, 1, 1}, {0, 0, 1, 1}}, {0, 1, 2, 3}).empty()) << "the same column";
  EXPECT_TRUE(rank_shares({{0, 1}, {1, 0}}, {0, 1}).empty()) << "too few points";
}

TEST(Sensitivities, AStagesShareIsThatOfTheBasePoint) {
  Study study;
  study.mode = Mode::kOneAtATime;
  study.axes = {axis("a", 1)};
  const auto of = [](double share) { return Outcome{{{"stage.wire_share", share}}, ""}; };
  const auto all = sensitivities(study, {point({1}), point({2})}, {of(0.25), of(0.75)});
  EXPECT_DOUBLE_EQ(found(all, "stage_share", ""), 0.25);
  study.mode = Mode::kGrid;
  EXPECT_DOUBLE_EQ(found(sensitivities(study, {point({1}), point({2})}, {of(0.25), of(0.75)}),
                         "stage_share", ""),
                   0.5);
}

}  // namespace
}  // namespace marrow::sweep
