#include "models/gpu/sm.h"

#include <algorithm>

namespace marrow::gpu {

namespace {

// How far a lane's own time may run ahead of the kernel's before it waits: bounds what is queued,
// changes no result.
constexpr Ps kQuantumPs = 20'000'000, kSharedQuantumPs = 1'000'000;
constexpr std::uint32_t kBlockBytes = 64;  // of a queue

sc_core::sc_time as_time(Ps ps) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(std::max<Ps>(ps, 0)));
}

}  // namespace

Sm::Sm(sc_core::sc_module_name name, std::uint32_t id, const GpuSpec& spec, bool reaches_peer)
    : sc_module(name),
      id_(id),
      spec_(spec),
      reaches_peer_(reaches_peer),
      sm_cycle_ps_(1000.0 / spec.sm_clock_ghz),
      l2_cycle_ps_(1000.0 / spec.l2_clock_ghz),
      resume_("resume", [this](std::uint32_t& lane, Ps) { run(*lanes_[lane]); }) {
  memory.register_nb_transport_bw(this, &Sm::nb_transport_bw);
}

void Sm::reset(std::uint64_t seed, bool in_step) {
  in_step_ = in_step;
  lanes_.clear();
  port_.reset();
  random_ = Random(seed + id_);
}

void Sm::add_lane(const RunContext* context, std::uint32_t warp, std::uint32_t queue,
                  std::uint32_t number, std::uint32_t peer) {
  auto lane = std::make_unique<Lane>();
  lane->context = context;
  lane->number = number;
  lane->warp = warp;
  lane->queue = queue;
  lane->peer = peer;
  lane->alone_on_pe = context->lanes == 1;
  lane->alone = lane->alone_on_pe ||
                (context->lanes_of_queue[queue] == 1 && !context->program->picks_queue());
  lane->at_ps = now_ps();
  lane->access.lane = static_cast<std::uint32_t>(lanes_.size());
  lane->payload.set_extension(&lane->access);
  lane->payload.set_data_ptr(lane->bytes.data());
  lanes_.push_back(std::move(lane));
  resume_.push(now_ps(), static_cast<std::uint32_t>(lanes_.size() - 1));
}

void Sm::run(Lane& lane) {
  for (;;) {
    if (!lane.in_op) {
      // Between operations a lane may be far ahead; let the rest of the machine catch up.
      const Ps ahead_ps = in_step_ ? 0 : lanes_.size() > 1 ? kSharedQuantumPs : kQuantumPs;
      if (lane.at_ps > now_ps() + ahead_ps) {
        resume_.push(lane.at_ps, lane.access.lane);
        return;
      }
      if (!lane.begin_op(id_)) return;
    }
    const Step& current = lane.context->program->of(lane.op.kind)[lane.pc];
    if (current.op == StepOp::kEnd) {
      lane.end_op();
      if (lane.posts) counters_.messages += lane.lanes;
      lane.at_ps += cycles_ps(static_cast<double>(lane.op.compute_cycles));
      continue;
    }
    ++lane.pc;
    if (!step(lane, current)) return;
  }
}

bool Sm::is_private(const Lane& lane, const Word& word, std::uint64_t address) const {
  if (word.consumer_reads || !is_own(address)) return false;
  switch (lane.context->program->regions[word.region].owner) {
    case Owner::kQueue:
      return lane.alone;
    case Owner::kLane:
      return true;
    case Owner::kAll:
      return lane.alone_on_pe;
  }
  return false;
}

bool Sm::step(Lane& lane, const Step& step) {
  switch (step.op) {
    case StepOp::kCompute:
      lane.at_ps += cycles_ps(step.cycles);
      return true;
    case StepOp::kStore:
      return store_step(lane, step);
    case StepOp::kFence:
      return fence_step(lane, step);
    case StepOp::kLoad:
    case StepOp::kAtomic:
    case StepOp::kSpin:
    case StepOp::kPoll:
      return memory_step(lane, step);
    default:
      return lane.control(step);
  }
}

void Sm::touched(Lane& lane, std::uint64_t address) {
  if (crosses_pcie(address)) {
    lane.host_stores = true;
    // A GPU-scope fence cares for host memory, not for a device's registers.
    if (is_nic(address)) return;
    lane.host_memory_stores = true;
    lane.last_host_store = address;
    lane.host_acknowledged_ps = lane.context->l2->host_write_acknowledged_ps(lane.at_ps);
    return;
  }
  if (is_peer(address)) {
    lane.stored_to_peer = true;
    lane.peer_acknowledged_ps = lane.at_ps + l2_cycles_ps(spec_.fence_sys_peer_cycles);
    return;
  }
  const L2& l2 = *lane.context->l2;
  const double base =
      l2.is_far(id_, address) ? spec_.fence_gpu_far_cycles : spec_.fence_gpu_near_cycles;
  lane.fence_cycles = std::max(lane.fence_cycles, base + l2.distance_cycles(id_, address));
}

void Sm::store(Lane& lane, const Word& word, std::uint64_t address, std::uint32_t from,
               std::uint32_t bytes) {
  lane.access.kind = AccessKind::kStore;
  lane.access.issue_ps = lane.at_ps;
  lane.access.sm = id_;
  lane.payload.set_command(tlm::TLM_WRITE_COMMAND);
  lane.payload.set_address(address);
  lane.payload.set_data_ptr(lane.bytes.data() + from);
  lane.payload.set_data_length(bytes);
  lane.payload.set_streaming_width(bytes);
  touched(lane, address);
  if (is_host(address) && bytes > 8) lane.host_entry = true;
  sc_core::sc_time delay = as_time(lane.at_ps - now_ps());
  if (is_private(lane, word, address)) {
    memory->b_transport(lane.payload, delay);
  } else {
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    memory->nb_transport_fw(lane.payload, phase, delay);
  }
  lane.payload.set_data_ptr(lane.bytes.data());
}

bool Sm::store_step(Lane& lane, const Step& step) {
  const Program& program = *lane.context->program;
  const Word& word = program.words[step.word];
  const bool is_entry = step.form != EntryForm::kNone;
  std::uint32_t count = step.count;
  if (count == 0)
    count = (entry_length_bytes(step.form, program.nic.dc, lane.op.bytes) + step.bytes - 1) /
            step.bytes;
  // Lanes that store together: each to a sector of its own.
  const std::uint32_t lanes = is_entry ? lane.lanes : 1;
  const double own_cycles = step.bytes > 8 ? spec_.store16_cycles : spec_.store_cycles;
  const Ps own_ps = lane.at_ps + cycles_ps(own_cycles * count);
  Ps done_ps = own_ps;
  if (lanes > 1 || lanes_.size() > 1) {
    // All lanes of the SM leave by one port; a wide store takes it as much longer as one lane.
    const double wider = own_cycles > spec_.store_cycles ? own_cycles / spec_.store_cycles : 1;
    const double port_cycles = spec_.store_lane_cycles * wider * lanes * count;
    done_ps = std::max(done_ps, port_.reserve(lane.at_ps, cycles_ps(port_cycles)).end_ps);
  }
  lane.at_ps = done_ps;
  counters_.stores += count;
  lane.access.value = lane.operand(step, step.value);
  if (!is_entry)
    store(lane, word, lane.address(step, lane.index), 0, lane.fill(step, lane.access.value, count));
  for (std::uint32_t l = 0; is_entry && l < lanes; ++l) {
    const std::uint64_t index = lane.entry_index(step, l);
    const std::uint32_t total = lane.encode(step, l);
    // Block by block: a longer entry may go on at the ring's beginning.
    for (std::uint32_t from = 0; from < total; from += kBlockBytes)
      store(lane, word, lane.address(step, index + from / kBlockBytes), from,
            std::min(kBlockBytes, total - from));
  }
  if (step.word == program.announcement()) lane.rang = true;
  if (done_ps == own_ps || lanes_.size() == 1) return true;
  // Others may come to the port before this lane's next store: it must not run ahead of them.
  resume_.push(done_ps, lane.access.lane);
  return false;
}

bool Sm::fence_step(Lane& lane, const Step& step) {
  if (step.scope == Scope::kNone) return true;
  if (step.scope == Scope::kCta) {
    ++counters_.fences_cta;
    lane.at_ps += cycles_ps(spec_.fence_cta_cycles);
    return true;
  }
  if (step.acquires && step.scope == Scope::kGpu) {
    ++counters_.fences_gpu;
    lane.at_ps += l2_cycles_ps(spec_.fence_gpu_cycles);
    return true;
  }
  const L2& l2 = *lane.context->l2;
  const bool sys = step.scope == Scope::kSys;
  ++(sys ? counters_.fences_sys : counters_.fences_gpu);
  const bool pending = lane.host_memory_stores || lane.at_ps < lane.host_acknowledged_ps;
  double cycles = 0;
  if (sys) {
    // An entry is two 32 B sectors, each with a way of its own: the fence waits for the slower.
    const bool awaits_host = lane.at_ps < lane.host_acknowledged_ps;
    cycles =
        awaits_host && reaches_peer_ ? spec_.fence_sys_host_peer_cycles : spec_.fence_sys_cycles;
    if (awaits_host && lane.host_entry)
      cycles += std::max(random_.unit(), random_.unit()) * spec_.fence_sys_host_extra_cycles;
    lane.host_acknowledged_ps = 0;
  } else {
    // With nothing stored since the last fence it goes the same ways once more.
    const double ways = lane.fence_cycles > 0 ? lane.fence_cycles : lane.last_fence_cycles;
    lane.last_fence_cycles = ways;
    // The way to the peer is the longest: behind it no line's own distance shows.
    cycles =
        lane.stored_to_peer ? spec_.fence_gpu_peer_cycles : std::max(spec_.fence_gpu_cycles, ways);
    if (pending) cycles = std::max(cycles, spec_.fence_gpu_host_cycles);
    if (l2.host_poller()) cycles = std::max(cycles, spec_.fence_gpu_beside_host_reads_cycles);
  }
  lane.access.kind = AccessKind::kFence;
  lane.access.issue_ps = lane.at_ps;
  lane.access.sm = id_;
  lane.access.scope = step.scope;
  lane.access.least_ps = l2_cycles_ps(cycles);
  if (sys)
    lane.access.least_ps = std::max(lane.access.least_ps, lane.peer_acknowledged_ps - lane.at_ps);
  lane.access.host_stores = sys ? lane.host_stores : lane.at_ps < lane.host_acknowledged_ps;
  const bool meets_reads = sys ? lane.context->lanes > 1 || l2.host_poller()
                               : lane.access.host_stores && l2.host_poller();
  lane.fence_cycles = 0;
  lane.host_stores = lane.host_memory_stores = lane.host_entry = false;
  if (!meets_reads) {
    lane.at_ps += lane.access.least_ps;
    return true;
  }
  lane.pending = &step;
  lane.payload.set_address(lane.last_host_store);
  sc_core::sc_time delay = as_time(lane.at_ps - now_ps());
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  memory->nb_transport_fw(lane.payload, phase, delay);
  return false;
}

bool Sm::memory_step(Lane& lane, const Step& step) {
  const Program& program = *lane.context->program;
  const Word& word = program.words[step.word];
  // A poll looks where the last entry that it waits for completes.
  const std::uint64_t address =
      lane.address(step, step.op == StepOp::kPoll ? lane.wanted(step) - 1 : lane.index);
  Access& access = lane.access;
  access.issue_ps = lane.at_ps;
  access.sm = id_;
  access.rounds = 0;
  access.retry_ps = cycles_ps(step.cycles);
  access.atomic = step.atomic;
  access.value = lane.operand(step, step.value);
  switch (step.op) {
    case StepOp::kLoad:
      access.kind = AccessKind::kLoad;
      break;
    case StepOp::kAtomic:
      access.kind = AccessKind::kAtomic;
      break;
    case StepOp::kSpin:
      access.kind = AccessKind::kSpin;
      access.expected = lane.operand(step, step.expected);
      break;
    default:
      access.kind = AccessKind::kPoll;
      access.threshold = lane.wanted(step);
      access.encoding = word.encoding;
      access.entries = word.entries;
  }
  if (access.kind != AccessKind::kLoad && access.kind != AccessKind::kPoll) {
    touched(lane, address);
    if (step.word == program.announcement()) lane.rang = true;
  }
  lane.payload.set_command(tlm::TLM_READ_COMMAND);
  lane.payload.set_address(address);
  lane.payload.set_data_length(word.bytes);
  lane.payload.set_streaming_width(word.bytes);
  sc_core::sc_time delay = as_time(lane.at_ps - now_ps());
  const Ps before_ps = static_cast<Ps>(delay.value());
  if (is_private(lane, word, address)) {
    const std::uint64_t operand_value = access.value;
    memory->b_transport(lane.payload, delay);
    const bool waits =
        (step.op == StepOp::kSpin && access.value != access.expected) ||
        (step.op == StepOp::kPoll && access.counted(access.value) < access.threshold);
    if (waits) {
      access.value = operand_value;
      lane.pending = &step;
      delay = as_time(lane.at_ps - now_ps());
      tlm::tlm_phase phase = tlm::BEGIN_REQ;
      memory->nb_transport_fw(lane.payload, phase, delay);
      return false;
    }
    finish_access(lane, step, static_cast<Ps>(delay.value()) - before_ps + lane.at_ps);
    return true;
  }
  lane.pending = &step;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  memory->nb_transport_fw(lane.payload, phase, delay);
  return false;
}

void Sm::finish_access(Lane& lane, const Step& step, Ps back_ps) {
  if (step.op == StepOp::kPoll) counters_.polls += lane.access.rounds;
  lane.answer(step, lane.access.value, back_ps, lane.access.rounds);
}

tlm::tlm_sync_enum Sm::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                       sc_core::sc_time& delay) {
  Lane& lane = *lanes_[payload.get_extension<Access>()->lane];
  const Step& step = *lane.pending;
  const Ps back_ps = now_ps() + static_cast<Ps>(delay.value());
  if (step.op == StepOp::kFence)
    lane.at_ps = std::max(lane.at_ps, back_ps);
  else
    finish_access(lane, step, back_ps);
  run(lane);
  return tlm::TLM_COMPLETED;
}

void Sm::waits(std::vector<Wait>& all) const {
  for (const auto& lane : lanes_)
    if (lane->in_op && lane->pending != nullptr)
      all.push_back({lane.get(), lane->pending, lane->at_ps});
}

void Sm::report(CounterSink& sink) const {
  if (counters_.messages == 0) return;
  const auto count = [&](const char* counter, std::uint64_t value) {
    sink.add("gpu0.sm", counter, static_cast<double>(value), "count");
  };
  count("messages", counters_.messages);
  count("store instructions", counters_.stores);
  count("fences cta", counters_.fences_cta);
  count("fences gpu", counters_.fences_gpu);
  count("fences sys", counters_.fences_sys);
  count("polls", counters_.polls);
}

}  // namespace marrow::gpu
