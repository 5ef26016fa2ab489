// Is every message there, with every stage, to the picosecond?
#include "sim/results/message_csv.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/results/journeys.h"

namespace marrow::results {
namespace {

TEST(MessageCsv, ReadBack) {
  std::ostringstream out;
  MessageCsv csv(out);
  csv.begin_run(0, "small");
  Journey exact = waited_message();
  exact.start_ps = 9'000'000'000'000'001;  // 2.5 hours: more digits than a double of ns keeps apart
  exact.at(Stage::kWqe) = 100'120;
  exact.bytes = 4096;
  csv.on_journey(exact);
  csv.on_journey(unwaited_message());

  const auto all = lines(out.str());
  ASSERT_EQ(all.size(), 3u);
  const auto names = fields(all[0]);
  ASSERT_EQ(names.size(), 7 + kStageCount + 6);
  std::map<std::string, std::string> row[2];
  for (int r = 0; r < 2; ++r) {
    const auto values = fields(all[1 + r]);
    ASSERT_EQ(values.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) row[r][names[i]] = values[i];
  }
  EXPECT_EQ(row[0]["run"], "small");
  EXPECT_EQ(row[0]["warp"], "3");
  EXPECT_EQ(row[0]["sm"], "125");
  EXPECT_EQ(row[0]["queue"], "1");
  EXPECT_EQ(row[0]["index"], "7");
  EXPECT_EQ(row[0]["op"], "9");
  EXPECT_EQ(row[0]["start_ns"], "9000000000000.001");
  EXPECT_EQ(row[0]["wqe_ns"], "100.12");
  EXPECT_EQ(row[0]["doorbell.register_ns"], "50");
  EXPECT_EQ(row[0]["lookup_ns"], "0");
  EXPECT_EQ(row[0]["completion_ns"], "700");
  EXPECT_EQ(row[0]["polls"], "4");
  EXPECT_EQ(row[0]["rang"], "1");
  EXPECT_EQ(row[0]["put_ns"], "850.12");
  EXPECT_EQ(row[0]["end_to_end_ns"], "800.12");
  EXPECT_EQ(row[0]["bytes"], "4096");
  EXPECT_EQ(row[1]["completion_ns"], "");
  EXPECT_EQ(row[1]["rang"], "0");
  EXPECT_EQ(row[1]["mmio_ns"], "1000");
}

}  // namespace
}  // namespace marrow::results
