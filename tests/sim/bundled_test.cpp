// Does every recipe and system that comes with marrow run, and do the messages it replays add up?
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "sim/config/system.h"
#include "tests/support/agents.h"
#include "tests/support/choices.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

namespace fs = std::filesystem;
const std::string kConfigs = MARROW_SOURCE_DIR "/configs";

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(kConfigs + "/" + folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string text(const std::string& file, const Choices& choices) {
  std::string all = fs::path(file).stem().string();
  for (const auto& [name, value] : choices) all += " " + name + "=" + value;
  return all;
}

/// Puts of which every fourth and the last is waited for.
std::vector<gpu::Op> puts(std::size_t count, std::uint64_t bytes = 64) {
  std::vector<gpu::Op> all = unwaited(count, bytes);
  for (std::size_t i = 3; i < count; i += 4) all[i].wait = all[i].flush = true;
  all.back().wait = all.back().flush = true;
  return all;
}

config::SystemSpec system(const std::string& name, const std::vector<std::string>& sets = {}) {
  return config::bind(config::load_system(kConfigs + "/systems/" + name + ".yaml", sets));
}

/// The seed's own placement.
const auto kDrawn = [](const QueueLayout&, Placement&) {};

class Bundled : public SystemC {};

TEST_F(Bundled, RecipesRunWithEveryChoiceAndTheirMessagesTile) {
  std::size_t combinations = 0;
  sim::Machine machine(system("h200x2-f"));  // the one with a peer
  for (const std::string& file : files_of("protocols"))
    for (const Choices& choices : choices_of(file)) {
      SCOPED_TRACE(text(file, choices));
      ++combinations;
      const config::Recipe recipe = config::load_recipe(file, choices);
      if (recipe.program.nic.present) continue;     // far_side_test has those
      if (recipe.program.nvlink.present) continue;  // peers_test has those
      // Two lanes share a queue, so entries are also announced by the other lane; one is alone.
      const Journeys journeys =
          replay(machine, recipe, {{0, 0, puts(41)}, {2, 0, puts(41)}, {4, 1, puts(41)}}, kDrawn);
      ASSERT_EQ(journeys.all.size(), 3 * 41u);
      std::map<std::uint32_t, std::uint64_t> next;
      for (const Journey& journey : journeys.all) {
        EXPECT_EQ(journey.index, next[journey.queue]++) << "queues complete in their order";
        for (const Ps stage_ps : journey.stage_ps) EXPECT_GE(stage_ps, 0);
        if (journey.waited) {
          // The lane saw the completion: both views of the message end there.
          EXPECT_EQ(journey.put_ps(), journey.end_to_end_ps());
        }
        EXPECT_EQ(journey.end_to_end_ps(),
                  std::accumulate(journey.stage_ps.begin(), journey.stage_ps.end(), Ps{0}));
      }
      for (std::uint32_t warp = 0; warp < 3; ++warp) {
        Ps until = 0;
        for (const Journey& journey : journeys.of(warp)) {
          EXPECT_GE(journey.start_ps, until) << "a lane does one put after the other";
          until = journey.start_ps + journey.put_ps();
        }
      }
    }
  EXPECT_GE(combinations, 2 * 4u + 2 * 18u) << "two device recipes and two host recipes at least";
}

TEST_F(Bundled, RecipesKeepTheRingsOrderPastItsEnd) {
  sim::Machine machine(system("h200-b"));
  for (const std::string& file : files_of("protocols")) {
    SCOPED_TRACE(file);
    config::Recipe recipe = config::load_recipe(file, {});
    if (recipe.program.nic.present || recipe.program.nvlink.present) continue;
    const std::uint64_t depth = recipe.program.depth;
    const Journeys journeys = replay(machine, recipe, {{0, 0, puts(depth + 300, 0)}}, kDrawn);
    ASSERT_EQ(journeys.all.size(), depth + 300);
    for (std::size_t i = depth; i < journeys.all.size(); ++i) {
      const Journey& before = journeys.all[i - depth];
      const Journey& reuses = journeys.all[i];
      EXPECT_GE(reuses.start_ps + reuses.at(Stage::kLookup) + reuses.at(Stage::kSlot),
                before.start_ps + before.end_to_end_ps());
    }
  }
}

/// What a put of this recipe does, from the run's counters: ten puts that are waited for.
class Counts : public Bundled {
 protected:
  void count(const std::string& protocol, const std::vector<std::string>& sets = {}) {
    machine_.clear_counters();
    replay(machine_, config::load_recipe(config::recipe_path(protocol, kConfigs), {}, sets),
           {{0, 0, waited(10)}}, kDrawn);
  }
  double a_put(std::string_view block, std::string_view counter) const {
    return counted(machine_, block, counter) / 10;
  }
  sim::Machine machine_{system("h200-c")};
};

// Expected counts: path.md, section 7.1, memory instructions of an isolated message. NVSHMEM put on
// an RC queue pair: 12 x 4 B of entry, QP counter, doorbell record, doorbell, unlock; 4 atomics; 3
// GPU-scope fences.
TEST_F(Counts, OfAnIbgdaPutAreThoseOfItsSource) {
  count("capture-ibgda");
  EXPECT_EQ(a_put("gpu0.sm", "messages"), 1);
  EXPECT_EQ(a_put("gpu0.sm", "store instructions"), 12 + 1 + 1 + 1 + 1);
  EXPECT_EQ(a_put("gpu0_l2", "atomics"), 4);
  EXPECT_EQ(a_put("gpu0.sm", "fences gpu"), 3);
  EXPECT_EQ(a_put("gpu0.sm", "fences sys"), 0);
}

// The same of a GDAKI put in GPU sharing mode: 3 x 16 B, doorbell record, two doorbells, unlock; 4
// atomics.
TEST_F(Counts, OfAGdakiPutAreThoseOfItsSource) {
  count("capture-gdaki");
  EXPECT_EQ(a_put("gpu0.sm", "store instructions"), 3 + 1 + 2 + 1);
  EXPECT_EQ(a_put("gpu0_l2", "atomics"), 4);
  EXPECT_EQ(a_put("gpu0.sm", "fences sys"), 0);
}

// Queues in host memory: each store crosses PCIe as a posted write, the entry's four of 16 B as
// one.
TEST_F(Counts, OfAPutThroughHostMemoryShowOnTheLink) {
  count("capture-host-gdaki");
  EXPECT_EQ(a_put("gpu0.sm", "store instructions"), 4 + 1 + 1) << "entry, record, doorbell";
  EXPECT_GE(a_put("pcie.up", "MemWr (posted)"), 2) << "record and doorbell at least";
  EXPECT_EQ(a_put("pcie.down", "CplD (completions)"), a_put("pcie.up", "MemRd (non-posted)"));
  EXPECT_EQ(a_put("gpu0.sm", "polls"), a_put("pcie.up", "MemRd (non-posted)"));
}

TEST_F(Counts, ChangeWithTheRecipe) {
  count("capture-ibgda", {"wqe.bytes=16", "wqe.count=3"});
  EXPECT_EQ(a_put("gpu0.sm", "store instructions"), 3 + 4);
  count("capture-ibgda", {"wqe_fence.scope=cta"});
  EXPECT_EQ(a_put("gpu0.sm", "fences gpu"), 2);
}

// nvshmem_quiet visits each queue pair of the other processing element once, and none of its own:
// published index, completion queue, consumer index.
TEST_F(Bundled, ANvshmemQuietReadsThreeWordsOfEachQueuePairOfItsPeer) {
  const auto loads = [](std::uint32_t queues) {
    renew();
    sim::Machine machine(system("p-ib"));
    replay(machine, config::load_recipe(config::recipe_path("nvshmem-ibgda", kConfigs), {}),
           {{0, queues - 1, {gpu::Op{OpKind::kQuiet}}}});
    return counted(machine, "gpu0_l2", "loads");
  };
  EXPECT_EQ(loads(8) - loads(4), 4 * 3);
}

TEST_F(Bundled, SystemsLoadAndRun) {
  std::size_t systems = 0;
  for (const std::string& file : files_of("systems")) {
    SCOPED_TRACE(file);
    ++systems;
    renew();
    const auto parameters = config::load_system(file);
    // Of each group of parameters a system has all or none; those of no group it has.
    std::size_t expected = 0;
    std::map<std::string_view, bool> has;
    for (const config::Declaration& d : config::declarations())
      has[d.group] |= d.group.empty() || parameters.has(d.key);
    for (const config::Declaration& d : config::declarations()) expected += has[d.group];
    EXPECT_EQ(parameters.all().size(), expected);
    if (!config::bind(parameters).has_gpu) continue;  // pcie-bench's hosts
    const Journeys journeys =
        replay(config::bind(parameters),
               config::load_recipe(config::recipe_path("capture-gdaki", kConfigs), {}),
               {{0, 0, waited(3)}}, kDrawn);
    EXPECT_EQ(journeys.all.size(), 3u);
  }
  EXPECT_GE(systems, 10u) << "five H200 machines, the paper's four, DeepEP's";
}

TEST_F(Bundled, SystemsTakeWhatIsSetAndCallItAssumed) {
  for (const std::string& file : files_of("systems")) {
    SCOPED_TRACE(file);
    const auto before = config::load_system(file);
    if (!config::bind(before).has_gpu) continue;
    const auto after = config::load_system(
        file, {"gpu.l2.near_cycles=310", "gpu.l2.far_cycles+=7", "pcie.round_trip_ns*=2"});
    EXPECT_NE(before.parameter("gpu.l2.near_cycles").evidence, config::Evidence::kAssumed);
    EXPECT_EQ(after.get("gpu.l2.near_cycles"), 310);
    EXPECT_DOUBLE_EQ(after.get("gpu.l2.far_cycles"), before.get("gpu.l2.far_cycles") + 7);
    EXPECT_DOUBLE_EQ(after.get("pcie.round_trip_ns"), 2 * before.get("pcie.round_trip_ns"));
    for (const char* key : {"gpu.l2.near_cycles", "gpu.l2.far_cycles", "pcie.round_trip_ns"}) {
      EXPECT_EQ(after.parameter(key).evidence, config::Evidence::kAssumed) << key;
      EXPECT_FALSE(after.parameter(key).interval) << key;
      EXPECT_EQ(after.parameter(key).place, "--set") << key;
    }
    EXPECT_EQ(after.parameter("gpu.l2.load_cycles").evidence,
              before.parameter("gpu.l2.load_cycles").evidence);
  }
}

/// One lane alone on quiet hardware, everything near: median cycles of its issue stages.
class WhatIf : public Bundled {
 protected:
  static std::map<std::string, double> issue_cycles(const std::string& protocol,
                                                    std::vector<std::string> sets) {
    renew();
    sets.insert(sets.end(), {"gpu.l2.jitter_cycles=0", "gpu.l2.distance_spread_cycles=0"});
    const Journeys journeys = replay(
        system("h200-c", sets), config::load_recipe(config::recipe_path(protocol, kConfigs), {}),
        {{0, 0, waited(40)}});
    std::map<std::string, double> cycles;
    for (const auto& [stage, ps] : stages(journeys.all.at(20)))
      if (is_issue_stage(*stage_named(stage))) cycles[stage] = static_cast<double>(ps) * 1.98e-3;
    return cycles;
  }
  static void expect_changes(const std::string& protocol, const std::string& set,
                             const std::map<std::string, double>& changes) {
    const auto before = issue_cycles(protocol, {});
    const auto after = issue_cycles(protocol, {set});
    for (const auto& [stage, cycles] : before) {
      const auto change = changes.find(stage);
      EXPECT_NEAR(after.at(stage) - cycles, change == changes.end() ? 0 : change->second, 0.01)
          << protocol << " " << stage;
    }
    for (const auto& [stage, change] : changes) EXPECT_EQ(before.count(stage), 1u) << stage;
  }
};

// Each stage that holds a fence after near stores shortens by what the fence does, and no other:
// in the recipes that is behind the entry, before (GDAKI: and after) publication, and before each
// store of a doorbell or record that waits for what went before.
TEST_F(WhatIf, ACheaperFenceShortensJustTheStagesThatHoldOne) {
  expect_changes("capture-ibgda", "gpu.fence.gpu_near_cycles-=100",
                 {{"order.fence", -100}, {"doorbell.record", -100}, {"doorbell.register", -100}});
  expect_changes("capture-gdaki", "gpu.fence.gpu_near_cycles-=100",
                 {{"order.fence", -100},
                  {"order.publish", -100},
                  {"doorbell.record", -100},
                  {"doorbell.register", -100}});
}

TEST_F(WhatIf, ALongerWayHomeLengthensEachStageByItsAtomics) {
  // Reservation; publication; lock; and, in the record's stage, the producer index, which the
  // lock's stage issues 0 cycles before.
  expect_changes(
      "capture-ibgda", "gpu.l2.near_cycles+=50",
      {{"slot", 50}, {"order.publish", 50}, {"order.lock", 50}, {"doorbell.record", 50}});
}

TEST_F(WhatIf, DearerStoresLengthenTheEntryMost) {
  // 12 of the entry; one of the queue pick; record and doorbell; the unlock comes after the issue.
  expect_changes("capture-ibgda", "gpu.sm.store_cycles+=3",
                 {{"lookup", 3}, {"wqe", 36}, {"doorbell.record", 3}, {"doorbell.register", 3}});
}

TEST_F(WhatIf, AHalvedSmClockLeavesFencesAndAtomicsAsTheyAreIfTheL2KeepsItsClock) {
  const auto before = issue_cycles("capture-gdaki", {});
  const auto after =
      issue_cycles("capture-gdaki", {"gpu.sm.clock_ghz=0.99", "gpu.l2.follows_sm_ratio=0"});
  // The entry's stores and arithmetic are the SM's alone: twice the time.
  EXPECT_NEAR(after.at("wqe"), 2 * before.at("wqe"), 0.01);
  // The fence is not: 380 cycles of the L2's clock stay, the rest doubles.
  EXPECT_NEAR(after.at("order.fence"), 2 * before.at("order.fence") - 380, 0.01);
}

TEST_F(WhatIf, AHalvedSmClockLengthensAFenceByTheShareThatFollows) {
  const auto before = issue_cycles("capture-gdaki", {});
  // All of it: everything takes twice as long. Three quarters: a quarter of the 380 cycles stays.
  const auto all =
      issue_cycles("capture-gdaki", {"gpu.sm.clock_ghz=0.99", "gpu.l2.follows_sm_ratio=1"});
  EXPECT_NEAR(all.at("order.fence"), 2 * before.at("order.fence"), 0.01);
  const auto most =
      issue_cycles("capture-gdaki", {"gpu.sm.clock_ghz=0.99", "gpu.l2.follows_sm_ratio=0.75"});
  EXPECT_NEAR(most.at("order.fence"), 2 * before.at("order.fence") - 95, 0.01);
}

// At half the SM clock, with a share of 0.75 that follows, an L2 cycle takes 0.25 + 0.75 * 2 = 1.75
// times as long: 1.98 / 1.75 GHz. DRAM takes the time it took: 391 cycles of 1.98 GHz.
TEST_F(WhatIf, TheL2ClockFollowsFromTheNominalPair) {
  const auto nominal = system("p-ib", {"gpu.l2.follows_sm_ratio=0.75"});
  EXPECT_EQ(nominal.gpu.l2_clock_ghz, 1.98);
  EXPECT_EQ(nominal.gpu.hbm_cycles, 391);
  const auto half = system("p-ib", {"gpu.l2.follows_sm_ratio=0.75", "gpu.sm.clock_ghz=0.99"});
  EXPECT_NEAR(half.gpu.l2_clock_ghz, 1.98 / 1.75, 1e-12);
  EXPECT_NEAR(half.gpu.hbm_cycles / half.gpu.l2_clock_ghz, 391 / 1.98, 1e-9);
}

}  // namespace
}  // namespace marrow
