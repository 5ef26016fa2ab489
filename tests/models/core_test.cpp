// Does a CPU thread spend what its program's schedule, worked out by hand, says?
//
// Round numbers: a look at a cached word takes 10 ns, a line that a device wrote is there 100 ns
// after the write and 30 ns after the look that misses, a store fence takes 5 ns, a store to a
// register leaves the cores after 40 ns.
#include "models/host/core.h"

#include "models/pcie/root_complex.h"
#include "tests/support/agents.h"
#include "tests/support/systemc_fixture.h"

namespace marrow {
namespace {

HostSpec spec() {
  HostSpec spec;
  spec.poll_ns = 10;
  spec.line_ns = 30;
  spec.notice_ns = 100;
  spec.fence_ns = 5;
  spec.mmio_ns = 40;
  return spec;
}

enum : std::uint32_t { kRecord, kBell, kCqe, kFar };

Step step(StepOp op, std::uint32_t word = 0, Value value = Value::kZero) {
  Step step;
  step.op = op;
  step.word = word;
  step.value = value;
  step.bytes = 8;
  return step;
}
Step compute(double ns) {
  Step compute = step(StepOp::kCompute);
  compute.cycles = ns;
  return compute;
}
Step fence(Scope scope) {
  Step fence = step(StepOp::kFence);
  fence.scope = scope;
  return fence;
}
Step poll(std::uint32_t word = kCqe) {
  Step poll = step(StepOp::kPoll, word);
  poll.until = Until::kAnswered;
  return poll;
}

class Operations : public Observer {
 public:
  void on_journey(const Journey&) override {}
  void on_operation(const Operation& operation) override { all.push_back(operation); }
  std::vector<Operation> all;
};

class CoreTest : public SystemC {
 protected:
  CoreTest() {
    core_.to_device.bind(device_.in);
    link_.out.bind(root_.from_link);
    root_.to_memory.bind(memory_.from_root);
    elaborate();
    program_.protocol = "by-hand";
    const char* const names[] = {"record", "bell", "cqe", "far"};
    const MemoryKind kinds[] = {MemoryKind::kHost, MemoryKind::kNic, MemoryKind::kHost,
                                MemoryKind::kGpu};
    for (std::uint32_t w = 0; w < std::size(names); ++w) {
      program_.regions.push_back({names[w], kinds[w], 4096, Owner::kQueue});
      Word word;
      word.name = names[w];
      word.region = w;
      program_.words.push_back(word);
    }
    program_.nic.present = true;
    program_.nic.doorbell = kBell;
    program_.on_cpu = true;
    Step index = step(StepOp::kOwnIndex);
    index.is_index = true;
    program_.of(OpKind::kPut) = {index,
                                 compute(20),
                                 step(StepOp::kStore, kRecord, Value::kNext),
                                 fence(Scope::kSys),
                                 step(StepOp::kStore, kBell, Value::kNext),
                                 fence(Scope::kGpu),
                                 fence(Scope::kSys),
                                 {}};
    program_.of(OpKind::kQuiet) = {poll(), {}};
  }
  /// One thread does `kinds`; a device writes the completion at written_ps (0: not at all).
  void start(std::vector<OpKind> kinds, Ps written_ps = 0) {
    kinds_ = std::move(kinds);
    layout_ = QueueLayout(program_, 1);
    memory_.reset(layout_.host_bytes());
    core_.reset(1);
    book_.begin(1, nullptr);
    context_.program = &program_;
    context_.layout = &layout_;
    context_.book = &book_;
    context_.observer = &operations_;
    context_.lanes = context_.queues = 1;
    context_.next_op = [this](std::uint32_t, Op& op) {
      if (done_ == kinds_.size()) return false;
      op = {};
      op.kind = kinds_[done_++];
      return true;
    };
    core_.add_lane(&context_, 0, 0);
    if (written_ps > 0) link_.issue(AccessKind::kStore, at(kCqe), written_ps, 1);
  }
  std::uint64_t at(std::uint32_t word) const { return layout_.address(program_, word, 0, 0); }
  Ps end_of(std::size_t operation) const { return operations_.all.at(operation).end_ps; }

  FarEnd device_{"device", 0};
  Requester link_{"link"};
  pcie::RootComplex root_{"root", spec()};
  host::HostMemory memory_{"memory", spec()};
  host::Core core_{"cores", spec(), &memory_};
  Program program_;
  QueueLayout layout_;
  JourneyBook book_;
  RunContext context_;
  Operations operations_;
  std::vector<OpKind> kinds_;
  std::size_t done_ = 0;
};

TEST_F(CoreTest, SpendsWhatTheHandScheduleSaysForAPost) {
  // compute -> 20; the store retires at once; fence -> 25; the register's store leaves then and is
  // out of the cores at 65; the narrow fence is the compiler's alone; fence -> 30.
  start({OpKind::kPut});
  run();
  EXPECT_EQ(end_of(0), 30'000);
  ASSERT_EQ(device_.arrivals().size(), 1u);
  EXPECT_EQ(device_.arrivals()[0].address, at(kBell));
  EXPECT_EQ(device_.arrivals()[0].at_ps, 65'000);
  EXPECT_EQ(memory_.load(at(kRecord), 8), 1u);
}

TEST_F(CoreTest, SeesADevicesWriteALinesWayAfterItsNextLook) {
  // It looks at 30, 40, 50 ...: written at 1010, found by the look at 1010, there at 1110.
  start({OpKind::kPut, OpKind::kQuiet}, 1'010'000);
  run();
  EXPECT_EQ(end_of(1), 1'110'000);
}

TEST_F(CoreTest, SeesAWriteThatJustMissedALookWithTheOneAfter) {
  // That look, at 1020, goes ahead while the write is still on its way to be seen.
  start({OpKind::kPut, OpKind::kQuiet}, 1'010'001);
  run();
  EXPECT_EQ(end_of(1), 1'110'001);
}

TEST_F(CoreTest, FetchesALineThatWasWrittenBeforeItLooks) {
  // Written at 29, the first look is at 30.
  start({OpKind::kPut, OpKind::kQuiet}, 29'000);
  run();
  EXPECT_EQ(end_of(1), 129'000);
}

TEST_F(CoreTest, FetchesALineThatWasWrittenLongAgoInALinesTime) {
  // Written at 29; a longer put brings the first look to 530: there at 560.
  program_.of(OpKind::kPut)[1] = compute(520);
  start({OpKind::kPut, OpKind::kQuiet}, 29'000);
  run();
  EXPECT_EQ(end_of(1), 560'000);
}

TEST_F(CoreTest, HasALineInItsCacheOnceItHasFetchedIt) {
  start({OpKind::kPut, OpKind::kQuiet, OpKind::kQuiet}, 29'000);
  run();
  EXPECT_EQ(end_of(2), 129'000 + 10'000);
}

TEST_F(CoreTest, PaysALockedInstructionForAnAtomicAndTakesItsOldValue) {
  // Look 10, locked 5: the index is there at 15, the end 20 + 5 + 5 later.
  Step ticket = step(StepOp::kAtomic, kRecord, Value::kOne);
  ticket.is_index = true;
  ticket.reg = 0;
  program_.of(OpKind::kPut)[0] = ticket;
  program_.of(OpKind::kPut)[2].word = kCqe;
  start({OpKind::kPut});
  run();
  EXPECT_EQ(end_of(0), 45'000);
  EXPECT_EQ(memory_.load(at(kRecord), 8), 1u);
}

TEST_F(CoreTest, RefusesToPollWhatIsNotInHostMemory) {
  program_.of(OpKind::kQuiet) = {poll(kFar), {}};
  start({OpKind::kPut, OpKind::kQuiet});
  EXPECT_ANY_THROW(run());
}

}  // namespace
}  // namespace marrow
