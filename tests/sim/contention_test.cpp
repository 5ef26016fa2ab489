// What do several at once take from each other: lanes at an SM's port, queues that a lane goes
// round, background warps on a queue, traffic on links and at a switch's port?
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/common/error.h"
#include "sim/results/metrics.h"
#include "sim/work.h"
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";

class Contention : public SystemC {
 protected:
  static config::Recipe recipe(const std::string& name,
                               const std::map<std::string, std::string>& choices = {}) {
    return config::load_recipe(config::recipe_path(name, kConfigs), choices);
  }
  static config::SystemSpec p_ib(const std::vector<std::string>& sets = {}) {
    return config::bind(config::load_system(kConfigs + "/systems/p-ib.yaml", sets));
  }
  static double median(const config::SystemSpec& spec, const config::Recipe& recipe,
                       const sim::Work& work, results::Metric metric) {
    renew();
    sim::Machine machine(spec);
    results::Observed observed;
    results::Keeper keeper(observed);
    sim::run_work(machine, recipe, work, {"work", 1, &keeper, {}});
    return results::quantile(results::samples(metric, observed), 0.5);
  }
  static sim::Work puts(std::int64_t warps, std::int64_t rounds, std::int64_t bytes) {
    sim::Work work;
    work.does = {OpKind::kPut};
    work.warps = work.queues = warps;
    work.rounds = rounds;
    work.bytes = bytes;
    return work;
  }
};

TEST_F(Contention, LanesOfAnSmShareItsPort) {
  // Three 16 B stores of eight lanes, 100 cycles each at the port beside 10 of a lane's own: spread
  // over SMs a lane takes 30 cycles for them. On one SM all lanes come at once, so that the last
  // one's have left after 8 * 3 * 100 cycles; the first ones' next stores come behind them.
  config::SystemSpec spec = p_ib();
  spec.gpu.store_cycles = spec.gpu.store16_cycles = 10;
  spec.gpu.store_lane_cycles = 100;
  const config::Recipe gda = recipe("mini-gda", {{"ordering", "none"}});
  const auto longest = [&](std::int64_t sms) {
    renew();
    sim::Machine machine(spec);
    sim::Work work = puts(8, 1, 8);
    work.sms = sms;
    Journeys journeys;
    sim::run_work(machine, gda, work, {"work", 1, &journeys, {}});
    Ps most = 0;
    for (const Journey& j : journeys.all) most = std::max(most, j.at(Stage::kWqe));
    return static_cast<double>(most) / kPsPerNs * spec.gpu.sm_clock_ghz;  // cycles
  };
  EXPECT_NEAR(longest(1) - longest(8), 8 * 3 * 100 - 30, 5);
}

TEST_F(Contention, ALaneGoesRoundItsQueues) {
  renew();
  sim::Machine machine(p_ib());
  sim::Work work = puts(2, 16, 8);
  work.queues = 8;
  work.visits = 4;
  work.puts_per_visit = 2;
  Journeys journeys;
  sim::run_work(machine, recipe("mini-gda", {{"batch", "64"}}), work, {"work", 1, &journeys, {}});
  for (std::uint32_t warp = 0; warp < 2; ++warp) {
    std::vector<Journey> of = journeys.of(warp);
    std::sort(of.begin(), of.end(), [](const Journey& a, const Journey& b) { return a.op < b.op; });
    ASSERT_EQ(of.size(), 16u);
    for (std::uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(of[i].queue, warp + i / 2 % 4 * 2);  // two a visit, every second queue
      EXPECT_EQ(of[i].index, i % 2 + i / 8 * 2);     // each queue has an index of its own
      EXPECT_EQ(of[i].rang, i % 2 == 1);             // a visit's last rings, whatever the batch
    }
  }
}

TEST_F(Contention, QueuesThatARecipePicksAreNotGoneRound) {
  sim::Machine machine(p_ib());
  sim::Work work = puts(1, 4, 8);
  work.visits = 2;
  work.queues = 2;
  EXPECT_THROW(sim::run_work(machine, recipe("nvshmem-ibgda"), work, {"work", 1, nullptr, {}}),
               InputError);
}

TEST_F(Contention, BackgroundOnTheSameQueueHoldsUpAProbeAndEndsWithIt) {
  sim::Work probe = puts(1, 40, 8);
  probe.does = {OpKind::kPutSignal, OpKind::kWait};
  probe.peer_does = {OpKind::kWait, OpKind::kPutSignal};
  const config::Recipe gdaki = recipe("gdaki", {{"publish", "load"}, {"doorbell_record", "false"}});
  const auto round_trip = [&] { return median(p_ib(), gdaki, probe, results::Metric::kRoundTrip); };
  const double idle_ns = round_trip();
  sim::BackgroundWarps bulk;
  bulk.does = {OpKind::kPut};
  bulk.warps = 16;
  bulk.first_queue = 1;
  probe.background = {bulk};
  const double reserved_ns = round_trip();
  probe.background[0].first_queue = 0;
  const double shared_ns = round_trip();
  EXPECT_LT(reserved_ns, 1.5 * idle_ns);
  // They publish in turn and are never done: all sixteen stand before the probe. Each hands over by
  // a store that the next one's load sees, a trip to the L2 and back, and a fence.
  const double hand_over_ns =
      (p_ib().gpu.load_cycles + p_ib().gpu.fence_gpu_cycles) / p_ib().gpu.l2_clock_ghz;
  EXPECT_GT(shared_ns, idle_ns + 15 * hand_over_ns);
  EXPECT_LT(shared_ns, idle_ns + 17 * 2 * hand_over_ns);
}

// As many lanes as slots, and twice as many: puts that nobody waits for are all sent, or refused.
TEST_F(Contention, MoreLanesThanSlotsShareAQueue) {
  const std::vector<std::pair<std::string, std::map<std::string, std::string>>> recipes = {
      {"gdaki", {}},
      {"gdaki", {{"publish", "load"}, {"doorbell_record", "false"}}},
      {"nvshmem-ibgda", {}},
      {"mini-gda", {{"sharing", "handoff"}, {"depth", "128"}}},
      {"mini-gda", {{"sharing", "lock"}, {"depth", "128"}}}};
  for (const auto& [name, choices] : recipes)
    for (const bool twice : {false, true}) {
      const config::Recipe of = recipe(name, choices);
      renew();
      sim::Machine machine(p_ib());
      sim::Work work = puts(of.program.depth * (twice ? 2 : 1), 3, 8);
      work.queues = 1;
      Journeys journeys;
      // An owner bit tells no more than two passes apart: lanes that are more than slots could take
      // an old completion for theirs.
      if (name == "gdaki" && twice) {
        EXPECT_THROW(sim::run_work(machine, of, work, {"work", 1, &journeys, {}}), InputError);
        continue;
      }
      sim::run_work(machine, of, work, {"work", 1, &journeys, {}});
      EXPECT_EQ(journeys.all.size(), static_cast<std::size_t>(work.warps) * 3) << name << twice;
    }
}

// A lane that the lock held up while a whole pass of the ring completed finds the owner bit of the
// next one, and waits for ever: it is said why.
TEST_F(Contention, ALaneThatLooksAWholePassLateIsToldWhy) {
  int stuck = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    renew();
    sim::Machine machine(p_ib());
    sim::Work work = puts(128, 20, 8);
    work.queues = 1;
    work.wait_every = 20;
    try {
      sim::run_work(machine, recipe("gdaki"), work, {"work", seed, nullptr, {}});
    } catch (const InputError& error) {
      ++stuck;
      EXPECT_NE(std::string(error.what()).find("owner bit"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("more queues"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(stuck, 0);  // else it is mended: take the message out
}

TEST_F(Contention, PacedBackgroundSendsAtItsPace) {
  renew();
  sim::Machine machine(p_ib());
  sim::Work work = puts(1, 1, 8);
  work.does = {OpKind::kPut, OpKind::kQuiet};
  work.rounds = 100;
  sim::BackgroundWarps bulk;
  bulk.does = {OpKind::kPut};
  bulk.warps = bulk.queues = 4;
  bulk.first_queue = 1;
  bulk.mmsgs = 2;  // one every two microseconds for each of four
  work.background = {bulk};
  Journeys journeys;
  sim::run_work(machine, recipe("mini-gda"), work, {"work", 1, &journeys, {}});
  EXPECT_EQ(journeys.all.size(), 100u);  // background is not told of
  Ps end_ps = 0;
  for (const Journey& j : journeys.all) end_ps = std::max(end_ps, j.start_ps + j.end_to_end_ps());
  const double sent = counted(machine, "nic0.requester", "messages") - 100;
  EXPECT_NEAR(sent, static_cast<double>(end_ps) / 1e6 * 2, 8);
}

TEST_F(Contention, TrafficTakesItsShareOfALink) {
  // At 800 Gb/s of wire PCIe binds: 63.0 B/ns less 5 % for DLLPs are 59.9, 256 B of 276. With 200
  // Gb/s of others' payload, 25 B/ns in TLPs of 256 of 280 B: 59.9 - 27.3 = 32.6; 30.2 of payload.
  sim::Work work = puts(16, 40, 1 << 20);
  work.traffic = {{trace::Traffic::Place::kNicLinkDown, 0, 200, 4096}};
  const double left =
      median(p_ib({"wire.rate_gbps=800"}), recipe("mini-gda", {{"payload", "write"}}), work,
             results::Metric::kGoodput);
  EXPECT_NEAR(left, 30.2, 1.5);
}

TEST_F(Contention, IncastTakesItsShareOfASwitchPort) {
  // 25 B/ns at 200 Gb/s, of which others take 12.5; 4096 B of 4138 are payload.
  sim::Work work = puts(16, 40, 1 << 20);
  work.traffic = {{trace::Traffic::Place::kWire, 1, 100, 4096}};
  const double left =
      median(p_ib(), recipe("mini-gda", {{"payload", "write"}}), work, results::Metric::kGoodput);
  EXPECT_NEAR(left, 12.5 * 4096 / 4138, 0.4);
}

TEST_F(Contention, TrafficAtAPlaceThatIsNotThereIsRefused) {
  sim::Machine machine(p_ib());
  sim::Work work = puts(1, 1, 8);
  work.traffic = {{trace::Traffic::Place::kWire, 7, 100, 4096}};
  EXPECT_THROW(sim::run_work(machine, recipe("mini-gda"), work, {"work", 1, nullptr, {}}),
               InputError);
}

TEST_F(Contention, ConnectionsBeyondTheCacheSlowANicThatReceives) {
  // 128 contexts, one for each direction; each NIC sends to as many queue pairs as it receives
  // from, 32 messages a visit. Known: one engine, 3.89 + 2.86 ns a message: 148 M/s. Never known: a
  // context fetch of 860 ns, two at once, a visit: 32 / 430 ns = 74 M/s.
  const auto rate = [&](std::int64_t queues, bool both) {
    sim::Work work = puts(64, 32 * 16, 8);
    work.queues = queues;
    work.visits = queues / 64;
    work.puts_per_visit = 32;
    if (both) work.peer_does = {OpKind::kPut};
    return median(p_ib({"nic.contexts_count=128", "nic.miss_ns=860"}),
                  recipe("mini-gda", {{"batch", "32"}, {"depth", "64"}}), work,
                  results::Metric::kRate);
  };
  EXPECT_NEAR(rate(64, true), 148, 7);
  EXPECT_NEAR(rate(256, true), 74, 5);
}

}  // namespace
}  // namespace marrow
