// What does a device find in host memory, when, and in which order?
#include "models/host/memory.h"
#include "models/pcie/root_complex.h"
#include "tests/support/agents.h"
#include "tests/support/systemc_fixture.h"

namespace marrow {
namespace {

HostSpec spec() {
  HostSpec spec;
  spec.snoop_ns = 40;
  spec.read_after_store_ns = 100;
  return spec;
}

class HostTest : public SystemC {
 protected:
  HostTest() {
    link_.out.bind(root_.from_link);
    root_.to_memory.bind(memory_.from_root);
    memory_.reset(4096);
    elaborate();
  }
  Requester link_{"link"};
  pcie::RootComplex root_{"root", spec()};
  host::HostMemory memory_{"memory", spec()};
};

TEST_F(HostTest, ServesAReadThatFollowsNoWriteAtOnce) {
  const auto& read = link_.issue(AccessKind::kLoad, kHostBase, 5'000);
  run();
  EXPECT_EQ(read.answered_ps, 5'000);
}

TEST_F(HostTest, ServesAReadBehindAPostedWriteAfterItHasBeenCommittedAndNotBefore) {
  link_.issue(AccessKind::kStore, kHostBase, 1'000'000, 7);
  const auto& early = link_.issue(AccessKind::kLoad, kHostBase, 1'000'000);
  const auto& late = link_.issue(AccessKind::kLoad, kHostBase, 1'099'999);
  const auto& committed = link_.issue(AccessKind::kLoad, kHostBase, 1'100'001);
  run();
  EXPECT_EQ(early.answered_ps, 1'100'000);
  EXPECT_EQ(late.answered_ps, 1'100'000) << "a picosecond before the commit";
  EXPECT_EQ(committed.answered_ps, 1'100'001);
  EXPECT_EQ(early.access.value, 7u);
}

TEST_F(HostTest, DelaysAnothersReadNoLongerThanUntilTheWriteIsThere) {
  link_.issue(AccessKind::kStore, kHostBase, 1'000'000, 7);
  auto& read = link_.prepare(AccessKind::kLoad, kHostBase);
  read.access.sm = 5;
  link_.issue(read, 900'000);
  run();
  EXPECT_EQ(read.answered_ps, 1'000'000);
  EXPECT_EQ(read.access.value, 7u);
}

TEST_F(HostTest, LetsNoReadPassAWriteThatCameFirst) {
  // The write's way is annotated as longer than the read's: PCIe's order holds all the same.
  link_.issue(AccessKind::kStore, kHostBase, 900'000, 7);
  const auto& read = link_.issue(AccessKind::kLoad, kHostBase, 500'000);
  run();
  EXPECT_EQ(read.access.value, 7u);
  EXPECT_GE(read.answered_ps, 900'000);
}

TEST_F(HostTest, LetsNoWritePassAWriteThatCameFirst) {
  std::vector<std::uint64_t> order;
  memory_.watch(kHostBase, kHostBase + 4096, [&](std::uint64_t address, std::uint64_t, Ps at_ps) {
    order.push_back(address - kHostBase);
    EXPECT_GE(at_ps, 900'000);
  });
  link_.issue(AccessKind::kStore, kHostBase, 900'000, 1);
  link_.issue(AccessKind::kStore, kHostBase + 8, 500'000, 2);
  run();
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 8}));
}

TEST_F(HostTest, DelaysNoReadForAWriteThatComesLater) {
  const auto& read = link_.issue(AccessKind::kLoad, kHostBase, 5'000);
  link_.issue(AccessKind::kStore, kHostBase, 5'001, 7);
  run();
  EXPECT_EQ(read.answered_ps, 5'000);
  EXPECT_EQ(read.access.value, 0u);
}

TEST_F(HostTest, SnoopsOnlyForLinesThatACoreWroteLast) {
  memory_.core_store(kHostBase + 64, 5, 8);
  const auto& untouched = link_.issue(AccessKind::kLoad, kHostBase, 1'000);
  const auto& of_core = link_.issue(AccessKind::kLoad, kHostBase + 64, 1'000);
  const auto& same_line = link_.issue(AccessKind::kLoad, kHostBase + 120, 1'000);
  const auto& next_line = link_.issue(AccessKind::kLoad, kHostBase + 128, 1'000);
  run();
  EXPECT_EQ(untouched.answered_ps, 1'000);
  EXPECT_EQ(of_core.answered_ps, 41'000);
  EXPECT_EQ(of_core.access.value, 5u);
  EXPECT_EQ(same_line.answered_ps, 41'000) << "the same 64 B line";
  EXPECT_EQ(next_line.answered_ps, 1'000);
}

TEST_F(HostTest, SnoopsNoMoreOnceADeviceHasWrittenTheLine) {
  memory_.core_store(kHostBase + 64, 5, 8);
  link_.issue(AccessKind::kStore, kHostBase + 72, 1'000, 9);
  const auto& read = link_.issue(AccessKind::kLoad, kHostBase + 64, 500'000);
  run();
  EXPECT_EQ(read.answered_ps, 500'000);
  EXPECT_EQ(read.access.value, 5u);
}

TEST_F(HostTest, TellsACoreThatADeviceWroteTheLineUntilItHasLooked) {
  EXPECT_LT(memory_.core_look(kHostBase + 64), 0);
  link_.issue(AccessKind::kStore, kHostBase + 72, 1'000, 9);
  run();
  EXPECT_GE(memory_.core_look(kHostBase + 64), 0) << "the same 64 B line";
  EXPECT_LT(memory_.core_look(kHostBase + 64), 0);
  EXPECT_LT(memory_.core_look(kHostBase + 128), 0);
}

TEST_F(HostTest, GivesTheLineBackToTheCoreThatWritesItAgain) {
  link_.issue(AccessKind::kStore, kHostBase + 64, 1'000, 9);
  run();
  memory_.core_store(kHostBase + 64, 10, 8);
  const auto& read = link_.issue(AccessKind::kLoad, kHostBase + 64, 500'000);
  run();
  EXPECT_EQ(read.answered_ps, 540'000);
  EXPECT_EQ(read.access.value, 10u);
}

}  // namespace
}  // namespace marrow
