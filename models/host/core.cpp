#include "models/host/core.h"

#include <algorithm>

#include "models/common/error.h"

namespace marrow::host {

namespace {

// How far a thread's own time may run ahead of the kernel's before it waits: bounds what is queued,
// changes no result.
constexpr Ps kQuantumPs = 20'000'000;
constexpr std::uint32_t kLineBytes = 64;  // and a block of a queue

}  // namespace

Core::Core(sc_core::sc_module_name name, const HostSpec& spec, HostMemory* memory)
    : sc_module(name),
      spec_(spec),
      memory_(memory),
      turns_("turns", [this](Thread*& thread, Ps at_ps) { turn(*thread, at_ps); }),
      stores_("stores", [this](Store& store, Ps at_ps) { take_effect(store, at_ps); }) {}

void Core::reset(std::uint64_t seed) {
  threads_.clear();
  random_ = Random(seed);
}

void Core::add_lane(const RunContext* context, std::uint32_t warp, std::uint32_t queue,
                    std::uint32_t lane, std::uint32_t peer) {
  auto thread = std::make_unique<Thread>();
  thread->context = context;
  thread->number = lane;
  thread->warp = warp;
  thread->queue = queue;
  thread->peer = peer;
  thread->at_ps = now_ps();
  if (context->program->kernel.present) {
    thread->stream = std::make_unique<Stream>(spec_, gpu_, front_end_, thread.get());
    thread->stream->begin();
  }
  turns_.push(now_ps(), thread.get());
  threads_.push_back(std::move(thread));
  memory_->watch(kHostBase, kPeerBase, [this](std::uint64_t address, std::uint64_t, Ps at_ps) {
    written(address, at_ps);
  });
}

void Core::run(Thread& thread) {
  for (;;) {
    if (!thread.in_op) {
      if (thread.at_ps > now_ps() + kQuantumPs) {
        turns_.push(thread.at_ps, &thread);
        return;
      }
      if (!thread.begin_op(0)) return;
      // With kernels, an operation's other work is the next kernel's.
      if (thread.stream) thread.stream->add_work(thread.op.compute_cycles);
    }
    const Step& step = thread.program().of(thread.op.kind)[thread.pc++];
    switch (step.op) {
      case StepOp::kEnd:
        thread.end_op();
        if (thread.posts) ++counters_.messages;
        if (!thread.stream)
          thread.at_ps += ps_from_ns(static_cast<double>(thread.op.compute_cycles));
        break;
      case StepOp::kCompute:
        thread.at_ps += ps_from_ns(
            step.cycles *
            (step.per_bytes == 0
                 ? 1.0
                 : static_cast<double>((thread.op.bytes + step.per_bytes - 1) / step.per_bytes)));
        break;
      case StepOp::kLaunch:
        thread.stream->launch();
        break;
      case StepOp::kCopy:
        copy(thread, step);
        break;
      case StepOp::kFence:
        if (step.scope != Scope::kSys) break;
        ++counters_.fences;
        thread.at_ps += ps_from_ns(spec_.fence_ns);
        break;
      case StepOp::kStore:
        store(thread, step);
        break;
      case StepOp::kLoad:
      case StepOp::kAtomic:
      case StepOp::kSpin:
      case StepOp::kPoll:
        thread.pending = &step;
        thread.looks_from_ps = thread.at_ps;
        thread.rounds = 0;
        turns_.push(thread.at_ps, &thread);
        return;
      default:
        thread.control(step);
    }
  }
}

void Core::turn(Thread& thread, Ps at_ps) {
  if (thread.pending == nullptr)
    run(thread);
  else
    access(thread, *thread.pending, at_ps);
}

std::uint64_t Core::place(const Thread& thread, const Step& step) const {
  const std::uint64_t address =
      thread.address(step, step.op == StepOp::kPoll ? thread.wanted(step) - 1 : thread.index);
  if (is_host(address) || (step.op == StepOp::kStore && is_nic(address))) return address;
  throw InputError("protocol " + thread.program().protocol,
                   "a CPU thread accesses '" + thread.program().words[step.word].name +
                       "', which is not in host memory",
                   "put its region into memory: host, or take out what reads or writes it");
}

void Core::copy(Thread& thread, const Step& step) {
  if (step.copy == CopyWay::kInHost)
    thread.at_ps += memcpy_ps(spec_, thread.op.bytes);
  else
    thread.stream->copy(step.copy == CopyWay::kToHost, thread.op.bytes);
}

void Core::store(Thread& thread, const Step& step) {
  const std::uint64_t address = place(thread, step);
  const bool is_entry = step.form != EntryForm::kNone;
  const std::uint32_t total = is_entry
                                  ? thread.encode(step)
                                  : thread.fill(step, thread.operand(step, step.value), step.count);
  Store store;
  if (is_nic(address)) {
    ++counters_.register_stores;
    store.address = address;
    store.data = thread.bytes;
    // BlueFlame: an entry is pushed in whole blocks.
    store.bytes = is_entry ? (total + kLineBytes - 1) / kLineBytes * kLineBytes : total;
    stores_.push(thread.at_ps, store);
    if (step.word == thread.program().announcement()) thread.rang = true;
    return;
  }
  ++counters_.stores;
  // An entry of several blocks may go on at its ring's begin.
  std::uint64_t index = is_entry ? thread.entry_index(step) : thread.index;
  for (std::uint32_t at = 0; at < total; at += kLineBytes, ++index) {
    store.address = thread.address(step, index);
    store.bytes = std::min(total - at, kLineBytes);
    std::copy_n(thread.bytes.begin() + at, store.bytes, store.data.begin());
    stores_.push(thread.at_ps, store);
  }
}

void Core::take_effect(Store& store, Ps at_ps) {
  if (is_host(store.address)) {
    memory_->core_store(store.address, {store.data.data(), store.bytes});
    written(store.address, at_ps);
    return;
  }
  tlm::tlm_generic_payload payload;
  Access access;
  access.kind = AccessKind::kStore;
  payload.set_extension(&access);
  payload.set_command(tlm::TLM_WRITE_COMMAND);
  payload.set_address(store.address);
  payload.set_data_ptr(store.data.data());
  payload.set_data_length(store.bytes);
  payload.set_streaming_width(store.bytes);
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay =
      sc_core::sc_time::from_value(static_cast<std::uint64_t>(ps_from_ns(spec_.mmio_ns)));
  to_device->nb_transport_fw(payload, phase, delay);
  payload.clear_extension(&access);
}

Ps Core::look_ps(std::uint64_t address) {
  return memory_->core_look(address)
             ? ps_from_ns(spec_.notice_ns + random_.around(spec_.notice_spread_ns))
             : ps_from_ns(spec_.poll_ns);
}

void Core::access(Thread& thread, const Step& step, Ps at_ps) {
  const std::uint64_t address = place(thread, step);
  const Word& word = thread.program().words[step.word];
  const std::uint64_t old = memory_->load(address, word.bytes);
  const std::uint64_t operand = thread.operand(step, step.value);
  Ps back_ps = at_ps + look_ps(address);
  if (step.op == StepOp::kPoll) {
    Access sought;
    sought.threshold = thread.wanted(step);
    sought.encoding = word.encoding;
    sought.entries = word.entries;
    const Ps period_ps = ps_from_ns(spec_.poll_ns + step.cycles);
    thread.spins = sought.counted(old) < sought.threshold;
    if (thread.spins) return;  // until written() finds it there
    thread.rounds = 1 + static_cast<std::uint32_t>((at_ps - thread.looks_from_ps) / period_ps);
    counters_.polls += thread.rounds;
  } else if (step.op != StepOp::kLoad) {
    back_ps += ps_from_ns(spec_.fence_ns);
    const bool spins = step.op == StepOp::kSpin && old != thread.operand(step, step.expected);
    if (spins) {
      turns_.push(back_ps + ps_from_ns(step.cycles), &thread);
      return;
    }
    std::uint64_t next = operand;
    if (step.op == StepOp::kAtomic && step.atomic == AtomicOp::kAdd) next = old + operand;
    if (step.op == StepOp::kAtomic && step.atomic == AtomicOp::kMax) next = std::max(old, operand);
    memory_->core_store(address, next, word.bytes);
    written(address, at_ps);
  }
  thread.pending = nullptr;
  thread.answer(step, old, back_ps, thread.rounds);
  if (step.op == StepOp::kPoll && step.until == Until::kEnded) thread.stream->ended(address);
  run(thread);
}

void Core::written(std::uint64_t address, Ps at_ps) {
  for (const auto& thread : threads_) {
    if (thread->stream) thread->stream->written(address, at_ps);
    if (!thread->spins || place(*thread, *thread->pending) / kLineBytes != address / kLineBytes)
      continue;
    // Polling costs no events: its next look is at a whole number of periods.
    thread->spins = false;
    const Ps period_ps = ps_from_ns(spec_.poll_ns + thread->pending->cycles);
    const Ps looks = (at_ps - thread->looks_from_ps + period_ps - 1) / period_ps;
    turns_.push(thread->looks_from_ps + looks * period_ps, thread.get());
  }
}

void Core::report(CounterSink& sink) const {
  if (counters_.messages == 0) return;
  const auto count = [&](const char* counter, std::uint64_t value) {
    sink.add(name(), counter, static_cast<double>(value), "count");
  };
  count("messages", counters_.messages);
  count("stores to memory", counters_.stores);
  count("stores to registers", counters_.register_stores);
  count("store fences", counters_.fences);
  count("polls", counters_.polls);
}

}  // namespace marrow::host
