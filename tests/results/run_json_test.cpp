// Does a program find in the JSON what a person finds in the table?
#include "sim/results/run_json.h"

#include <gtest/gtest.h>

#include "tests/results/journeys.h"

namespace marrow::results {
namespace {

nlohmann::json written(const StageTable& table, const Counters& counters, const RunInfo& info) {
  std::ostringstream out;
  write_json(out, info, table, OperationTable(), KernelTable(), counters);
  return nlohmann::json::parse(out.str());
}

TEST(RunJson, ReadBack) {
  StageTable table;
  table.begin_run(0, "small");
  table.on_journey(waited_message());
  table.on_journey(unwaited_message());
  Counters counters;
  counters.add("gpu0.l2", "atomics", 1200, "count");
  RunInfo info{"h200", {"ibgda"}, "t.trace", 18'000'000'000'000'000'000u, {{"measured", 3}}};
  const auto json = written(table, counters, info);

  EXPECT_EQ(json["schema"], "marrow.run/1");
  EXPECT_EQ(json["system"], "h200");
  EXPECT_EQ(json["protocols"], nlohmann::json::array({"ibgda"}));
  EXPECT_EQ(json["trace"], "t.trace");
  EXPECT_EQ(json["seed"], 18'000'000'000'000'000'000u);
  EXPECT_EQ(json["provenance"], (nlohmann::json{{"measured", 3}}));
  EXPECT_EQ(
      json["counters"],
      (nlohmann::json::array(
          {{{"block", "gpu0.l2"}, {"counter", "atomics"}, {"value", 1200}, {"unit", "count"}}})));
  ASSERT_EQ(json["runs"].size(), 1u);
  EXPECT_EQ(json["runs"][0]["run"], "small");
  EXPECT_EQ(json["runs"][0]["messages"], 2);
  // The numbers are computed by hand in stage_table_test.cpp.
  const auto& stages = json["runs"][0]["stages"];
  ASSERT_EQ(stages.size(), 7u);
  EXPECT_EQ(stages[2], (nlohmann::json{{"stage", "mmio"},
                                       {"count", 2},
                                       {"p10_ns", 400},
                                       {"median_ns", 1000},
                                       {"p90_ns", 1000},
                                       {"p99_ns", 1000},
                                       {"mean_ns", 700},
                                       {"share", 0.7}}));
  EXPECT_EQ(json["total"]["messages"], 2);
  EXPECT_EQ(json["total"]["stages"], stages);
}

TEST(RunJson, NothingRan) {
  StageTable table;
  table.begin_run(0, "idle");
  const auto json = written(table, Counters(), RunInfo{});
  EXPECT_EQ(json["runs"][0]["stages"], nlohmann::json::array());
  EXPECT_EQ(json["total"]["messages"], 0);
  EXPECT_EQ(json["counters"], nlohmann::json::array());
  EXPECT_EQ(json["protocols"], nlohmann::json::array());
  EXPECT_EQ(json["provenance"], nlohmann::json::object());
}

TEST(RunJson, ANameThatIsNotUtf8DoesNotStopIt) {
  StageTable table;
  table.begin_run(0, "caf\xE9");
  EXPECT_NO_THROW(written(table, Counters(), RunInfo{}));
}

}  // namespace
}  // namespace marrow::results
