// Who gets which time of a link's direction when reservations are made ahead and in any order?
#include "models/pcie/lane.h"

#include <gtest/gtest.h>

#include <vector>

#include "models/common/random.h"

namespace marrow::pcie {
namespace {

void expect(const Lane::Slot& slot, Ps begin_ps, Ps end_ps) {
  EXPECT_EQ(slot.begin_ps, begin_ps);
  EXPECT_EQ(slot.end_ps, end_ps);
}

TEST(Lane, ServesOneAfterTheOther) {
  Lane lane;
  expect(lane.reserve(0, 10), 0, 10);
  expect(lane.reserve(9, 10), 10, 20);
  expect(lane.reserve(20, 10), 20, 30);
  expect(lane.reserve(40, 10), 40, 50);
}

TEST(Lane, LetsTheEarlyPassTheLate) {
  Lane lane;
  expect(lane.reserve(100, 10), 100, 110);
  expect(lane.reserve(0, 10), 0, 10);
  expect(lane.reserve(5, 90), 10, 100);
  expect(lane.reserve(5, 1), 110, 111);
}

TEST(Lane, GoesOnBehindWhatIsInTheWay) {
  Lane lane;
  lane.reserve(100, 10);
  lane.reserve(200, 10);
  expect(lane.reserve(90, 120), 90, 230);  // 10 before, 90 between, 20 behind
  expect(lane.reserve(0, 91), 0, 231);
}

TEST(Lane, TakesNothingForNothing) {
  Lane lane;
  lane.reserve(0, 10);
  expect(lane.reserve(5, 0), 5, 5);
}

TEST(Lane, GivesEveryTimeOnceAsASlowCalendarDoes) {
  // The same against one flag a picosecond, with few intervals so that none is forgotten.
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    Lane lane;
    std::vector<bool> taken(4000, false);
    for (int i = 0; i < 40; ++i) {
      const auto at = static_cast<std::size_t>(random.unit() * 1000);
      const auto length = static_cast<std::size_t>(1 + random.unit() * 40);
      std::size_t first = 0, last = 0, left = length;
      for (std::size_t t = at; left > 0; ++t) {
        if (taken[t]) continue;
        taken[t] = true;
        if (left-- == length) first = t;
        last = t + 1;
      }
      expect(lane.reserve(static_cast<Ps>(at), static_cast<Ps>(length)), static_cast<Ps>(first),
             static_cast<Ps>(last));
    }
  }
}

TEST(Lane, NeverGivesATimeTwiceHoweverManyGapsThereAre) {
  Lane lane;
  for (Ps i = 0; i < 20000; ++i) expect(lane.reserve(i * 20, 10), i * 20, i * 20 + 10);
  // Old gaps are forgotten, the last are not.
  EXPECT_GE(lane.reserve(0, 1).begin_ps, 1000 * 20);
  expect(lane.reserve(19999 * 20 - 5, 1), 19999 * 20 - 5, 19999 * 20 - 4);
}

}  // namespace
}  // namespace marrow::pcie
