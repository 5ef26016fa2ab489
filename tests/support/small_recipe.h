// A recipe by hand: each word in a region of its own, so that a test can put each where it likes.
#pragma once

#include <utility>
#include <vector>

#include "sim/config/recipe.h"

namespace marrow {

/// Indices into the recipe's words; word w lies in region w.
enum SmallWord : std::uint32_t { kKeys, kResv, kEntry, kReady, kBell, kCqe, kOther, kHostWord };

inline Step stage(Stage s) {
  Step step;
  step.op = StepOp::kStage;
  step.stage = s;
  return step;
}
inline Step compute(double cycles) {
  Step step;
  step.op = StepOp::kCompute;
  step.cycles = cycles;
  return step;
}
inline Step load(std::uint32_t word) {
  Step step;
  step.op = StepOp::kLoad;
  step.word = word;
  return step;
}
inline Step store(std::uint32_t word, Value value, std::uint32_t bytes = 8,
                  std::uint32_t count = 1) {
  Step step;
  step.op = StepOp::kStore;
  step.word = word;
  step.value = value;
  step.bytes = bytes;
  step.count = count;
  return step;
}
inline Step take_index() {
  Step step;
  step.op = StepOp::kAtomic;
  step.word = kResv;
  step.value = Value::kOne;
  step.reg = 0;
  step.is_index = true;
  return step;
}
/// An add whose result is waited for by a later use().
inline Step add_unwaited(std::uint32_t word) {
  Step step;
  step.op = StepOp::kAtomic;
  step.word = word;
  step.value = Value::kOne;
  step.reg = 1;
  step.wait = false;
  return step;
}
inline Step use() {
  Step step;
  step.op = StepOp::kUse;
  step.reg = 1;
  return step;
}
inline Step fence(Scope scope) {
  Step step;
  step.op = StepOp::kFence;
  step.scope = scope;
  return step;
}
inline Step publish(double retry_cycles) {
  Step step;
  step.op = StepOp::kSpin;
  step.word = kReady;
  step.expected = Value::kIndex;
  step.value = Value::kNext;
  step.cycles = retry_cycles;
  return step;
}
inline Step poll_completed() {
  Step step;
  step.op = StepOp::kPoll;
  step.word = kCqe;
  step.until = Until::kCompleted;
  return step;
}

/// steps: those of a put, without the end. skips are made by when().
using Steps = std::vector<Step>;
inline Steps when(Condition condition, const Steps& then) {
  Step skip;
  skip.op = StepOp::kSkipUnless;
  skip.condition = condition;
  skip.target = static_cast<std::uint32_t>(then.size());  // made absolute by small_recipe()
  Steps steps{skip};
  steps.insert(steps.end(), then.begin(), then.end());
  return steps;
}
inline Steps operator+(Steps a, const Steps& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A warp on another SM consumes: a poll takes a load and 100 cycles more; an entry is read 80
/// cycles after it was seen, its completion stored 120 later; 40 cycles after that it polls again.
inline config::Recipe small_recipe(const Steps& put) {
  config::Recipe recipe;
  Program& program = recipe.program;
  program.protocol = "by-hand";
  program.depth = 64;
  const char* const names[] = {"keys", "resv", "entry", "ready", "bell", "cqe", "other", "host"};
  for (std::uint32_t w = 0; w < std::size(names); ++w) {
    const bool host = w == kHostWord;
    program.regions.push_back(
        {names[w], host ? MemoryKind::kHost : MemoryKind::kGpu, Placement::kPageBytes});
    Word word;
    word.name = names[w];
    word.region = w;
    if (w == kEntry) {
      word.bytes = 64;
      word.entry_bytes = 64;
      word.entries = program.depth;
    }
    word.consumer_reads = w == kEntry || w == kBell || w == kCqe;
    program.words.push_back(word);
  }
  program.of(OpKind::kPut) = put;
  for (std::uint32_t i = 0; i < program.of(OpKind::kPut).size(); ++i)
    if (program.of(OpKind::kPut)[i].op == StepOp::kSkipUnless)
      program.of(OpKind::kPut)[i].target += i + 1;
  program.of(OpKind::kPut).push_back({});
  ConsumerProgram& consumer = program.consumer;
  consumer.announcement = kBell;
  consumer.entry = kEntry;
  consumer.completion = kCqe;
  consumer.poll_cycles = 100;
  consumer.groups = {{{80}, {120}}};
  consumer.after_cycles = 40;
  return recipe;
}

}  // namespace marrow
