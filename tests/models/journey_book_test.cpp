// Do the stages of a message tile the time from its start to its end, in whatever order its
// boundaries are passed?
#include "models/common/journey_book.h"

#include <gtest/gtest.h>

#include "tests/support/round_machine.h"

namespace marrow {
namespace {

class JourneyBookTest : public testing::Test {
 protected:
  JourneyBookTest() { book_.begin(2, &journeys_); }

  /// The lane starts at 1000, writes its entry and is done at 1500.
  void lane(std::uint64_t index, Ps seen_ps = -1, std::uint32_t queue = 0) {
    Flight& flight = book_.flight(queue, index);
    flight.journey.queue = queue;
    flight.journey.index = index;
    flight.journey.start_ps = 1000;
    flight.journey.at(Stage::kWqe) = 500;
    flight.issued_ps = 1500;
    flight.seen_ps = seen_ps;
    book_.lane_done(queue, index);
  }
  void consumer(std::uint64_t index, Ps started_ps, Ps fetched_ps, Ps completed_ps) {
    book_.flight(0, index).started_ps = started_ps;
    book_.flight(0, index).fetched_ps = fetched_ps;
    book_.completed(0, index, completed_ps);
  }
  std::map<std::string, Ps> only() const {
    EXPECT_EQ(journeys_.all.size(), 1u);
    return journeys_.all.empty() ? std::map<std::string, Ps>{} : stages(journeys_.all[0]);
  }

  Journeys journeys_;
  JourneyBook book_;
};

TEST_F(JourneyBookTest, CutsTheTimeAtEachBoundary) {
  book_.open(0, 0);
  book_.arrived(0, 1, 1700);
  consumer(0, 1950, 2050, 2350);
  lane(0, 2650);
  EXPECT_EQ(only(), (std::map<std::string, Ps>{{"wqe", 500},
                                               {"mmio", 200},
                                               {"nic_schedule", 250},
                                               {"wqe_fetch", 100},
                                               {"cqe_write", 300},
                                               {"poll", 300}}));
  EXPECT_EQ(journeys_.all[0].end_to_end_ps(), 2650 - 1000);
}

TEST_F(JourneyBookTest, EndsWithTheCompletionWhereNobodyWaits) {
  book_.open(0, 0);
  book_.arrived(0, 1, 1700);
  consumer(0, 1950, 2050, 2350);
  lane(0);
  EXPECT_EQ(journeys_.all.at(0).end_to_end_ps(), 2350 - 1000);
  EXPECT_EQ(journeys_.all.at(0).at(Stage::kPoll), 0);
}

TEST_F(JourneyBookTest, CountsNothingTwiceWhereTheDoorbellArrivesBeforeTheLanesLastStep) {
  book_.open(0, 0);
  book_.arrived(0, 1, 1200);
  consumer(0, 1400, 1650, 1800);
  lane(0);
  EXPECT_EQ(only(),
            (std::map<std::string, Ps>{{"wqe", 500}, {"wqe_fetch", 150}, {"cqe_write", 150}}));
  EXPECT_EQ(journeys_.all[0].end_to_end_ps(), 1800 - 1000);
}

TEST_F(JourneyBookTest, StartsTheWayOfAnEntryThatAnotherLaneAnnouncesAtItsOwnLanesLastStep) {
  book_.open(0, 0);
  book_.open(0, 1);
  lane(0);  // rings nothing
  book_.arrived(0, 2, 4000);
  consumer(0, 4100, 4200, 4500);
  EXPECT_EQ(only(), (std::map<std::string, Ps>{{"wqe", 500},
                                               {"mmio", 2500},
                                               {"nic_schedule", 100},
                                               {"wqe_fetch", 100},
                                               {"cqe_write", 300}}));
}

TEST_F(JourneyBookTest, KeepsTheFirstAnnouncementOfAnEntry) {
  for (std::uint64_t index : {0u, 1u, 2u}) book_.open(0, index);
  book_.arrived(0, 2, 100);
  book_.arrived(0, 3, 200);
  book_.arrived(0, 1, 300);
  EXPECT_EQ(book_.flight(0, 0).arrived_ps, 100);
  EXPECT_EQ(book_.flight(0, 1).arrived_ps, 100);
  EXPECT_EQ(book_.flight(0, 2).arrived_ps, 200);
}

TEST_F(JourneyBookTest, AnnouncesEntriesWithTagsOneByOne) {
  for (std::uint64_t index : {0u, 1u, 2u}) book_.open(0, index);
  book_.arrived_one(0, 2, 100);
  book_.arrived_one(0, 0, 300);
  EXPECT_EQ(book_.flight(0, 0).arrived_ps, 300);
  EXPECT_EQ(book_.flight(0, 1).arrived_ps, -1);
  EXPECT_EQ(book_.flight(0, 2).arrived_ps, 100);
}

TEST_F(JourneyBookTest, HandsJourneysOutInTheOrderOfTheQueueOnceLaneAndConsumerAreDone) {
  book_.open(0, 1);  // lanes run ahead of each other
  book_.open(0, 0);
  book_.arrived(0, 2, 1700);
  consumer(0, 1950, 2050, 2350);
  consumer(1, 2350, 2450, 2550);
  lane(1);
  EXPECT_TRUE(journeys_.all.empty()) << "entry 0's lane is not done";
  EXPECT_EQ(book_.in_flight(), 2u);
  lane(0);
  ASSERT_EQ(journeys_.all.size(), 2u);
  EXPECT_EQ(journeys_.all[0].index, 0u);
  EXPECT_EQ(journeys_.all[1].index, 1u);
  EXPECT_EQ(book_.in_flight(), 0u);
  EXPECT_EQ(book_.total(), 2u);
}

TEST_F(JourneyBookTest, KeepsQueuesApart) {
  book_.open(0, 0);
  book_.open(1, 0);
  book_.arrived(1, 1, 1700);
  lane(0);
  lane(0, -1, 1);
  book_.flight(1, 0).started_ps = 1800;
  book_.flight(1, 0).fetched_ps = 1900;
  book_.completed(1, 0, 2000);
  ASSERT_EQ(journeys_.all.size(), 1u);
  EXPECT_EQ(journeys_.all[0].queue, 1u);
}

}  // namespace
}  // namespace marrow
