// Does what was measured of a run as a whole stand beside what the simulation shows of the same, in
// the unit in which it was measured?
#include "sim/results/measured_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace marrow::results {
namespace {

Operation operation(OpKind kind, Ps begin_ps, Ps end_ps) {
  Operation op;
  op.kind = kind;
  op.bytes = 1024;
  op.begin_ps = begin_ps;
  op.end_ps = end_ps;
  return op;
}

trace::Summary summary(const char* metric, const char* statistic, double value, const char* unit) {
  return {metric, statistic, value, unit, 10, ""};
}

/// Ten rounds of put and quiet, each 2 us after the one before and 1 us long; the last 3 us.
MeasuredTable ten_rounds(const std::vector<trace::Summary>& summaries) {
  trace::Run run;
  run.name = "r";
  run.puts_per_lane = 10;
  run.summaries = summaries;
  MeasuredTable table;
  table.begin_run(0, run.name);
  table.expect(run);
  for (Ps round = 0; round < 10; ++round) {
    const Ps begin_ps = round * 2'000'000, took_ps = round == 9 ? 3'000'000 : 1'000'000;
    table.on_operation(operation(OpKind::kPut, begin_ps, begin_ps + 300'000));
    table.on_operation(operation(OpKind::kQuiet, begin_ps + 300'000, begin_ps + took_ps));
    Journey journey;
    journey.start_ps = begin_ps;
    journey.at(Stage::kProxyPost) = 100'000;
    journey.at(Stage::kMmio) = 200'000;
    journey.at(Stage::kAck) = 300'000;
    journey.at(Stage::kProxyComplete) = 50'000;
    journey.at(Stage::kPoll) = 7'000;
    table.on_journey(journey);
  }
  table.finish();
  return table;
}

TEST(MeasuredTable, ComparesInTheUnitOfTheMeasurement) {
  const MeasuredTable table = ten_rounds({summary("put_completion", "median", 1.25, "us"),
                                          summary("put_completion", "max", 3000, "ns"),
                                          summary("iteration", "mean", 2.0, "us"),
                                          summary("proxy_post", "median", 100, "ns"),
                                          summary("post_to_completion", "p99", 1100, "ns")});
  ASSERT_EQ(table.rows().size(), 5u);
  // The first tenth, one round, is left out.
  EXPECT_DOUBLE_EQ(table.rows()[0].predicted, 1.0);
  EXPECT_DOUBLE_EQ(table.rows()[0].error(), -0.2) << "1 / 1.25 - 1";
  EXPECT_DOUBLE_EQ(table.rows()[1].predicted, 3000);
  EXPECT_DOUBLE_EQ(table.rows()[2].predicted, 2.1) << "(9 * 2 + 3) us by 10";
  EXPECT_DOUBLE_EQ(table.rows()[3].predicted, 100);
  EXPECT_DOUBLE_EQ(table.rows()[4].predicted, 550) << "200 + 300 + 50; the lane's own poll is not";
  std::ostringstream text;
  write_table(text, table);
  EXPECT_NE(text.str().find("put_completion median        1.25          1  us        -20.0 %"),
            std::string::npos)
      << text.str();
}

TEST(MeasuredTable, WhatTheSimulationDoesNotShowHasNoRow) {
  const MeasuredTable table = ten_rounds(
      {summary("busbw", "mean", 3, "GB/s"), summary("one_way", "median", 3, "us"),
       summary("iteration", "min", 3, "us"), summary("iteration", "mean", 3, "cycles"),
       summary("put_completion", "median", 0, "us"), summary("goodput", "peak", 3, "GB/s")});
  EXPECT_TRUE(table.rows().empty());
  std::ostringstream text;
  write_table(text, table);
  EXPECT_EQ(text.str(), "");
}

TEST(MeasuredTable, BandwidthsAreConverted) {
  const MeasuredTable table =
      ten_rounds({summary("goodput", "mean", 1, "GB/s"), summary("goodput", "mean", 1, "Gb/s"),
                  summary("goodput", "mean", 1, "MiB/s")});
  ASSERT_EQ(table.rows().size(), 3u);
  const double gb_per_s = table.rows()[0].predicted;
  EXPECT_GT(gb_per_s, 0);
  EXPECT_DOUBLE_EQ(table.rows()[1].predicted, gb_per_s * 8);
  EXPECT_NEAR(table.rows()[2].predicted, gb_per_s * 1e9 / 1048576, 1e-9);
}

}  // namespace
}  // namespace marrow::results
