// When does the agent that stands for the NIC look at a queue, and in which order and rhythm does
// it handle what it finds?
//
// The agent here looks every 300 ns and knows what it saw 100 ns after the look; an entry is read
// 80 ns later, its completion issued after another 120, and 40 ns later the agent polls again.
#include "models/common/consumer.h"

#include "tests/support/agents.h"
#include "tests/support/round_machine.h"
#include "tests/support/small_recipe.h"

namespace marrow {
namespace {

class Agent : public Consumer {
 public:
  explicit Agent(sc_core::sc_module_name name)
      : Consumer(name), writes_("writes", [this](Write& write, Ps at_ps) {
          memory_[write.address] = write.value;
          announced(write.address, at_ps);
        }) {}
  void write(Ps at_ps, std::uint64_t address, std::uint64_t value) {
    writes_.push(at_ps, {address, value});
  }
  std::vector<std::pair<std::uint64_t, Ps>> completions;  ///< value and time of issue

 private:
  struct Write {
    std::uint64_t address, value;
  };
  std::uint64_t load(std::uint64_t address, std::uint32_t) const override {
    const auto it = memory_.find(address);
    return it == memory_.end() ? 0 : it->second;
  }
  Ps store_completion(std::uint64_t, std::uint64_t value, std::uint32_t, Ps issue_ps) override {
    completions.emplace_back(value, issue_ps);
    return issue_ps + 150'000;
  }
  void watch(std::uint64_t, std::uint64_t) override {}
  Ps poll_period_ps(std::uint64_t) const override { return 300'000; }
  Ps poll_return_ps(std::uint64_t) const override { return 100'000; }
  Ps cycles_ps(double cycles) const override { return static_cast<Ps>(cycles * 1000); }

  std::map<std::uint64_t, std::uint64_t> memory_;
  DelayLine<Write> writes_;
};

class ConsumerTest : public SystemC {
 protected:
  /// Queues with this many entries in flight each.
  void start(std::uint32_t queues, std::uint64_t entries) {
    layout_ = QueueLayout(program(), queues);
    book_.begin(queues, nullptr);
    for (std::uint32_t q = 0; q < queues; ++q) book_.open(q, entries - 1);
    agent_.start(&program(), &layout_, queues, &book_,
                 [](std::uint32_t, std::uint64_t) { return std::uint64_t{0}; });
  }
  Program& program() { return recipe_.program; }
  void ring(Ps at_ps, std::uint64_t next, std::uint32_t queue = 0) {
    agent_.write(at_ps, layout_.address(program(), kBell, queue, 0), next);
  }
  Ps started(std::uint64_t index, std::uint32_t queue = 0) {
    return book_.flight(queue, index).started_ps;
  }

  config::Recipe recipe_ = small_recipe({take_index()});
  QueueLayout layout_;
  JourneyBook book_;
  Agent agent_{"agent"};
};

TEST_F(ConsumerTest, HandlesAnEntryStepByStep) {
  start(1, 1);
  ring(10'000, 1);
  run();
  const Flight& flight = book_.flight(0, 0);
  EXPECT_EQ(flight.arrived_ps, 10'000);
  EXPECT_EQ(flight.started_ps, 400'000);
  EXPECT_EQ(flight.fetched_ps, 480'000);
  EXPECT_EQ(agent_.completions, (std::vector<std::pair<std::uint64_t, Ps>>{{1, 600'000}}));
  EXPECT_EQ(flight.completed_ps, 750'000);
  EXPECT_EQ(agent_.completed(), 1u);
}

TEST_F(ConsumerTest, SeesADoorbellAtALookThatCoincidesWithIt) {
  start(1, 1);
  ring(900'000, 1);
  run();
  EXPECT_EQ(started(0), 1'000'000);
}

TEST_F(ConsumerTest, SeesADoorbellThatComesJustAfterALookAtTheNext) {
  start(1, 1);
  ring(900'001, 1);
  run();
  EXPECT_EQ(started(0), 1'300'000);
}

TEST_F(ConsumerTest, LooksAtItsQueuesInTurn) {
  // Of two queues it looks at the second at 300, 900, 1500.
  start(2, 1);
  ring(300'001, 1, 1);
  run();
  EXPECT_EQ(started(0, 1), 1'000'000);
}

TEST_F(ConsumerTest, PollsFromAPhaseThatItsLastEntryGaveIt) {
  // Seen at 400, done at 600, next look at 600 + 40 + 100 = 740 and then 1040, 1340, 1640.
  start(1, 3);
  ring(10'000, 1);
  ring(1'040'000, 2);  // seen at that look: 1140, done at 1340, next look at 1480
  ring(1'480'001, 3);  // too late for it: 1780
  run();
  EXPECT_EQ(started(1), 1'140'000);
  EXPECT_EQ(started(2), 1'880'000);
}

TEST_F(ConsumerTest, FindsWhatCameWhileItWasBusyAtItsFirstLookAfterwards) {
  start(1, 2);
  ring(10'000, 1);
  ring(500'000, 2);
  run();
  EXPECT_EQ(started(1), 740'000 + 100'000);
}

TEST_F(ConsumerTest, TakesAllThatADoorbellAnnouncesAtOnce) {
  start(1, 3);
  ring(10'000, 3);
  run();
  // 80 and 120 ns each.
  EXPECT_EQ(started(0), 400'000);
  EXPECT_EQ(started(1), 600'000);
  EXPECT_EQ(started(2), 800'000);
}

TEST_F(ConsumerTest, ServesWaitingQueuesInTheirTurn) {
  start(4, 1);
  for (std::uint32_t queue : {3u, 0u, 1u}) ring(10'000, 1, queue);
  run();
  EXPECT_EQ(started(0, 1), 400'000) << "looked at 300";
  // Next looks: queue 2 at 740, queue 3 at 1040.
  EXPECT_EQ(started(0, 3), 1'140'000);
  // Done at 1340: queue 0 at 1480.
  EXPECT_EQ(started(0, 0), 1'580'000);
}

TEST_F(ConsumerTest, HandlesEntriesInTheLongestGroupsThatFit) {
  program().consumer.groups = {{{10, 20, 30, 40}, {1, 2, 3, 4}}, {{50, 60}, {5, 6}}, {{70}, {7}}};
  start(1, 7);
  ring(10'000, 7);  // seen at 400: four, two and one
  run();
  const std::vector<std::pair<std::uint64_t, Ps>> expected = {{1, 411'000},   // 400 + 10 + 1
                                                              {2, 433'000},   // + 20 + 2
                                                              {3, 466'000},   // + 30 + 3
                                                              {4, 510'000},   // + 40 + 4
                                                              {5, 565'000},   // + 50 + 5
                                                              {6, 631'000},   // + 60 + 6
                                                              {7, 708'000}};  // + 70 + 7
  EXPECT_EQ(agent_.completions, expected);
  EXPECT_EQ(book_.flight(0, 4).fetched_ps, 560'000);
}

TEST_F(ConsumerTest, WaitsForTheTagOfItsNextEntryWhereEntriesHaveTags) {
  program().words.push_back({"tag", kEntry, 56, 8, 64, 64, true});
  program().consumer.announcement = static_cast<std::uint32_t>(program().words.size() - 1);
  program().consumer.per_entry = true;
  start(1, 3);
  const auto tag = [&](Ps at_ps, std::uint64_t index) {
    agent_.write(at_ps, layout_.address(program(), program().consumer.announcement, 0, index),
                 index + 1);
  };
  tag(310'000, 1);
  tag(320'000, 2);
  tag(650'000, 0);
  run();
  EXPECT_EQ(book_.flight(0, 1).arrived_ps, 310'000);
  EXPECT_EQ(started(0), 1'000'000) << "looked at 900";
  EXPECT_EQ(started(1), 1'440'000) << "one entry a notice: done at 1200, looked at 1340";
  EXPECT_EQ(started(2), 1'880'000) << "done at 1640, looked at 1780";
  EXPECT_EQ(agent_.completed(), 3u);
}

TEST_F(ConsumerTest, IsNotRousedByTheOtherWordsOfAnEntry) {
  program().words.push_back({"tag", kEntry, 56, 8, 64, 64, true});
  program().consumer.announcement = static_cast<std::uint32_t>(program().words.size() - 1);
  program().consumer.per_entry = true;
  start(1, 1);
  agent_.write(10'000, layout_.address(program(), kEntry, 0, 0), 1);
  run();
  EXPECT_EQ(agent_.completed(), 0u);
}

}  // namespace
}  // namespace marrow
