// Does the table say where the time went?
#include "sim/results/stage_table.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/results/journeys.h"

namespace marrow::results {
namespace {

StageTable two_messages() {
  StageTable table;
  table.begin_run(0, "small");
  table.on_journey(waited_message());
  table.on_journey(unwaited_message());
  return table;
}

TEST(StageTable, ByHand) {
  // End to end: 800 + 1200 = 2000 ns. With two samples median, p90 and p99 are the greater one.
  //   stage              who       sum    share
  //   wqe                100 200   300    0.15
  //   doorbell.register   50        50    0.025
  //   mmio               400 1000 1400    0.7
  //   poll               250       250    0.125
  //   completion         700       700    0.35
  //   put                850 200  1050    0.525
  //   end_to_end         800 1200 2000    1
  struct {
    std::string_view stage;
    std::uint64_t count;
    Ps median_ps;
    double mean_ps, share;
    bool tiles;
  } const right[] = {{"wqe", 2, 200'000, 150'000, 0.15, true},
                     {"doorbell.register", 1, 50'000, 50'000, 0.025, true},
                     {"mmio", 2, 1'000'000, 700'000, 0.7, true},
                     {"poll", 1, 250'000, 250'000, 0.125, true},
                     {"completion", 1, 700'000, 700'000, 0.35, false},
                     {"put", 2, 850'000, 525'000, 0.525, false},
                     {"end_to_end", 2, 1'200'000, 1'000'000, 1, false}};
  const StageTable table = two_messages();
  const auto rows = table.runs().at(0).times.rows();
  ASSERT_EQ(rows.size(), std::size(right));
  double tiled = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].stage, right[i].stage);
    EXPECT_EQ(rows[i].times->count(), right[i].count) << rows[i].stage;
    EXPECT_EQ(rows[i].times->quantile(0.5), right[i].median_ps) << rows[i].stage;
    EXPECT_DOUBLE_EQ(rows[i].times->mean(), right[i].mean_ps) << rows[i].stage;
    EXPECT_DOUBLE_EQ(rows[i].share, right[i].share) << rows[i].stage;
    EXPECT_EQ(rows[i].tiles, right[i].tiles) << rows[i].stage;
    if (rows[i].tiles) tiled += rows[i].share;
  }
  EXPECT_DOUBLE_EQ(tiled, 1);
}

TEST(StageTable, AWaitThatTookNoTimeCounts) {
  StageTable table;
  Journey j = waited_message();
  j.waited_ps = 0;
  table.on_journey(j);
  for (const StageRow& row : table.runs().at(0).times.rows())
    if (row.stage == "completion") {
      EXPECT_EQ(row.times->count(), 1u);
      return;
    }
  FAIL() << "no row";
}

TEST(StageTable, TotalIsOverAllRuns) {
  StageTable table;
  table.begin_run(0, "a");
  table.on_journey(waited_message());
  table.begin_run(1, "b");
  Journey j = unwaited_message();
  j.run = 1;
  table.on_journey(j);
  table.on_journey(j);
  EXPECT_EQ(table.runs().at(0).times.messages(), 1u);
  EXPECT_EQ(table.runs().at(1).times.messages(), 2u);
  const StageTimes total = table.total();
  EXPECT_EQ(total.messages(), 3u);
  const auto rows = total.rows();
  EXPECT_EQ(rows.front().stage, "wqe");
  EXPECT_DOUBLE_EQ(rows.front().share, 500.0 / 3200.0);
}

TEST(StageTable, ForPeople) {
  std::ostringstream out;
  write_table(out, two_messages());
  EXPECT_EQ(out.str(),
            "small: 2 messages\n"
            "stage                  count   median ns      p90 ns      p99 ns   share\n"
            "wqe                        2         200         200         200  15.0 %  ━━━━╸\n"
            "doorbell.register          1        50.0        50.0        50.0   2.5 %  ━\n"
            "mmio                       2        1000        1000        1000  70.0 %  "
            "━━━━━━━━━━━━━━━━━━━━━\n"
            "poll                       1         250         250         250  12.5 %  ━━━━\n"
            "------------------------------------------------------------------------\n"
            "completion                 1         700         700         700  35.0 %\n"
            "put                        2         850         850         850  52.5 %\n"
            "end_to_end                 2        1200        1200        1200 100.0 %\n"
            "\n");
}

TEST(StageTable, NoMessagesDoNotBreakIt) {
  StageTable none;
  std::ostringstream out;
  write_table(out, none);
  EXPECT_EQ(out.str(), "all 0 runs: 0 messages\n");

  StageTable idle;
  idle.begin_run(0, "idle");
  out.str("");
  write_table(out, idle);
  EXPECT_EQ(out.str(), "idle: 0 messages\n\n");
  out.str("");
  write_csv(out, idle);
  EXPECT_EQ(lines(out.str()).size(), 1u);

  // A message that took no time at all: nothing to take a share of.
  StageTable instant;
  instant.on_journey(Journey{});
  for (const StageRow& row : instant.runs().at(0).times.rows()) EXPECT_EQ(row.share, 0);
}

TEST(StageTable, CsvReadBack) {
  std::ostringstream out;
  write_csv(out, two_messages());
  const auto all = lines(out.str());
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(all[0], "run,stage,count,median_ns,p90_ns,p99_ns,mean_ns,share");
  std::map<std::string, std::vector<std::string>> by_stage;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto f = fields(all[i]);
    ASSERT_EQ(f.size(), 8u) << all[i];
    EXPECT_EQ(f[0], "small");
    by_stage[f[1]] = f;
  }
  EXPECT_EQ(std::stod(by_stage.at("mmio")[3]), 1000);
  EXPECT_EQ(std::stod(by_stage.at("mmio")[6]), 700);
  EXPECT_EQ(std::stod(by_stage.at("mmio")[7]), 0.7);
  EXPECT_EQ(std::stod(by_stage.at("put")[2]), 2);
}

TEST(StageTable, CsvQuotesANameThatNeedsIt) {
  StageTable table;
  table.begin_run(0, "4 warps, \"big\"");
  table.on_journey(waited_message());
  std::ostringstream out;
  write_csv(out, table);
  EXPECT_EQ(lines(out.str())[1].rfind("\"4 warps, \"\"big\"\"\",wqe,1,", 0), 0u);
}

}  // namespace
}  // namespace marrow::results
