// Does the machine allow what the rules allow, and nothing else? Programs built by hand, where the
// answer follows from one rule.
#include <gtest/gtest.h>

#include "models/common/error.h"
#include "sim/order/build.h"
#include "sim/order/explore.h"

namespace marrow::order {
namespace {

using Outcomes = std::set<std::vector<Word16>>;

Home gpu(std::uint8_t node) { return {node, MemoryKind::kGpu}; }

// Message passing over `fences`: what a reader of another CTA may see of data behind the flag.
Outcomes message(Scope release, Scope acquire) {
  Builder b(nullptr, {});
  b.word("data", gpu(0), false);
  b.word("flag", gpu(0), false);
  const auto a = b.thread("A", 0, MemoryKind::kGpu, 0, 0, 0);
  b.store(a, "data", 1);
  b.fence(a, release);
  b.store(a, "flag", 1);
  const auto r = b.thread("B", 0, MemoryKind::kGpu, 1, 1, 0);
  b.poll(r, "flag", 1, acquire);
  b.load(r, "data", "r", Scope::kNone, 0);
  return explore(b.finish()).outcomes;
}

TEST(Machine, OrdersAMessageOnlyWhereBothSidesFenceInAScopeThatHoldsTheOther) {
  const Outcomes both = {{0}, {1}}, fresh = {{1}};
  EXPECT_EQ(message(Scope::kGpu, Scope::kGpu), fresh);
  EXPECT_EQ(message(Scope::kSys, Scope::kSys), fresh);
  EXPECT_EQ(message(Scope::kNone, Scope::kGpu), both);
  EXPECT_EQ(message(Scope::kGpu, Scope::kNone), both);
  EXPECT_EQ(message(Scope::kCta, Scope::kGpu), both);
  EXPECT_EQ(message(Scope::kGpu, Scope::kCta), both);
}

// Two writes on one queue pair, by what their memory is registered as. A write with the RO bit may
// pass; one without may not (PCIe ordering table, A2).
Outcomes two_writes(bool data_relaxed, bool flag_relaxed) {
  Builder b(nullptr, {});
  b.word("data", gpu(1), data_relaxed);
  b.word("flag", gpu(1), flag_relaxed);
  const auto a = b.thread("A", 0, MemoryKind::kGpu, 0, 0, 0);
  b.post(a, 0, EntryForm::kWriteInline, "", "data");
  b.post(a, 0, EntryForm::kWriteInline, "", "flag");
  const auto r = b.thread("R", 1, MemoryKind::kGpu, 0, 0, 0);
  b.poll(r, "flag", 1, Scope::kSys);
  b.load(r, "data", "r", Scope::kNone, 0);
  return explore(b.finish()).outcomes;
}

TEST(Machine, LetsARelaxedFlagPassTheDataAndNoOther) {
  const Outcomes both = {{0}, {1}}, fresh = {{1}};
  EXPECT_EQ(two_writes(false, false), fresh);
  EXPECT_EQ(two_writes(true, false), fresh);
  EXPECT_EQ(two_writes(false, true), both);
  EXPECT_EQ(two_writes(true, true), both);
}

TEST(Machine, CountsEveryAtomicOnce) {
  Builder b(nullptr, {});
  b.word("count", gpu(0), false);
  for (std::uint8_t t = 0; t < 3; ++t) {
    const auto lane =
        b.thread(std::string(1, static_cast<char>('A' + t)), 0, MemoryKind::kGpu, t, t, 0);
    b.add(lane, "count", "old" + std::to_string(t), Scope::kNone);
  }
  // Three adds: their old values are 0, 1 and 2 in some order, 3! of them.
  const Outcomes outcomes = explore(b.finish()).outcomes;
  EXPECT_EQ(outcomes.size(), 6U);
  for (const auto& values : outcomes)
    EXPECT_EQ(std::set<Word16>(values.begin(), values.end()), (std::set<Word16>{0, 1, 2}));
}

// A reader that looks twice never goes back: 1 then 0 is not among what it may see.
TEST(Machine, LetsNoReaderGoBackOnOneWord) {
  Builder b(nullptr, {});
  b.word("x", gpu(0), false);
  const auto a = b.thread("A", 0, MemoryKind::kGpu, 0, 0, 0);
  b.store(a, "x", 1);
  const auto r = b.thread("B", 0, MemoryKind::kGpu, 1, 1, 0);
  b.load(r, "x", "first", Scope::kNone, 0);
  b.load(r, "x", "second", Scope::kNone, 0);
  EXPECT_EQ(explore(b.finish()).outcomes, (Outcomes{{0, 0}, {0, 1}, {1, 1}}));
}

TEST(Machine, SaysWhenItWasCutOff) {
  Builder b(nullptr, {});
  b.word("x", gpu(0), false);
  b.word("y", gpu(0), false);
  for (std::uint8_t t = 0; t < 2; ++t) {
    const auto lane = b.thread(t ? "B" : "A", 0, MemoryKind::kGpu, t, t, 0);
    b.store(lane, t ? "y" : "x", 1);
    b.load(lane, t ? "x" : "y", t ? "s" : "r", Scope::kNone, 0);
  }
  const OrderProgram program = b.finish();
  EXPECT_FALSE(explore(program).cut_off);
  EXPECT_TRUE(explore(program, 10).cut_off);
}

TEST(Machine, RefusesAProgramThatIsTooLarge) {
  Builder b(nullptr, {});
  for (std::uint8_t t = 0; t < 7; ++t)
    b.thread(std::string(1, static_cast<char>('A' + t)), 0, MemoryKind::kGpu, t, t, 0);
  const OrderProgram program = b.finish();
  EXPECT_THROW(Machine{program}, InputError);
}

TEST(Machine, TellsAWitnessThatEndsInTheHazard) {
  Builder b(nullptr, {});
  b.word("data", gpu(0), false);
  b.word("flag", gpu(0), false);
  const auto a = b.thread("A", 0, MemoryKind::kGpu, 0, 0, 0);
  b.store(a, "data", 1);
  b.store(a, "flag", 1);
  const auto r = b.thread("B", 0, MemoryKind::kGpu, 1, 1, 0);
  b.poll(r, "flag", 1, Scope::kGpu);
  b.load(r, "data", "", Scope::kNone, 1);
  const Exploration e = explore(b.finish());
  ASSERT_EQ(e.found.size(), 1U);
  EXPECT_EQ(e.found[0].finding.hazard, Hazard::kReader);
  EXPECT_EQ(e.found[0].finding.rule, "ptx-weak");
  ASSERT_FALSE(e.found[0].witness.empty());
  EXPECT_NE(e.found[0].witness.back().find("!!"), std::string::npos);
}

}  // namespace
}  // namespace marrow::order
