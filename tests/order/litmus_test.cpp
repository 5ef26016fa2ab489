// Do the litmus programs come out as the rules say, by themselves and against a table worked out by
// hand?
#include "sim/order/litmus.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "models/common/error.h"

namespace marrow::order {
namespace {

const std::string kRoot = MARROW_SOURCE_DIR;

std::vector<Judged> suite() {
  std::vector<Judged> programs;
  for (const std::string& file : litmus_files(kRoot + "/configs/litmus")) {
    Litmus litmus = load_litmus(file, kRoot + "/configs");
    Verdict verdict = judge(litmus);
    programs.push_back({std::move(litmus), std::move(verdict)});
  }
  return programs;
}

TEST(LitmusSuite, ComesOutAsExpectedForTheRuleThatItNames) {
  const auto programs = suite();
  EXPECT_GE(programs.size(), 24U);
  for (const Judged& p : programs) {
    EXPECT_TRUE(as_expected(p.litmus, p.verdict)) << p.litmus.file << ": " << p.verdict.reason;
    EXPECT_EQ(p.verdict.rule, p.litmus.rule) << p.litmus.file;
    EXPECT_FALSE(p.verdict.exploration.cut_off) << p.litmus.file;
    EXPECT_EQ(p.litmus.file.substr(p.litmus.file.rfind('/') + 1), p.litmus.name + ".yaml");
    if (p.verdict.is == Verdict::Is::kAllowed) {
      EXPECT_FALSE(p.verdict.witness.empty());
    }
  }
}

// Allowed results of every program of two threads, in the order of its loads, and its hazards.
struct Row {
  std::set<std::vector<Word16>> outcomes;
  std::set<std::string> hazards;
};
const std::set<std::vector<Word16>> kFresh = {{1}}, kBoth = {{0}, {1}}, kNothing = {{}};
const std::map<std::string, Row> kTable = {
    // The flag was seen, so the reader may see 0 only where nothing orders the data before it.
    {"gpu-no-fence", {kBoth, {}}},            // two stores of a lane: no order (ptx-weak)
    {"gpu-fence-gpu", {kFresh, {}}},          // release and acquire pattern, both gpu
    {"gpu-fence-cta-two-ctas", {kBoth, {}}},  // B is not in A's CTA: not morally strong
    {"gpu-fence-cta-one-cta", {kFresh, {}}},  // B is
    {"gpu-no-acquire", {kBoth, {}}},          // release without an acquire pattern
    {"gpu-acquire-load", {kFresh, {}}},       // ld.acquire is one
    // No synchronisation at all: each load may see either value.
    {"gpu-store-buffering", {{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, {}}},
    {"gpu-load-buffering", {{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, {}}},
    // 2 is stored behind the credit: the load is before it only if a fence says so. 1 is never
    // stored.
    {"gpu-credit-no-fence", {{{0}, {2}}, {}}},
    {"gpu-credit-fence", {{{0}}, {}}},
    {"host-data-gpu-fence", {kBoth, {}}},    // the CPU is outside gpu scope, data outside the L2
    {"host-data-sys-fence", {kFresh, {}}},   // sys holds the CPU; x86 does loads in order
    {"gpu-data-host-flag", {kFresh, {}}},    // the data is in the L2 (gpu-home)
    {"cpu-rung-no-fence", {kBoth, {}}},      // a relaxed atomic orders no earlier store
    {"cpu-rung-gpu-fence", {kFresh, {}}},    // gpu-home
    {"proxy-one-flag", {kBoth, {}}},         // two stores of a lane
    {"proxy-valid-bits", {kFresh, {}}},      // each word is waited for; the payload is fenced
    {"cpu-doorbell-no-fence", {kBoth, {}}},  // write combining may pass write back
    {"cpu-doorbell-sfence", {kFresh, {}}},
    {"cpu-two-stores", {kFresh, {}}},                 // x86-tso
    {"rdma-flag-other-queue", {kBoth, {}}},           // rc-queues
    {"rdma-flag-same-queue", {kFresh, {}}},           // rc-queue, then A2a
    {"rdma-flag-relaxed", {kBoth, {}}},               // A2b
    {"rdma-flag-strict-data-relaxed", {kFresh, {}}},  // A2a: the flag has no RO bit
    {"rdma-flag-in-host", {kBoth, {}}},               // pcie-paths
    // The same through recipes: the data's version where the flag was waited for.
    {"put-put-rotating-queues", {kBoth, {"reader"}}},
    {"put-fence-put", {kFresh, {}}},  // acknowledged means placed (claim)
    {"put-fence-put-bare", {kBoth, {"reader"}}},
    {"put-signal-one-queue", {kFresh, {}}},  // the atomic behind placed writes (claim)
    {"put-signal-relaxed-bare", {kBoth, {"reader"}}},
    {"signal-wait-no-fence", {kBoth, {"reader"}}},
    {"gin-put-signal", {kFresh, {}}},
    {"gin-signal-in-relaxed-window", {kBoth, {"reader"}}},
    {"deepep-count-same-queue", {kFresh, {}}},
    {"deepep-count-other-queue", {kBoth, {"reader"}}},
    {"ring-quiet-at-kernel-end", {kBoth, {"reader"}}},  // the receiver may come too early, or not
    {"ring-team-sync", {kFresh, {}}},
    {"write-with-immediate", {kFresh, {}}},
    {"write-with-immediate-gpu", {kBoth, {"reader"}}},
    // Two senders: nothing is loaded, hazards alone tell.
    {"two-lanes-one-queue", {kNothing, {}}},
    // Each may ring for the other, whose entry and payload may still be on their way. A lane's own
    // are behind its second fence.
    {"two-lanes-cta-fence", {kNothing, {"other_entry", "payload"}}},
    {"mini-gda-lock-one-cta", {kNothing, {}}},
    // Both take index 0 from a stale head: one slot, and the bell of the first announces the entry
    // of
    // the second, whose payload is not fenced yet.
    {"mini-gda-lock-two-ctas", {kNothing, {"payload"}}},
};

TEST(LitmusSuite, AgreesWithTheTableOfAllowedOutcomesOfTwoThreads) {
  std::size_t seen = 0;
  for (const Judged& p : suite()) {
    if (p.litmus.program.threads.size() != 2) continue;
    ASSERT_TRUE(kTable.count(p.litmus.name)) << "not in the table: " << p.litmus.name;
    const Row& row = kTable.at(p.litmus.name);
    EXPECT_EQ(p.verdict.exploration.outcomes, row.outcomes) << p.litmus.name;
    std::set<std::string> hazards;
    for (const auto& found : p.verdict.exploration.found)
      hazards.insert(std::string(name(found.finding.hazard).id));
    EXPECT_EQ(hazards, row.hazards) << p.litmus.name;
    ++seen;
  }
  EXPECT_EQ(seen, kTable.size());
}

TEST(LitmusSuite, TellsJsonWhatTheContractNames) {
  const auto json = to_json(suite());
  EXPECT_EQ(json.at("schema"), "marrow.litmus/1");
  for (const auto& program : json.at("programs")) {
    for (const char* key : {"name", "protocol", "expected", "verdict", "reason"})
      EXPECT_FALSE(program.at(key).get<std::string>().empty()) << key;
    EXPECT_EQ(program.at("verdict"), program.at("expected"));
  }
}

TEST(LitmusFile, NamesPlaceAndMendOfWhatIsWrong) {
  const auto complaint = [](const std::string& text) -> std::string {
    const std::string file = testing::TempDir() + "program.yaml";
    std::ofstream(file) << text;
    try {
      load_litmus(file, kRoot + "/configs");
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const std::string head = "name: p\nwhy: w\nexpected: allowed\nwords: {x: gpu0}\n";
  const std::string threads =
      "threads:\n  - {name: A, on: gpu0, do: [{store: {word: x, value: 1}}]}\n";
  EXPECT_NE(complaint(head + threads + "rule: ptx-weka\nhazard: any\n").find("nearest: ptx-weak"),
            std::string::npos);
  EXPECT_NE(complaint(head + threads + "rule: ptx-weak\n").find("`outcome:`"), std::string::npos);
  EXPECT_NE(complaint(head + threads + "rule: ptx-weak\noutcome: {r: 1}\n").find("no step gives"),
            std::string::npos);
  EXPECT_NE(
      complaint(head + "threads:\n  - {name: A, on: gpu7, do: []}\nrule: ptx-weak\nhazard: any\n")
          .find("no such node"),
      std::string::npos);
  EXPECT_NE(
      complaint(
          head +
          "threads:\n  - {name: A, on: gpu0, do: [{call: put}]}\nrule: ptx-weak\nhazard: any\n")
          .find("needs a recipe"),
      std::string::npos);
  EXPECT_NE(complaint(head + "threads:\n  - {name: A, on: gpu0, do: [{store: {word: y, value: "
                             "1}}]}\nrule: ptx-weak\nhazard: any\n")
                .find("no word 'y'"),
            std::string::npos);
}

}  // namespace
}  // namespace marrow::order
