// When and in which order does a delay line hand its entries out?
#include "models/common/delay_line.h"

#include <vector>

#include "tests/support/systemc_fixture.h"

namespace marrow {
namespace {

struct Seen {
  int entry;
  Ps at_ps, now_ps;
  bool operator==(const Seen&) const = default;
};

class DelayLineTest : public SystemC {
 protected:
  std::vector<Seen> seen_;
  std::function<void(int)> then_;
  DelayLine<int> line_{"line", [this](int& entry, Ps at_ps) {
                         seen_.push_back({entry, at_ps, now_ps()});
                         if (then_) then_(entry);
                       }};
};

TEST_F(DelayLineTest, HandsEntriesOutInTheOrderOfTimeNotOfPushing) {
  line_.push(3000, 3);
  line_.push(1000, 1);
  line_.push(2000, 2);
  run();
  EXPECT_EQ(seen_, (std::vector<Seen>{{1, 1000, 1000}, {2, 2000, 2000}, {3, 3000, 3000}}));
}

TEST_F(DelayLineTest, HandsTiesOutInTheOrderOfPushing) {
  for (int entry = 0; entry < 20; ++entry) line_.push(entry % 2 ? 500 : 700, entry);
  run();
  ASSERT_EQ(seen_.size(), 20u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(seen_[static_cast<std::size_t>(i)], (Seen{2 * i + 1, 500, 500}));
    EXPECT_EQ(seen_[static_cast<std::size_t>(i + 10)], (Seen{2 * i, 700, 700}));
  }
}

TEST_F(DelayLineTest, HandsAnEntryOutAtItsTimeAndNotAPicosecondBefore) {
  line_.push(1000, 1);
  run_to(999);
  EXPECT_TRUE(seen_.empty());
  run_to(1000);
  EXPECT_EQ(seen_, (std::vector<Seen>{{1, 1000, 1000}}));
}

TEST_F(DelayLineTest, TakesWhatItsHandlerPushes) {
  then_ = [this](int entry) {
    if (entry != 1) return;
    line_.push(1500, 15);
    line_.push(now_ps(), 11);  // for now: behind what was already due now
  };
  line_.push(1000, 1);
  line_.push(1000, 2);
  line_.push(2000, 20);
  run();
  EXPECT_EQ(
      seen_,
      (std::vector<Seen>{
          {1, 1000, 1000}, {2, 1000, 1000}, {11, 1000, 1000}, {15, 1500, 1500}, {20, 2000, 2000}}));
}

TEST_F(DelayLineTest, IsWokenForAnEarlierEntryThatIsPushedLater) {
  line_.push(100'000, 2);
  run_to(10'000);
  line_.push(50'000, 1);
  run_to(50'000);
  EXPECT_EQ(seen_, (std::vector<Seen>{{1, 50'000, 50'000}}));
  run();
  EXPECT_EQ(seen_.back(), (Seen{2, 100'000, 100'000}));
  EXPECT_EQ(line_.size(), 0u);
}

}  // namespace
}  // namespace marrow
