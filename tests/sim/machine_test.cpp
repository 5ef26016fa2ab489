// Does a machine run to the end what can end, tell what cannot, and give each message its own size?
#include "sim/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>

#include "models/common/error.h"
#include "tests/support/round_machine.h"
#include "tests/support/small_recipe.h"
#include "tests/support/systemc_fixture.h"

namespace marrow {
namespace {

class MachineTest : public SystemC {
 protected:
  static config::Recipe bundled(const std::string& name) {
    return config::load_recipe(MARROW_SOURCE_DIR "/configs/protocols/" + name + ".yaml", {});
  }
};

TEST_F(MachineTest, WaitsOutALongPauseBetweenTwoPuts) {
  // 500 million cycles at 1 GHz are half a second, far more than any message takes.
  std::vector<gpu::Op> puts = waited(3);
  for (gpu::Op& put : puts) put.compute_cycles = 500'000'000;
  const Journeys journeys = replay(round_system(), bundled("capture-host-gdaki"), {{0, 0, puts}});
  ASSERT_EQ(journeys.all.size(), 3u);
  EXPECT_GE(journeys.all[2].start_ps - journeys.all[0].start_ps, 1'000'000'000'000);
}

TEST_F(MachineTest, CopiesWhatAMessageCarriesAndNotWhatItsSlotCarriesNext) {
  // A ring of four: the fifth put reserves the first one's slot while that still waits. 64,000 B at
  // 32 GB/s are 2,000 ns.
  config::Recipe recipe = bundled("capture-host-gdaki");
  recipe.program.depth = 4;
  for (Word& word : recipe.program.words)
    if (word.entries != 0) word.entries = 4;
  std::vector<gpu::Op> puts = unwaited(4, 64'000);
  for (const gpu::Op& put : unwaited(4, 0)) puts.push_back(put);
  puts.back().flush = puts.back().wait = true;
  const Journeys journeys = replay(round_system(), recipe, {{0, 0, puts}});
  ASSERT_EQ(journeys.all.size(), 8u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_GE(journeys.all[i].at(Stage::kCqeWrite), 2'000'000) << "put " << i;
  for (std::size_t i = 4; i < 8; ++i)
    EXPECT_LT(journeys.all[i].at(Stage::kCqeWrite), 1'000'000) << "put " << i;
}

TEST_F(MachineTest, RefusesInTheMidstOfARunWhatTheRecipeCannotDo) {
  // Found out by a lane, inside the simulation: it must come out as what it is.
  std::vector<gpu::Op> ops = waited(1);
  ops.push_back({OpKind::kGet, 8, false, true, 0});
  try {
    replay(round_system(), bundled("capture-host-gdaki"), {{0, 0, ops}});
    FAIL() << "a get of a recipe without one";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("no 'get'"), std::string::npos) << error.what();
  }
}

TEST_F(MachineTest, TellsThatALaneAloneWaitsForALockThatNobodyReleases) {
  Step lock = publish(60);
  lock.word = kOther;
  lock.expected = Value::kZero;
  lock.value = Value::kOne;
  const Steps put{stage(Stage::kSlot),
                  take_index(),
                  stage(Stage::kOrderLock),
                  lock,
                  stage(Stage::kDoorbellRegister),
                  store(kBell, Value::kNext)};
  EXPECT_EQ(replay(round_system(), small_recipe(put), {{0, 0, unwaited(1)}}).all.size(), 1u);
  renew();
  EXPECT_THROW(replay(round_system(), small_recipe(put), {{0, 0, unwaited(2)}}), InputError);
}

// The sanitizers reserve more address space than the limit allows.
#ifndef __SANITIZE_ADDRESS__
TEST_F(MachineTest, FitsIntoMemoryAtEveryParametersLargestValue) {
  const auto build = [&](const config::Declaration& declaration) {
    const std::string file = MARROW_SOURCE_DIR "/configs/systems/p-ib.yaml";
    const rlimit one_gib{1 << 30, 1 << 30};
    setrlimit(RLIMIT_AS, &one_gib);
    const auto largest = fmt::format("{}={:.17g}", declaration.key, declaration.max);
    std::vector<std::string> sets = {largest};
    // GPUs that NVLink joins are as many as there are.
    if (declaration.key == "nvlink.peers_count")
      sets.push_back(fmt::format("cluster.pes_count={}", declaration.max + 1));
    const sim::Machine machine(config::bind(config::load_system(file, sets)));
    std::_Exit(0);
  };
  // A root complex's own are arithmetic of pcie-bench, of which no machine is built.
  for (const config::Declaration& declaration : config::declarations()) {
    if (declaration.group == "root") continue;
    EXPECT_EXIT(build(declaration), testing::ExitedWithCode(0), "") << declaration.key;
  }
}
#endif

}  // namespace
}  // namespace marrow
