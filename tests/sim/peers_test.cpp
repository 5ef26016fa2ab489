// Do lanes of several GPUs put into each other's memory across NVLink, does their traffic share the
// links in the order of time, and what do system fences wait for?
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/nvlink.h"
#include "tests/support/agents.h"
#include "tests/support/choices.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";

config::SystemSpec pair_of_h200(const std::vector<std::string>& sets = {}) {
  return config::bind(config::load_system(kConfigs + "/systems/h200x2-l.yaml", sets));
}

config::Recipe recipe(const std::string& name, const Choices& choices = {}) {
  return config::load_recipe(config::recipe_path(name, kConfigs), choices);
}

trace::Lane lane(std::uint32_t warp, std::uint32_t queue, std::uint32_t pe, std::uint32_t peer) {
  trace::Lane one{warp, std::nullopt, queue};
  one.pe = pe;
  one.peer = peer;
  return one;
}

/// Every lane does its script `rounds` times, each operation of so many bytes.
Journeys run_lanes(sim::Machine& machine, const config::Recipe& recipe, trace::Run run,
                   const std::vector<std::vector<OpKind>>& scripts, std::size_t rounds,
                   std::uint64_t bytes) {
  run.name = "peers";
  Journeys journeys;
  std::vector<std::size_t> done(run.lanes.size(), 0);
  sim::RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.observer = &journeys;
  setup.next_op = [&](std::uint32_t warp, gpu::Op& op) {
    const std::vector<OpKind>& script = scripts[warp];
    if (done[warp] == rounds * script.size()) return false;
    op = {script[done[warp]++ % script.size()], bytes, false, false, 0};
    return true;
  };
  machine.run(setup);
  return journeys;
}

class Peers : public SystemC {};

TEST_F(Peers, EveryNvlinkRecipePutsSignalsAndWaitsWithEveryChoice) {
  sim::Machine machine(pair_of_h200());
  std::size_t combinations = 0;
  for (const auto& file : std::filesystem::directory_iterator(kConfigs + "/protocols")) {
    if (!config::YamlNode::open(file.path().string()).find("nvlink")) continue;
    for (const Choices& choices : choices_of(file.path().string())) {
      SCOPED_TRACE(file.path().stem().string());
      ++combinations;
      const config::Recipe one = config::load_recipe(file.path().string(), choices);
      trace::Run run;
      run.queues = 2;
      run.lanes = {lane(0, 0, 0, 1), lane(1, 1, 0, 1), lane(2, 0, 1, 0), lane(3, 1, 1, 0)};
      const std::vector<OpKind> asks = {OpKind::kPut, OpKind::kPutSignal};
      const Journeys journeys =
          run_lanes(machine, one, run, {asks, asks, {OpKind::kWait}, {OpKind::kWait}}, 5, 8192);
      ASSERT_EQ(journeys.all.size(), 20u);
      for (const Journey& journey : journeys.all) EXPECT_EQ(journey.pe, 0u);
    }
  }
  EXPECT_GE(combinations, 10u);
}

TEST_F(Peers, FourGpusPutAllToAllAndEachLinkCarriesItsShare) {
  sim::Machine machine(pair_of_h200({"nvlink.peers_count=3"}));
  trace::Run run;
  run.queues = 3;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
    for (std::uint32_t d = 1; d < 4; ++d)
      run.lanes.push_back(lane(static_cast<std::uint32_t>(run.lanes.size()), d - 1, gpu, gpu ^ d));
  const std::vector<std::vector<OpKind>> scripts(12, {OpKind::kPutSignal, OpKind::kWait});
  const Journeys journeys = run_lanes(machine, recipe("nccl-lsa"), run, scripts, 4, 4096);
  EXPECT_EQ(journeys.all.size(), 48u);
  for (int gpu = 0; gpu < 4; ++gpu)
    for (const char* way : {".in", ".out"})
      EXPECT_EQ(counted(machine, "gpu" + std::to_string(gpu) + "_nvlink" + way, "payload"),
                3 * 4 * (4096 + 8))
          << "three partners, four payloads and flags each";
}

TEST_F(Peers, ThreeSendersToOneReceiverTakeThreeTimesItsLinksTime) {
  // 16 blocks of each sender have more than a link carries: what counts is the receiver's.
  const auto took_ps = [&](std::uint32_t senders) {
    renew();
    sim::Machine machine(pair_of_h200({"nvlink.peers_count=3"}));
    trace::Run run;
    run.queues = 16;
    for (std::uint32_t gpu = 1; gpu <= senders; ++gpu)
      for (std::uint32_t block = 0; block < 16; ++block)
        run.lanes.push_back(lane(static_cast<std::uint32_t>(run.lanes.size()), block, gpu, 0));
    const std::vector<std::vector<OpKind>> scripts(run.lanes.size(), {OpKind::kPutSignal});
    const Journeys journeys =
        run_lanes(machine, recipe("nccl-lsa", {{"by", "bulk"}}), run, scripts, 8, 65536);
    Ps end_ps = 0;
    for (const Journey& journey : journeys.all)
      end_ps = std::max(end_ps, journey.start_ps + journey.end_to_end_ps());
    return end_ps;
  };
  const double one = static_cast<double>(took_ps(1)), three = static_cast<double>(took_ps(3));
  // 48 x 8 x 64 KiB at 378 B/ns is 66.6 us; fences and loads come on top of it.
  const NvlinkSpec link = pair_of_h200().nvlink;
  const double least_ps = 1000 * nvlink::train_ns(link, std::uint64_t{48} * 8 * 65536);
  EXPECT_GE(three, least_ps);
  EXPECT_LE(three, 1.5 * least_ps);
  EXPECT_GT(three, 1.8 * one);
}

TEST_F(Peers, AnUnknownPeerAndAMissingGpuAreRefused) {
  sim::Machine machine(pair_of_h200());
  const config::Recipe lsa = recipe("nccl-lsa");
  const auto error = [&](const trace::Run& run) -> std::string {
    try {
      run_lanes(machine, lsa, run, {{OpKind::kPut}}, 1, 8);
    } catch (const InputError& refused) {
      return refused.what();
    }
    return "";
  };
  trace::Run run;
  run.lanes = {lane(0, 0, 0, 2)};
  EXPECT_NE(error(run).find("aims at GPU 2"), std::string::npos);
  run.lanes = {lane(0, 0, 0, 1)};
  run.nvlink_copies = {{0, 2}};
  EXPECT_NE(error(run).find("a copy from GPU 0 to GPU 2"), std::string::npos);
  renew();
  sim::Machine alone(config::bind(config::load_system(kConfigs + "/systems/h200-c.yaml", {})));
  EXPECT_THROW(run_lanes(alone, lsa, run, {{OpKind::kPut}}, 1, 8), InputError);
}

/// Two GPUs' ways to each other: all clocks 1 GHz, nothing spread.
class Port : public SystemC {
 protected:
  Port() {
    config::SystemSpec spec = round_system();
    spec.gpu.fence_sys_cycles = 1000;
    spec.gpu.fence_sys_peer_cycles = 1600;
    spec.nvlink.peers = 1;
    spec.nvlink.rate_gbps = 800;  // 100 B a ns
    spec.nvlink.packet_bytes = 128;
    spec.nvlink.sector_bytes = 32;
    spec.nvlink.sm_store_gbps = 160;  // 20 B a ns
    spec.nvlink.bulk_gbps = 160;
    spec.nvlink.chunk_bytes = 4096;
    spec.nvlink.turn_bytes = 4096;
    spec.nvlink.queue_bytes = 65536;
    spec.nvlink.fence_cycles = 700;
    spec.nvlink.flush_cycles = 100;
    for (int gpu : {0, 1}) {
      hbm_.push_back(std::make_unique<gpu::Hbm>(("hbm" + std::to_string(gpu)).c_str(), spec.gpu));
      l2_.push_back(std::make_unique<gpu::L2>(("l2_" + std::to_string(gpu)).c_str(), spec.gpu, 0,
                                              hbm_.back()->memory()));
      l2_.back()->to_hbm.bind(hbm_.back()->from_l2);
    }
    nvlink_ =
        std::make_unique<sim::Nvlink>(spec, std::vector<gpu::L2*>{l2_[0].get(), l2_[1].get()});
    elaborate();
    placement_.draw(1 << 20, 16, 1, 0);
    placement_.put_all(false);
    for (int gpu : {0, 1}) {
      hbm_[gpu]->reset(placement_.gpu_bytes());
      l2_[gpu]->reset(placement_.gpu_bytes(), &placement_, 1);
    }
    nvlink_->reset(1);
  }
  void fence(std::uint32_t sm, Ps at_ps) {
    ends_.push_back(-1);
    nvlink_->port(0).fence(sm, 1'000'000, at_ps,
                           [this, i = ends_.size() - 1](Ps end_ps) { ends_[i] = end_ps; });
  }
  std::vector<std::unique_ptr<gpu::Hbm>> hbm_;
  std::vector<std::unique_ptr<gpu::L2>> l2_;
  std::unique_ptr<sim::Nvlink> nvlink_;
  Placement placement_;
  std::vector<Ps> ends_;
};

TEST_F(Port, AFenceAloneTakesWhatItTakes) {
  fence(0, 5000);
  run();
  EXPECT_EQ(ends_[0], 5000 + 1'000'000);
}

TEST_F(Port, AFenceWaitsForWhatOtherSmsHaveStoredUntilItAsksForTheFlush) {
  // It asks 700 cycles after its begin; a store is at the L2 100 cycles after its issue.
  fence(0, 0);
  nvlink_->port(0).stored(1, 599'999);
  run();
  EXPECT_EQ(ends_[0], 599'999 + 1'600'000);
}

TEST_F(Port, AFenceDoesNotWaitForAStoreThatComesAfterwards) {
  fence(0, 0);
  nvlink_->port(0).stored(1, 600'000);
  run();
  EXPECT_EQ(ends_[0], 1'000'000);
}

TEST_F(Port, AFenceBehindAnotherOneWaitsForThatFlushAndItsOwn) {
  // The first flush lasts until the store is acknowledged at 1600; the second, 100 more.
  nvlink_->port(0).stored(2, 0);
  fence(0, 0);
  fence(1, 100'000);
  run();
  EXPECT_EQ(ends_[0], 1'600'000);
  EXPECT_EQ(ends_[1], 1'700'000);
}

TEST_F(Port, FencesThatAskDuringAFlushShareTheNextOne) {
  nvlink_->port(0).stored(2, 0);
  for (const Ps at_ps : {0, 100'000, 200'000, 300'000})
    fence(static_cast<std::uint32_t>(at_ps / 100'000), at_ps);
  run();
  EXPECT_EQ(ends_[1], 1'700'000);
  EXPECT_EQ(ends_[2], 1'700'000);
  EXPECT_EQ(ends_[3], 1'700'000);
}

TEST_F(Port, ACopyIsRoundsOfLoadAndStoreAndItsFenceWaitsForTheLastOfThem) {
  // 256 threads: a round is 4096 B. Loads take 200, the port 4096 / 20 = 204.8 ns, the link 41 ns.
  gpu::PeerCopy copy;
  copy.peer = 1;
  copy.threads = 256;
  copy.wrap_bytes = 65536;
  copy.bytes = 8192;
  Ps issued_ps = -1;
  copy.done = [&](Ps at_ps) {
    issued_ps = at_ps;
    fence(0, at_ps);
  };
  nvlink_->port(0).copy(std::move(copy), 0);
  run();
  // A first touch of 32 lines waits some ns for the HBM's channels.
  EXPECT_NEAR(static_cast<double>(issued_ps), 404'800, 5000)
      << "the stores wait for the port alone";
  // Port free at 404.8: the second round leaves it at 609.6 and is on the link for 40.96.
  EXPECT_NEAR(static_cast<double>(ends_[0]), 609'600 + 40'960 + 1'600'000, 5000);
}

}  // namespace
}  // namespace marrow
