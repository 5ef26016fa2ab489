#include "sim/work.h"

#include <algorithm>
#include <array>

namespace marrow::sim {

namespace {

using config::YamlNode;

std::vector<OpKind> script(const YamlNode& node) {
  std::vector<OpKind> kinds;
  for (const YamlNode& item : node.items()) {
    const std::string word =
        item.one_of({"put", "put_signal", "get", "atomic", "fence", "quiet", "wait"});
    kinds.push_back(static_cast<OpKind>(std::find(kOpKindNames.begin(), kOpKindNames.end(), word) -
                                        kOpKindNames.begin()));
  }
  if (kinds.empty()) node.fail("is empty", "write [put, quiet]");
  return kinds;
}

}  // namespace

std::span<const WorkNumber> work_numbers() {
  constexpr std::int64_t kMost = 1 << 30, kMostLanes = 1 << 16;
  static constexpr std::array<WorkNumber, 7> kNumbers = {{
      {"warps", &Work::warps, 1, kMostLanes},
      {"queues", &Work::queues, 1, kMostLanes},
      {"sms", &Work::sms, 0, kMostLanes},
      {"rounds", &Work::rounds, 1, kMost},
      {"bytes", &Work::bytes, 0, kMost},
      {"gap_cycles", &Work::gap_cycles, 0, kMost},
      {"wait_every", &Work::wait_every, 0, kMost},
  }};
  return kNumbers;
}

const WorkNumber* work_number(std::string_view key) {
  for (const WorkNumber& number : work_numbers())
    if (number.key == key) return &number;
  return nullptr;
}

void read_work(const YamlNode& node, Work& work) {
  node.only({"does", "peer_does", "warps", "queues", "sms", "rounds", "bytes", "gap_cycles",
             "wait_every"});
  for (const auto& [key, child] : node.entries()) {
    if (key == "does")
      work.does = script(child);
    else if (key == "peer_does")
      work.peer_does = script(child);
    else if (const WorkNumber* number = work_number(key))
      work.*number->field = child.integer(number->least, number->most);
  }
}

void run_work(Machine& machine, const config::Recipe& recipe, const Work& work,
              const WorkSetup& given) {
  trace::Run run;
  run.name = given.name;
  run.queues = static_cast<std::uint32_t>(work.queues);
  run.puts_per_lane = static_cast<std::uint64_t>(work.rounds);
  const auto warps = static_cast<std::uint32_t>(work.warps);
  const auto add_lane = [&](std::uint32_t warp, std::uint32_t pe, std::uint32_t peer) {
    const std::uint32_t number = warp % warps;
    trace::Lane lane{warp, std::nullopt, number % run.queues, pe, peer};
    if (work.sms > 0) lane.sm = machine.default_sm(number % static_cast<std::uint32_t>(work.sms));
    run.lanes.push_back(lane);
  };
  for (std::uint32_t warp = 0; warp < warps; ++warp) add_lane(warp, 0, 1);
  if (!work.peer_does.empty())
    for (std::uint32_t warp = 0; warp < warps; ++warp) add_lane(warps + warp, 1, 0);

  std::vector<std::uint64_t> position(run.lanes.size(), 0);
  const auto rounds = static_cast<std::uint64_t>(work.rounds);
  RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.seed = given.seed;
  setup.observer = given.observer;
  setup.place = given.place;
  setup.next_op = [&](std::uint32_t warp, gpu::Op& op) {
    const std::vector<OpKind>& does = warp < warps ? work.does : work.peer_does;
    const std::uint64_t round = position[warp] / does.size();
    const std::size_t step = position[warp] % does.size();
    if (round == rounds) return false;
    ++position[warp];
    op = {};
    op.kind = does[step];
    // A wait's bytes are those of what it waits for.
    if (is_message(op.kind) || op.kind == OpKind::kWait)
      op.bytes = static_cast<std::uint64_t>(work.bytes);
    if (is_message(op.kind)) {
      op.flush = round + 1 == rounds;
      op.wait =
          work.wait_every != 0 && (round + 1) % static_cast<std::uint64_t>(work.wait_every) == 0;
    }
    if (step + 1 == does.size()) op.compute_cycles = static_cast<std::uint64_t>(work.gap_cycles);
    return true;
  };
  machine.run(setup);
}

}  // namespace marrow::sim
