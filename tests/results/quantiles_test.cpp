// Are the quantiles what they say they are, exact while few, within 0.1 % when many?
#include "sim/results/quantiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace marrow::results {
namespace {

Ps quantile_of_sorted(const std::vector<Ps>& sorted, double p) {
  const auto at = static_cast<std::size_t>(std::floor(p * static_cast<double>(sorted.size())));
  return sorted[std::min(at, sorted.size() - 1)];
}

constexpr double kProbes[] = {0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1};

TEST(Quantiles, NothingIsZero) {
  const Distribution d;
  EXPECT_EQ(d.count(), 0u);
  EXPECT_EQ(d.quantile(0.5), 0);
  EXPECT_EQ(d.min(), 0);
  EXPECT_EQ(d.max(), 0);
  EXPECT_EQ(d.mean(), 0);
}

TEST(Quantiles, OneSampleIsEveryQuantile) {
  Distribution d;
  d.add(17);
  for (double p : kProbes) EXPECT_EQ(d.quantile(p), 17) << p;
  EXPECT_EQ(d.mean(), 17);
}

TEST(Quantiles, TheElementAtFloorOfPTimesN) {
  Distribution d;
  for (Ps v : {40, 10, 30, 20}) d.add(v);  // sorted: 10 20 30 40
  EXPECT_EQ(d.quantile(0), 10);
  EXPECT_EQ(d.quantile(0.24), 10);  // floor(0.96) = 0
  EXPECT_EQ(d.quantile(0.25), 20);  // floor(1.00) = 1
  EXPECT_EQ(d.quantile(0.5), 30);   // floor(2.00) = 2: the upper of the two in the middle
  EXPECT_EQ(d.quantile(0.99), 40);  // floor(3.96) = 3
  EXPECT_EQ(d.quantile(1), 40);     // floor(4.00) = 4, capped at 3
  EXPECT_EQ(d.min(), 10);
  EXPECT_EQ(d.max(), 40);
  EXPECT_EQ(d.mean(), 25);
}

TEST(Quantiles, MoreSamplesAfterAQuestion) {
  Distribution d;
  d.add(30);
  EXPECT_EQ(d.quantile(0), 30);
  d.add(10);
  EXPECT_EQ(d.quantile(0), 10);
}

TEST(Quantiles, ATimeBelowZeroIsRefused) {
  Distribution d;
  EXPECT_THROW(d.add(-1), std::logic_error);
}

struct Shape {
  const char* name;
  std::function<double(std::mt19937_64&)> draw;
};

TEST(Quantiles, WithinOneInAThousandOfASortedVector) {
  const Shape shapes[] = {
      {"uniform", [](auto& r) { return std::uniform_real_distribution<>(1, 5e6)(r); }},
      {"exponential", [](auto& r) { return std::exponential_distribution<>(1e-6)(r); }},
      {"lognormal", [](auto& r) { return std::lognormal_distribution<>(14, 2)(r); }},
      {"two peaks",
       [](auto& r) {
         return std::normal_distribution<>(std::bernoulli_distribution(0.1)(r) ? 9e6 : 7e5, 100)(r);
       }},
      {"constant", [](auto&) { return 123456789.0; }},
      {"tiny", [](auto& r) { return std::uniform_real_distribution<>(0, 40)(r); }},
      {"huge", [](auto& r) { return std::uniform_real_distribution<>(1, 9e18)(r); }},
  };
  for (const Shape& shape : shapes) {
    for (std::size_t n : {Distribution::kExactSamples, std::size_t{100'000}}) {
      std::mt19937_64 random(1);
      Distribution d;
      std::vector<Ps> all;
      long double sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        all.push_back(static_cast<Ps>(std::max(0.0, shape.draw(random))));
        sum += static_cast<long double>(all.back());
        d.add(all.back());
      }
      std::sort(all.begin(), all.end());
      EXPECT_EQ(d.count(), n);
      EXPECT_EQ(d.min(), all.front());
      EXPECT_EQ(d.max(), all.back());
      EXPECT_DOUBLE_EQ(d.mean(), static_cast<double>(sum / static_cast<long double>(n)));
      for (double p : kProbes) {
        const Ps right = quantile_of_sorted(all, p);
        if (n <= Distribution::kExactSamples)
          EXPECT_EQ(d.quantile(p), right) << shape.name << " p = " << p;
        else
          EXPECT_NEAR(static_cast<double>(d.quantile(p)), static_cast<double>(right),
                      static_cast<double>(right) * 0.001)
              << shape.name << " p = " << p;
      }
    }
  }
}

TEST(Quantiles, TheBoundHoldsAtTheEdgesOfEveryBin) {
  // Values around each power of two, each in a distribution of its own with so much above and below
  // it that it is the median.
  for (int e = 1; e < 62; ++e)
    for (Ps off : {-1, 0, 1}) {
      const Ps v = (Ps{1} << e) + off;
      Distribution d;
      for (std::size_t i = 0; i < Distribution::kExactSamples; ++i) d.add(v);
      d.add(0);
      d.add(std::numeric_limits<Ps>::max());
      EXPECT_NEAR(static_cast<double>(d.quantile(0.5)), static_cast<double>(v),
                  static_cast<double>(v) / 1024);
    }
}

TEST(Quantiles, MergingIsAddingAll) {
  for (std::size_t n : {std::size_t{100}, std::size_t{3000}, std::size_t{20'000}}) {
    std::mt19937_64 random(2);
    std::uniform_int_distribution<Ps> draw(0, 10'000'000);
    Distribution together, a, b, merged;
    for (std::size_t i = 0; i < n; ++i) {
      const Ps v = draw(random);
      together.add(v);
      (i % 3 == 0 ? a : b).add(v);
    }
    merged.merge(a);
    merged.merge(b);
    merged.merge(Distribution());
    EXPECT_EQ(merged.count(), together.count());
    EXPECT_EQ(merged.min(), together.min());
    EXPECT_EQ(merged.max(), together.max());
    EXPECT_EQ(merged.mean(), together.mean());
    for (double p : kProbes) EXPECT_EQ(merged.quantile(p), together.quantile(p)) << n << ' ' << p;
  }
}

}  // namespace
}  // namespace marrow::results
