// Does a message that a CPU thread sends between two kernels take what its path, worked out by
// hand, takes, and do kernel, communication and CPU waiting add up to the whole?
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";

class Rounds : public Journeys {
 public:
  void on_kernel(const KernelRound& round) override { kernels.push_back(round); }
  void on_operation(const Operation& operation) override { operations.push_back(operation); }
  std::vector<KernelRound> kernels;
  std::vector<Operation> operations;
};

class HostInitiated : public SystemC {
 protected:
  Rounds play(const std::vector<std::string>& protocol_sets,
              const std::vector<std::string>& system_sets = {}, std::vector<OpKind> does = {},
              std::uint64_t bytes = 8, std::uint64_t work_cycles = 0) {
    renew();
    machine_ = std::make_unique<sim::Machine>(
        config::bind(config::load_system(kConfigs + "/systems/p-ib.yaml", system_sets)));
    const config::Recipe recipe =
        config::load_recipe(kConfigs + "/protocols/host-initiated.yaml", {}, protocol_sets);
    const bool waits = does.empty();
    if (waits) does = {OpKind::kPut};
    trace::Run run;
    run.name = "by hand";
    run.lanes.push_back({0, std::nullopt, 0});
    std::size_t done = 0;
    Rounds rounds;
    sim::RunSetup setup;
    setup.recipe = &recipe;
    setup.run = &run;
    setup.observer = &rounds;
    setup.next_op = [&](std::uint32_t, Op& op) {
      if (done == kRounds * does.size()) return false;
      op = {};
      op.kind = does[done++ % does.size()];
      op.bytes = bytes;
      op.wait = waits;
      op.flush = done == kRounds * does.size();
      if (done % does.size() == 0) op.compute_cycles = work_cycles;
      return true;
    };
    machine_->run(setup);
    return rounds;
  }
  static double ns(const Journey& journey, Stage stage) {
    return static_cast<double>(journey.at(stage)) / 1000;
  }
  static constexpr std::size_t kRounds = 10;
  std::unique_ptr<sim::Machine> machine_;
};

// Launch: 3000 ns of the thread's call, 2000 until the kernel's first instruction. Kernel's end:
// 1000 ns, then the way to the L2 and up, 0.5 of 852 ns.
TEST_F(HostInitiated, TheKernelsEndAndTheLaunchTakeWhatTheSystemSays) {
  const Rounds rounds =
      play({}, {"host.launch_call_ns=3000", "gpu.kernel.start_ns=2000", "gpu.kernel.end_ns=1000",
                "host.notice_ns=270", "host.notice_spread_ns=0"});
  ASSERT_EQ(rounds.all.size(), kRounds);
  for (const Journey& journey : rounds.all) {
    EXPECT_DOUBLE_EQ(ns(journey, Stage::kLaunch), 15 + 5000) << "the CQE is read before it";
    EXPECT_NEAR(ns(journey, Stage::kKernelEnd), 1000 + 426, 100) << "100 at most to the L2";
    // A line's way to the core (270 ns) from the look that finds it, at most a look (23) later.
    EXPECT_GE(ns(journey, Stage::kHostNotice), 270);
    EXPECT_LE(ns(journey, Stage::kHostNotice), 270 + 23);
  }
}

TEST_F(HostInitiated, AQueryIsSeenLaterAndAFlagSparesTheDriversEnd) {
  const auto notice = [&](const char* set) {
    const Journey journey = play({set}, {"host.notice_spread_ns=0"}).all.back();
    return ns(journey, Stage::kKernelEnd) + ns(journey, Stage::kHostNotice);
  };
  const double sync = notice("notice=sync"), query = notice("notice=query"),
               flag = notice("notice=flag");
  EXPECT_GT(query, sync);
  // Query's looks are 200 + 3 ns apart, and the call that finds the end takes 97 more.
  EXPECT_LE(query, sync + 203 + 97) << "one call at most";
  // 1780 ns of the kernel's end against a system fence of 1020 cycles, 515 ns.
  EXPECT_NEAR(sync - flag, 1780 - 515, 30);
}

TEST_F(HostInitiated, KernelCommunicationAndWaitingFollowEachOther) {
  const Rounds rounds = play({}, {}, {}, 8, 19'800);  // 10 us at 1.98 GHz
  ASSERT_EQ(rounds.kernels.size(), kRounds);
  for (std::size_t i = 0; i < kRounds; ++i) {
    const KernelRound& round = rounds.kernels[i];
    EXPECT_EQ(round.ended_ps - round.started_ps, 10'000'000);
    EXPECT_LT(round.begin_ps, round.noticed_ps);
    EXPECT_LT(round.noticed_ps, round.called_ps);
    EXPECT_LT(round.called_ps, round.started_ps);
    if (i > 0) {
      EXPECT_EQ(round.begin_ps, rounds.kernels[i - 1].ended_ps);
    }
    // The message's life is the round without the kernel.
    EXPECT_EQ(rounds.all[i].end_to_end_ps(), round.started_ps - round.begin_ps);
  }
}

TEST_F(HostInitiated, MessagesOfAListShareAKernelADoorbellAndAFetch) {
  const Rounds rounds =
      play({"post=list", "batch=4"}, {},
           {OpKind::kPut, OpKind::kPut, OpKind::kPut, OpKind::kPut, OpKind::kQuiet}, 8, 100);
  EXPECT_EQ(rounds.all.size(), 4 * kRounds);
  EXPECT_EQ(rounds.kernels.size(), kRounds);
  EXPECT_EQ(counted(*machine_, "cores", "stores to registers"), kRounds);
  EXPECT_EQ(counted(*machine_, "nic0.requester", "entry fetches"), kRounds);
  std::size_t noticing = 0;
  for (const Journey& journey : rounds.all) noticing += journey.at(Stage::kKernelEnd) > 0;
  EXPECT_EQ(noticing, kRounds) << "the first of each list";
}

TEST_F(HostInitiated, OneRequestIsPushedAndAListOfOneIsFetched) {
  play({"post=blueflame"});
  EXPECT_EQ(counted(*machine_, "nic0.requester", "entry fetches"), 0);
  play({"post=doorbell"});
  EXPECT_EQ(counted(*machine_, "nic0.requester", "entry fetches"), kRounds);
}

// Without GPUDirect 1 MiB is copied first: the call 1500 ns, 620 until the engine turns to it, 1570
// for the copy itself, 1 MiB at 55 GB/s 19.1 us, half a PCIe round trip and the notice.
TEST_F(HostInitiated, WithoutGpudirectThePayloadIsCopiedToTheHostFirst) {
  const Rounds rounds = play({"nic_memory=host"}, {}, {}, 1 << 20);
  EXPECT_NEAR(ns(rounds.all.back(), Stage::kStaging), 1500 + 620 + 1570 + 19'100 + 426 + 370, 500);
  EXPECT_EQ(counted(*machine_, "gpu0_front_end", "copied"), kRounds * (1 << 20));
  EXPECT_EQ(ns(play({}, {}, {}, 1 << 20).all.back(), Stage::kStaging), 0);
}

// 20 us and 150 ns for each of 256 pages of 4 KiB.
TEST_F(HostInitiated, RegistrationForEachMessageCostsByThePage) {
  const Rounds rounds = play({"registration=each"}, {}, {}, 1 << 20);
  EXPECT_DOUBLE_EQ(ns(rounds.all.back(), Stage::kStaging), 20'000 + 256 * 150);
  EXPECT_DOUBLE_EQ(ns(play({"registration=each"}, {}, {}, 4097).all.back(), Stage::kStaging),
                   20'000 + 2 * 150);
}

// memcpy: 17 ns and 1 MiB at 269 / 8 GB/s.
TEST_F(HostInitiated, ABounceBufferCostsACopyByTheThread) {
  const Rounds rounds = play({"nic_memory=host", "staged_by=cpu"}, {}, {}, 1 << 20);
  EXPECT_NEAR(ns(rounds.all.back(), Stage::kStaging), 17 + (1 << 20) / (269.0 / 8), 1);
}

TEST_F(HostInitiated, AWaitingOperationEndsWithTheNextKernelsStart) {
  const Rounds rounds = play({}, {}, {OpKind::kPut, OpKind::kQuiet}, 8, 1000);
  ASSERT_EQ(rounds.operations.size(), 2 * kRounds);
  for (std::size_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(rounds.operations[2 * i].begin_ps, rounds.kernels[i].begin_ps);
    EXPECT_EQ(rounds.operations[2 * i + 1].end_ps, rounds.kernels[i].started_ps);
  }
}

// Each parameter alone moves what it is about.
TEST_F(HostInitiated, ALaunchBehindOtherWorkTakesItsShareMore) {
  const auto launch = [&](const char* set) {
    // The flag comes before the driver's own end, so the stream is still busy when the next launch
    // comes, if that end takes long.
    return ns(play({"notice=flag"}, {"gpu.kernel.end_ns=50000", "host.launch_call_ns=1000", set})
                  .all.back(),
              Stage::kLaunch);
  };
  // Both wait for the kernel before: the call's length hides behind it.
  EXPECT_DOUBLE_EQ(launch("host.launch_behind_ratio=1"), launch("host.launch_behind_ratio=2"));
  const auto call = [&](const char* set) {
    return play({"notice=flag"}, {"gpu.kernel.end_ns=20000", "host.launch_call_ns=100000", set})
        .all.back()
        .at(Stage::kLaunch);
  };
  EXPECT_GT(call("host.launch_behind_ratio=2"), call("host.launch_behind_ratio=1") + 90'000'000);
}

}  // namespace
}  // namespace marrow
