// Do a round's three parts add up to it, and is the same work of several protocols put side by
// side?
#include "sim/results/kernel_table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sim/results/comparison.h"
#include "tests/results/journeys.h"

namespace marrow::results {
namespace {

KernelRound round_of(Ps notice, Ps communication, Ps launch, Ps kernel) {
  KernelRound round;
  round.begin_ps = 1000;
  round.noticed_ps = round.begin_ps + notice;
  round.called_ps = round.noticed_ps + communication;
  round.started_ps = round.called_ps + launch;
  round.ended_ps = round.started_ps + kernel;
  return round;
}

TEST(KernelTable, PartsAddUpToTheRound) {
  KernelTable table;
  table.begin_run(0, "one");
  table.on_kernel(round_of(2'000'000, 3'000'000, 5'000'000, 10'000'000));
  const auto& run = table.runs().at(0);
  EXPECT_EQ(run.kernel.quantile(0.5), 10'000'000);
  EXPECT_EQ(run.communication.quantile(0.5), 3'000'000);
  EXPECT_EQ(run.waiting.quantile(0.5), 2'000'000 + 5'000'000);
  EXPECT_EQ(run.round.quantile(0.5), 20'000'000);
  double shares = 0;
  for (const KernelRow& row : run.rows())
    if (row.what != "round") shares += row.share;
  EXPECT_DOUBLE_EQ(shares, 1);
}

TEST(KernelTable, SaysNothingWhereNoKernelIsLaunched) {
  KernelTable table;
  table.begin_run(0, "none");
  std::ostringstream out;
  write_table(out, table);
  EXPECT_EQ(out.str(), "");
}

TEST(Comparison, HoldsEachProtocolsMedianAndPoolsDraws) {
  Comparison comparison;
  const auto run = [&](const char* protocol, Ps poll_ps) {
    comparison.begin_protocol(protocol);
    comparison.begin_run(0, "8 B");
    Journey journey;
    journey.at(Stage::kPoll) = poll_ps;
    comparison.on_operation({0, 0, 0, OpKind::kPut, 8, 0, poll_ps});
    comparison.on_journey(journey);
  };
  run("slow", 9'000'000);
  run("fast", 3'000'000);
  run("slow", 9'000'000);
  EXPECT_EQ(comparison.protocols(), (std::vector<std::string>{"slow", "fast"}));
  EXPECT_EQ(comparison.at(0, 0).messages, 2u);
  EXPECT_EQ(comparison.at(0, 1).messages, 1u);
  EXPECT_EQ(comparison.at(0, 1).bytes, 8u);
  std::ostringstream table, csv;
  write_table(table, comparison);
  EXPECT_NE(lines(table.str()).at(2).find("9.00    3.00"), std::string::npos) << table.str();
  write_csv(csv, comparison);
  EXPECT_EQ(lines(csv.str()),
            (std::vector<std::string>{"run,bytes,protocol,what,messages,median_ns,p90_ns,p99_ns",
                                      "8 B,8,slow,end_to_end,2,9000,9000,9000",
                                      "8 B,8,fast,end_to_end,1,3000,3000,3000"}));
}

TEST(Comparison, TakesTheWayToTheQuietWhereThereIsOne) {
  Comparison comparison;
  comparison.begin_protocol("p");
  comparison.begin_run(0, "r");
  Journey journey;
  journey.at(Stage::kWqe) = 1'000'000;
  comparison.on_operation({0, 0, 0, OpKind::kPut, 8, 0, 1'000'000});
  comparison.on_journey(journey);
  comparison.on_operation({0, 0, 0, OpKind::kQuiet, 0, 1'000'000, 4'000'000});
  EXPECT_EQ(comparison.at(0, 0).times->quantile(0.5), 4'000'000);
  EXPECT_EQ(comparison.at(0, 0).what, "message to quiet");
}

}  // namespace
}  // namespace marrow::results
