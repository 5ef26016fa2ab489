#include "validate/peer_probe.h"

#include <algorithm>
#include <cmath>

#include "models/common/error.h"
#include "models/common/random.h"
#include "models/nvlink/bulk.h"
#include "sim/config/yaml_source.h"

namespace marrow::validate {

namespace {

// The probe's programs: source/peer.cu of the captures.
constexpr std::size_t kRepeats = 200;
constexpr std::uint64_t kGapCycles = 6000;  // idle between operations
constexpr std::uint64_t kL2Footprint = 16 << 20;
constexpr std::uint64_t kThreads = 512, kLaneBytes = 16, kWarpLanes = 32;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

enum ProbeWord : std::uint32_t { kTicket, kOwn, kCompletion, kEntry, kBell, kPeerWord, kPeerPages };

/// The operation under test is a put's `wqe` stage; the doorbell behind it lets the put complete.
config::Recipe recipe_of(std::vector<Step> steps) {
  config::Recipe recipe;
  Program& program = recipe.program;
  program.protocol = "peer probe";
  struct Place {
    const char* name;
    MemoryKind memory;
    std::uint32_t bytes, entry_bytes;
  };
  constexpr Place places[] = {
      {"ticket", MemoryKind::kGpu, 8, 0},        {"own", MemoryKind::kGpu, 64, 0},
      {"completion", MemoryKind::kGpu, 8, 0},    {"entry", MemoryKind::kGpu, 64, 64},
      {"bell", MemoryKind::kPeer, 8, 0},         {"peer", MemoryKind::kPeer, 64, 0},
      {"peer pages", MemoryKind::kPeer, 8, 4096}};
  for (const Place& place : places) {
    Word word;
    word.name = place.name;
    word.region = static_cast<std::uint32_t>(program.regions.size());
    word.bytes = place.bytes;
    word.entry_bytes = place.entry_bytes;
    word.entries = place.entry_bytes ? program.depth : 0;
    program.regions.push_back(
        {place.name, place.memory,
         std::max<std::uint64_t>(4096, std::uint64_t{program.depth} * place.entry_bytes)});
    program.words.push_back(word);
  }
  for (const std::uint32_t w : {kCompletion, kEntry, kBell}) program.words[w].consumer_reads = true;
  const auto stage = [&](Stage name) {
    Step step;
    step.op = StepOp::kStage;
    step.stage = name;
    program.of(OpKind::kPut).push_back(step);
  };
  Step ticket;
  ticket.op = StepOp::kAtomic;
  ticket.word = kTicket;
  ticket.value = Value::kOne;
  ticket.reg = 0;
  ticket.is_index = true;
  Step bell;
  bell.op = StepOp::kStore;
  bell.word = kBell;
  bell.bytes = 8;
  bell.value = Value::kNext;
  Step poll;
  poll.op = StepOp::kPoll;
  poll.word = kCompletion;
  stage(Stage::kSlot);
  program.of(OpKind::kPut).push_back(ticket);
  stage(Stage::kWqe);
  program.of(OpKind::kPut).insert(program.of(OpKind::kPut).end(), steps.begin(), steps.end());
  stage(Stage::kDoorbellRegister);
  program.of(OpKind::kPut).push_back(bell);
  stage(Stage::kPoll);
  program.of(OpKind::kPut).push_back(poll);
  program.of(OpKind::kPut).push_back({});
  ConsumerProgram& consumer = program.consumer;
  consumer.where = ConsumerProgram::Where::kPeer;
  consumer.announcement = kBell;
  consumer.entry = kEntry;
  consumer.completion = kCompletion;
  consumer.groups = {{{0}, {0}, false}};
  return recipe;
}

Step store(std::uint32_t word, std::uint32_t count = 1) {
  Step step;
  step.op = StepOp::kStore;
  step.word = word;
  step.bytes = 8;
  step.count = count;
  step.value = Value::kNext;
  return step;
}

Step load(std::uint32_t word) {
  Step step;
  step.op = StepOp::kLoad;
  step.word = word;
  return step;
}

Step fence(Scope scope) {
  Step step;
  step.op = StepOp::kFence;
  step.scope = scope;
  return step;
}

Step compute(double cycles) {
  Step step;
  step.op = StepOp::kCompute;
  step.cycles = cycles;
  return step;
}

Step atomic_add(std::uint32_t word) {
  Step step;
  step.op = StepOp::kAtomic;
  step.word = word;
  step.value = Value::kOne;
  return step;
}

/// Finds what it expects: the word counts the operations.
Step compare_and_swap(std::uint32_t word) {
  Step step;
  step.op = StepOp::kSpin;
  step.word = word;
  step.expected = Value::kIndex;
  step.value = Value::kNext;
  return step;
}

const std::string& condition(const PeerRow& row, const std::string& name) {
  const auto it = row.conditions.find(name);
  if (it == row.conditions.end())
    throw InputError(row.place, row.name + " says no " + name, "add it to its conditions");
  return it->second;
}

std::uint64_t number(const PeerRow& row, const std::string& name) {
  const std::string& text = condition(row, name);
  if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != std::string::npos)
    throw InputError(row.place, name + " is '" + text + "'", "write a whole number");
  const std::uint64_t value = std::stoull(text);
  if (value == 0) throw InputError(row.place, name + " is 0", "write 1 or more");
  return value;
}

[[noreturn]] void unknown(const PeerRow& row, const std::string& what) {
  throw InputError(row.place, "no model for " + row.name + " " + what,
                   "rows are those of validate/probes/h200x2-f-peer.jsonl");
}

class Durations : public Observer {
 public:
  explicit Durations(double cycles_per_ps) : cycles_per_ps_(cycles_per_ps) {}
  void on_journey(const Journey& journey) override {
    cycles.push_back(static_cast<double>(journey.at(Stage::kWqe)) * cycles_per_ps_);
  }
  std::vector<double> cycles;

 private:
  double cycles_per_ps_;
};

const config::SystemSpec& with_peer(const config::SystemSpec& spec) {
  if (spec.nvlink.peers < 1)
    throw InputError("nvlink.peers_count", "the system has one GPU", "use h200x2-f");
  return spec;
}

}  // namespace

PeerTable load_peer_table(const std::string& file) {
  const auto root = config::YamlNode::open(file);
  root.only({"kind", "table", "title", "system", "source", "costs", "rows"});
  PeerTable table;
  table.system = root.at("system").text();
  const auto costs = root.at("costs");
  const std::pair<const char*, double*> fields[] = {
      {"stamp_cycles", &table.costs.stamp_cycles},
      {"aggregated_add_cycles", &table.costs.aggregated_add_cycles},
      {"pingpong_poll_cycles", &table.costs.pingpong_poll_cycles},
      {"put_setup_cycles", &table.costs.put_setup_cycles},
      {"put_lane_round_cycles", &table.costs.put_lane_round_cycles},
      {"put_warp_round_cycles", &table.costs.put_warp_round_cycles},
      {"put_warp_issue_cycles", &table.costs.put_warp_issue_cycles},
      {"kernel_us", &table.costs.kernel_us}};
  for (const auto& [name, node] : costs.entries()) {
    const auto field = std::find_if(std::begin(fields), std::end(fields),
                                    [&, key = name](const auto& f) { return key == f.first; });
    if (field == std::end(fields)) node.fail("unknown cost '" + name + "'");
    *field->second = node.at("value").number(0, 1e6);
  }
  for (const auto& field : fields) costs.at(field.first);
  for (const auto& node : root.at("rows").items()) {
    node.only({"name", "conditions", "unit", "value", "role"});
    PeerRow row;
    row.name = node.at("name").text();
    for (const auto& [name, value] : node.at("conditions").entries())
      row.conditions[name] = value.text();
    row.unit = node.at("unit").one_of({"cycles", "GB/s", "ns_per_store"});
    row.measured = node.at("value").number(0, 1e12);
    row.fit = node.at("role").one_of({"fit", "predicted"}) == "fit";
    row.place = node.place();
    table.rows.push_back(std::move(row));
  }
  return table;
}

PeerProbe::PeerProbe(const config::SystemSpec& spec, const PeerCosts& costs)
    : spec_(with_peer(spec)), costs_(costs), machine_(spec) {}

double PeerProbe::predict(const PeerRow& row) {
  const auto gb_per_s = [](double bytes, double us) { return bytes / us / 1000; };
  const auto of_sms = [&](std::uint64_t sms) {
    // Small grids go round oftener, so that each runs long enough.
    return (sms < 8 ? 200 : 64) * kThreads * kLaneBytes;
  };
  if (row.name == "peer_load") return load_cycles(row);
  if (row.name == "peer_op") return operation_cycles(row);
  if (row.name == "peer_pingpong_rtt") {
    const std::string& beside = condition(row, "load");
    if (beside == "none") return pingpong_cycles(0, 0);
    if (beside == "copy 0 to 1" || beside == "copy 1 to 0")
      return pingpong_cycles(nvlink::beside_copy_ns(spec_.nvlink), 0);
    unknown(row, "beside '" + beside + "'");
  }
  if (row.name == "peer_put_flag_issue" || row.name == "peer_put_flag_rtt") {
    const double issue = put_issue_cycles(number(row, "bytes"), number(row, "threads"));
    return row.name == "peer_put_flag_issue" ? issue : issue + pingpong_cycles(0, issue);
  }
  if (row.name == "peer_store_bw" || row.name == "peer_load_bw") {
    const std::uint64_t sms = number(row, "blocks"), each = of_sms(sms);
    const double us = row.name == "peer_store_bw" ? nvlink::stream_store_us(spec_.nvlink, sms, each)
                                                  : nvlink::stream_load_us(spec_.nvlink, sms, each);
    return gb_per_s(static_cast<double>(sms * each), us + costs_.kernel_us);
  }
  if (row.name == "peer_st8_interval") {
    const std::uint64_t sms = number(row, "blocks"), each = kWarpLanes * 2000;
    const double us = nvlink::scattered_store_us(spec_.nvlink, sms, each, 8) + costs_.kernel_us;
    return us * 1000 / static_cast<double>(sms * each);
  }
  if (row.name == "peer_copy_engine_bw") {
    const std::uint64_t bytes = number(row, "bytes");
    return gb_per_s(static_cast<double>(bytes),
                    nvlink::copy_us(spec_.nvlink, bytes, bytes <= 65536 ? 64 : 8));
  }
  unknown(row, "at all");
}

double PeerProbe::load_cycles(const PeerRow& row) {
  const bool in_l2 = number(row, "footprint") <= kL2Footprint;
  return run_cycles({load(in_l2 ? kPeerWord : kPeerPages)});
}

double PeerProbe::operation_cycles(const PeerRow& row) {
  const std::string& op = condition(row, "op");
  if (op == "none") return run_cycles({});
  if (op == "st8") return run_cycles({store(kPeerWord)});
  if (op == "st8+fence.gpu") return run_cycles({store(kPeerWord), fence(Scope::kGpu)});
  if (op == "st8+fence.sys") return run_cycles({store(kPeerWord), fence(Scope::kSys)});
  if (op == "ld8") return run_cycles({load(kPeerWord)});
  if (op == "atom.add.sys")
    return run_cycles({compute(costs_.aggregated_add_cycles), atomic_add(kPeerWord)});
  if (op == "atom.cas.sys") return run_cycles({compare_and_swap(kPeerWord)});
  if (op == "st64+fence.sys") return run_cycles({store(kPeerWord, 8), fence(Scope::kSys)});
  if (op == "st8 local+st8 peer+fence.sys")
    return run_cycles({store(kOwn), store(kPeerWord), fence(Scope::kSys)});
  unknown(row, "'" + op + "'");
}

double PeerProbe::run_cycles(std::vector<Step> steps) {
  const config::Recipe recipe = recipe_of(std::move(steps));
  trace::Run run;
  run.name = "peer probe";
  run.queues = 1;
  run.lanes.push_back({0, 0, 0});
  Durations durations(spec_.gpu.sm_clock_ghz / 1000);
  std::size_t done = 0;
  sim::RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.observer = &durations;
  setup.next_op = [&](std::uint32_t, gpu::Op& put) {
    put = {OpKind::kPut, 0, false, true, kGapCycles};
    return done++ < kRepeats;
  };
  machine_.run(setup);
  return costs_.stamp_cycles + median(std::move(durations.cycles));
}

double PeerProbe::pingpong_cycles(double beside_copy_ns, double issue_cycles) {
  // Each GPU stores into the other's memory, then looks at its own until the answer is there. A
  // copy holds up one of the two ways.
  const double l2 = spec_.gpu.sm_clock_ghz / spec_.gpu.l2_clock_ghz;
  const double look = spec_.gpu.load_cycles * l2;
  const double period = look + costs_.pingpong_poll_cycles;
  const double way = look / 2 + spec_.nvlink.store_ns * spec_.gpu.sm_clock_ghz;
  const double held_up = beside_copy_ns * spec_.gpu.sm_clock_ghz;
  Random random(1);
  // The first look that finds a word that is visible at `visible`, of those since `from`.
  const auto seen = [&](double from, double visible) {
    const double first = from + look / 2;
    const double looks = std::max(0.0, std::ceil((visible - first) / period));
    return first + looks * period + look / 2 + random.around(spec_.gpu.jitter_cycles * l2);
  };
  double here = 0, there = 0;  // since when each looks
  std::vector<double> round_trips;
  for (std::size_t i = 0; i < 1000; ++i) {
    const double stored = here + issue_cycles;
    there = seen(there, stored + way + held_up);
    const double back = seen(stored, there + way);
    round_trips.push_back(back - stored + costs_.stamp_cycles);
    here = back + costs_.stamp_cycles;
  }
  return median(std::move(round_trips));
}

double PeerProbe::put_issue_cycles(std::uint64_t bytes, std::uint64_t threads) const {
  const std::uint64_t a_round = threads * kLaneBytes;
  const std::uint64_t rounds = (bytes + a_round - 1) / a_round;
  const double warps = std::ceil(static_cast<double>(threads) / kWarpLanes);
  const double latency =
      threads < kWarpLanes ? costs_.put_lane_round_cycles : costs_.put_warp_round_cycles;
  const double round = std::max(latency, warps * costs_.put_warp_issue_cycles);
  const double last_warps =
      std::ceil(static_cast<double>(bytes - (rounds - 1) * a_round) / (kWarpLanes * kLaneBytes));
  return costs_.put_setup_cycles + static_cast<double>(rounds - 1) * round +
         last_warps * costs_.put_warp_issue_cycles +
         spec_.gpu.fence_sys_peer_cycles * spec_.gpu.sm_clock_ghz / spec_.gpu.l2_clock_ghz;
}

}  // namespace marrow::validate
