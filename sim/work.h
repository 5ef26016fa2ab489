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

/// Reads {does, peer_does, warps, queues, sms, rounds, bytes, gap_cycles, wait_every} over what
/// `work` holds. Throws InputError.
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
