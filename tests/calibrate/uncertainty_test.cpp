// Do samples of the parameters' intervals hold what the intervals say, and do their results become
// the right intervals?
#include "sim/sweep/uncertainty.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/common/error.h"
#include "sim/config/system.h"
#include "sim/results/intervals.h"

namespace marrow::sweep {
namespace {

TEST(Uncertainty, NineOfTenSamplesLieInsideEachInterval) {
  const auto parameters = config::load_system(MARROW_ROOT "/configs/systems/h200-c.yaml");
  const auto all = draw_intervals(parameters, 100, 1);
  ASSERT_EQ(all.size(), 100U);
  std::map<std::string, int> inside;
  for (const Drawn& drawn : all)
    for (const auto& [key, value] : drawn) {
      const config::Parameter& parameter = parameters.parameter(key);
      ASSERT_TRUE(parameter.interval) << key;
      inside[key] += value >= parameter.interval->first && value <= parameter.interval->second;
      EXPECT_GE(value, parameter.declaration->min) << key;
      EXPECT_LE(value, parameter.declaration->max) << key;
    }
  // The middles of a hundred equal parts: 0.055 to 0.945 are inside, ninety of them.
  EXPECT_EQ(inside.at("gpu.l2.far_cycles"), 90);
  EXPECT_EQ(inside.at("gpu.fence.arrival_cycles"), 90);
  EXPECT_GT(inside.size(), 20U);
}

TEST(Uncertainty, SamplesAreTheSeedsOwn) {
  const auto parameters = config::load_system(MARROW_ROOT "/configs/systems/h200-c.yaml");
  EXPECT_EQ(draw_intervals(parameters, 20, 1), draw_intervals(parameters, 20, 1));
  EXPECT_NE(draw_intervals(parameters, 20, 1), draw_intervals(parameters, 20, 2));
}

// 0 to 99: positions floor(0.05 * 100) and floor(0.95 * 100).
TEST(Uncertainty, IntervalsAreTheFifthAndTheNinetyfifthPercentile) {
  for (const std::size_t jobs : {1U, 4U}) {
    const auto intervals =
        intervals_of(100, jobs,
                     [](std::size_t sample) {
                       return std::map<std::string, double>{{"x", static_cast<double>(sample)}};
                     },
                     {});
    EXPECT_EQ(intervals.at("x").low, 5);
    EXPECT_EQ(intervals.at("x").high, 95);
  }
}

TEST(Uncertainty, ASampleThatFailsIsTold) {
  const auto work = [](std::size_t sample) -> std::map<std::string, double> {
    if (sample == 3) throw InputError("somewhere", "does not go", "mend it");
    return {{"x", 1}};
  };
  EXPECT_THROW(intervals_of(20, 2, work, {}), InputError);
}

// 3 below and 4 above of the parameters, 4 % of 100 of the models: sqrt(9 + 16), sqrt(16 + 16).
TEST(Uncertainty, DeviationsAddAsSquares) {
  const results::Interval wide = results::widened({97, 104}, 100, 4);
  EXPECT_NEAR(wide.low, 95, 1e-9);
  EXPECT_NEAR(wide.high, 100 + std::sqrt(32.0), 1e-9);
}

}  // namespace
}  // namespace marrow::sweep
