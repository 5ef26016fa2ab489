// Do the libraries' recipes do what the libraries' code does: the same stores, atomics and fences
// in the GPU, the same accesses of the NIC, and do they run to the end with every choice?
#include <cmath>
#include <filesystem>

#include "sim/config/system.h"
#include "sim/results/counters.h"
#include "tests/support/choices.h"
#include "tests/support/round_machine.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";
/// So that a message is alone: far more than its 10 us.
constexpr std::uint64_t kGapCycles = 100'000;

config::Recipe recipe(const std::string& name, const Choices& choices = {}) {
  return config::load_recipe(kConfigs + "/protocols/" + name + ".yaml", choices);
}

std::vector<gpu::Op> ops(OpKind kind, std::size_t count, std::uint64_t bytes = 8) {
  std::vector<gpu::Op> all(count, gpu::Op{kind, bytes, false, false, kGapCycles});
  all.back().flush = true;
  return all;
}

class Protocols : public SystemC {
 protected:
  sim::Machine machine{config::bind(config::load_system(kConfigs + "/systems/p-ib.yaml", {}))};

  /// What the blocks counted since the last call.
  std::map<std::string, double> counts() {
    results::Counters counters;
    machine.report(counters);
    machine.clear_counters();
    std::map<std::string, double> all;
    for (const results::Counter& c : counters.all()) all[c.block + " " + c.name] += c.value;
    return all;
  }
};

struct Row {
  const char* protocol;
  Choices choices;
  OpKind kind;
  std::size_t messages;  ///< of which the last says flush
  // Of all of them together.
  double stores, atomics, fences;                    ///< GPU: instructions; fences of GPU scope
  double doorbells, entries, payloads, completions;  ///< NIC: registers written, 64 B read, written
};

/// By hand from the libraries' sources: memory instructions and PCIe transactions per message (WQE
/// stores + record, doorbells, unlock, queue pair counter).
TEST_F(Protocols, CountWhatTheSourcesCount) {
  const std::map<std::string, std::string> kBare = {{"publish", "load"},
                                                    {"doorbell_record", "false"}};
  const std::vector<Row> rows = {
      // 12 of 4 B, record, doorbell, unlock, counter; reserve, publish, lock, producer index
      {"nvshmem-ibgda", {}, OpKind::kPut, 1, 16, 4, 3, 1, 1, 1, 1},
      // 11 of 4 B: control 4, remote address 4, inline header 1, 8 B
      {"nvshmem-ibgda", {{"payload", "write_inline"}}, OpKind::kPut, 1, 15, 4, 3, 1, 1, 0, 1},
      // half address vector: 4 more
      {"nvshmem-ibgda", {{"transport", "dc"}}, OpKind::kPut, 1, 20, 4, 3, 1, 1, 1, 1},
      {"nvshmem-ibgda", {}, OpKind::kPutSignal, 1, 36, 4, 3, 1, 2, 1, 1},
      // write, compare-and-swap with masks over two, NOP for the CQE
      {"nvshmem-ibgda", {{"signal", "set"}}, OpKind::kPutSignal, 1, 40, 4, 3, 1, 4, 1, 1},
      {"gdaki", {}, OpKind::kPut, 1, 7, 4, 3, 2, 1, 1, 1},
      {"gdaki", {}, OpKind::kPutSignal, 1, 11, 4, 3, 2, 2, 1, 2},
      {"gdaki", {{"doorbell_record", "false"}}, OpKind::kPut, 1, 4, 3, 2, 1, 1, 1, 1},
      // three of 16 B, ready, doorbell; reserve, producer index; release, acquire, doorbell
      {"gdaki", kBare, OpKind::kPut, 1, 5, 2, 3, 1, 1, 1, 1},
      {"gdaki", kBare, OpKind::kPutSignal, 1, 9, 2, 3, 1, 2, 1, 2},
      {"deepep", {{"batch", "1"}}, OpKind::kPut, 1, 6, 4, 3, 1, 1, 1, 1},
      // three of four do not ring: 3 x (3, 2, 1) and (6, 4, 3)
      {"deepep", {}, OpKind::kPut, 4, 15, 10, 6, 1, 4, 4, 4},
      // the count flag: 4 of 16 B, record, doorbell, unlock
      {"deepep", {}, OpKind::kAtomic, 1, 7, 4, 3, 1, 1, 0, 1},
      // record, two doorbells, ready
      {"ucx-gdaki", {}, OpKind::kPut, 1, 7, 1, 2, 2, 1, 1, 1},
      // 9 skip the bell: 9 x (3, 2, 1); the last rings
      {"ucx-gdaki", {{"nodelay", "false"}}, OpKind::kPut, 10, 34, 19, 11, 2, 10, 10, 10},
      {"ucx-gdaki", {}, OpKind::kAtomic, 1, 8, 1, 2, 2, 1, 0, 1},
      // nothing is read but the payload
      {"gin-gpi", {}, OpKind::kPut, 1, 4, 1, 0, 1, 0, 1, 1},
      // two fences before the doorbell; record, doorbell
      {"mini-gda", {}, OpKind::kPut, 1, 5, 0, 2, 1, 1, 0, 1},
  };
  for (const Row& row : rows) {
    std::string name = row.protocol;
    for (const auto& [key, value] : row.choices) name += " " + key + "=" + value;
    SCOPED_TRACE(name + " " + std::string(kOpKindNames[static_cast<std::size_t>(row.kind)]));
    counts();
    replay(machine, recipe(row.protocol, row.choices), {{0, 0, ops(row.kind, row.messages)}});
    std::map<std::string, double> seen = counts();
    EXPECT_EQ(seen["gpu0.sm store instructions"], row.stores);
    EXPECT_EQ(seen["gpu0_l2 atomics"], row.atomics);
    EXPECT_EQ(seen["gpu0.sm fences gpu"], row.fences);
    EXPECT_EQ(seen["nic0.requester doorbells"], row.doorbells);
    EXPECT_EQ(seen["nic0.requester entries fetched"], row.entries);
    EXPECT_EQ(seen["nic0.requester completions"], row.completions);
    // Reads: the entries of one doorbell in one, and each payload of 8 B in one.
    EXPECT_EQ(seen["nic0 DMA reads"], seen["nic0.requester entry fetches"] + row.payloads);
    // Writes: completions, and what an atomic brings back.
    const bool answered = row.kind == OpKind::kAtomic || row.kind == OpKind::kPutSignal;
    EXPECT_EQ(seen["nic0 DMA writes"], row.completions + (answered ? 1 : 0));
    EXPECT_EQ(seen["nic0.requester refused"], 0);
  }
}

TEST_F(Protocols, DeepEpRingsOnEveryFourthMessage) {
  const Journeys journeys = replay(machine, recipe("deepep"), {{0, 0, ops(OpKind::kPut, 12)}});
  ASSERT_EQ(journeys.all.size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(journeys.all[i].rang, i % 4 == 3) << i;
}

TEST_F(Protocols, UcxRingsWhereAMultipleOf128IsCrossed) {
  const Journeys journeys = replay(machine, recipe("ucx-gdaki", {{"nodelay", "false"}}),
                                   {{0, 0, ops(OpKind::kPut, 300)}});
  ASSERT_EQ(journeys.all.size(), 300u);
  for (std::size_t i = 0; i < 300; ++i)
    EXPECT_EQ(journeys.all[i].rang, i == 127 || i == 255 || i == 299) << i;
}

TEST_F(Protocols, ALongerInlinePayloadTakesMoreStoresAndEntries) {
  // Units of 16 B: control, remote address, and header with payload (4 + bytes): 8 B 3, 12 B 3,
  // 13 B 4, 28 B 4, 29 B 5 and a second entry, 92 B 8, 93 B 9 and a third.
  for (const auto& [bytes, units] : std::map<std::uint64_t, double>{
           {8, 3}, {12, 3}, {13, 4}, {28, 4}, {29, 5}, {92, 8}, {93, 9}, {204, 15}}) {
    SCOPED_TRACE(bytes);
    counts();
    replay(machine, recipe("mini-gda"), {{0, 0, ops(OpKind::kPut, 1, bytes)}});
    std::map<std::string, double> seen = counts();
    EXPECT_EQ(seen["gpu0.sm store instructions"], units + 2) << "record and doorbell";
    EXPECT_EQ(seen["nic0.requester entries fetched"], std::ceil(units / 4));
    EXPECT_EQ(seen["nic0.requester completions"], 1);
  }
}

TEST_F(Protocols, AnEntryMayGoOnInTheNextFetchAndAtTheRingsBeginning) {
  // Three blocks each (140 B: 11 units): 1024 and a fetch's 16 are no multiples of three.
  for (const char* batch : {"1", "16"}) {
    std::vector<gpu::Op> puts(1000, {OpKind::kPut, 140});
    puts.back().flush = true;
    const Journeys journeys =
        replay(machine, recipe("mini-gda", {{"batch", batch}}), {{0, 0, puts}});
    ASSERT_EQ(journeys.all.size(), 1000u);
    for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(journeys.all[i].index, 3 * i);
  }
}

TEST_F(Protocols, AWarpsLanesPostTogetherAndRingOnce) {
  counts();
  const Journeys journeys =
      replay(machine, recipe("mini-gda", {{"lanes", "32"}}), {{0, 0, ops(OpKind::kPut, 4)}});
  std::map<std::string, double> seen = counts();
  EXPECT_EQ(journeys.all.size(), 4 * 32u);
  EXPECT_EQ(seen["nic0.requester doorbells"], 4);
  EXPECT_EQ(seen["nic0.requester entries fetched"], 4 * 32);
  EXPECT_EQ(seen["gpu0.sm store instructions"], 4 * 5) << "an instruction is the warp's";
  for (std::size_t i = 0; i < journeys.all.size(); ++i) EXPECT_EQ(journeys.all[i].index, i);
}

TEST_F(Protocols, RunBetweenTwoElementsWithEveryChoiceAndOperation) {
  std::size_t combinations = 0;
  for (const auto& file : std::filesystem::directory_iterator(kConfigs + "/protocols"))
    for (const Choices& choices : config::YamlNode::open(file.path().string()).find("nic")
                                      ? choices_of(file.path().string())
                                      : std::vector<Choices>{}) {
      std::string name = file.path().stem().string();
      for (const auto& [key, value] : choices) name += " " + key + "=" + value;
      SCOPED_TRACE(name);
      ++combinations;
      const config::Recipe protocol = config::load_recipe(file.path().string(), choices);
      const Program& program = protocol.program;
      // What one lane does; its partner does the same, so that what it waits for comes.
      std::vector<gpu::Op> script(5, {OpKind::kPut, 8});
      script.back().flush = true;
      std::size_t signals = 0;
      for (const OpKind kind : {OpKind::kPutSignal, OpKind::kGet, OpKind::kAtomic, OpKind::kFence})
        if (!program.of(kind).empty()) {
          script.push_back({kind, 8, true});
          signals += kind == OpKind::kPutSignal || kind == OpKind::kAtomic;
        }
      script.push_back({OpKind::kQuiet});
      // Without signals a data word is waited for; an inline payload holds the put's number.
      if (program.of(OpKind::kPutSignal).empty() && program.of(OpKind::kAtomic).empty())
        signals = program.inlines[static_cast<std::size_t>(OpKind::kPut)];
      const bool sees = !program.on_cpu || !choices.count("target") ||
                        choices.at("target") != "gpu" ||
                        choices.at("immediate") == "yes";  // a CPU thread cannot see GPU memory
      if (sees && !program.of(OpKind::kWait).empty())
        script.insert(script.end(), signals, {OpKind::kWait});
      if (!program.of(OpKind::kBarrier).empty()) script.push_back({OpKind::kBarrier});
      std::size_t messages = 0;
      for (const gpu::Op& op : script)
        if (is_message(op.kind) || op.kind == OpKind::kBarrier)
          messages += std::max(program.lanes[static_cast<std::size_t>(op.kind)], 1u);
      const auto is = [&](const char* choice, const char* value) {
        return choices.count(choice) && choices.at(choice) == value;
      };
      const bool alone = program.on_cpu || is("sharing", "none") ||
                         (is("variant", "tuned") && is("producers", "one"));
      trace::Run run;
      run.name = name;
      run.queues = alone ? 2 : 1;
      for (std::uint32_t warp = 0; warp < 4; ++warp)
        run.lanes.push_back({warp, warp * 2, alone ? warp % 2 : 0, warp / 2, 1 - warp / 2});
      std::array<std::size_t, 4> next{};
      Journeys journeys;
      sim::RunSetup setup;
      setup.recipe = &protocol;
      setup.run = &run;
      setup.observer = &journeys;
      setup.next_op = [&](std::uint32_t warp, gpu::Op& op) {
        if (next[warp] == script.size()) return false;
        op = script[next[warp]++];
        return true;
      };
      ASSERT_NO_THROW(machine.run(setup));
      EXPECT_EQ(journeys.all.size(), 4 * messages);
    }
  EXPECT_GE(combinations, 600u) << "mini-gda 336, nvshmem-ibgda 256, gdaki 8";
}

}  // namespace
}  // namespace marrow
