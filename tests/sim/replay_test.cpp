// Is a trace replayed as it stands: the same each time, in constant memory, and refused where it
// asks for what cannot be done?
#include "sim/replay.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "sim/config/system.h"
#include "tests/config/files.h"
#include "tests/support/round_machine.h"
#include "traces/importers/importers.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";
const std::string kSystem = kConfigs + "/systems/h200-c.yaml";

/// Files of their own and a kernel of its own.
class ReplayTest : public config::Files {
 protected:
  struct Kernel : SystemC {
    void TestBody() override {}
    using SystemC::renew;
  };
  ReplayTest() { Kernel(); }

  /// A trace of this workload's runs ("- name: …", indented by two).
  std::string workload(const std::string& runs) {
    trace::import_workload_yaml(write("w.yaml", "machine: made-up\nruns:\n" + runs),
                                path("w.trace"));
    return path("w.trace");
  }
  std::uint32_t replay(const std::string& trace, Observer* observer, std::uint64_t seed = 1,
                       sim::ReplayOptions options = {}, const std::string& system = "h200-c") {
    Kernel::renew();
    sim::Machine machine(
        config::bind(config::load_system(kConfigs + "/systems/" + system + ".yaml")));
    trace::Reader reader(trace);
    options.config_dir = kConfigs;
    options.seed = seed;
    return sim::replay(reader, machine, options, observer);
  }
};

const char kTwoRuns[] = R"(  - name: first
    protocol: capture-ibgda
    choices: {doorbell_in: gpu, batch: 1}
    warps: 4
    queues: 2
    puts_per_warp: 30
    bytes: 64
    wait_every: 5
    gap_cycles: 7
  - name: second
    protocol: capture-host-proxy
    warps: 1
    queues: 1
    puts_per_warp: 20
    bytes: 4096
)";

bool same(const std::vector<Journey>& a, const std::vector<Journey>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Journey& x, const Journey& y) {
    return x.warp == y.warp && x.index == y.index && x.start_ps == y.start_ps &&
           x.stage_ps == y.stage_ps && x.waited_ps == y.waited_ps && x.polls == y.polls;
  });
}

TEST_F(ReplayTest, ReplaysEveryPutOfEveryRun) {
  Journeys journeys;
  EXPECT_EQ(replay(workload(kTwoRuns), &journeys), 2u);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> ops;
  for (const Journey& j : journeys.all) ops[{j.run, j.warp}].push_back(j.op);
  ASSERT_EQ(ops.size(), 5u);
  for (const auto& [lane, done] : ops) {
    ASSERT_EQ(done.size(), lane.first == 0 ? 30u : 20u);
    for (std::size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], i);
  }
  for (const Journey& j : journeys.all) {
    EXPECT_EQ(j.queue, j.run == 0 ? j.warp % 2 : 0u);
    // Every fifth put waits, in the second run only the last.
    EXPECT_EQ(j.waited, j.run == 0 ? j.op % 5 == 4 : j.op == 19);
  }
}

TEST_F(ReplayTest, CountsTheTimeOfEachRunFromItsBeginning) {
  Journeys journeys;
  replay(workload(kTwoRuns), &journeys);
  for (const Journey& j : journeys.all)
    if (j.op > 0)
      EXPECT_GT(j.start_ps, 0);
    else
      EXPECT_EQ(j.start_ps, 0) << "run " << j.run << " warp " << j.warp;
}

TEST_F(ReplayTest, GivesTheSameForTheSameSeedAndAnotherForAnother) {
  const std::string trace = workload(kTwoRuns);
  Journeys first, again, other;
  replay(trace, &first, 7);
  replay(trace, &again, 7);
  replay(trace, &other, 8);
  EXPECT_TRUE(same(first.all, again.all));
  EXPECT_FALSE(same(first.all, other.all));
}

TEST_F(ReplayTest, LetsNoRunLeaveAnythingToTheNext) {
  const std::string trace = workload(kTwoRuns);
  Journeys both, second;
  replay(trace, &both);
  sim::ReplayOptions only;
  only.selects = [](const trace::Run& run) { return run.name == "second"; };
  EXPECT_EQ(replay(trace, &second, 1, only), 1u);
  std::vector<Journey> of_both;
  for (const Journey& j : both.all)
    if (j.run == 1) of_both.push_back(j);
  EXPECT_TRUE(same(of_both, second.all));
}

TEST_F(ReplayTest, TellsARunThatGetsStuckAndHowToMendIt) {
  // Every put waits, but only every 64th rings.
  const std::string trace = workload(R"(  - name: stuck
    protocol: capture-gdaki
    choices: {batch: 64}
    warps: 1
    queues: 1
    puts_per_warp: 100
    bytes: 8
    wait_every: 1
)");
  const std::string message = config::complaint([&] { replay(trace, nullptr); });
  EXPECT_TRUE(config::says(message, {"run 'stuck'", "capture-gdaki", "stuck",
                                     "a wait needs a doorbell before it", "flush"}));
}

// What each lane waits for, since when, and the mend that fits; causes made one at a time.
TEST_F(ReplayTest, TellsForEachCauseWhatTheLaneWaitsFor) {
  const auto stuck = [&](const std::string& run, const std::string& system) {
    const std::string trace = workload("  - name: stuck\n    queues: 1\n    bytes: 8\n" + run);
    return config::complaint([&] { replay(trace, nullptr, 1, {}, system); });
  };
  // Its first put is not rung for: it waits from its first look on, index 0 to reach 1.
  std::string message = stuck(
      "    protocol: capture-gdaki\n    choices: {batch: 64}\n    warps: 1\n"
      "    puts_per_warp: 100\n    wait_every: 1\n",
      "h200-c");
  EXPECT_TRUE(config::says(message, {"1 of 1 lanes", "warp 0 of element 0, in its put on queue 0",
                                     "waits since", "the completion in 'cqe' of entry 0",
                                     "never announced", "a wait needs a doorbell before it"}));
  // The lane's own steps before its first look take more than 1 us.
  EXPECT_EQ(message.find("since 0."), std::string::npos) << message;
  EXPECT_EQ(message.find("since -"), std::string::npos) << message;
  // Nobody sends the signal.
  message = stuck(
      "    protocol: nvshmem-ibgda\n    warps: 2\n    puts_per_warp: 1\n    does: [put, wait]\n",
      "p-ib");
  EXPECT_TRUE(config::says(message, {"2 of 2 lanes", "in its wait", "signal 1 in 'signal'",
                                     "(2 lanes at that step)", "put_signal, atomic or barrier"}));
  // A batch larger than the queue's depth: the place behind the ring's end is never free.
  message = stuck(
      "    protocol: gdaki\n    choices: {batch: 100000}\n    warps: 1\n    puts_per_warp: 3000\n",
      "p-ib");
  EXPECT_TRUE(
      config::says(message, {"in its put", "a free place among", "batch less than its depth"}));
}

TEST_F(ReplayTest, RunsABatchThatRingsBeforeItsWaits) {
  Journeys journeys;
  replay(workload(R"(  - name: batched
    protocol: capture-gdaki
    choices: {batch: 4}
    warps: 1
    queues: 1
    puts_per_warp: 40
    bytes: 8
    wait_every: 4
)"),
         &journeys);
  ASSERT_EQ(journeys.all.size(), 40u);
  for (const Journey& j : journeys.all) EXPECT_EQ(j.rang, j.op % 4 == 3) << "put " << j.op;
}

TEST_F(ReplayTest, FlushesTheLastOfARepeatedPutOnly) {
  {
    trace::Writer writer(path("w.trace"), {"made-up", "a test", 0});
    trace::Run run;
    run.name = "repeated";
    run.protocol = "capture-gdaki";
    run.choices = {{"batch", "64"}};
    run.lanes = {{0, std::nullopt, 0}};
    writer.run(run);
    trace::Op op;
    op.count = 5;
    op.flush = true;
    writer.op(op);
    writer.close();
  }
  Journeys journeys;
  replay(path("w.trace"), &journeys);
  ASSERT_EQ(journeys.all.size(), 5u);
  for (const Journey& j : journeys.all) EXPECT_EQ(j.rang, j.op == 4) << "put " << j.op;
}

TEST_F(ReplayTest, TellsAnSmThatTheSystemDoesNotHave) {
  const std::string trace = workload(R"(  - name: far out
    protocol: capture-gdaki
    warps: 2
    queues: 2
    puts_per_warp: 1
    bytes: 8
    sms: [131, 132]
)");
  const std::string message = config::complaint([&] { replay(trace, nullptr); });
  EXPECT_TRUE(
      config::says(message, {"run 'far out'", "warp 1 is on SM 132", "132", "gpu.sm.units_count"}));
}

/// Peak memory of `marrow run` on this trace, in KiB.
long peak_kib(const std::string& trace) {
  const std::string system = kSystem;
  std::vector<std::string> words = {MARROW_BINARY, "run", "--system", system, "--trace", trace};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, MARROW_BINARY, &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0);
  int status = 1;
  rusage usage{};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return usage.ru_maxrss;
}

TEST_F(ReplayTest, NeedsNoMoreMemoryForALongerTrace) {
  const auto trace = [&](int puts_per_warp) {
    return workload(
        "  - name: long\n    protocol: capture-gdaki\n    warps: 4\n    queues: 2\n"
        "    puts_per_warp: " +
        std::to_string(puts_per_warp) + "\n    bytes: 64\n    wait_every: 10\n");
  };
  const long of_30_000 = peak_kib(trace(7'500));
  const long of_300_000 = peak_kib(trace(75'000));
  EXPECT_LT(of_300_000 - of_30_000, 8 * 1024);
}

}  // namespace
}  // namespace marrow
