#include "sim/stuck.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace marrow::sim {

namespace {

struct Cause {
  std::string what, mend;
};

/// A completion that never comes: was it ever asked for?
Cause of_completion(const Lane& lane, const std::string& word) {
  const Flight* const flight = lane.context->book->message(lane.queue, lane.index);
  if (flight != nullptr && flight->arrived_ps < 0 && flight->noticed_ps < 0)
    return {fmt::format("the completion in '{}' of entry {}, which was never announced", word,
                        lane.index),
            "a wait needs a doorbell before it: flush the last put, or batch no more than the puts "
            "between waits"};
  return {fmt::format("the completion in '{}' of entry {}, which was announced", word, lane.index),
          "the entry completes elsewhere or not at all: compare the recipe's `completes` with the "
          "word that is polled"};
}

Cause cause_of(const Lane& lane, const Step& step) {
  const Program& program = lane.program();
  if (step.op == StepOp::kFence) return {"its fence", "report this: a fence always ends"};
  const std::string& word = program.words[step.word].name;
  if (step.op == StepOp::kSpin)
    return {fmt::format("the lock '{}'", word),
            "whoever takes the lock must give it back behind what it guards"};
  if (step.op != StepOp::kPoll)
    return {fmt::format("the answer from '{}'", word), "report this: an access always ends"};
  switch (step.until) {
    case Until::kSlotFree:
      return {fmt::format("a free place among {} ('{}' to reach {})", program.lane_depth(), word,
                          lane.wanted(step)),
              "a full queue must have been rung for: batch less than its depth, or give it fewer "
              "lanes"};
    case Until::kReached:
      return {fmt::format("'{}' to reach {}", word, lane.wanted(step)),
              "whatever it waits for must have been rung for: flush the last put before it"};
    case Until::kSignalled:
      return {fmt::format("signal {} in '{}'", lane.wanted(step), word),
              "a wait needs the peer's signal: one put_signal, atomic or barrier for each"};
    case Until::kEnded:
      return {fmt::format("kernel {} ('{}')", lane.wanted(step), word),
              "the kernel's end must be told in the word of `kernel: {done: ...}`"};
    case Until::kCompleted:
    case Until::kAnswered:
    case Until::kPresent:
    case Until::kAdvanced:
      break;
  }
  return of_completion(lane, word);
}

}  // namespace

Stuck stuck(const std::vector<Wait>& waits, Ps begin_ps) {
  struct Alike {
    std::string first, mend;
    std::size_t lanes = 0;
  };
  std::map<const Step*, Alike> causes;
  std::vector<const Step*> order;
  for (const Wait& wait : waits) {
    Alike& alike = causes[wait.step];
    if (alike.lanes++ > 0) continue;
    order.push_back(wait.step);
    const Lane& lane = *wait.lane;
    const Cause cause = cause_of(lane, *wait.step);
    alike.first = fmt::format(
        "warp {} of element {}, in its {} on queue {}, waits since {:.3f} us for {}", lane.warp,
        lane.context->pe, kOpKindNames[static_cast<std::size_t>(lane.op.kind)], lane.queue,
        static_cast<double>(wait.since_ps - begin_ps) / 1e6, cause.what);
    alike.mend = cause.mend;
  }
  Stuck told;
  for (const Step* step : order) {
    const Alike& alike = causes[step];
    told.problem += fmt::format("{}{}", told.problem.empty() ? "" : "; ", alike.first);
    if (alike.lanes > 1) told.problem += fmt::format(" ({} lanes at that step)", alike.lanes);
    if (told.mend.find(alike.mend) == std::string::npos)
      told.mend += fmt::format("{}{}", told.mend.empty() ? "" : "; ", alike.mend);
  }
  return told;
}

}  // namespace marrow::sim
