// Do several processing elements talk to each other through their NICs, each message to its end,
// and does a run that cannot end say why?
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";

class FarSide : public SystemC {
 protected:
  static config::SystemSpec p_ib(const std::vector<std::string>& sets = {}) {
    return config::bind(config::load_system(kConfigs + "/systems/p-ib.yaml", sets));
  }
  static config::Recipe recipe(const std::string& name) {
    return config::load_recipe(config::recipe_path(name, kConfigs), {});
  }
  /// One lane on each element, each with `puts` puts to the next.
  static Journeys ring(sim::Machine& machine, const config::Recipe& recipe, std::uint32_t pes,
                       std::uint64_t puts, bool wait = true, OpKind kind = OpKind::kPut,
                       std::uint64_t bytes = 8) {
    trace::Run run;
    run.name = "ring";
    run.queues = 1;
    for (std::uint32_t pe = 0; pe < pes; ++pe) {
      trace::Lane lane{pe, 0, 0};
      lane.pe = pe;
      run.lanes.push_back(lane);
    }
    std::vector<std::uint64_t> left(pes, puts);
    Journeys journeys;
    sim::RunSetup setup;
    setup.recipe = &recipe;
    setup.run = &run;
    setup.observer = &journeys;
    setup.next_op = [&](std::uint32_t warp, gpu::Op& op) {
      op = {kind, bytes, left[warp] == 1, wait, 0};
      return left[warp]-- > 0;
    };
    machine.run(setup);
    return journeys;
  }
};

TEST_F(FarSide, TalksEachOfFourElementsToItsPeer) {
  for (const char* const name : {"gdaki", "nvshmem-ibgda"}) {
    SCOPED_TRACE(name);
    renew();
    sim::Machine machine(p_ib({"cluster.pes_count=4"}));
    const Journeys journeys = ring(machine, recipe(name), 4, 10, false);
    std::map<std::uint32_t, int> of;
    for (const Journey& journey : journeys.all) {
      ++of[journey.pe];
      EXPECT_EQ(journey.warp, journey.pe);
    }
    EXPECT_EQ(of, (std::map<std::uint32_t, int>{{0, 10}, {1, 10}, {2, 10}, {3, 10}}));
    // Each NIC is the responder of one neighbour's ten requests.
    for (int nic = 0; nic < 4; ++nic)
      EXPECT_EQ(counted(machine, "nic" + std::to_string(nic) + ".responder", "requests"), 10);
  }
}

TEST_F(FarSide, TakesEverySizeThatAnEntryCanSayAndNoOther) {
  // mlx5's byte count: 31 bits. Nothing at all is a message too.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  for (const OpKind kind : {OpKind::kPut, OpKind::kGet})
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, kMost}) {
      SCOPED_TRACE(std::string(kOpKindNames[static_cast<std::size_t>(kind)]) + " of " +
                   std::to_string(bytes));
      renew();
      sim::Machine machine(p_ib());
      EXPECT_EQ(ring(machine, recipe("nvshmem-ibgda"), 2, 2, false, kind, bytes).all.size(), 4u);
    }
  renew();
  sim::Machine machine(p_ib());
  EXPECT_THROW(ring(machine, recipe("nvshmem-ibgda"), 2, 2, false, OpKind::kPut, kMost + 1),
               InputError);
}

TEST_F(FarSide, CompletesAPutWithSignalWithItsSignal) {
  // GDAKI asks for a CQE for each of the two entries. The atomic's answer comes one read of far
  // memory later than the put's acknowledgement would: twice the switch's and the GPU's way, 620
  // ns.
  sim::Machine machine(p_ib());
  const Journeys put = ring(machine, recipe("gdaki"), 2, 5);
  renew();
  sim::Machine again(p_ib());
  const Journeys signal = ring(again, recipe("gdaki"), 2, 5, false, OpKind::kPutSignal);
  const auto ack = [](const Journeys& journeys) { return journeys.all.back().at(Stage::kAck); };
  EXPECT_GT(ack(signal) - ack(put), 600'000);
  EXPECT_LT(ack(signal) - ack(put), 700'000);
}

TEST_F(FarSide, WorksWithQueuesInHostMemoryAndCountsTheReads) {
  config::Recipe host = recipe("gdaki");
  for (Region& region : host.program.regions)
    if (region.name == "cq" || region.name == "ring") region.memory = MemoryKind::kHost;
  {
    sim::Machine near(p_ib());
    ring(near, recipe("gdaki"), 2, 5);
    EXPECT_EQ(counted(near, "gpu0_l2", "host loads"), 0);
  }
  renew();
  sim::Machine far(p_ib());
  const Journeys in_host = ring(far, host, 2, 5);
  ASSERT_EQ(in_host.all.size(), 10u);
  // The poll of a CQE crosses PCIe: one host load a put at least.
  EXPECT_GE(counted(far, "gpu0_l2", "host loads"), 5);
}

TEST_F(FarSide, CarriesEverythingOverALossyWireAlikeForTheSameSeed) {
  const std::vector<std::string> lossy{"wire.loss_ratio=0.02", "nic.ack_timeout_us=50"};
  std::vector<Ps> starts[2];
  for (auto& mine : starts) {
    renew();
    sim::Machine machine(p_ib(lossy));
    const Journeys journeys = ring(machine, recipe("gdaki"), 2, 500);
    EXPECT_EQ(journeys.all.size(), 1000u);
    for (const Journey& journey : journeys.all) mine.push_back(journey.end_to_end_ps());
  }
  EXPECT_EQ(starts[0], starts[1]);
}

TEST_F(FarSide, SaysWhyAQueueStoppedInsteadOfHanging) {
  // Half of all packets lost and no retry: a queue gives up.
  sim::Machine machine(
      p_ib({"wire.loss_ratio=0.5", "nic.ack_timeout_us=20", "nic.retries_count=0"}));
  try {
    ring(machine, recipe("gdaki"), 2, 100);
    FAIL() << "it ended";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("after all retries"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace marrow
