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

constexpr std::int64_t kMost = 1 << 30, kMostLanes = 1 << 16;

/// One entry of `background`: warps, or bytes that pass a place.
void read_background(const YamlNode& node, Work& work) {
  if (const auto place = node.find("at")) {
    node.only({"at", "pe", "gbps", "bytes"});
    const std::string name =
        place->one_of({"gpu_link_up", "gpu_link_down", "nic_link_up", "nic_link_down", "wire"});
    trace::Traffic traffic;
    traffic.place = static_cast<trace::Traffic::Place>(
        std::find(trace::kTrafficPlaces.begin(), trace::kTrafficPlaces.end(), name) -
        trace::kTrafficPlaces.begin());
    if (const auto value = node.find("pe"))
      traffic.pe = static_cast<std::uint32_t>(value->integer(0, kMostLanes));
    traffic.gbps = node.at("gbps").number(1e-3, 1e5);
    traffic.bytes = static_cast<std::uint64_t>(node.at("bytes").integer(1, kMost));
    work.traffic.push_back(traffic);
    return;
  }
  node.only({"does", "warps", "queues", "first_queue", "sms", "bytes", "pe", "mmsgs"});
  BackgroundWarps warps;
  warps.does = script(node.at("does"));
  const auto whole = [&](const char* key, std::int64_t& field, std::int64_t least,
                         std::int64_t most) {
    if (const auto value = node.find(key)) field = value->integer(least, most);
  };
  whole("warps", warps.warps, 1, kMostLanes);
  whole("queues", warps.queues, 1, kMostLanes);
  whole("first_queue", warps.first_queue, 0, kMostLanes);
  whole("sms", warps.sms, 0, kMostLanes);
  whole("bytes", warps.bytes, 0, kMost);
  whole("pe", warps.pe, 0, 1);
  if (const auto value = node.find("mmsgs")) warps.mmsgs = value->number(1e-6, 1e6);
  work.background.push_back(warps);
}

}  // namespace

std::span<const WorkNumber> work_numbers() {
  static constexpr std::array<WorkNumber, 10> kNumbers = {{
      {"warps", &Work::warps, 1, kMostLanes},
      {"queues", &Work::queues, 1, kMostLanes},
      {"sms", &Work::sms, 0, kMostLanes},
      {"rounds", &Work::rounds, 1, kMost},
      {"bytes", &Work::bytes, 0, kMost},
      {"gap_cycles", &Work::gap_cycles, 0, kMost},
      {"wait_every", &Work::wait_every, 0, kMost},
      {"visits", &Work::visits, 0, kMostLanes},
      {"puts_per_visit", &Work::puts_per_visit, 1, kMost},
      {"peers", &Work::peers, 1, kMostLanes},
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
             "wait_every", "visits", "puts_per_visit", "peers", "background"});
  for (const auto& [key, child] : node.entries()) {
    if (key == "does")
      work.does = script(child);
    else if (key == "peer_does")
      work.peer_does = script(child);
    else if (key == "background") {
      work.background.clear();
      work.traffic.clear();
      for (const YamlNode& item : child.items()) read_background(item, work);
    } else if (const WorkNumber* number = work_number(key))
      work.*number->field = child.integer(number->least, number->most);
  }
}

void run_work(Machine& machine, const config::Recipe& recipe, const Work& work,
              const WorkSetup& given) {
  trace::Run run;
  run.name = given.name;
  run.queues = static_cast<std::uint32_t>(work.queues);
  run.puts_per_lane = static_cast<std::uint64_t>(work.rounds);
  run.peers = static_cast<std::uint32_t>(work.peers);
  run.traffic = work.traffic;
  const auto warps = static_cast<std::uint32_t>(work.warps);
  const auto add_lane = [&](std::uint32_t warp, std::uint32_t pe, std::uint32_t peer) {
    const std::uint32_t number = warp % warps;
    trace::Lane lane{warp, std::nullopt, number % run.queues, pe, peer};
    if (work.visits > 0) {
      lane.visits = static_cast<std::uint32_t>(work.visits);
      lane.visit_stride = warps;
      lane.puts_per_visit = static_cast<std::uint64_t>(work.puts_per_visit);
    }
    if (work.sms > 0) lane.sm = machine.default_sm(number % static_cast<std::uint32_t>(work.sms));
    run.lanes.push_back(lane);
  };
  for (std::uint32_t warp = 0; warp < warps; ++warp) add_lane(warp, 0, 1);
  if (!work.peer_does.empty())
    for (std::uint32_t warp = 0; warp < warps; ++warp) add_lane(warps + warp, 1, 0);
  std::vector<const BackgroundWarps*> groups;  // by warp behind the others
  const auto first = static_cast<std::uint32_t>(run.lanes.size());
  const auto own_sms = static_cast<std::uint32_t>(work.sms > 0 ? work.sms : work.warps);
  std::uint32_t sms = own_sms;
  for (const BackgroundWarps& group : work.background) {
    const auto group_sms = static_cast<std::uint32_t>(group.sms > 0 ? group.sms : group.warps);
    for (std::uint32_t w = 0; w < static_cast<std::uint32_t>(group.warps); ++w) {
      const std::uint32_t queue = static_cast<std::uint32_t>(group.first_queue) +
                                  w % static_cast<std::uint32_t>(group.queues);
      const auto pe = static_cast<std::uint32_t>(group.pe);
      trace::Lane lane{first + static_cast<std::uint32_t>(groups.size()),
                       machine.default_sm(sms + w % group_sms), queue, pe, 1 - pe};
      lane.background = true;
      if (group.mmsgs > 0) lane.period_ns = 1000 * static_cast<double>(group.warps) / group.mmsgs;
      run.queues = std::max(run.queues, queue + 1);
      run.lanes.push_back(lane);
      groups.push_back(&group);
    }
    sms += group_sms;
  }

  std::vector<std::uint64_t> position(run.lanes.size(), 0);
  const auto rounds = static_cast<std::uint64_t>(work.rounds);
  RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.seed = given.seed;
  setup.observer = given.observer;
  setup.place = given.place;
  setup.next_op = [&](std::uint32_t warp, gpu::Op& op) {
    if (warp >= first) {
      const BackgroundWarps& group = *groups[warp - first];
      op = {};
      op.kind = group.does[position[warp]++ % group.does.size()];
      if (is_message(op.kind)) op.bytes = static_cast<std::uint64_t>(group.bytes);
      return true;
    }
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
