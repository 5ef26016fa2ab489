// When does a proxy's thread see a descriptor and ring for it? Schedules worked out by hand.
//
// Round numbers: clock 1 GHz, a look that finds nothing takes 10 + 5 ns, a line that a device wrote
// is there 20 ns after the look and after the write, a store to a register leaves the cores after
// 40 ns. Handling a descriptor takes 20 ns.
#include "models/host/core.h"
#include "models/pcie/root_complex.h"
#include "tests/support/agents.h"
#include "tests/support/systemc_fixture.h"

namespace marrow {
namespace {

HostSpec spec() {
  HostSpec spec;
  spec.clock_ghz = spec.cold_clock_ghz = 1;
  spec.poll_ns = 10;
  spec.line_ns = spec.notice_ns = 20;
  spec.mmio_ns = 40;
  return spec;
}

enum : std::uint32_t { kFirst, kSecond, kBell };

class ProxyTest : public SystemC {
 protected:
  ProxyTest() {
    core_.to_device.bind(device_.in);
    link_.out.bind(root_.from_link);
    root_.to_memory.bind(memory_.from_root);
    elaborate();
    program_.protocol = "by-hand";
    program_.regions = {{"ring", MemoryKind::kHost, 4096, Owner::kQueue},
                        {"bell", MemoryKind::kNic, 4096, Owner::kQueue}};
    const char* const names[] = {"first", "second", "bell"};
    for (std::uint32_t w = 0; w < std::size(names); ++w) {
      Word word;
      word.name = names[w];
      word.region = w == kBell ? 1 : 0;
      if (w != kBell) {
        word.offset_bytes = 8 * w;
        word.entry_bytes = 16;
        word.entries = 64;
      }
      program_.words.push_back(word);
    }
    program_.nic.present = true;
    program_.nic.doorbell = kBell;
    program_.proxy.present = true;
    program_.proxy.announcement = kFirst;
    // A descriptor has two words; both must be there before anything is done.
    Step look = step(StepOp::kLook, kFirst, 5);
    look.until = Until::kPresent;
    Step second = step(StepOp::kPoll, kSecond, 5);
    second.until = Until::kPresent;
    Step bell = step(StepOp::kStore, kBell);
    bell.value = Value::kNext;
    Step again = step(StepOp::kAgain);
    again.target = 0;
    program_.proxy.visit = {look, second, step(StepOp::kCompute, 0, 20), bell, again, {}};
    program_.proxy.visit[0].then = program_.proxy.visit[0].target = 5;
  }
  static Step step(StepOp op, std::uint32_t word = 0, double cycles = 0) {
    Step step;
    step.op = op;
    step.word = word;
    step.cycles = cycles;
    step.bytes = 8;
    return step;
  }
  void start(std::uint32_t queues, std::uint32_t workers = 1, std::uint32_t most = 1) {
    program_.proxy.workers = workers;
    program_.proxy.visit[0].count = most;
    layout_ = QueueLayout(program_, queues);
    memory_.reset(layout_.host_bytes());
    core_.reset(1);
    book_.begin(queues, nullptr);
    context_.program = &program_;
    context_.layout = &layout_;
    context_.book = &book_;
    context_.queues = queues;
    core_.add_proxy(&context_);
  }
  /// A lane's descriptor: when its words reach host memory.
  void descriptor(std::uint32_t queue, std::uint64_t index, Ps first_ps, Ps second_ps) {
    book_.open(queue, index);
    link_.issue(AccessKind::kStore, layout_.address(program_, kFirst, queue, index), first_ps,
                index + 1);
    link_.issue(AccessKind::kStore, layout_.address(program_, kSecond, queue, index), second_ps,
                index + 1);
  }
  Ps bell(std::size_t number = 0) const { return device_.arrivals().at(number).at_ps; }

  FarEnd device_{"device", 0};
  Requester link_{"link"};
  pcie::RootComplex root_{"root", spec()};
  host::HostMemory memory_{"memory", spec()};
  host::Core core_{"cores", spec(), &memory_};
  Program program_;
  QueueLayout layout_;
  JourneyBook book_;
  RunContext context_;
};

TEST_F(ProxyTest, RingsAsTheHandScheduleSays) {
  // It looks at 0, 15, 30 ...: written at 1000, found by the look at 1005, there at 1025; a look at
  // the second word in the same line -> 1035; handled -> 1055; the store arrives at 1095.
  start(1);
  descriptor(0, 0, 1'000'000, 1'000'000);
  run();
  ASSERT_EQ(device_.arrivals().size(), 1u);
  EXPECT_EQ(bell(), 1'095'000);
}

TEST_F(ProxyTest, WaitsForTheDescriptorsLastWord) {
  // The first word is there at 1025; from then on it looks every 15 ns for the second: the look at
  // 1505 finds what was written at 1505, there at 1525; handled -> 1545; 1585 at the device.
  start(1);
  descriptor(0, 0, 1'000'000, 1'505'000);
  run();
  ASSERT_EQ(device_.arrivals().size(), 1u);
  EXPECT_EQ(bell(), 1'585'000);
}

TEST_F(ProxyTest, DoesNotSeeALastWordThatJustMissedItsLook) {
  start(1);
  descriptor(0, 0, 1'000'000, 1'505'001);
  run();
  ASSERT_EQ(device_.arrivals().size(), 1u);
  EXPECT_EQ(bell(), 1'600'000) << "the look at 1520";
}

TEST_F(ProxyTest, SeesADescriptorLaterTheMoreRingsItServes) {
  // A pass over 4 rings takes 60 ns; it looks at ring 2 at 30, 90, ... 1050. Over 64 rings it takes
  // 960 ns: 30, 990, 1950. Then 20 for the line, 10 for the second word, 20, 40.
  for (const auto& [rings, look_ps] : {std::pair{4u, 1'050'000}, std::pair{64u, 1'950'000}}) {
    const Ps begin_ps = now_ps();
    const std::size_t before = device_.arrivals().size();
    start(rings);
    descriptor(2, 0, begin_ps + 1'000'000, begin_ps + 1'000'000);
    run();
    ASSERT_EQ(device_.arrivals().size(), before + 1);
    EXPECT_EQ(bell(before) - begin_ps, look_ps + 90'000) << rings;
  }
}

TEST_F(ProxyTest, DealsTheRingsToItsThreads) {
  // Two threads: the first has rings 0 and 2 and looks at ring 2 at 15, 45, ... 1005.
  start(4, 2);
  descriptor(2, 0, 1'000'000, 1'000'000);
  run();
  EXPECT_EQ(bell(), 1'095'000);
}

TEST_F(ProxyTest, HandlesTwoRingsOneAfterTheOther) {
  // Ring 0 is found at 1005 (period 30: 0, 30 ... 1020) and ring 1 right behind that visit.
  start(2);
  descriptor(1, 0, 1'000'000, 1'000'000);
  descriptor(0, 0, 1'000'000, 1'000'000);
  run();
  // Ring 1's look comes first, at 15 + 30 k = 1005: 1095 as above. The visit ends at 1055; ring 0's
  // look is next: fetched long ago, so 20 for the line -> 1075, 10, 20 -> 1105, 40.
  ASSERT_EQ(device_.arrivals().size(), 2u);
  EXPECT_EQ(bell(0), 1'095'000);
  EXPECT_EQ(device_.arrivals()[0].address, layout_.address(program_, kBell, 1, 0));
  EXPECT_EQ(bell(1), 1'145'000);
}

TEST_F(ProxyTest, TakesSeveralDescriptorsOfARingInOneVisitIfItMay) {
  // The second one lies in the line that is there already: 1055 + 10 + 10 + 20 + 40.
  start(4, 1, 16);
  descriptor(1, 0, 1'000'000, 1'000'000);
  descriptor(1, 1, 1'000'000, 1'000'000);
  run();
  // Ring 1's looks: 15 + 60 k = 1035 -> line 1055, second word 1065, handled 1085, 1125.
  ASSERT_EQ(device_.arrivals().size(), 2u);
  EXPECT_EQ(bell(0), 1'125'000);
  EXPECT_EQ(bell(1), 1'165'000);
}

TEST_F(ProxyTest, GoesOnWithTheOtherRingsIfItMayTakeOneOnly) {
  start(4, 1, 1);
  descriptor(1, 0, 1'000'000, 1'000'000);
  descriptor(1, 1, 1'000'000, 1'000'000);
  run();
  // The visit ends at 1085; three rings in vain, 45 ns, then 10 + 10 + 20 + 40.
  ASSERT_EQ(device_.arrivals().size(), 2u);
  EXPECT_EQ(bell(1), 1'210'000);
}

}  // namespace
}  // namespace marrow
