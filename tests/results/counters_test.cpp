// Are counters kept, in order and added up?
#include "sim/results/counters.h"

#include <gtest/gtest.h>

#include <sstream>

namespace marrow::results {
namespace {

Counters some() {
  Counters counters;
  counters.add("gpu0.l2", "atomics", 1200, "count");
  counters.add("gpu0.pcie.up", "bytes", 65536, "B");
  counters.add("gpu0.l2", "atomics", 34, "count");
  counters.add("gpu0.l2", "busy", 12.5, "us");
  return counters;
}

TEST(Counters, OrderOfFirstMentionAndSums) {
  const Counters counters = some();
  ASSERT_EQ(counters.all().size(), 3u);
  EXPECT_EQ(counters.all()[0].name, "atomics");
  EXPECT_EQ(counters.all()[0].value, 1234);
  EXPECT_EQ(counters.all()[1].block, "gpu0.pcie.up");
  EXPECT_EQ(counters.all()[2].value, 12.5);
}

TEST(Counters, ForPeople) {
  std::ostringstream out;
  write_table(out, some());
  EXPECT_EQ(out.str(),
            "block         counter  value  unit\n"
            "gpu0.l2       atomics   1234  count\n"
            "gpu0.pcie.up  bytes    65536  B\n"
            "gpu0.l2       busy      12.5  us\n");
}

TEST(Counters, NoneNoTable) {
  std::ostringstream out;
  write_table(out, Counters());
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace marrow::results
