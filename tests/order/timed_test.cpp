// Does the timed machine ever show what the rules forbid? The suite's programs on a GPU's own
// words, executed by the models with many placements and many delays between their steps: every
// outcome must be one that the exhaustive search has reached.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <random>

#include "models/gpu/hbm.h"
#include "models/gpu/l2.h"
#include "models/gpu/sm.h"
#include "sim/config/system.h"
#include "sim/order/litmus.h"
#include "tests/support/systemc_fixture.h"

// SystemC's library expects it.
int sc_main(int, char**) { return 0; }

namespace marrow::order {
namespace {

const std::string kRoot = MARROW_SOURCE_DIR;
constexpr std::uint64_t kWordBytes = 128;  // a line each
constexpr std::uint32_t kSeeds = 40;
// An operation for each thread, of those that post no message.
constexpr std::array<OpKind, 4> kOperations = {OpKind::kFence, OpKind::kQuiet, OpKind::kWait,
                                               OpKind::kBarrier};

/// A litmus program's threads as steps of a recipe, with its results and constants in words of
/// their own.
struct Timed {
  Program program;
  std::map<std::uint32_t, Word16> constants;  ///< word, value
  std::vector<std::uint32_t> results;         ///< words
};

std::uint32_t add_word(Timed& timed, const std::string& name) {
  Word word;
  word.name = name;
  word.offset_bytes = timed.program.words.size() * kWordBytes;
  timed.program.words.push_back(word);
  return static_cast<std::uint32_t>(timed.program.words.size() - 1);
}

Step step(StepOp op, std::uint32_t word = 0) {
  Step s;
  s.op = op;
  s.word = word;
  s.bytes = 8;
  return s;
}

bool expressible(const OrderProgram& p) {
  for (const Location& l : p.locations)
    if (l.home.memory == MemoryKind::kNic)
      continue;  // queues that nobody uses
    else if (!(l.home == Home{0, MemoryKind::kGpu}))
      return false;
  for (const Thread& thread : p.threads) {
    if (thread.on != MemoryKind::kGpu || thread.node != 0) return false;
    for (const Op& op : thread.ops)
      if (op.code == OpCode::kSync || op.code == OpCode::kPost || op.code == OpCode::kMove)
        return false;
  }
  return p.threads.size() <= kOperations.size();
}

Timed timed(const OrderProgram& p, std::mt19937& draw) {
  Timed timed;
  Region region;
  region.name = "words";
  region.owner = Owner::kAll;
  region.stride_bytes = 64 * kWordBytes;
  timed.program.regions.push_back(region);
  std::vector<std::uint32_t> words;
  for (const Location& l : p.locations) words.push_back(add_word(timed, l.name));
  for (std::size_t i = 0; i < p.results.size(); ++i)
    timed.results.push_back(add_word(timed, "result " + p.results[i].name));
  for (std::size_t t = 0; t < p.threads.size(); ++t) {
    auto& steps = timed.program.of(kOperations[t]);
    std::map<Word16, std::uint8_t> constants;  // in registers
    std::uint8_t registers = 0;
    const auto wait_a_while = [&] {
      steps.push_back(step(StepOp::kCompute));
      steps.back().cycles = std::uniform_int_distribution<int>(0, 2000)(draw);
    };
    for (const Op& op : p.threads[t].ops)
      if (op.code == OpCode::kStore || op.code == OpCode::kPoll) {
        if (constants.count(op.value.add)) continue;
        const std::uint32_t word = add_word(timed, "constant");
        timed.constants[word] = op.value.add;
        steps.push_back(step(StepOp::kLoad, word));
        steps.back().reg = constants[op.value.add] = registers++;
      }
    std::map<std::int8_t, std::uint8_t> results;  // the machine's register, ours
    for (const Op& op : p.threads[t].ops) {
      if (op.code == OpCode::kEnd) break;
      wait_a_while();
      const std::uint32_t word =
          op.code == OpCode::kFence ? 0 : words[p.tables[op.table].locations.front()];
      const auto kept = [&] {
        if (op.result >= 0) steps.back().reg = results[op.result] = registers++;
      };
      switch (op.code) {
        case OpCode::kStore:
          steps.push_back(step(StepOp::kStore, word));
          steps.back().value = Value::kRegister;
          steps.back().operand = constants.at(op.value.add);
          break;
        case OpCode::kLoad:
          steps.push_back(step(StepOp::kLoad, word));
          kept();
          break;
        case OpCode::kAtomic:
          steps.push_back(step(StepOp::kAtomic, word));
          steps.back().value = Value::kOne;
          kept();
          break;
        case OpCode::kPoll:
          steps.push_back(step(StepOp::kPoll, word));
          steps.back().until = Until::kReached;
          steps.back().operand = constants.at(op.value.add);
          break;
        default:
          steps.push_back(step(StepOp::kFence));
          steps.back().scope = op.scope;
      }
    }
    for (std::size_t i = 0; i < p.results.size(); ++i) {
      if (p.results[i].thread != t) continue;
      steps.push_back(step(StepOp::kStore, timed.results[i]));
      steps.back().value = Value::kRegister;
      steps.back().operand = results.at(p.results[i].reg);
    }
    steps.push_back(step(StepOp::kEnd));
  }
  return timed;
}

class TimedOrder : public SystemC {
 protected:
  std::vector<Word16> outcome(const OrderProgram& p, std::uint32_t seed) {
    renew();
    std::mt19937 draw(seed);
    const Timed t = timed(p, draw);
    const GpuSpec spec =
        config::bind(config::load_system(kRoot + "/configs/systems/p-ib.yaml")).gpu;
    gpu::Hbm hbm("hbm", spec);
    gpu::L2 l2("l2", spec, 0, hbm.memory());
    l2.to_hbm.bind(hbm.from_l2);
    std::map<std::uint8_t, std::unique_ptr<gpu::Sm>> sms;  // by CTA
    for (const Thread& thread : p.threads) {
      auto& sm = sms[thread.cta];
      if (sm) continue;
      const auto id = std::uint32_t{thread.cta} * 2;
      sm = std::make_unique<gpu::Sm>(("sm" + std::to_string(id)).c_str(), id, spec);
      sm->memory.bind(l2.from_sms);
    }
    const QueueLayout layout(t.program, 1, 1);
    Placement placement;
    placement.draw(std::max<std::uint64_t>(layout.gpu_bytes(), 4096),
                   static_cast<std::uint32_t>(spec.sm_count), seed, spec.distance_spread_cycles);
    hbm.reset(placement.gpu_bytes());
    l2.reset(placement.gpu_bytes(), &placement, seed);
    JourneyBook book;
    book.begin(1, nullptr);
    gpu::RunContext context;
    context.program = &t.program;
    context.layout = &layout;
    context.book = &book;
    context.l2 = &l2;
    context.lanes = static_cast<std::uint32_t>(p.threads.size());
    context.queues = 1;
    context.lanes_of_queue = {context.lanes};
    std::vector<bool> begun(p.threads.size());
    context.next_op = [&](std::uint32_t warp, gpu::Op& op) {
      op.kind = kOperations[warp];
      const bool first = !begun[warp];
      begun[warp] = true;
      return first;
    };
    const auto at = [&](std::uint32_t word) { return layout.address(t.program, word, 0, 0); };
    for (const auto& [word, value] : t.constants)
      l2.memory().store(at(word), static_cast<std::uint64_t>(value), 8);
    elaborate();
    for (std::uint32_t w = 0; w < p.threads.size(); ++w)
      sms.at(p.threads[w].cta)->add_lane(&context, w, 0, w);
    run();
    std::vector<Word16> values;
    for (std::uint32_t word : t.results)
      values.push_back(static_cast<Word16>(l2.memory().load(at(word), 8)));
    return values;
  }
};

TEST_F(TimedOrder, ShowsOnlyOutcomesThatTheExhaustiveSearchReaches) {
  std::size_t programs = 0;
  std::map<std::string, std::size_t> seen;
  for (const std::string& file : litmus_files(kRoot + "/configs/litmus")) {
    const Litmus litmus = load_litmus(file, kRoot + "/configs");
    if (!litmus.protocol.empty() || !expressible(litmus.program)) continue;
    ++programs;
    const auto allowed = explore(litmus.program).outcomes;
    std::set<std::vector<Word16>> shown;
    for (std::uint32_t seed = 1; seed <= kSeeds; ++seed)
      shown.insert(outcome(litmus.program, seed));
    for (const auto& values : shown)
      EXPECT_TRUE(allowed.count(values)) << litmus.name << ": " << testing::PrintToString(values);
    seen[litmus.name] = shown.size();
  }
  EXPECT_GE(programs, 9U);
  // Delays do move what is seen: independent stores and loads come out in more than one way.
  EXPECT_GT(seen["gpu-store-buffering"], 1U);
}

}  // namespace
}  // namespace marrow::order
