// Does a lane spend what its program's schedule, worked out by hand, says?
//
// Round numbers (round_gpu(), small_recipe()): 1 GHz; a load takes 200 ns, an atomic's home is 300
// ns away and back (near) or 500 (far), a store of up to 8 B takes 4 ns of the lane.
#include "models/gpu/sm.h"

#include "tests/support/round_machine.h"
#include "tests/support/small_recipe.h"

namespace marrow {
namespace {

using Stages = std::map<std::string, Ps>;

class SmTest : public SystemC {
 protected:
  static Stages issue_of(const Journey& journey) {
    Stages issue = stages(journey);
    for (const char* beyond : {"mmio", "nic_schedule", "wqe_fetch", "cqe_write", "poll"})
      issue.erase(beyond);
    return issue;
  }
};

const Steps kBegin = {stage(Stage::kSlot), take_index()};
const Steps kRing =
    Steps{stage(Stage::kDoorbellRegister), store(kBell, Value::kNext), stage(Stage::kPoll)} +
    when(Condition::kWaits, {poll_completed()});

const Steps kWholePut = Steps{stage(Stage::kLookup),
                              load(kKeys),
                              compute(50),
                              stage(Stage::kSlot),
                              take_index(),
                              compute(10),
                              stage(Stage::kWqe),
                              store(kEntry, Value::kIndex, 4, 12),
                              stage(Stage::kOrderFence),
                              fence(Scope::kGpu),
                              stage(Stage::kOrderPublish),
                              publish(60)} +
                        kRing;

TEST_F(SmTest, SpendsWhatTheHandScheduleSaysForTwoPuts) {
  const Journeys journeys = replay(round_system(), small_recipe(kWholePut), {{0, 0, waited(2)}});
  ASSERT_EQ(journeys.all.size(), 2u);
  // First put, in ns: load 200 + 50 -> 250; atomic 300 + 10 -> 560; twelve stores of 4 -> 608;
  // fence after near stores 400 -> 1008; spin 300 -> 1308; store 4 -> 1312. The doorbell is in the
  // L2 at 1312 + 150 = 1462. The consumer looks every 200 + 100: at 1500, knows at 1600, has read
  // at 1680, completes at 1800, visible at 1950. The lane polls from 1312 on: looks at 1412, 1612,
  // 1812, 2012, and has it at 2112.
  EXPECT_EQ(stages(journeys.all[0]), (Stages{{"lookup", 250'000},
                                             {"slot", 310'000},
                                             {"wqe", 48'000},
                                             {"order.fence", 400'000},
                                             {"order.publish", 300'000},
                                             {"doorbell.register", 4'000},
                                             {"mmio", 150'000},
                                             {"nic_schedule", 138'000},
                                             {"wqe_fetch", 80'000},
                                             {"cqe_write", 270'000},
                                             {"poll", 162'000}}));
  EXPECT_EQ(journeys.all[0].start_ps, 0);
  EXPECT_EQ(journeys.all[0].waited_ps, 800'000);
  EXPECT_EQ(journeys.all[0].polls, 4u);
  EXPECT_TRUE(journeys.all[0].rang);
  // Second put: from 2112, doorbell issued at 3424, in the L2 at 3574. The consumer's completion
  // was issued at 1800; it polls again from 1800 + 40 + 100 = 1940, so looks at 3740, knows at
  // 3840, has read at 3920, completes at 4040, visible at 4190. The lane looks at 3524 + 200 k:
  // 4324, has it at 4424.
  EXPECT_EQ(stages(journeys.all[1]), (Stages{{"lookup", 250'000},
                                             {"slot", 310'000},
                                             {"wqe", 48'000},
                                             {"order.fence", 400'000},
                                             {"order.publish", 300'000},
                                             {"doorbell.register", 4'000},
                                             {"mmio", 150'000},
                                             {"nic_schedule", 266'000},
                                             {"wqe_fetch", 80'000},
                                             {"cqe_write", 270'000},
                                             {"poll", 234'000}}));
  EXPECT_EQ(journeys.all[1].start_ps, 2'112'000);
  EXPECT_EQ(journeys.all[1].waited_ps, 1'000'000);
  EXPECT_EQ(journeys.all[1].polls, 5u);
}

TEST_F(SmTest, GoesStraightOnWhereItDoesNotWait) {
  const Journeys journeys =
      replay(round_system(), small_recipe(kWholePut),
             {{0, 0, {{OpKind::kPut, 0, false, false, 100}, {OpKind::kPut, 0, false, false, 0}}}});
  ASSERT_EQ(journeys.all.size(), 2u);
  EXPECT_EQ(journeys.all[1].start_ps, 1'312'000 + 100'000) << "issue and 100 cycles of other work";
  EXPECT_EQ(journeys.all[0].waited_ps, 0);
  EXPECT_EQ(journeys.all[0].at(Stage::kPoll), 0);
}

TEST_F(SmTest, SlowsWithItsClockJustWhatIsItsOwn) {
  config::SystemSpec spec = round_system();
  spec.gpu.sm_clock_ghz = 0.5;
  const Journeys journeys = replay(spec, small_recipe(kWholePut), {{0, 0, waited(1)}});
  EXPECT_EQ(issue_of(journeys.all.at(0)), (Stages{{"lookup", 200'000 + 100'000},
                                                  {"slot", 300'000 + 20'000},
                                                  {"wqe", 96'000},
                                                  {"order.fence", 400'000},
                                                  {"order.publish", 300'000},
                                                  {"doorbell.register", 8'000}}));
}

TEST_F(SmTest, SlowsWithTheL2ClockJustWhatIsDoneThere) {
  config::SystemSpec spec = round_system();
  spec.gpu.l2_clock_ghz = 0.5;
  const Journeys journeys = replay(spec, small_recipe(kWholePut), {{0, 0, waited(1)}});
  EXPECT_EQ(issue_of(journeys.all.at(0)), (Stages{{"lookup", 400'000 + 50'000},
                                                  {"slot", 600'000 + 10'000},
                                                  {"wqe", 48'000},
                                                  {"order.fence", 800'000},
                                                  {"order.publish", 600'000},
                                                  {"doorbell.register", 4'000}}));
}

TEST_F(SmTest, TakesAnotherIntervalForStoresOf16Bytes) {
  const Steps put = kBegin + Steps{stage(Stage::kWqe), store(kEntry, Value::kIndex, 16, 3)} + kRing;
  const Journeys journeys = replay(round_system(), small_recipe(put), {{0, 0, waited(1)}});
  EXPECT_EQ(journeys.all.at(0).at(Stage::kWqe), 30'000);
}

struct FenceCase {
  const char* name;
  Steps stores;
  Scope scope;
  Ps cycles;  ///< of the stores (4 each) and the fence
};

void PrintTo(const FenceCase& fence_case, std::ostream* out) { *out << fence_case.name; }

class SmFence : public SmTest, public testing::WithParamInterface<FenceCase> {};

TEST_P(SmFence, WaitsForWhatWasStoredSinceTheLastOne) {
  // `ready` is near, `other` far.
  const auto place = [](const QueueLayout& layout, Placement& placement) {
    all_near(placement);
    placement.set_page_side(layout.region_begin(kOther), true);
  };
  const Steps put = kBegin + Steps{fence(Scope::kGpu), stage(Stage::kOrderFence)} +
                    GetParam().stores + Steps{fence(GetParam().scope)} + kRing;
  const Journeys journeys = replay(round_system(), small_recipe(put), {{0, 0, waited(2)}}, place);
  for (const Journey& journey : journeys.all)
    EXPECT_EQ(journey.at(Stage::kOrderFence), GetParam().cycles * 1000);
}

INSTANTIATE_TEST_SUITE_P(
    Scopes, SmFence,
    testing::Values(
        // As after the fence before: the ladder captures show 388 to 580 cycles after nothing too.
        FenceCase{"GpuAfterNothing", {}, Scope::kGpu, 400},
        FenceCase{"GpuAfterNear", {store(kReady, Value::kOne)}, Scope::kGpu, 4 + 400},
        FenceCase{"GpuAfterFar", {store(kOther, Value::kOne)}, Scope::kGpu, 4 + 600},
        FenceCase{"GpuAfterBoth",
                  {store(kOther, Value::kOne), store(kReady, Value::kOne)},
                  Scope::kGpu,
                  8 + 600},
        FenceCase{"GpuAfterAFenceAfterFar",
                  {store(kOther, Value::kOne), fence(Scope::kGpu)},
                  Scope::kGpu,
                  4 + 600 + 600},
        FenceCase{"GpuAfterHost", {store(kHostWord, Value::kOne)}, Scope::kGpu, 4 + 700},
        FenceCase{"Cta", {store(kOther, Value::kOne)}, Scope::kCta, 4 + 20},
        FenceCase{"None", {store(kOther, Value::kOne)}, Scope::kNone, 4},
        FenceCase{"SysAfterNothing", {}, Scope::kSys, 1000},
        FenceCase{"SysAfterFar", {store(kOther, Value::kOne)}, Scope::kSys, 4 + 1000},
        FenceCase{"SysAfterHost", {store(kHostWord, Value::kOne)}, Scope::kSys, 4 + 1000}),
    [](const auto& test) { return test.param.name; });

TEST_F(SmTest, WaitsForAnUnwaitedAtomicOnlyWhereItsResultIsUsed) {
  // The result is there 300 ns after the atomic was issued.
  for (const int cycles : {0, 100, 299, 300, 400}) {
    renew();
    const Steps put = kBegin +
                      Steps{stage(Stage::kOrderLock), add_unwaited(kOther), compute(cycles),
                            stage(Stage::kDoorbellRecord), use()} +
                      kRing;
    const Journeys journeys = replay(round_system(), small_recipe(put), {{0, 0, waited(1)}});
    EXPECT_EQ(journeys.all.at(0).at(Stage::kOrderLock), cycles * 1000);
    EXPECT_EQ(journeys.all.at(0).at(Stage::kDoorbellRecord), std::max(0, 300 - cycles) * 1000);
  }
}

TEST_F(SmTest, SpendsTheSameAloneOnItsQueueAndBesideAnIdleLane) {
  // Beside another lane every access meets the kernel's time; alone most are annotated.
  const Steps put =
      kWholePut + Steps{stage(Stage::kPoll), add_unwaited(kOther), use(), compute(30)};
  const auto place = [](const QueueLayout& layout, Placement& placement) {
    all_near(placement);
    for (std::uint32_t far : {kResv, kEntry, kOther})
      placement.set_page_side(layout.region_begin(far), true);
    placement.set_distance(layout.region_begin(kReady), 20);
  };
  const Work work{0, 0, waited(100)};
  const Journeys alone = replay(round_system(), small_recipe(put), {work}, place);
  renew();
  const Journeys beside = replay(round_system(), small_recipe(put), {work, {2, 0, {}}}, place);
  ASSERT_EQ(alone.all.size(), 100u);
  ASSERT_EQ(beside.all.size(), 100u);
  for (std::size_t i = 0; i < alone.all.size(); ++i) {
    EXPECT_EQ(stages(alone.all[i]), stages(beside.all[i])) << "put " << i;
    EXPECT_EQ(alone.all[i].start_ps, beside.all[i].start_ps) << "put " << i;
  }
}

TEST_F(SmTest, IssuesWhatFollowsAnUnwaitedAtomicAtItsOwnTimeOnASharedQueueToo) {
  // Beside another lane the atomic's answer comes by an event, 300 later, while the lane has gone
  // on at once: its load takes 200 from the atomic's issue, and 100 of the atomic are left to wait
  // for.
  const Steps put = kBegin +
                    Steps{stage(Stage::kOrderLock), add_unwaited(kOther), load(kKeys),
                          stage(Stage::kDoorbellRecord), use()} +
                    kRing;
  for (const std::vector<Work>& lanes :
       {std::vector<Work>{{0, 0, waited(1)}}, std::vector<Work>{{0, 0, waited(1)}, {2, 0, {}}}}) {
    renew();
    const Journeys journeys = replay(round_system(), small_recipe(put), lanes);
    EXPECT_EQ(journeys.all.at(0).at(Stage::kOrderLock), 200'000) << lanes.size() << " lanes";
    EXPECT_EQ(journeys.all.at(0).at(Stage::kDoorbellRecord), 100'000) << lanes.size() << " lanes";
  }
}

TEST_F(SmTest, PublishesInTheOrderOfReservation) {
  // Three lanes on one queue, whose ways to the counter differ by 20: they are there at 140, 150
  // and 160 and have 0, 1 and 2 at 280, 300 and 320. The first works 1000 more, then spins: at the
  // word at 1280 + 150 = 1430, back at 1580. The second looks from 450 on every 300 + 60: 810,
  // 1170, 1530, back at 1680. The third looks at 470, 830, 1190 and 1550, just after, back at 1700.
  const Steps put = kBegin + Steps{stage(Stage::kWqe)} + when(Condition::kWaits, {compute(1000)}) +
                    Steps{stage(Stage::kOrderPublish), publish(60)} + kRing;
  const auto place = [](const QueueLayout& layout, Placement& placement) {
    all_near(placement);
    for (std::uint32_t sm : {0u, 2u, 4u})
      placement.set_distance(sm, layout.region_begin(kResv), 20.0 * sm / 2 - 20);
  };
  const Journeys journeys =
      replay(round_system(), small_recipe(put),
             {{0, 0, waited(1)}, {2, 0, unwaited(1)}, {4, 0, unwaited(1)}}, place);
  ASSERT_EQ(journeys.all.size(), 3u);
  const Ps expected[][2] = {{280'000, 300'000}, {300'000, 1'380'000}, {320'000, 1'380'000}};
  for (std::uint64_t index = 0; index < 3; ++index) {
    EXPECT_EQ(journeys.all[index].index, index);
    EXPECT_EQ(journeys.all[index].warp, index);
    EXPECT_EQ(journeys.all[index].at(Stage::kSlot), expected[index][0]);
    EXPECT_EQ(journeys.all[index].at(Stage::kOrderPublish), expected[index][1]);
  }
}

TEST_F(SmTest, ReusesNoSlotBeforeTheEntryInItHasCompleted) {
  Step slot_free = poll_completed();
  slot_free.until = Until::kSlotFree;
  const Steps put = kBegin + when(Condition::kRingWrapped, {slot_free}) + kRing;
  config::Recipe recipe = small_recipe(put);
  recipe.program.depth = 4;
  recipe.program.words[kEntry].entries = 4;
  const Journeys journeys = replay(round_system(), recipe, {{0, 0, unwaited(50)}});
  ASSERT_EQ(journeys.all.size(), 50u);
  for (std::size_t i = 4; i < 50; ++i) {
    const Journey& before = journeys.all[i - 4];
    const Ps reserved_ps = journeys.all[i].start_ps + journeys.all[i].at(Stage::kSlot);
    EXPECT_GE(reserved_ps, before.start_ps + before.end_to_end_ps()) << "put " << i;
  }
}

}  // namespace
}  // namespace marrow
