// Does a request that a CPU thread posts make the transactions of its source (path.md, section 4,
// step 3, and section 7.2), whatever its size and whoever is told of it?
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";
using Choices = std::map<std::string, std::string>;

class Perftest : public SystemC {
 protected:
  /// Element 0 does `does`, element 1 `peer_does`, so many rounds.
  Journeys play(const Choices& choices, std::vector<OpKind> does, std::uint64_t bytes = 8,
                std::size_t rounds = 10, std::vector<OpKind> peer_does = {}) {
    const config::Recipe recipe =
        config::load_recipe(kConfigs + "/protocols/perftest.yaml", choices);
    trace::Run run;
    run.name = "by hand";
    run.queues = 1;
    run.lanes.push_back({0, std::nullopt, 0, 0, 1});
    if (!peer_does.empty()) run.lanes.push_back({1, std::nullopt, 0, 1, 0});
    std::size_t done[2] = {0, 0};
    Journeys journeys;
    sim::RunSetup setup;
    setup.recipe = &recipe;
    setup.run = &run;
    setup.observer = &journeys;
    setup.next_op = [&](std::uint32_t warp, Op& op) {
      const std::vector<OpKind>& script = warp == 0 ? does : peer_does;
      if (done[warp] == rounds * script.size()) return false;
      op = {};
      op.kind = script[done[warp]++ % script.size()];
      op.bytes = bytes;
      return true;
    };
    machine_.clear_counters();
    machine_.run(setup);
    return journeys;
  }
  /// A message, of ten.
  double each(std::string_view block, std::string_view counter) const {
    return counted(machine_, block, counter) / 10;
  }
  sim::Machine machine_{config::bind(config::load_system(kConfigs + "/systems/steve.yaml"))};
};

const std::vector<OpKind> kPutAndWait = {OpKind::kPut, OpKind::kQuiet};

TEST_F(Perftest, PushesAnEntryWithItsPayloadSoThatTheNicReadsNothing) {
  play({}, kPutAndWait);
  EXPECT_EQ(each("cores", "stores to memory"), 1 + 1 + 1) << "payload, entry, record";
  EXPECT_EQ(each("cores", "stores to registers"), 1);
  EXPECT_EQ(each("cores", "store fences"), 2);
  EXPECT_EQ(each("nic0.requester", "of them pushed entries"), 1);
  EXPECT_EQ(each("nic0.requester", "entry fetches"), 0);
  EXPECT_EQ(each("nic0", "DMA reads"), 0);
  EXPECT_EQ(each("nic0", "DMA writes"), 1) << "the completion";
}

TEST_F(Perftest, RingsOnceAndLetsTheNicFetchTheEntry) {
  play({{"post", "doorbell"}}, kPutAndWait);
  EXPECT_EQ(each("cores", "stores to registers"), 1);
  EXPECT_EQ(each("nic0.requester", "of them pushed entries"), 0);
  EXPECT_EQ(each("nic0.requester", "entry fetches"), 1);
  EXPECT_EQ(each("nic0", "DMA reads"), 1);
}

TEST_F(Perftest, LetsTheNicReadAPayloadThatIsPointedTo) {
  play({{"payload", "write"}, {"source", "gpu"}, {"target", "gpu"}}, kPutAndWait);
  EXPECT_EQ(each("cores", "stores to memory"), 1 + 1) << "entry, record: the payload is the GPU's";
  EXPECT_EQ(each("nic0", "DMA reads"), 1);
}

// 16 B of control, 16 B of remote address, 4 B of header and the payload, in blocks of 64 B.
TEST_F(Perftest, TakesTheBlocksThatAnInlinePayloadNeedsAndPointsToALongerOne) {
  const std::vector<std::pair<std::uint64_t, double>> blocks = {
      {8, 1}, {28, 1}, {29, 2}, {64, 2}, {92, 2}, {93, 3}, {220, 4}, {221, 1}};
  for (const auto& [bytes, wanted] : blocks) {
    SCOPED_TRACE(bytes);
    const Journeys journeys = play({{"post", "doorbell"}}, kPutAndWait, bytes);
    EXPECT_EQ(each("nic0.requester", "entries fetched"), wanted);
    EXPECT_EQ(each("nic0", "DMA reads"), bytes > 220 ? 2 : 1)
        << "the entry, a payload beyond 220 B";
    ASSERT_EQ(journeys.all.size(), 10u);
    EXPECT_EQ(static_cast<double>(journeys.all[9].index), 9 * wanted);
    play({}, kPutAndWait, bytes);
    EXPECT_EQ(each("nic0.requester", "of them pushed entries"), 1);
    EXPECT_EQ(each("nic0.requester", "entry fetches"), 0);
  }
}

TEST_F(Perftest, GoesRoundItsRingWithEntriesOfSeveralBlocks) {
  for (const std::uint64_t bytes : {std::uint64_t{64}, std::uint64_t{220}})
    for (const char* post : {"blueflame", "doorbell"}) {
      SCOPED_TRACE(post);
      // 1024 blocks hold 512 or 256 entries; the thread does not wait for each.
      EXPECT_EQ(play({{"post", post}}, {OpKind::kPut}, bytes, 1500).all.size(), 1500u);
    }
}

TEST_F(Perftest, TellsTheReceiverOfAWriteWithImmediateByACompletion) {
  play({{"immediate", "yes"}}, {OpKind::kPut, OpKind::kWait}, 8, 10, {OpKind::kWait, OpKind::kPut});
  EXPECT_EQ(each("nic1", "DMA writes"), 3) << "payload, its completion, the own put's completion";
  play({}, {OpKind::kPut, OpKind::kWait}, 8, 10, {OpKind::kWait, OpKind::kPut});
  EXPECT_EQ(each("nic1", "DMA writes"), 2) << "a plain write tells nobody";
}

TEST_F(Perftest, LetsNoReceiverGoOnBeforeTheWriteIsThere) {
  // Each round trip is two ways of NIC, cable and NIC at least.
  const Journeys journeys =
      play({}, {OpKind::kPut, OpKind::kWait}, 512, 10, {OpKind::kWait, OpKind::kPut});
  ASSERT_EQ(journeys.all.size(), 20u);
  for (const Journey& journey : journeys.all) {
    if (journey.pe != 1) continue;
    Ps placed_ps = 0;
    for (const Journey& other : journeys.all)
      if (other.pe == 0 && other.op == journey.op) {
        placed_ps = other.start_ps;
        for (const Stage stage : {Stage::kMmio, Stage::kTranslate, Stage::kPayloadFetch,
                                  Stage::kTransmit, Stage::kWire, Stage::kReceive})
          placed_ps += other.at(stage);
      }
    EXPECT_GT(journey.start_ps, placed_ps);
  }
}

TEST_F(Perftest, PutsAReadsDataIntoItsOwnMemoryAndTellsTheOtherSideNothing) {
  play({}, {OpKind::kGet, OpKind::kQuiet}, 64);
  EXPECT_EQ(each("nic0", "DMA writes"), 2) << "data and completion";
  EXPECT_EQ(each("nic1", "DMA reads"), 1);
  EXPECT_EQ(each("nic1", "DMA writes"), 0);
}

}  // namespace
}  // namespace marrow
