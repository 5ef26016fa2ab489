// Does the progress line stay quiet when it should, and does it say the right thing otherwise?
#include "sim/results/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace marrow::results {
namespace {

using namespace std::chrono_literals;

struct Wall {
  std::chrono::steady_clock::time_point now{};
  int readings = 0;
  Progress::Clock clock() {
    return [this] {
      ++readings;
      return now;
    };
  }
};

TEST(Progress, OffDoesNothing) {
  std::ostringstream out;
  Wall wall;
  {
    Progress progress(out, false, 100, wall.clock());
    progress.begin_run(0, "a");
    wall.now += 10s;
    progress.advance(50);
  }
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(wall.readings, 0);
}

TEST(Progress, CountShareRateAndTimeLeft) {
  std::ostringstream out;
  Wall wall;
  Progress progress(out, true, 4000, wall.clock());
  progress.begin_run(0, "a");
  wall.now += 1s;
  progress.advance(1000);
  EXPECT_EQ(out.str(),
            "\r\033[Ka: [#####               ] 1000 of 4000 messages (25 %), 1.0 k/s, 3 s left");
  progress.finish();
  EXPECT_TRUE(out.str().ends_with("left\r\033[K"));
}

TEST(Progress, TotalUnknown) {
  std::ostringstream out;
  Wall wall;
  Progress progress(out, true, 0, wall.clock());
  wall.now += 2s;
  progress.advance(5'000'000);
  EXPECT_EQ(out.str(), "\r\033[K5000000 messages, 2.50 M/s");
}

TEST(Progress, AtMostFiveTimesASecondAndErasedOnce) {
  std::ostringstream out;
  Wall wall;
  {
    Progress progress(out, true, 0, wall.clock());
    for (int i = 0; i < 100'000; ++i) {  // 10 s at 10,000 messages a second
      wall.now += 100us;
      progress.advance(1);
    }
  }
  std::size_t lines = 0;
  for (char c : out.str()) lines += c == '\r';
  EXPECT_GE(lines, 30u + 1);
  EXPECT_LE(lines, 50u + 1);
  EXPECT_LT(wall.readings, 1000);  // the clock is not read for each message
  EXPECT_TRUE(out.str().ends_with("\r\033[K"));
}

TEST(Progress, NothingDrawnNothingErased) {
  std::ostringstream out;
  Wall wall;
  { Progress progress(out, true, 10, wall.clock()); }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace marrow::results
