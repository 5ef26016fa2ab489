// Do the proxies' recipes make the transactions of their sources (path.md, sections 2, 3, 7.1 and
// 7.2), and does what they choose (rings, workers, clock, place of the completion) show?
#include "models/common/error.h"
#include "sim/results/quantiles.h"
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";
using Choices = std::map<std::string, std::string>;
constexpr std::size_t kRounds = 10;

class Proxy : public SystemC {
 protected:
  /// So many lanes, each with a queue of its own, do the script so many rounds.
  Journeys play(const std::string& protocol, const Choices& choices, std::vector<OpKind> does,
                std::size_t rounds = kRounds, std::uint32_t lanes = 1, bool waits = false,
                std::uint32_t queues = 0) {
    const config::Recipe recipe =
        config::load_recipe(kConfigs + "/protocols/" + protocol + ".yaml", choices);
    trace::Run run;
    run.name = "by hand";
    run.queues = queues > 0 ? queues : lanes;
    for (std::uint32_t lane = 0; lane < lanes; ++lane)
      run.lanes.push_back({lane, std::nullopt, lane % run.queues, 0, 1});
    std::vector<std::size_t> done(lanes, 0);
    Journeys journeys;
    sim::RunSetup setup;
    setup.recipe = &recipe;
    setup.run = &run;
    setup.observer = &journeys;
    setup.next_op = [&](std::uint32_t warp, Op& op) {
      if (done[warp] == rounds * does.size()) return false;
      op = {};
      op.kind = does[done[warp]++ % does.size()];
      op.bytes = 8;
      op.wait = waits;
      op.flush = done[warp] == rounds * does.size();
      return true;
    };
    machine_.clear_counters();
    machine_.run(setup);
    return journeys;
  }
  double each(std::string_view block, std::string_view counter) const {
    return counted(machine_, block, counter) / kRounds;
  }
  static double mean_ns(const Journeys& journeys, Stage stage) {
    double sum = 0;
    for (const Journey& journey : journeys.all) sum += static_cast<double>(journey.at(stage));
    return sum / static_cast<double>(journeys.all.size()) / 1000;
  }
  sim::Machine machine_{config::bind(config::load_system(kConfigs + "/systems/p-ib.yaml"))};
};

TEST_F(Proxy, WritesARequestOfIbrcInFourWordsAndPushesItsEntry) {
  play("nvshmem-ibrc", {}, {OpKind::kPut});
  EXPECT_EQ(each("gpu0_l2", "host stores"), 4);
  EXPECT_EQ(each("pcie.up", "MemWr (posted)"), 4) << "of 8 B each";
  EXPECT_EQ(each("gpu0_l2", "atomics"), 1);
  EXPECT_EQ(each("gpu0_l2", "host loads"), 0);
  EXPECT_EQ(each("nic0.requester", "of them pushed entries"), 1);
  EXPECT_EQ(each("nic0.requester", "entry fetches"), 0);
  EXPECT_EQ(each("nic0", "DMA reads"), 1) << "the payload";
  EXPECT_EQ(each("nic0", "DMA writes"), 1) << "the completion, into host memory";
}

TEST_F(Proxy, WritesAPutWithSignalOfIbrcInSixWords) {
  play("nvshmem-ibrc", {}, {OpKind::kPutSignal});
  EXPECT_EQ(each("gpu0_l2", "host stores"), 6);
  EXPECT_EQ(each("nic0.requester", "of them pushed entries"), 2) << "two requests to the transport";
  EXPECT_EQ(each("nic1.responder", "of them atomics"), 1);
}

TEST_F(Proxy, AcknowledgesAQuietOfIbrcOnlyWhenAllHasCompleted) {
  const Journeys journeys = play("nvshmem-ibrc", {}, {OpKind::kPut, OpKind::kQuiet}, 200);
  ASSERT_EQ(journeys.all.size(), 200u);
  for (std::size_t i = 1; i < journeys.all.size(); ++i)
    EXPECT_GT(journeys.all[i].start_ps,
              journeys.all[i - 1].start_ps + journeys.all[i - 1].end_to_end_ps())
        << "a quiet lies between the two";
}

TEST_F(Proxy, WritesADescriptorOfGinInEightStoresAndRingsForAList) {
  play("gin-proxy", {{"consumer_index", "gpu"}}, {OpKind::kPut});
  EXPECT_EQ(each("gpu0_l2", "host stores"), 8);
  EXPECT_EQ(each("pcie.up", "MemWr (posted)"), 8) << "of 16 B each";
  EXPECT_EQ(each("gpu0_l2", "atomics"), 1);
  EXPECT_EQ(each("nic0.requester", "of them pushed entries"), 1);
  EXPECT_EQ(each("cores", "stores to GPU memory"), 1) << "the consumer index";
  EXPECT_EQ(each("gpu0_l2", "host loads"), 0);
  play("gin-proxy", {{"consumer_index", "gpu"}}, {OpKind::kPutSignal});
  EXPECT_EQ(each("gpu0_l2", "host stores"), 8);
  EXPECT_EQ(each("nic0.requester", "of them pushed entries"), 0);
  EXPECT_EQ(each("nic0.requester", "entries fetched"), 2);
  EXPECT_EQ(each("nic0.requester", "completions"), 1) << "the last of the list asks";
  play("gin-proxy", {}, {OpKind::kPut});
  EXPECT_EQ(each("cores", "stores to GPU memory"), 0) << "without GDRCopy it stays in host memory";
  EXPECT_EQ(each("gpu0_l2", "host loads"), 1);
}

TEST_F(Proxy, EnqueuesForTheTunedProxyWithOneStoreAndNoRead) {
  play("mini-proxy", {}, {OpKind::kPut});
  EXPECT_EQ(each("gpu0_l2", "host stores"), 1);
  EXPECT_EQ(each("gpu0_l2", "host loads"), 0);
  EXPECT_EQ(each("gpu0_l2", "atomics"), 0);
  EXPECT_EQ(each("gpu0.sm", "fences sys"), 0);
  EXPECT_EQ(each("cores", "stores to GPU memory"), 1);
  EXPECT_EQ(each("nic0", "DMA reads"), 0) << "entry and payload are pushed";
  play("mini-proxy", {{"variant", "baseline"}}, {OpKind::kPut});
  EXPECT_EQ(each("gpu0_l2", "host stores"), 1);
  EXPECT_EQ(each("gpu0_l2", "host loads"), 1) << "the progress";
  EXPECT_EQ(each("gpu0_l2", "atomics"), 1);
  EXPECT_EQ(each("gpu0.sm", "fences sys"), 1);
  EXPECT_EQ(each("cores", "stores to GPU memory"), 0);
}

TEST_F(Proxy, AsksForOneCompletionOfAListAndRingsOnceForIt) {
  // One worker for eight rings falls behind, so that lists form.
  play("mini-proxy", {{"batch", "16"}}, {OpKind::kPut}, 500, 8);
  const double messages = counted(machine_, "nic0.requester", "messages");
  EXPECT_EQ(messages, 4000);
  EXPECT_LT(counted(machine_, "nic0.requester", "completions"), messages / 8);
  EXPECT_LT(counted(machine_, "nic0.requester", "doorbells"), messages / 8);
}

TEST_F(Proxy, PushesAnEntryBehindAListThatTheNicIsStillFetching) {
  // Two lanes of one ring: lists of four and single entries follow each other within a fetch's
  // time.
  const Choices choices = {
      {"producers", "many"}, {"batch", "4"}, {"payload", "write"}, {"worker", "warm"}};
  using enum OpKind;
  const Journeys journeys =
      play("mini-proxy", choices, {kPut, kPut, kPut, kPut, kPut, kQuiet}, 20, 2, false, 1);
  EXPECT_EQ(journeys.all.size(), 2u * 20 * 5);
}

TEST_F(Proxy, LetsACpuThreadRingForEntriesThatTheGpuBuilt) {
  for (const auto& [protocol, handler, bells] :
       {std::tuple{"nvshmem-ibgda", "cpu", 1}, std::tuple{"nvshmem-ibgda", "cpu_host_memory", 1},
        std::tuple{"gdaki", "cpu", 2}, std::tuple{"mini-gda", "cpu", 1}}) {
    SCOPED_TRACE(std::string(protocol) + " " + handler);
    play(protocol, {{"nic_handler", handler}}, {OpKind::kPut, OpKind::kQuiet});
    EXPECT_EQ(each("cores", "stores to registers"), bells);
    EXPECT_EQ(each("nic0.requester", "doorbells"), bells) << "none from the GPU";
    EXPECT_EQ(each("nic0.requester", "entry fetches"), 1);
  }
}

TEST_F(Proxy, NoticesADoorbellLaterTheMoreQueuePairsItScansThroughTheBar) {
  // A read through the BAR takes 852 ns and what the core adds, so 30 queue pairs more make the
  // mean wait, half a pass, at least 15 * 852 ns longer.
  const auto notice = [&](std::uint32_t queues, const char* handler) {
    return mean_ns(play("nvshmem-ibgda", {{"nic_handler", handler}}, {OpKind::kPut, OpKind::kQuiet},
                        300, 1, false, queues),
                   Stage::kProxyNotice);
  };
  const double few = notice(2, "cpu"), many = notice(32, "cpu");
  EXPECT_GT(many - few, 0.9 * 15 * 852);
  EXPECT_LT(many - few, 1.5 * 15 * 1000);
  EXPECT_LT(notice(32, "cpu_host_memory") - notice(2, "cpu_host_memory"), 1000)
      << "words in host memory are cached";
}

TEST_F(Proxy, HoldsLanesBackWhenTheRingIsFull) {
  const Journeys journeys = play("mini-proxy", {}, {OpKind::kPut}, 3000);
  ASSERT_EQ(journeys.all.size(), 3000u);
  bool held = false;
  for (std::size_t i = 1024; i < journeys.all.size(); ++i) {
    const Journey &put = journeys.all[i], &before = journeys.all[i - 1024];
    held |= put.at(Stage::kSlot) > 100'000;
    EXPECT_GE(put.start_ps + put.at(Stage::kSlot), before.start_ps + before.end_to_end_ps())
        << "descriptor " << i << " takes the place of one that has completed";
  }
  EXPECT_TRUE(held);
}

TEST_F(Proxy, TellsAWaitingLaneAllOfItsMessagesTime) {
  for (const char* protocol : {"mini-proxy", "gin-proxy"})
    for (const Journey& journey : play(protocol, {}, {OpKind::kPut}, 20, 1, true).all) {
      EXPECT_EQ(journey.end_to_end_ps(), journey.put_ps()) << "stages tile";
      for (const Stage stage : {Stage::kEnqueue, Stage::kProxyNotice, Stage::kProxyPost,
                                Stage::kCqeWrite, Stage::kProxyComplete})
        EXPECT_GT(journey.at(stage), 0) << protocol << ' ' << name(stage);
    }
}

TEST_F(Proxy, CarriesMoreWithAWarmWorkerAndWithMoreOfThem) {
  const auto lasts = [&](const Choices& choices) {
    Ps end_ps = 0;
    for (const Journey& j : play("mini-proxy", choices, {OpKind::kPut}, 300, 8).all)
      end_ps = std::max(end_ps, j.start_ps + j.end_to_end_ps());
    return static_cast<double>(end_ps);
  };
  const double cold = lasts({});
  EXPECT_LT(lasts({{"worker", "warm"}}), 0.6 * cold) << "2.2 times as fast, but for the way";
  EXPECT_LT(lasts({{"workers", "4"}}), 0.4 * cold);
}

TEST_F(Proxy, RefusesWhatTheRecipeDoesNotKnow) {
  const auto complaint = [](const Choices& choices) -> std::string {
    try {
      config::load_recipe(kConfigs + "/protocols/mini-proxy.yaml", choices);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(complaint({{"variant", "fast"}}).find("baseline, tuned"), std::string::npos);
  EXPECT_NE(complaint({{"worker", "hot"}}).find("cold, warm"), std::string::npos);
  EXPECT_NE(complaint({{"clock", "warm"}}).find("no choice 'clock'"), std::string::npos);
  EXPECT_THROW(play("mini-proxy", {}, {OpKind::kPutSignal}), InputError);
}

}  // namespace
}  // namespace marrow
