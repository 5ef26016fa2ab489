// Does a stream's work start, end and tell the host when its schedule, worked out by hand, says?
//
// Round numbers: cycles of 1 ns, a kernel starts 3000 ns after the doorbell and tells its end 500
// ns after its last instruction; a system fence takes 1000 ns, 1800 behind stores to the host
// beside a peer; a copy is turned to 700 ns after the doorbell, takes 1500 ns besides its bytes,
// and a read of host memory 800 ns.
#include "models/gpu/front_end.h"

#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow::gpu {
namespace {

GpuSpec spec() {
  GpuSpec gpu = round_gpu();
  gpu.fence_sys_host_peer_cycles = 1800;
  gpu.kernel_start_ns = 3000;
  gpu.kernel_end_ns = 500;
  gpu.copy_start_ns = 700;
  gpu.copy_turn_ns = 1500;
  return gpu;
}

constexpr std::uint64_t kDone = kHostBase + 64, kFlag = kHostBase + 128;

class FrontEndTest : public SystemC {
 protected:
  FrontEndTest() {
    for (FrontEnd* one : {&alone_, &beside_}) one->memory.bind((one == &alone_ ? far_ : far2_).in);
    elaborate();
  }
  static Step step(StepOp op, Scope scope = Scope::kNone) {
    Step step;
    step.op = op;
    step.scope = scope;
    step.bytes = 8;
    return step;
  }
  Kernel kernel(Ps work_ps, std::uint64_t count = 1) const {
    return {work_ps, &tail_, [](const Step&) { return kFlag; }, {kDone, count}};
  }

  std::vector<Step> tail_;
  pcie::Duplex link_{round_system().pcie}, link2_{round_system().pcie};
  FarEnd far_{"far", 0}, far2_{"far2", 0};
  FrontEnd alone_{"alone", spec(), link_, 800'000, false};
  FrontEnd beside_{"beside", spec(), link2_, 800'000, true};
};

TEST_F(FrontEndTest, AKernelStartsAfterItsDoorbellAndTellsItsEnd) {
  const FrontEnd::Times times = alone_.launch(0, kernel(2'000'000), 100'000);
  EXPECT_EQ(times.started_ps, 3'100'000);
  EXPECT_EQ(times.worked_ps, 5'100'000);
  EXPECT_EQ(times.ended_ps, 5'100'000);
  run();
  ASSERT_EQ(far_.arrivals().size(), 1u);
  EXPECT_EQ(far_.arrivals()[0].address, kDone);
  EXPECT_EQ(far_.arrivals()[0].at_ps, 5'600'000);
}

TEST_F(FrontEndTest, AKernelWaitsForTheOneBeforeItInItsStreamAlone) {
  alone_.launch(0, kernel(9'000'000), 0);  // through at 3000 + 9000 + 500
  EXPECT_TRUE(alone_.busy(0, 12'499'999));
  EXPECT_FALSE(alone_.busy(0, 12'500'000));
  EXPECT_FALSE(alone_.busy(1, 0));
  EXPECT_EQ(alone_.launch(0, kernel(0), 1'000'000).started_ps, 12'500'000);
  EXPECT_EQ(alone_.launch(1, kernel(0), 1'000'000).started_ps, 4'000'000);
}

TEST_F(FrontEndTest, ATailsFlagLeavesBehindTheFenceBeforeIt) {
  tail_ = {step(StepOp::kFence, Scope::kSys), step(StepOp::kStore)};
  const FrontEnd::Times times = alone_.launch(0, kernel(0), 0);
  EXPECT_EQ(times.worked_ps, 3'000'000);
  EXPECT_EQ(times.ended_ps, 4'004'000) << "fence 1000, store 4";
  run();
  ASSERT_EQ(far_.arrivals().size(), 2u);
  EXPECT_EQ(far_.arrivals()[0].address, kFlag);
  EXPECT_EQ(far_.arrivals()[0].at_ps, 4'000'000);
  EXPECT_EQ(far_.arrivals()[1].at_ps, 4'504'000);
}

TEST_F(FrontEndTest, AFenceBehindAStoreToTheHostTakesLongerBesideAPeer) {
  tail_ = {step(StepOp::kStore), step(StepOp::kFence, Scope::kSys)};
  EXPECT_EQ(alone_.launch(0, kernel(0), 0).ended_ps, 4'004'000);
  EXPECT_EQ(beside_.launch(0, kernel(0), 0).ended_ps, 4'804'000);
}

// 1 MiB is 4096 TLPs of 256 + 24 B; Gen5 x16 carries 63.015 B a ns: 18200 ns.
TEST_F(FrontEndTest, ACopyTakesItsTurnAndItsBytesOnTheLink) {
  const Ps there_ps = alone_.copy(0, true, 1 << 20, {kDone, 1}, 0);
  EXPECT_NEAR(static_cast<double>(there_ps), (700 + 1500 + 18200) * 1e3, 5e3);
  const Ps next_ps = alone_.copy(0, true, 1 << 20, {kDone, 2}, 0);
  EXPECT_NEAR(static_cast<double>(next_ps - there_ps), (1500 + 18200) * 1e3, 5e3);
}

TEST_F(FrontEndTest, ACopyFromTheHostWaitsForTheFirstRead) {
  const Ps there_ps = alone_.copy(0, false, 64, {kDone, 1}, 0);
  EXPECT_NEAR(static_cast<double>(there_ps), (700 + 1500 + 800) * 1e3, 2e3);
}

TEST_F(FrontEndTest, ACopySharesTheLinkWithOthers) {
  link_.send(pcie::Way::kUp, 0, link_.train(pcie::TlpKind::kMemWr, 1 << 20));  // until 18200
  EXPECT_GT(alone_.copy(0, true, 64, {kDone, 1}, 0), 18'200'000);
}

}  // namespace
}  // namespace marrow::gpu
