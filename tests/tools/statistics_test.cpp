// Does the probe say of its samples what they bear out?
#include "tools/common/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace marrow::tools {
namespace {

/// "pages 0" -> its latencies.
std::map<std::string, std::vector<double>> measured_lines() {
  std::ifstream in(std::string(MARROW_ROOT) + "/tests/fixtures/probe/h200-sides.txt");
  std::map<std::string, std::vector<double>> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string what, sm;
    words >> what >> sm;
    for (double cycles = 0; words >> cycles;) lines[what + " " + sm].push_back(cycles);
  }
  return lines;
}

TEST(ProbeStatistics, QuantilesAreThoseOfTheOlderFiles) {
  // sorted[floor(p * n)] of 1..10: p10 is the second, the median the sixth, p90 and p99 the tenth.
  const Summary summary = summarize({{10, 2, 3, 4, 5, 6, 7, 8, 9, 1}});
  EXPECT_EQ(summary.n, 10u);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.p10, 2);
  EXPECT_EQ(summary.median, 6);
  EXPECT_EQ(summary.p90, 10);
  EXPECT_EQ(summary.p99, 10);
  EXPECT_EQ(summary.max, 10);
  EXPECT_DOUBLE_EQ(summary.mean, 5.5);
}

TEST(ProbeStatistics, TheMediansIntervalIsThatOfTheSignTest) {
  // 2 * P(Binomial(10, 1/2) <= 1) = 22 / 1024: the second to the ninth hold the median with
  // 97.9 %; the third to the eighth would with 89.1 %.
  const Interval ten = median_interval({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  EXPECT_EQ(ten.low, 2);
  EXPECT_EQ(ten.high, 9);
  EXPECT_DOUBLE_EQ(ten.confidence, 1 - 22.0 / 1024);
  // Six rounds: all are on one side of the true median once in 32 times.
  const Interval six = median_interval({3, 1, 2, 6, 5, 4});
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
  EXPECT_DOUBLE_EQ(six.confidence, 1 - 2.0 / 64);
}

TEST(ProbeStatistics, TooFewRoundsGiveTheWidestIntervalAndSaySo) {
  const Interval three = median_interval({1, 2, 3});
  EXPECT_EQ(three.low, 1);
  EXPECT_EQ(three.high, 3);
  EXPECT_DOUBLE_EQ(three.confidence, 0.75);  // 1 - 2 / 2^3
  EXPECT_EQ(median_interval({7}).confidence, 0);
}

TEST(ProbeStatistics, RoundsThatDifferWidenTheInterval) {
  // A thousand samples a round, all alike: only the rounds' medians tell how sure it is.
  Rounds rounds;
  for (const double level : {100.0, 101.0, 99.0, 110.0, 90.0, 100.0})
    rounds.emplace_back(1000, level);
  const Summary summary = summarize(rounds);
  EXPECT_EQ(summary.median, 100);
  EXPECT_EQ(summary.median_low, 90);
  EXPECT_EQ(summary.median_high, 110);
  EXPECT_EQ(summary.rounds, 6u);
}

TEST(ProbeStatistics, NothingAndNonsenseAreRefused) {
  EXPECT_THROW(summarize({}), std::invalid_argument);
  EXPECT_THROW(summarize({{}, {}}), std::invalid_argument);
  EXPECT_THROW(summarize({{1, std::nan("")}}), std::invalid_argument);
}

TEST(ProbeStatistics, TheTwoSidesOfAnH200AreFound) {
  const auto lines = measured_lines();
  ASSERT_EQ(lines.size(), 4u);
  const Sides reference = split_sides(lines.at("pages 0"));
  ASSERT_TRUE(reference.two);
  // Sorted by hand, the figures have one hole: none lies between 350 and 460, 128 on each side,
  // the 65th of which are 315 and 509.
  EXPECT_NEAR(reference.near_median, 315, 1);
  EXPECT_NEAR(reference.far_median, 509, 1);
  EXPECT_GT(reference.threshold, 350);
  EXPECT_LT(reference.threshold, 460);
  // Half of the L2 is on each side, and the SMs too: 0 and 48 on one, 2 on the other.
  EXPECT_EQ(std::count(reference.far.begin(), reference.far.end(), true), 128);
  EXPECT_EQ(agreement(reference.far, split_sides(lines.at("pages 48")).far), 1);
  EXPECT_EQ(agreement(reference.far, split_sides(lines.at("pages 2")).far), 0);
}

TEST(ProbeStatistics, TheSideOfAnH200ChangesWithThePage) {
  const Sides window = split_sides(measured_lines().at("window 0"));
  ASSERT_TRUE(window.two);
  EXPECT_EQ(side_block_bytes(window.far, 128), 4096u);
  EXPECT_TRUE(letters(window.far).starts_with(std::string(32, 'N') + std::string(64, 'F')));
}

TEST(ProbeStatistics, TheSideOfAnH200IsAParityOfAddressBits) {
  const auto lines = measured_lines();
  const SideParity pages = side_parity(split_sides(lines.at("pages 0")).far, 4096);
  EXPECT_EQ(pages.bits, (std::vector<int>{12, 13, 15, 17, 19}));
  EXPECT_EQ(pages.agreement, 1);
  const SideParity window = side_parity(split_sides(lines.at("window 0")).far, 128);
  EXPECT_EQ(window.bits, (std::vector<int>{12, 13, 15})) << "of the 64 KiB, no bit below a page's";
  EXPECT_EQ(window.agreement, 1);
}

TEST(ProbeStatistics, SidesThatAreNoParityAreNotCalledOne) {
  // Near but for one line in the upper half: bits 7 and 8 say nothing, and three lines in four
  // are told right.
  const SideParity parity = side_parity({false, false, false, true}, 128);
  EXPECT_TRUE(parity.bits.empty());
  EXPECT_DOUBLE_EQ(parity.agreement, 0.75);
}

TEST(ProbeStatistics, OneSideIsNotTornInTwo) {
  // A flat spread over 100 cycles: the best cut, in the middle, explains 3/4 of the variance.
  std::vector<double> flat;
  for (int i = 0; i <= 100; ++i) flat.push_back(300 + i);
  const Sides sides = split_sides(flat);
  EXPECT_FALSE(sides.two);
  EXPECT_EQ(sides.near_median, 350);
  EXPECT_EQ(letters(sides.far), std::string(101, 'N'));
  EXPECT_FALSE(split_sides({5, 5, 5, 5}).two);
  // One stray sample is no side.
  std::vector<double> stray(99, 300);
  stray.push_back(3000);
  EXPECT_FALSE(split_sides(stray).two);
}

TEST(ProbeStatistics, BlocksBearAStrayLineInAHundred) {
  std::vector<bool> far;
  for (int i = 0; i < 1024; ++i) far.push_back(i / 256 % 2 == 1);
  far[17] = true;
  EXPECT_EQ(side_block_bytes(far, 128), 256u * 128);
  for (int i = 0; i < 1024; ++i) far[i] = i % 2 == 1;
  EXPECT_EQ(side_block_bytes(far, 128), 128u) << "from line to line";
}

}  // namespace
}  // namespace marrow::tools
