// Work without a trace: lanes that do one script again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/common/program.h"
#include "sim/config/yaml_source.h"
#include "sim/machine.h"

namespace marrow::sim {

/// Warps that load what the others use, until those are done.
struct BackgroundWarps {
  std::vector<OpKind> does;
  std::int64_t warps = 1, queues = 1;
  std::int64_t first_queue = 0;  ///< warp w uses queue first_queue + w modulo queues
  std::int64_t sms = 0;          ///< over how many further SMs they are spread; 0: one each
  std::int64_t bytes = 8;
  std::int64_t pe = 0;  ///< the processing element they run on: the first or the second
  double mmsgs = 0;     ///< paced: a script's operations of all warps together, in M/s; 0: not
};

/// What the lanes do: every warp of the first processing element does a script again and again;
/// where there is a second one, as many warps of the next element do that.
struct Work {
  std::vector<OpKind> does, peer_does;
  std::int64_t warps = 1, queues = 1;
  std::int64_t sms = 0;  ///< over how many SMs the warps are spread; 0: as many as there are
  std::int64_t rounds = 200;
  std::int64_t bytes = 8;
  std::int64_t gap_cycles = 0;  ///< a lane's other work after each round
  std::int64_t wait_every = 0;  ///< so many rounds: the lane waits for that message; 0: never
  /// Queues that a warp goes round, `warps` apart, and its messages to one before the next.
  std::int64_t visits = 0, puts_per_visit = 1;
  std::int64_t peers = 1;  ///< queues lead in turn to so many other processing elements
  std::vector<BackgroundWarps> background;
  std::vector<trace::Traffic> traffic;
};

/// A number of the work, as files name it.
struct WorkNumber {
  std::string_view key;
  std::int64_t Work::*field;
  std::int64_t least, most;
};
std::span<const WorkNumber> work_numbers();
/// The number of that name, or null.
const WorkNumber* work_number(std::string_view key);

/// Reads the numbers and {does, peer_does, background} over what `work` holds. Throws InputError.
void read_work(const config::YamlNode& node, Work& work);

struct WorkSetup {
  std::string name;
  std::uint64_t seed = 1;
  Observer* observer = nullptr;
  std::function<void(const QueueLayout&, Placement&)> place;  ///< as RunSetup::place
};
/// Runs it to its end. Throws InputError like Machine::run.
void run_work(Machine& machine, const config::Recipe& recipe, const Work& work,
              const WorkSetup& setup);

}  // namespace marrow::sim
