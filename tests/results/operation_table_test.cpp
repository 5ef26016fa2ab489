// Does the table tell what a lane spent on each operation, and on what a user times as one?
#include "sim/results/operation_table.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace marrow::results {
namespace {

Operation operation(std::uint32_t warp, OpKind kind, Ps begin_ps, Ps end_ps) {
  Operation op;
  op.warp = warp;
  op.kind = kind;
  op.begin_ps = begin_ps;
  op.end_ps = end_ps;
  return op;
}

std::map<std::string, Ps> medians(const OperationTable& table) {
  std::map<std::string, Ps> medians;
  for (const OperationRow& row : table.runs().at(0).rows())
    medians[row.what] = row.times->quantile(0.5);
  return medians;
}

TEST(OperationTable, TimesAPutUpToTheNextQuietOfItsOwnWarp) {
  OperationTable table;
  table.begin_run(0, "two warps");
  table.on_operation(operation(0, OpKind::kPut, 0, 700));
  table.on_operation(operation(1, OpKind::kPut, 100, 900));
  table.on_operation(operation(0, OpKind::kQuiet, 700, 4000));   // 0 to 4000
  table.on_operation(operation(1, OpKind::kQuiet, 1000, 4300));  // 100 to 4300
  table.on_operation(operation(1, OpKind::kQuiet, 4300, 4400));  // nothing before it
  const auto found = medians(table);
  EXPECT_EQ(found.at("put"), 800) << "of 700 and 800";
  EXPECT_EQ(found.at("put to quiet"), 4200) << "of 4000 and 4200";
  EXPECT_EQ(table.runs().at(0).to_quiet.count(), 2u);
}

TEST(OperationTable, TimesARoundTripFromTheFirstCallToTheWaitsReturn) {
  OperationTable table;
  table.begin_run(0, "ping-pong");
  table.on_operation(operation(0, OpKind::kPutSignal, 1000, 1700));
  table.on_operation(operation(0, OpKind::kWait, 1700, 8000));
  const auto found = medians(table);
  EXPECT_EQ(found.at("put_signal to wait"), 7000);
  EXPECT_EQ(found.count("put_signal to quiet"), 0u);
}

TEST(OperationTable, LeavesOutRunsThatAreMessagesOnly) {
  OperationTable table;
  table.begin_run(0, "puts");
  table.on_operation(operation(0, OpKind::kPut, 0, 700));
  std::ostringstream out;
  write_table(out, table);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace marrow::results
