#include "sim/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "models/common/delay_line.h"
#include "models/common/error.h"
#include "models/nic/mlx5.h"
#include "sim/stuck.h"

// SystemC's library expects it; marrow runs the kernel from its own main.
int sc_main(int, char**) { return 0; }

namespace marrow::sim {

namespace {

/// Gives journeys and activities times that start at the run's begin. Background lanes' own are
/// not told of: what they do shows in the others' times and in the counters.
class FromRunStart : public Observer {
 public:
  FromRunStart(Observer* next, Ps begin_ps, const trace::Run& run)
      : next_(next), begin_ps_(begin_ps) {
    for (const trace::Lane& lane : run.lanes)
      if (lane.background) background_.insert(lane.warp);
  }
  void on_journey(const Journey& journey) override {
    if (background_.contains(journey.warp)) return;
    ++progress_;
    if (!next_) return;
    Journey shifted = journey;
    shifted.start_ps -= begin_ps_;
    next_->on_journey(shifted);
  }
  void on_operation(const Operation& operation) override {
    if (background_.contains(operation.warp)) return;
    ++progress_;
    if (!next_) return;
    Operation shifted = operation;
    shifted.begin_ps -= begin_ps_;
    shifted.end_ps -= begin_ps_;
    next_->on_operation(shifted);
  }
  void on_kernel(const KernelRound& round) override {
    if (!next_) return;
    KernelRound shifted = round;
    for (Ps* at_ps : {&shifted.begin_ps, &shifted.noticed_ps, &shifted.called_ps,
                      &shifted.started_ps, &shifted.ended_ps})
      *at_ps -= begin_ps_;
    next_->on_kernel(shifted);
  }
  void on_activity(const Activity& activity) override {
    Activity shifted = activity;
    shifted.begin_ps -= begin_ps_;
    shifted.end_ps -= begin_ps_;
    next_->on_activity(shifted);
  }
  bool wants_activity() const override { return next_ && next_->wants_activity(); }
  /// Grows while messages complete or lanes go on.
  std::uint64_t progress() const { return progress_; }

 private:
  Observer* next_;
  Ps begin_ps_;
  std::uint64_t progress_ = 0;
  std::unordered_set<std::uint32_t> background_;
};

/// The queue of a lane's visit; a lane without visits stays at its own.
std::uint32_t queue_at(const trace::Lane& lane, std::uint64_t visit, std::uint32_t queues) {
  return static_cast<std::uint32_t>((lane.queue + visit * lane.visit_stride) % queues);
}

/// A CPU thread reaches host memory and, with stores, a device's registers.
void check_cpu_words(const Program& program, OpKind kind) {
  for (const Step& step : program.of(kind)) {
    const bool stores = step.op == StepOp::kStore;
    if (!stores && step.op != StepOp::kLoad && step.op != StepOp::kAtomic &&
        step.op != StepOp::kSpin && step.op != StepOp::kPoll)
      continue;
    const Word& word = program.words[step.word];
    const MemoryKind memory = program.regions[word.region].memory;
    if (memory == MemoryKind::kHost || (stores && memory == MemoryKind::kNic)) continue;
    throw InputError("protocol " + program.protocol,
                     "a CPU thread accesses '" + word.name + "', which is not in host memory",
                     "put its region into memory: host, or take out what reads or writes it");
  }
}

/// A proxy's thread reaches host memory; in the GPU's memory and a device's registers it only
/// looks, loads and stores.
void check_proxy_words(const Program& program) {
  const auto check = [&](const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      const bool stores = step.op == StepOp::kStore;
      const bool polls =
          step.op == StepOp::kPoll || step.op == StepOp::kAtomic || step.op == StepOp::kSpin;
      if (!stores && !polls && step.op != StepOp::kLoad && step.op != StepOp::kLook) continue;
      const Word& word = program.words[step.word];
      const MemoryKind memory = program.regions[word.region].memory;
      if (memory == MemoryKind::kHost || (memory == MemoryKind::kNic && stores) ||
          (memory == MemoryKind::kGpu && !polls))
        continue;
      throw InputError("protocol " + program.protocol,
                       "a proxy's thread accesses '" + word.name + "' as it cannot where that lies",
                       "put its region into memory: host; in the GPU's memory a proxy can look, "
                       "load and store, in the NIC it can store");
    }
  };
  check(program.proxy.visit);
  for (const auto& posts : program.proxy.posts) check(posts);
}

nic::WorkRequest work_request(const Program& program, const QueueLayout& layout,
                              const gpu::EntryRequest& entry,
                              std::span<const std::uint8_t> payload) {
  const NicProgram& nic = program.nic;
  const auto address = [&](std::uint32_t word) {
    return layout.address(program, word, entry.queue, entry.index, entry.lane);
  };
  nic::WorkRequest request;
  const auto on_signal = [&](std::uint32_t bytes) {
    request.raddr = address(nic.signal);
    request.laddr = address(nic.sink);
    request.bytes = bytes;
  };
  request.qpn = entry.queue;
  request.index = static_cast<std::uint16_t>(entry.index);
  if (entry.last || nic.every) request.fm_ce_se = nic::kCqUpdate;
  if (nic.dc) {
    request.av.form = nic::AddressVector::Form::kHalf;
    request.av.destination = entry.peer;
  }
  switch (entry.form) {
    case EntryForm::kWrite:
    case EntryForm::kWriteInline:
      request.opcode = entry.immediate ? nic::Opcode::kRdmaWriteImm : nic::Opcode::kRdmaWrite;
      request.raddr = address(nic.target);
      request.is_inline = entry.form == EntryForm::kWriteInline;
      if (request.is_inline) {
        request.inline_data = payload;
      } else {
        request.laddr = address(nic.source);
        request.bytes = static_cast<std::uint32_t>(entry.bytes);
      }
      break;
    case EntryForm::kRead:
      request.opcode = nic::Opcode::kRdmaRead;
      request.raddr = address(nic.target);
      request.laddr = address(nic.sink);
      request.bytes = static_cast<std::uint32_t>(entry.bytes);
      break;
    case EntryForm::kFetchAdd:
    case EntryForm::kMaskedFetchAdd:
      request.opcode =
          entry.form == EntryForm::kFetchAdd ? nic::Opcode::kAtomicFa : nic::Opcode::kMaskedFa;
      request.opmod = entry.form == EntryForm::kFetchAdd ? 0 : nic::kOpmodAtomic8;
      request.swap_add = 1;
      on_signal(8);
      break;
    case EntryForm::kMaskedFetchAdd4:
      request.opcode = nic::Opcode::kMaskedFa;
      request.opmod = nic::kOpmodAtomic4;
      request.swap_add = 1;
      on_signal(4);
      break;
    case EntryForm::kMaskedSwap:
      request.opcode = nic::Opcode::kMaskedCs;
      request.opmod = nic::kOpmodAtomic8;
      request.swap_add = entry.signals;
      request.swap_mask = ~std::uint64_t{0};
      on_signal(8);
      break;
    case EntryForm::kDump:
      request.opcode = nic::Opcode::kDump;
      request.laddr = address(nic.sink);
      request.bytes = 1;
      break;
    case EntryForm::kNop:
    case EntryForm::kNone:
      break;
  }
  return request;
}

/// From one piece of traffic to the next.
Ps period_ps(const trace::Traffic& traffic) {
  return ps_from_ns(static_cast<double>(traffic.bytes) * 8 / traffic.gbps);
}

/// A completion's owner bit is the same again after two passes over the ring. Whoever looks for it
/// after a whole pass has come by misses it; whoever is two passes ahead takes an old one for it.
bool waits_by_owner_bit(const Program& program) {
  for (const auto& steps : program.steps)
    for (const Step& step : steps)
      if (step.op == StepOp::kPoll && program.words[step.word].encoding == Encoding::kOwner)
        return true;
  return false;
}

/// The first element's blocks have no number.
std::string numbered(const std::string& block, std::uint32_t number) {
  return number == 0 ? block : block + std::to_string(number);
}

}  // namespace

ProcessingElement::ProcessingElement(const config::SystemSpec& spec, std::uint32_t number,
                                     wire::Fabric* fabric)
    : hbm(("gpu" + std::to_string(number) + "_hbm").c_str(), spec.gpu),
      l2(("gpu" + std::to_string(number) + "_l2").c_str(), spec.gpu,
         ps_from_ns(spec.pcie.round_trip_ns + spec.host.device_written_ns), hbm.memory()),
      link(numbered("pcie", number).c_str(), spec.pcie),
      root(numbered("root_complex", number).c_str(), spec.host),
      host_memory(numbered("host_memory", number).c_str(), spec.host),
      cpu(numbered("host_thread", number).c_str(), spec.host, &host_memory),
      core(numbered("cores", number).c_str(), spec.host, &host_memory,
           {ps_from_ns(spec.pcie.round_trip_ns * (1 - spec.pcie.request_share_ratio)),
            ps_from_ns(spec.pcie.round_trip_ns * spec.pcie.request_share_ratio)}),
      front_end(("gpu" + std::to_string(number) + "_front_end").c_str(), spec.gpu, link.wires(),
                ps_from_ns(spec.pcie.round_trip_ns), spec.nvlink.peers > 0),
      warp(numbered("consumer_warp", number).c_str(), spec.gpu, spec.pcie, spec.host, &l2,
           &host_memory) {
  const std::string gpu = "gpu" + std::to_string(number);
  for (std::uint32_t id = 0; id < static_cast<std::uint32_t>(spec.gpu.sm_count); ++id) {
    sms.push_back(std::make_unique<gpu::Sm>((gpu + "_sm" + std::to_string(id)).c_str(), id,
                                            spec.gpu, spec.nvlink.peers > 0));
    sms.back()->memory.bind(l2.from_sms);
  }
  warp.memory.bind(l2.from_sms);
  front_end.memory.bind(l2.from_sms);
  core.attach(spec.gpu, &front_end);
  l2.to_hbm.bind(hbm.from_l2);
  l2.to_host.bind(link.from_device);
  link.to_root.bind(root.from_link);
  root.to_memory.bind(host_memory.from_root);
  if (!fabric) return;
  const std::string suffix = std::to_string(number);
  nic_link = std::make_unique<pcie::Link>(("nic" + suffix + "_pcie").c_str(), spec.nic_pcie);
  pcie_switch = std::make_unique<pcie::Switch>(("pcie_switch" + suffix).c_str(), spec.pcie_switch,
                                               link, *nic_link);
  nic = std::make_unique<nic::Nic>(
      ("nic" + suffix).c_str(), spec.nic, spec.dma, spec.nic_pcie, *pcie_switch,
      spec.detail ? pcie::DmaEngine::Detail::kTlps : pcie::DmaEngine::Detail::kTrains, *fabric,
      number);
  l2.to_device.bind(pcie_switch->from_gpu);
  pcie_switch->to_gpu.bind(l2.from_device);
  pcie_switch->to_nic.bind(nic->registers);
  nic->memory().bind(pcie_switch->from_nic);
  pcie_switch->to_root.bind(root.from_switch);
  core.to_device.bind(pcie_switch->from_host);
}

void ProcessingElement::report(CounterSink& sink) const {
  for (const auto& sm : sms) sm->report(sink);
  core.report(sink);
  front_end.report(sink);
  l2.report(sink);
  hbm.report(sink);
  link.report(sink);
  if (nic) {
    nic->report(sink);
  } else {
    cpu.report(sink);
    warp.report(sink);
  }
}

void ProcessingElement::clear_counters() {
  for (auto& sm : sms) sm->clear_counters();
  l2.clear_counters();
  hbm.clear_counters();
  link.clear_counters();
  cpu.clear_counters();
  core.clear_counters();
  front_end.clear_counters();
  warp.clear_counters();
  if (nic) {
    nic->clear_counters();
    nic_link->clear_counters();
  }
}

Machine::Machine(const config::SystemSpec& spec)
    : spec_(spec),
      traffic_("traffic", [this](trace::Traffic& traffic, Ps at_ps) { pass(traffic, at_ps); }) {
  if (!spec.has_gpu)
    throw InputError("the system", "has no GPU", "use a system with gpu.* parameters");
  const auto gpus = static_cast<std::uint32_t>(spec.nvlink.peers) + 1;
  const auto pes = static_cast<std::uint32_t>(spec.has_nic ? spec.pes : gpus);
  if (gpus > 1 && pes != gpus)
    throw InputError("nvlink.peers_count",
                     fmt::format("NVLink joins {} GPUs and there are {}", gpus, pes),
                     "GPUs with NICs that NVLink joins are of one host: give cluster.pes_count one "
                     "more than nvlink.peers_count");
  if (spec.has_nic) fabric_ = std::make_unique<wire::Fabric>("fabric", spec.wire, pes, spec.detail);
  for (std::uint32_t pe = 0; pe < pes; ++pe)
    pes_.push_back(std::make_unique<ProcessingElement>(spec, pe, fabric_.get()));
  if (gpus == 1) return;
  std::vector<gpu::L2*> l2s;
  for (auto& pe : pes_) l2s.push_back(&pe->l2);
  nvlink_ = std::make_unique<Nvlink>(spec, l2s);
}

std::uint32_t Machine::default_sm(std::uint32_t block) const {
  // Blocks of a small grid land on different SMs; which ones is the hardware's choice.
  const auto sms = static_cast<std::uint32_t>(pes_.front()->sms.size());
  const std::uint32_t even = (sms + 1) / 2;
  const std::uint32_t place = block % sms;
  return place < even ? place * 2 : (place - even) * 2 + 1;
}

pcie::Duplex& Machine::wires_of(const trace::Traffic& traffic) {
  ProcessingElement& pe = *pes_[traffic.pe];
  const bool gpu = traffic.place <= trace::Traffic::Place::kGpuLinkDown;
  return (gpu ? pe.link : *pe.nic_link).wires();
}

bool Machine::overfills(const trace::Traffic& traffic) {
  if (traffic.place == trace::Traffic::Place::kWire) return traffic.gbps >= spec_.wire.gbps;
  const pcie::Duplex& wires = wires_of(traffic);
  return wires.length_ps(wires.train(pcie::TlpKind::kMemWr, traffic.bytes)) >= period_ps(traffic);
}

void Machine::pass(trace::Traffic& traffic, Ps at_ps) {
  using Place = trace::Traffic::Place;
  const bool done =
      lanes_left_ == 0 &&
      std::none_of(books_->begin(), books_->end(), [](const auto& b) { return b.in_flight() > 0; });
  if (done) return;
  const bool up = traffic.place == Place::kGpuLinkUp || traffic.place == Place::kNicLinkUp;
  pcie::Duplex& wires = wires_of(traffic);
  wires.send(up ? pcie::Way::kUp : pcie::Way::kDown, at_ps,
             wires.train(pcie::TlpKind::kMemWr, traffic.bytes));
  traffic_.push(at_ps + period_ps(traffic), traffic);
}

void Machine::run(const RunSetup& setup) {
  const Program& program = setup.recipe->program;
  const trace::Run& run = *setup.run;
  const auto pes = static_cast<std::uint32_t>(pes_.size());
  const auto sm_count = static_cast<std::uint32_t>(pes_.front()->sms.size());
  const std::string where = "run '" + run.name + "'";
  if (program.nic.present && !fabric_)
    throw InputError(where + " with protocol " + program.protocol,
                     "the recipe posts to a NIC, the system has none",
                     "use a system with nic.* parameters, or a capture-* recipe");
  const std::uint32_t numbers = program.one_queue ? 1 : run.queues;
  const std::uint32_t queues = program.queues_by_peer ? numbers * pes : numbers;
  if (run.peers >= pes && run.peers > 1)
    throw InputError(where,
                     "its queues lead to " + std::to_string(run.peers) +
                         " other processing elements, the system has " + std::to_string(pes),
                     "use a system with more (cluster.pes_count)");
  for (const trace::Traffic& traffic : run.traffic)
    if (traffic.pe >= pes || (traffic.place >= trace::Traffic::Place::kNicLinkUp && !spec_.has_nic))
      throw InputError(where, "its traffic passes a place that the system does not have",
                       "name a processing element of the system; nic_link_* and wire need a NIC");
  for (const trace::Traffic& traffic : run.traffic)
    if (overfills(traffic))
      throw InputError(where,
                       fmt::format("background of {:g} Gb/s in pieces of {} B is more than its {} "
                                   "carries, and what comes behind it would wait for ever",
                                   traffic.gbps, traffic.bytes,
                                   trace::kTrafficPlaces[static_cast<std::size_t>(traffic.place)]),
                       "give it a smaller gbps, or larger pieces (bytes)");
  if (program.nvlink.present)
    for (const trace::Lane& lane : run.lanes)
      if (lane.background)
        throw InputError(where + " with protocol " + program.protocol,
                         "background warps are not carried out across NVLink",
                         "write them as a run's own warps, or load the links with nvlink_copies");
  std::vector<std::uint32_t> lanes_of_pe(pes, 0);
  for (const trace::Lane& lane : run.lanes) {
    if (lane.pe >= pes)
      throw InputError(where,
                       "warp " + std::to_string(lane.warp) + " is on processing element " +
                           std::to_string(lane.pe) + ", the system has " + std::to_string(pes),
                       "use a system with more (cluster.pes_count, nvlink.peers_count)");
    ++lanes_of_pe[lane.pe];
  }
  const std::uint32_t most_lanes = *std::max_element(lanes_of_pe.begin(), lanes_of_pe.end());
  const QueueLayout layout(program, queues, most_lanes, program.nvlink.present ? pes : 1);

  if ((layout.peer_bytes() > 0 || program.nvlink.present) && !nvlink_)
    throw InputError(where + " with protocol " + program.protocol,
                     "has words in a peer GPU's memory, and the system has one GPU",
                     "use a system with nvlink.peers_count: 1 or more (h200x2-f), or another "
                     "`memory` for them (doorbell_in: gpu)");

  const auto is_gpu = [&](std::uint32_t gpu) { return nvlink_ && gpu < pes; };
  for (const trace::NvlinkCopy& copy : run.nvlink_copies)
    if (!is_gpu(copy.from) || !is_gpu(copy.to) || copy.from == copy.to)
      throw InputError(where,
                       fmt::format("a copy from GPU {} to GPU {} beside it", copy.from, copy.to),
                       "name two GPUs that NVLink joins (nvlink.peers_count)");
  for (const std::uint32_t gpu : run.l2_readers)
    if (!is_gpu(gpu))
      throw InputError(where, fmt::format("GPU {} is read beside it", gpu),
                       "name a GPU that NVLink joins (nvlink.peers_count)");

  const Ps begin_ps = now_ps();
  if (setup.order) setup.order->on_run_begin(begin_ps);
  FromRunStart observer(setup.observer, begin_ps, run);
  std::vector<Placement> placements(pes);
  std::vector<JourneyBook> books(pes);
  books_ = &books;
  std::vector<gpu::RunContext> contexts(pes);
  if (fabric_) {
    fabric_->reset(setup.seed);
    fabric_->set_observer(&observer);
  }
  if (nvlink_) {
    nvlink_->reset(setup.seed);
    nvlink_->set_observer(&observer);
  }
  for (const trace::Lane& lane : run.lanes)
    if (program.nvlink.present && lane.peer && (*lane.peer >= pes || *lane.peer == lane.pe))
      throw InputError(
          where, fmt::format("warp {} of GPU {} aims at GPU {}", lane.warp, lane.pe, *lane.peer),
          fmt::format("name another GPU, below {}, or raise nvlink.peers_count", pes));
  std::uint64_t done_lanes = 0;
  // Between two completed messages there may lie a lane's own work and a payload's copy.
  constexpr Ps kSlowestPsPerByte = 1000;
  Ps longest_pause_ps = 0;
  lanes_left_ = static_cast<std::uint64_t>(
      std::count_if(run.lanes.begin(), run.lanes.end(),
                    [](const trace::Lane& lane) { return !lane.background; }));
  /// What a lane has been given so far.
  struct Given {
    const trace::Lane* lane;
    std::uint64_t operations = 0, messages = 0;
    std::uint64_t blocks = 0;  ///< of its longest message
  };
  std::unordered_map<std::uint32_t, Given> given;
  for (const trace::Lane& lane : run.lanes) given[lane.warp].lane = &lane;
  const auto next_of = [&](std::uint32_t warp, gpu::Op& op) {
    Given& of = given.at(warp);
    const trace::Lane& lane = *of.lane;
    if (lane.background && lanes_left_ == 0) return false;
    if (!setup.next_op(warp, op)) {
      if (!lane.background) --lanes_left_;
      return false;
    }
    if (lane.period_ns > 0)
      op.from_ps = begin_ps + ps_from_ns(lane.period_ns * static_cast<double>(of.operations++));
    if (lane.visits > 0 && is_message(op.kind)) {
      const std::uint64_t visit = of.messages / lane.puts_per_visit;
      op.queue = queue_at(lane, visit % lane.visits, run.queues);
      op.flush = ++of.messages % lane.puts_per_visit == 0 || op.flush;
    }
    return true;
  };
  const bool posts_for_lanes =
      std::any_of(program.proxy.visit.begin(), program.proxy.visit.end(),
                  [](const Step& step) { return step.op == StepOp::kPost; });
  check_proxy_words(program);
  const bool by_owner_bit = program.nic.present && !program.on_cpu && waits_by_owner_bit(program);
  /// By element and queue: entries that its lanes may want at once, as far as known.
  std::vector<std::uint64_t> wanted(std::size_t{pes} * queues, 0);
  const auto checked_op = [&](std::uint32_t warp, gpu::Op& op) {
    if (next_of(warp, op)) {
      if (program.of(op.kind).empty())
        throw InputError(where + " with protocol " + program.protocol,
                         "the recipe has no '" +
                             std::string(kOpKindNames[static_cast<std::size_t>(op.kind)]) + "'",
                         "add the steps to the recipe, or choose runs without it with --only");
      if (posts_for_lanes && is_message(op.kind) &&
          program.proxy.posts[static_cast<std::size_t>(op.kind)].empty())
        throw InputError(where + " with protocol " + program.protocol,
                         "the recipe's proxy cannot post '" +
                             std::string(kOpKindNames[static_cast<std::size_t>(op.kind)]) + "'",
                         "add it to `posts` of `proxy`");
      if (program.inlines[static_cast<std::size_t>(op.kind)] && program.nic.inline_bytes == 0) {
        if (op.bytes > kMaxInlineBytes)
          throw InputError(where + " with protocol " + program.protocol,
                           "an inline payload of " + std::to_string(op.bytes) + " B",
                           "at most " + std::to_string(kMaxInlineBytes) + " B, or payload: write");
        if (program.nic.kind == NicProgram::Completion::kPlain &&
            program.blocks(op.kind, op.bytes) != program.blocks(op.kind, 0))
          throw InputError(where + " with protocol " + program.protocol,
                           "an inline payload of " + std::to_string(op.bytes) +
                               " B takes more than one entry, and the recipe finds a completion "
                               "by its entry's number",
                           "at most 28 B, or payload: write");
      }
      // The last of so many that wait for a slot stands two passes before the ring's completions.
      if (by_owner_bit && is_message(op.kind)) {
        Given& of = given.at(warp);
        std::uint64_t& entries = wanted[std::size_t{of.lane->pe} * queues + of.lane->queue];
        const std::uint64_t blocks = program.blocks(op.kind, op.bytes);
        if (blocks > of.blocks) entries += blocks - std::exchange(of.blocks, blocks);
        if (entries > program.depth)
          throw InputError(where + " with protocol " + program.protocol,
                           "lanes that share queue " + std::to_string(of.lane->queue) +
                               " want more entries at once than its " +
                               std::to_string(program.depth) +
                               ", and find a free one by a completion's owner bit, which is the "
                               "same again after two passes: they would overwrite what the NIC "
                               "has not read",
                           "give the run more queues, so that fewer lanes share one");
      }
      // mlx5's byte count has 31 bits.
      constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 31;
      if (program.nic.present && op.bytes > kMostBytes)
        throw InputError(where + " with protocol " + program.protocol,
                         "a message of " + std::to_string(op.bytes) + " B",
                         "an entry holds at most 2147483648 B (2 GiB): put it in several");
      if (program.on_cpu) check_cpu_words(program, op.kind);
      longest_pause_ps = std::max(
          longest_pause_ps,
          static_cast<Ps>(static_cast<double>(op.compute_cycles) * 1000 / spec_.gpu.sm_clock_ghz) +
              static_cast<Ps>(op.bytes) * kSlowestPsPerByte);
      return true;
    }
    ++done_lanes;
    return false;
  };
  // SystemC would make a report of its own of what is thrown in a process.
  std::optional<InputError> failure;
  const auto next_op = [&](std::uint32_t warp, gpu::Op& op) {
    try {
      return !failure && checked_op(warp, op);
    } catch (const InputError& error) {
      failure = error;
      return false;
    }
  };
  std::array<std::uint8_t, 256> payload{};
  const bool has_background = std::any_of(run.lanes.begin(), run.lanes.end(),
                                          [](const trace::Lane& lane) { return lane.background; });
  for (std::uint32_t number = 0; number < pes; ++number) {
    ProcessingElement& pe = *pes_[number];
    // A GPU without lanes holds the consumer's words alone.
    const bool only_memory = number > 0 && lanes_of_pe[number] == 0 && layout.peer_bytes() > 0;
    const std::uint64_t seed = setup.seed + (only_memory ? 0 : number * 1000);
    const std::uint64_t bytes = only_memory ? layout.peer_bytes() : layout.gpu_bytes();
    placements[number].draw(std::max<std::uint64_t>(bytes, 4096), sm_count, seed,
                            spec_.gpu.distance_spread_cycles);
    if (setup.place && number == 0) setup.place(layout, placements[number]);
    books[number].begin(queues, &observer, program.proxy.completes != kNoWord);
    books[number].follow(setup.order, number, program.depth);
    pe.hbm.reset(placements[number].gpu_bytes());
    pe.l2.reset(placements[number].gpu_bytes(), &placements[number], seed);
    pe.link.reset(seed);
    pe.root.reset();
    pe.host_memory.reset(std::max<std::uint64_t>(layout.host_bytes(), 4096));
    pe.cpu.seed(seed);
    pe.core.reset(seed);
    pe.front_end.reset();
    for (auto& sm : pe.sms) sm->reset(seed, has_background);
    pe.l2.set_observer(&observer);
    pe.link.set_observer(&observer, "PCIe of GPU " + std::to_string(number));
    if (pe.nic_link) pe.nic_link->set_observer(&observer, "PCIe of NIC " + std::to_string(number));
    gpu::RunContext& context = contexts[number];
    context.program = &program;
    context.layout = &layout;
    context.book = &books[number];
    context.l2 = &pe.l2;
    if (program.nvlink.present) context.port = &nvlink_->port(number);
    context.observer = setup.observer ? &observer : nullptr;
    context.order = setup.order;
    context.run = setup.index;
    context.pe = number;
    context.pes = pes;
    context.queues = queues;
    context.lanes = lanes_of_pe[number];
    context.lanes_of_queue.assign(queues, 0);
    context.next_op = next_op;
    if (!program.nic.present) continue;
    nic::Connections connections{&program,
                                 &layout,
                                 &books[number],
                                 number,
                                 {},
                                 placements[number].gpu_bytes(),
                                 std::max<std::uint64_t>(layout.host_bytes(), 4096)};
    for (std::uint32_t queue = 0; queue < queues; ++queue)
      connections.peers.push_back(program.queues_by_peer ? queue % pes
                                                         : (number + 1 + queue % run.peers) % pes);
    // Where lanes say whom they talk to, their queues lead there.
    if (!program.queues_by_peer && run.peers == 1)
      for (const trace::Lane& lane : run.lanes)
        for (std::uint32_t visit = 0; visit < std::max(lane.visits, 1u); ++visit)
          if (const std::uint32_t queue = queue_at(lane, visit, run.queues);
              lane.pe == number && lane.peer && queue < queues)
            connections.peers[queue] = *lane.peer;
    context.encode = [&program, &layout, &payload](const gpu::EntryRequest& entry,
                                                   std::span<std::uint8_t> out) {
      std::copy_n(reinterpret_cast<const std::uint8_t*>(&entry.version), 8, payload.data());
      std::fill_n(out.begin(), nic::kWqebbBytes, std::uint8_t{0});
      const std::span<const std::uint8_t> data(
          payload.data(),
          static_cast<std::size_t>(std::min<std::uint64_t>(entry.bytes, payload.size())));
      const std::uint32_t units = nic::encode(work_request(program, layout, entry, data), out);
      return units * nic::kWqeUnitBytes;
    };
    pe.nic_link->reset(seed);
    pe.nic->start(connections);
    // Software fills a completion queue before its first use, so that nothing looks complete.
    for (const Word& word : program.words) {
      if (word.encoding == Encoding::kPlain) continue;
      const std::uint64_t from = layout.region_begin(word.region);
      const std::uint64_t to = layout.region_end(word.region);
      if (is_host(from))
        pe.host_memory.fill(from, to, nic::kCqeInitialByte);
      else
        std::fill(pe.hbm.memory().data(from), pe.hbm.memory().data(to), nic::kCqeInitialByte);
    }
  }
  const auto queue_of = [&](const trace::Lane& lane) {
    const std::uint32_t peer = lane.peer.value_or((lane.pe + 1) % pes);
    return program.queues_by_peer ? lane.queue % numbers * pes + peer : lane.queue;
  };
  for (const trace::Lane& lane : run.lanes) {
    if (lane.visits > 0 && program.queues_by_peer)
      throw InputError(where + " with protocol " + program.protocol,
                       "warps go round queues that the recipe itself picks",
                       "take the visits out, or use a recipe without \"queues: by_peer\"");
    for (std::uint32_t visit = 0; visit < std::max(lane.visits, 1u); ++visit)
      ++contexts[lane.pe]
            .lanes_of_queue[visit == 0 ? queue_of(lane) : queue_at(lane, visit, run.queues)];
  }

  // Across NVLink lanes that only wait may share a queue with one that puts.
  for (const auto& steps : program.steps)
    for (const Step& step : steps)
      if (step.op == StepOp::kOwnIndex && !program.nvlink.present)
        for (const gpu::RunContext& context : contexts)
          for (std::uint32_t queue = 0; queue < queues; ++queue)
            if (context.lanes_of_queue[queue] > 1)
              throw InputError(where + " with protocol " + program.protocol,
                               "queue " + std::to_string(queue) + " is shared by " +
                                   std::to_string(context.lanes_of_queue[queue]) +
                                   " warps, the recipe keeps the index in one lane's register",
                               "give every warp a queue of its own");

  Consumer* consumer = nullptr;
  if (!program.nic.present && !program.on_cpu && !program.nvlink.present) {
    ProcessingElement& pe = *pes_.front();
    const ConsumerProgram::Where at = program.consumer.where;
    consumer = at == ConsumerProgram::Where::kCpu    ? static_cast<Consumer*>(&pe.cpu)
               : at == ConsumerProgram::Where::kPeer ? &nvlink_->consumer()
                                                     : static_cast<Consumer*>(&pe.warp);
    // Where the trace does not say where the consumer ran: its block is the grid's last, on a
    // neighbour of the last lane's SM.
    const auto blocks = static_cast<std::uint32_t>(run.lanes.size());
    pe.warp.place(
        run.consumer_sm.value_or(run.lanes.back().sm.value_or(default_sm(blocks - 1)) + 2) %
        sm_count);
    consumer->set_observer(&observer);
    consumer->start(&program, &layout, queues, &books.front(),
                    [&](std::uint32_t queue, std::uint64_t index) {
                      return books.front().flight(queue, index).journey.bytes;
                    });
  }
  std::fill(lanes_of_pe.begin(), lanes_of_pe.end(), 0);
  for (const trace::Lane& lane : run.lanes) {
    const std::uint32_t number = lanes_of_pe[lane.pe]++;
    const std::uint32_t peer = lane.peer.value_or((lane.pe + 1) % pes);
    if (program.on_cpu) {
      pes_[lane.pe]->core.add_lane(&contexts[lane.pe], lane.warp, queue_of(lane), number, peer);
      continue;
    }
    const std::uint32_t sm = lane.sm.value_or(default_sm(number));
    if (sm >= sm_count)
      throw InputError(where,
                       "warp " + std::to_string(lane.warp) + " is on SM " + std::to_string(sm) +
                           ", the system has " + std::to_string(sm_count),
                       "use a system with enough SMs (gpu.sm.units_count)");
    pes_[lane.pe]->sms[sm]->add_lane(&contexts[lane.pe], lane.warp, queue_of(lane), number, peer);
  }

  for (const trace::NvlinkCopy& copy : run.nvlink_copies)
    nvlink_->port(copy.from).copy_without_end(copy.to);
  for (const std::uint32_t gpu : run.l2_readers) nvlink_->port(gpu).keep_l2_busy();

  for (std::uint32_t number = 0; program.proxy.present && number < pes; ++number)
    if (contexts[number].lanes > 0) pes_[number]->core.add_proxy(&contexts[number]);

  for (const trace::Traffic& traffic : run.traffic)
    if (traffic.place == trace::Traffic::Place::kWire)
      fabric_->load(traffic.pe, begin_ps, traffic.gbps, traffic.bytes);
    else
      traffic_.push(begin_ps, traffic);

  // In slices of simulated time, so that a program that polls for ever is noticed; each reaches at
  // least the next event, because time does not move without one.
  const sc_core::sc_time slice(100, sc_core::SC_MS);
  Ps progress_ps = now_ps();
  std::uint64_t progress = 0;
  // A lost message is noticed only after the timeout, at worst as often as it may be repeated.
  if (fabric_ && fabric_->loses())
    longest_pause_ps += ps_from_ns(spec_.nic.ack_timeout_us * 1000 * (spec_.nic.retries + 2));
  const auto complaint = [&] {
    for (const auto& pe : pes_)
      if (pe->nic && !pe->nic->complaint().empty()) return pe->nic->complaint();
    return std::string();
  };
  const auto in_flight = [&] {
    std::uint64_t messages = 0;
    for (const JourneyBook& book : books) messages += book.in_flight();
    return messages;
  };
  const auto is_stuck = [&] { return done_lanes < run.lanes.size() || in_flight() > 0; };
  do {
    sc_core::sc_start(
        std::max(slice, sc_core::sc_time_to_pending_activity() + sc_core::sc_get_time_resolution()),
        sc_core::SC_EXIT_ON_STARVATION);
    if (observer.progress() != progress) progress_ps = now_ps();
    progress = observer.progress();
  } while (sc_core::sc_pending_activity() && complaint().empty() && !failure &&
           now_ps() - progress_ps <= longest_pause_ps + static_cast<Ps>(slice.value()));
  for (auto& pe : pes_) {
    pe->l2.set_observer(nullptr);
    pe->link.set_observer(nullptr);
    if (pe->nic_link) pe->nic_link->set_observer(nullptr);
  }
  if (fabric_) fabric_->set_observer(nullptr);
  if (nvlink_) nvlink_->set_observer(nullptr);
  if (consumer) consumer->set_observer(nullptr);
  if (!complaint().empty() || is_stuck())
    for (JourneyBook& book : books) book.abandon();
  if (failure) throw *failure;
  if (!complaint().empty())
    throw InputError(where + " with protocol " + program.protocol,
                     "the NIC stopped a queue: " + complaint(),
                     "mend what the recipe writes into that entry or its doorbell, or the system's "
                     "wire");
  if (!is_stuck()) return;
  const bool shared = std::any_of(contexts.begin(), contexts.end(), [](const auto& context) {
    return std::any_of(context.lanes_of_queue.begin(), context.lanes_of_queue.end(),
                       [](std::uint32_t lanes) { return lanes > 1; });
  });
  std::vector<Wait> waits;
  for (const auto& pe : pes_) {
    for (const auto& sm : pe->sms) sm->waits(waits);
    pe->core.waits(waits);
  }
  const Stuck told = stuck(waits, begin_ps);
  std::string mend = waits.empty() ? "every put must be rung for: flush the last one" : told.mend;
  if (shared && by_owner_bit)
    mend = fmt::format(
        "lanes that share a queue find a completion by its owner bit, and one that was held up (by "
        "a lock, say) while a whole pass of {} entries completed has missed it: give the run more "
        "queues, or let lanes wait less often. If it is not that: {}",
        program.depth, mend);
  throw InputError(where + " with protocol " + program.protocol,
                   fmt::format("it got stuck: {} messages never complete, {} of {} lanes wait for "
                               "ever{}",
                               in_flight(), run.lanes.size() - done_lanes, run.lanes.size(),
                               waits.empty() ? "" : ": " + told.problem),
                   mend);
}

void Machine::clear_counters() {
  for (auto& pe : pes_) pe->clear_counters();
  if (fabric_) fabric_->clear_counters();
  if (nvlink_) nvlink_->clear_counters();
}

void Machine::report(CounterSink& sink) const {
  // The elements' links and GPUs have the same names: the first one's are shown.
  pes_.front()->report(sink);
  for (std::size_t pe = 1; pe < pes_.size(); ++pe) {
    if (pes_[pe]->nic) pes_[pe]->nic->report(sink);
    if (!nvlink_) continue;
    pes_[pe]->l2.report(sink);
    pes_[pe]->hbm.report(sink);
  }
  if (fabric_) fabric_->report(sink);
  if (nvlink_) nvlink_->report(sink);
}

}  // namespace marrow::sim
