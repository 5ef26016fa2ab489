#include "models/gpu/sm.h"

#include <algorithm>

namespace marrow::gpu {

namespace {

// How far a lane's own time may run ahead of the kernel's before it waits: bounds what is queued,
// changes no result.
constexpr Ps kQuantumPs = 20'000'000;
constexpr std::uint32_t kBlockBytes = 64;  // of a queue

sc_core::sc_time as_time(Ps ps) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(std::max<Ps>(ps, 0)));
}

}  // namespace

Sm::Sm(sc_core::sc_module_name name, std::uint32_t id, const GpuSpec& spec)
    : sc_module(name),
      id_(id),
      spec_(spec),
      sm_cycle_ps_(1000.0 / spec.sm_clock_ghz),
      l2_cycle_ps_(1000.0 / spec.l2_clock_ghz),
      resume_("resume", [this](std::uint32_t& lane, Ps) { run(*lanes_[lane]); }) {
  memory.register_nb_transport_bw(this, &Sm::nb_transport_bw);
}

void Sm::reset(std::uint64_t seed) {
  lanes_.clear();
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
  lane->payload.set_extension(&lane->access);
  lane->payload.set_data_ptr(lane->bytes.data());
  lanes_.push_back(std::move(lane));
  resume_.push(now_ps(), static_cast<std::uint32_t>(lanes_.size() - 1));
}

bool Sm::begin_op(Lane& lane) {
  if (!lane.context->next_op(lane.warp, lane.op)) return false;
  lane.in_op = true;
  lane.pc = 0;
  lane.rang = false;
  lane.rounds = 0;
  lane.op_from_ps = lane.at_ps;
  lane.seen_ps = lane.issued_ps = -1;
  lane.stage_from_ps = lane.at_ps;
  const Program& program = *lane.context->program;
  const OpKind kind = lane.op.kind;
  if (kind == OpKind::kWait || kind == OpKind::kBarrier) ++lane.waits;
  if (kind == OpKind::kPutSignal || kind == OpKind::kAtomic || kind == OpKind::kBarrier)
    ++lane.signals;
  lane.posts = is_message(kind) || program.blocks(kind, 0) > 0;
  if (!lane.posts) return true;
  lane.entries = std::max(program.blocks(kind, lane.op.bytes), 1u);
  lane.lanes = std::max(program.lanes[static_cast<std::size_t>(kind)], 1u);
  lane.journey = {};
  lane.journey.run = lane.context->run;
  lane.journey.pe = lane.context->pe;
  lane.journey.warp = lane.warp;
  lane.journey.sm = id_;
  lane.journey.op = lane.puts;
  lane.puts += lane.lanes;
  lane.journey.start_ps = lane.at_ps;
  return true;
}

void Sm::enter(Lane& lane, Stage stage) {
  if (lane.stage != Stage::kPoll && lane.issued_ps < 0)
    lane.journey.at(lane.stage) += lane.at_ps - lane.stage_from_ps;
  if (stage == Stage::kPoll && lane.issued_ps < 0) lane.issued_ps = lane.at_ps;
  lane.stage = stage;
  lane.stage_from_ps = lane.at_ps;
}

void Sm::end_op(Lane& lane) {
  const auto index_of = [&](std::uint32_t l) {
    return lane.index + std::uint64_t{l} * lane.entries;
  };
  for (std::uint32_t l = 0; lane.posts && l < lane.lanes; ++l) {
    ++counters_.messages;
    Flight& flight = lane.context->book->flight(lane.queue, index_of(l));
    Journey& journey = lane.journey;
    journey.queue = lane.queue;
    journey.index = index_of(l);
    journey.rang = lane.rang;
    journey.waited = lane.op.wait && lane.seen_ps >= 0;
    journey.waited_ps = journey.waited ? lane.seen_ps - lane.issued_ps : 0;
    journey.polls = lane.rounds;
    flight.journey = journey;
    ++journey.op;
    flight.issued_ps = lane.issued_ps >= 0 ? lane.issued_ps : lane.at_ps;
    flight.seen_ps = journey.waited ? lane.seen_ps : -1;
  }
  if (lane.context->observer)
    lane.context->observer->on_operation({lane.context->run, lane.context->pe, lane.warp,
                                          lane.op.kind, lane.op.bytes, lane.op_from_ps,
                                          lane.at_ps});
  lane.at_ps += cycles_ps(static_cast<double>(lane.op.compute_cycles));
  lane.in_op = false;
  for (std::uint32_t l = 0; lane.posts && l < lane.lanes; ++l)
    lane.context->book->lane_done(lane.queue, index_of(l));
}

void Sm::run(Lane& lane) {
  for (;;) {
    if (!lane.in_op) {
      // Between operations a lane may be far ahead; let the rest of the machine catch up.
      if (lane.at_ps > now_ps() + kQuantumPs) {
        resume_.push(lane.at_ps, static_cast<std::uint32_t>(
                                     std::find_if(lanes_.begin(), lanes_.end(),
                                                  [&](const auto& l) { return l.get() == &lane; }) -
                                     lanes_.begin()));
        return;
      }
      if (!begin_op(lane)) return;
    }
    const Step& current = lane.context->program->of(lane.op.kind)[lane.pc];
    if (current.op == StepOp::kEnd) {
      enter(lane, Stage::kLookup);
      end_op(lane);
      continue;
    }
    ++lane.pc;
    if (!step(lane, current)) return;
  }
}

std::uint64_t Sm::operand(const Lane& lane, const Step& step, Value value) const {
  const std::uint64_t next = next_index(lane);
  const auto big_endian = [](std::uint64_t word) { return __builtin_bswap32(word & 0xffffffff); };
  switch (value) {
    case Value::kZero:
      return 0;
    case Value::kOne:
      return 1;
    case Value::kIndex:
      return lane.index;
    case Value::kNext:
      return next;
    case Value::kEntries:
      return std::uint64_t{lane.entries} * lane.lanes;
    case Value::kRecord:
      return big_endian(next & 0xffff);
    case Value::kDoorbell:
      return big_endian((next & 0xffff) << 8) |
             static_cast<std::uint64_t>(big_endian(lane.queue << 8)) << 32;
    case Value::kRegister:
      return lane.value[step.operand];
    case Value::kRegisterNext:
      return lane.value[step.operand] + 1;
  }
  return 0;
}

std::uint64_t Sm::address_of(const Lane& lane, const Step& step, std::uint64_t index) const {
  return lane.context->layout->address(*lane.context->program, step.word, lane.queue, index,
                                       lane.number);
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

bool Sm::holds(const Lane& lane, const Step& step) const {
  const Program& program = *lane.context->program;
  switch (step.condition) {
    case Condition::kAlways:
      return true;
    case Condition::kRingWrapped:
      return lane.index >= program.depth &&
             (step.modulus == 0 ||
              (lane.index - 1) / step.modulus != (next_index(lane) - 1) / step.modulus);
    case Condition::kBatchBoundary:
      return lane.puts % program.batch == 0 || lane.op.flush;
    case Condition::kMultiple:
      return lane.op.flush || lane.index / step.modulus != next_index(lane) / step.modulus;
    case Condition::kNewestOrMultiple:
      return lane.value[step.reg] == next_index(lane) ||
             lane.index / step.modulus != next_index(lane) / step.modulus;
    case Condition::kAdvanced:
      return lane.value[step.reg] < next_index(lane);
    case Condition::kWaits:
      return lane.op.wait;
    case Condition::kWaitsNot:
      return !lane.op.wait;
    case Condition::kRangNot:
      return !lane.rang;
    case Condition::kBehind:
      return lane.value[step.reg] < lane.value[step.operand];
  }
  return true;
}

bool Sm::step(Lane& lane, const Step& step) {
  switch (step.op) {
    case StepOp::kStage:
      enter(lane, step.stage);
      return true;
    case StepOp::kCompute:
      lane.at_ps += cycles_ps(step.cycles);
      return true;
    case StepOp::kUse:
      lane.at_ps = std::max(lane.at_ps, lane.ready_ps[step.reg]);
      return true;
    case StepOp::kSkipUnless:
      if (!holds(lane, step)) lane.pc = step.target;
      return true;
    case StepOp::kOwnIndex:
      take_index(lane, lane.own_index);
      lane.own_index = next_index(lane);
      return true;
    case StepOp::kPick: {
      const RunContext& context = *lane.context;
      const std::uint64_t choice = lane.value[step.reg];
      lane.queue = static_cast<std::uint32_t>(
          context.program->queues_by_peer
              ? choice % (context.queues / context.pes) * context.pes + lane.peer
              : choice % context.queues);
      return true;
    }
    case StepOp::kVisit:
      lane.home = lane.queue;
      lane.queue = lane.context->is_to_self(0) ? 1 : 0;
      return true;
    case StepOp::kNext:
      do ++lane.queue;
      while (lane.context->is_to_self(lane.queue));
      if (lane.queue < lane.context->queues)
        lane.pc = step.target;
      else
        lane.queue = lane.home;
      return true;
    case StepOp::kStore:
      store_step(lane, step);
      return true;
    case StepOp::kFence:
      return fence_step(lane, step);
    case StepOp::kLoad:
    case StepOp::kAtomic:
    case StepOp::kSpin:
    case StepOp::kPoll:
      return memory_step(lane, step);
    case StepOp::kEnd:
      return true;
  }
  return true;
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

void Sm::store_step(Lane& lane, const Step& step) {
  const Program& program = *lane.context->program;
  const Word& word = program.words[step.word];
  const bool is_entry = step.form != EntryForm::kNone;
  std::uint32_t count = step.count;
  if (count == 0)
    count = (entry_length_bytes(step.form, program.nic.dc, lane.op.bytes) + step.bytes - 1) /
            step.bytes;
  // Lanes that store together: each to a sector of its own.
  const std::uint32_t lanes = is_entry ? lane.lanes : 1;
  const double interval = std::max(step.bytes > 8 ? spec_.store16_cycles : spec_.store_cycles,
                                   lanes > 1 ? lanes * spec_.store_lane_cycles : 0.0);
  lane.at_ps += cycles_ps(interval * count);
  counters_.stores += count;
  lane.access.value = operand(lane, step, step.value);
  if (!is_entry) {
    const std::uint32_t total =
        std::min<std::uint32_t>(step.bytes * count, static_cast<std::uint32_t>(lane.bytes.size()));
    for (std::uint32_t i = 0; i < total; i += 8)
      std::copy_n(reinterpret_cast<const std::uint8_t*>(&lane.access.value),
                  std::min<std::uint32_t>(8, total - i), lane.bytes.data() + i);
    store(lane, word, address_of(lane, step, lane.index), 0, total);
  }
  for (std::uint32_t l = 0; is_entry && l < lanes; ++l) {
    // An inline payload comes first, and what lies behind it moves on by its further blocks.
    const OpKind kind = lane.op.kind;
    const std::uint32_t further = program.blocks(kind, lane.op.bytes) - program.blocks(kind, 0);
    const std::uint32_t block = step.block + (step.block > 0 ? further : 0);
    const std::uint64_t index = lane.index + std::uint64_t{l} * lane.entries + block;
    const bool last =
        step.block + entry_blocks(step.form, program.nic.dc, 0) + further == lane.entries;
    const std::uint32_t total =
        lane.context->encode({step.form, lane.number, lane.queue, index, lane.op.bytes,
                              lane.puts - lane.lanes + l + 1, lane.signals, lane.peer, last},
                             lane.bytes);
    // Block by block: a longer entry may go on at the ring's beginning.
    for (std::uint32_t from = 0; from < total; from += kBlockBytes)
      store(lane, word, address_of(lane, step, index + from / kBlockBytes), from,
            std::min(kBlockBytes, total - from));
  }
  if (step.word == program.announcement()) lane.rang = true;
}

bool Sm::fence_step(Lane& lane, const Step& step) {
  if (step.scope == Scope::kNone) return true;
  if (step.scope == Scope::kCta) {
    ++counters_.fences_cta;
    lane.at_ps += cycles_ps(spec_.fence_cta_cycles);
    return true;
  }
  const L2& l2 = *lane.context->l2;
  const bool sys = step.scope == Scope::kSys;
  ++(sys ? counters_.fences_sys : counters_.fences_gpu);
  const bool pending = lane.host_memory_stores || lane.at_ps < lane.host_acknowledged_ps;
  double cycles = 0;
  if (sys) {
    // An entry is two 32 B sectors, each with a way of its own: the fence waits for the slower.
    cycles = spec_.fence_sys_cycles;
    if (lane.host_entry)
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
      address_of(lane, step, step.op == StepOp::kPoll ? wanted(lane, step) - 1 : lane.index);
  Access& access = lane.access;
  access.issue_ps = lane.at_ps;
  access.sm = id_;
  access.rounds = 0;
  access.retry_ps = cycles_ps(step.cycles);
  access.atomic = step.atomic;
  access.value = operand(lane, step, step.value);
  switch (step.op) {
    case StepOp::kLoad:
      access.kind = AccessKind::kLoad;
      break;
    case StepOp::kAtomic:
      access.kind = AccessKind::kAtomic;
      break;
    case StepOp::kSpin:
      access.kind = AccessKind::kSpin;
      access.expected = operand(lane, step, step.expected);
      break;
    default:
      access.kind = AccessKind::kPoll;
      access.threshold = wanted(lane, step);
      access.encoding = word.encoding;
      access.entries = word.entries;
  }
  if (access.kind != AccessKind::kLoad && access.kind != AccessKind::kPoll) touched(lane, address);
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

void Sm::take_index(Lane& lane, std::uint64_t index) {
  lane.index = index;
  for (std::uint32_t l = 0; l < lane.lanes; ++l, index += lane.entries) {
    lane.context->book->open(lane.queue, index, lane.entries);
    lane.context->on_index(lane.queue, index, lane.op.bytes);
  }
}

std::uint64_t Sm::wanted(const Lane& lane, const Step& step) const {
  switch (step.until) {
    case Until::kSlotFree:
      return next_index(lane) + step.block - lane.context->program->depth;
    case Until::kCompleted:
      return next_index(lane);
    case Until::kReached:
      return lane.value[step.operand];
    case Until::kSignalled:
      return lane.waits;
  }
  return 0;
}

void Sm::finish_access(Lane& lane, const Step& step, Ps back_ps) {
  const std::uint8_t reg = step.reg;
  if (reg != kNoRegister) {
    lane.value[reg] = lane.access.value;
    lane.ready_ps[reg] = back_ps;
  }
  if (step.is_index) take_index(lane, lane.access.value);
  if (step.wait) lane.at_ps = std::max(lane.at_ps, back_ps);
  if (step.op == StepOp::kPoll) {
    counters_.polls += lane.access.rounds;
    if (step.until == Until::kCompleted) {
      lane.rounds = lane.access.rounds;
      lane.seen_ps = lane.at_ps;
    }
  }
}

tlm::tlm_sync_enum Sm::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                       sc_core::sc_time& delay) {
  // The payload is the lane's: there are few lanes an SM.
  for (auto& lane : lanes_) {
    if (&lane->payload != &payload) continue;
    const Step& step = *lane->pending;
    const Ps back_ps = now_ps() + static_cast<Ps>(delay.value());
    if (step.op == StepOp::kFence)
      lane->at_ps = std::max(lane->at_ps, back_ps);
    else
      finish_access(*lane, step, back_ps);
    run(*lane);
    break;
  }
  return tlm::TLM_COMPLETED;
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
