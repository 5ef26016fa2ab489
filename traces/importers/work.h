// The work of a run that is described and not captured: lanes that do a script again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/trace.h"

namespace marrow::trace {

/// Enough rounds for a benchmark's steady state: what the machine does with more, it does again.
constexpr std::uint64_t kMostBenchmarkRounds = 1000;

/// Lanes that do a script until those of the run are done.
struct Background {
  std::vector<OpKind> does;
  std::uint64_t bytes = 0;
  std::vector<Lane> lanes = {};  ///< their warp numbers are given when they are written
};

/// What each lane of the first processing element does in a round and, where there is a second one,
/// each of its lanes.
struct Script {
  std::vector<OpKind> does, peer_does;
  std::vector<OpKind> at_the_end;  ///< what a lane of the first element does after all rounds
  std::uint64_t rounds = 1, bytes = 0;
  std::uint64_t gap_cycles = 0;  ///< other work after each round
  std::vector<Background> background = {};
};

/// Puts as many lanes into the run: lane w on queue w mod run.queues.
void add_lanes(Run& run, std::uint32_t warps);

/// Writes the run with the lanes of `background` behind its own, and their operations: what repeats
/// comes first.
void write_run(Writer& writer, Run& run, const std::vector<Background>& background);

/// Writes the run (with lanes of the second element where the script has work for them) and its
/// operations. Each lane's last message flushes.
void write_script(Writer& writer, Run& run, const Script& script);

}  // namespace marrow::trace
