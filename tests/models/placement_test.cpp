// What does a drawn placement look like, and what can be set in it?
#include "models/common/placement.h"

#include <gtest/gtest.h>

#include <set>

namespace marrow {
namespace {

constexpr std::uint64_t kPages = 64;
constexpr std::uint32_t kSms = 132;

Placement drawn(std::uint64_t seed, double spread = 35) {
  Placement placement;
  placement.draw(kPages * Placement::kPageBytes, kSms, seed, spread);
  return placement;
}

bool same(const Placement& a, const Placement& b) {
  for (std::uint64_t at = 0; at < a.gpu_bytes(); at += Placement::kLineBytes)
    for (std::uint32_t sm : {0u, 77u})
      if (a.is_far(sm, at) != b.is_far(sm, at) ||
          a.distance_cycles(sm, at) != b.distance_cycles(sm, at))
        return false;
  return true;
}

TEST(Placement, IsTheSameForTheSameSeedAndAnotherForAnother) {
  EXPECT_TRUE(same(drawn(1), drawn(1)));
  EXPECT_FALSE(same(drawn(1), drawn(2)));
}

TEST(Placement, PutsPagesAndSmsOnBothSides) {
  std::set<bool> pages, sms;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Placement placement = drawn(seed);
    for (std::uint64_t page = 0; page < kPages; ++page)
      pages.insert(placement.page_side(page * Placement::kPageBytes));
    for (std::uint32_t sm = 0; sm < kSms; ++sm) sms.insert(placement.sm_side(sm));
  }
  EXPECT_EQ(pages.size(), 2u);
  EXPECT_EQ(sms.size(), 2u);
}

TEST(Placement, GivesAPairOfSmsAndItsClusterOneSide) {
  // Pairs (texture processing clusters) go round eight clusters: 0 and 1 with 16 and 17.
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Placement placement = drawn(seed);
    for (std::uint32_t sm = 0; sm < kSms; ++sm) {
      EXPECT_EQ(placement.sm_side(sm), placement.sm_side(sm ^ 1));
      EXPECT_EQ(placement.sm_side(sm), placement.sm_side(sm % 16));
    }
  }
}

TEST(Placement, GivesAPageOneSideAndALineOneDistance) {
  const Placement placement = drawn(3);
  for (std::uint64_t at = 0; at < placement.gpu_bytes(); ++at) {
    EXPECT_EQ(placement.is_far(5, at), placement.is_far(5, at / 4096 * 4096));
    EXPECT_EQ(placement.distance_cycles(5, at), placement.distance_cycles(5, at / 128 * 128));
  }
}

TEST(Placement, DrawsDistancesThatFillTheSpreadAndStayWithin) {
  const Placement placement = drawn(4, 35);
  double least = 0, most = 0;
  for (std::uint64_t at = 0; at < placement.gpu_bytes(); at += Placement::kLineBytes) {
    least = std::min(least, placement.distance_cycles(0, at));
    most = std::max(most, placement.distance_cycles(0, at));
  }
  EXPECT_GE(least, -35);
  EXPECT_LE(most, 35);
  // 2,048 lines: that none lies in the outer tenth on a side has a chance of 0.95^2048.
  EXPECT_LT(least, -31.5);
  EXPECT_GT(most, 31.5);
}

TEST(Placement, IsFarWhereSmAndPageDiffer) {
  Placement placement = drawn(1);
  for (bool sm : {false, true})
    for (bool page : {false, true}) {
      placement.set_sm_side(9, sm);
      placement.set_page_side(8192, page);
      EXPECT_EQ(placement.is_far(9, 8192 + 4095), sm != page);
    }
}

TEST(Placement, LetsOneSmHaveItsOwnDistance) {
  Placement placement = drawn(1);
  placement.set_distance(256, 10);
  placement.set_distance(7, 256, -4);
  EXPECT_EQ(placement.distance_cycles(7, 256), -4);
  EXPECT_EQ(placement.distance_cycles(8, 256), 10);
  EXPECT_EQ(placement.distance_cycles(7, 384), drawn(1).distance_cycles(7, 384)) << "another line";
}

}  // namespace
}  // namespace marrow
