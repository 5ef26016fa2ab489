#include "models/host/core.h"

#include <algorithm>
#include <string>

#include "models/common/error.h"
#include "models/gpu/l2.h"

namespace marrow::host {

namespace {

// How far a thread's own time may run ahead of the kernel's before it waits: bounds what is queued,
// changes no result.
constexpr Ps kQuantumPs = 20'000'000;
constexpr std::uint32_t kLineBytes = 64;  // and a block of a queue

Ps scaled(double ns, double slowness) { return ps_from_ns(ns * slowness); }

/// How often a compute step's cost is paid: once, or once for so many bytes begun.
double times(const Lane& lane, const Step& step) {
  if (step.per_bytes == 0) return 1;
  return static_cast<double>((lane.op.bytes + step.per_bytes - 1) / step.per_bytes);
}

sc_core::sc_time as_time(Ps ps) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(ps));
}

}  // namespace

Core::Core(sc_core::sc_module_name name, const HostSpec& spec, HostMemory* memory, BarSpec bar)
    : sc_module(name),
      spec_(spec),
      memory_(memory),
      bar_(bar),
      turns_("turns", [this](Thread*& thread, Ps at_ps) { turn(*thread, at_ps); }),
      wakes_("wakes", [this](Wake& wakes, Ps at_ps) { wake(wakes, at_ps); }),
      stores_("stores", [this](Store& store, Ps at_ps) { take_effect(store, at_ps); }) {
  to_device.register_nb_transport_bw(this, &Core::nb_transport_bw);
}

void Core::reset(std::uint64_t seed) {
  watchers_.clear();
  workers_.clear();
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
    if (thread.worker == nullptr && !thread.in_op) {
      if (thread.at_ps > now_ps() + kQuantumPs) {
        turns_.push(thread.at_ps, &thread);
        return;
      }
      if (!thread.begin_op(0)) return;
      thread.steps = &thread.program().of(thread.op.kind);
      // With kernels, an operation's other work is the next kernel's.
      if (thread.stream) thread.stream->add_work(thread.op.compute_cycles);
    }
    const Step& current = (*thread.steps)[thread.pc++];
    if (current.op == StepOp::kEnd && thread.worker == nullptr) {
      thread.end_op();
      if (thread.posts) ++counters_.messages;
      if (!thread.stream) thread.at_ps += ps_from_ns(static_cast<double>(thread.op.compute_cycles));
      continue;
    }
    if (!step(thread, current)) return;
  }
}

bool Core::step(Thread& thread, const Step& step) {
  switch (step.op) {
    case StepOp::kCompute:
      thread.at_ps += static_cast<Ps>(step.cycles * times(thread, step) * thread.cycle_ps);
      return true;
    case StepOp::kLaunch:
      thread.stream->launch();
      return true;
    case StepOp::kCopy:
      copy(thread, step);
      return true;
    case StepOp::kFence:
      if (step.scope != Scope::kSys) return true;
      ++counters_.fences;
      thread.at_ps += scaled(spec_.fence_ns, thread.slowness);
      return true;
    case StepOp::kStore:
      store(thread, step);
      return true;
    case StepOp::kLoad:
    case StepOp::kAtomic:
    case StepOp::kSpin:
    case StepOp::kPoll:
    case StepOp::kLook:
      // What it knows to be through it does not look for, nor does it come back from looking.
      if (step.until == Until::kEnded && step.op == StepOp::kPoll &&
          !thread.stream->awaits(place(thread, step))) {
        while ((*thread.steps)[thread.pc].op == StepOp::kCompute) ++thread.pc;
        return true;
      }
      thread.pending = &step;
      thread.looks_from_ps = thread.at_ps;
      thread.rounds = 0;
      turns_.push(thread.at_ps + sample_ps(thread, place(thread, step)), &thread);
      return false;
    case StepOp::kAgain:
    case StepOp::kPost:
    case StepOp::kEnd:
      return proxy_step(*thread.worker, step);
    default:
      return thread.control(step);
  }
}

void Core::turn(Thread& thread, Ps at_ps) {
  if (thread.pending == nullptr)
    run(thread);
  else
    access(thread, *thread.pending, at_ps);
}

std::uint64_t Core::wanted(const Thread& thread, const Step& step) {
  const Worker* const worker = thread.worker;
  if (worker != nullptr && step.until == Until::kAnswered)
    return worker->served[worker->at].answered + 1;
  return thread.wanted(step);
}

std::uint64_t Core::place(const Thread& thread, const Step& step) const {
  const bool in_ring = step.op == StepOp::kPoll || step.op == StepOp::kLook;
  const std::uint64_t address =
      thread.address(step, in_ring ? wanted(thread, step) - 1 : thread.index);
  const bool stores = step.op == StepOp::kStore;
  if (is_host(address) || (stores && is_nic(address))) return address;
  if (thread.worker != nullptr && is_own(address) &&
      (stores || step.op == StepOp::kLoad || step.op == StepOp::kLook))
    return address;
  const std::string& word = thread.program().words[step.word].name;
  if (thread.worker != nullptr)
    throw InputError("protocol " + thread.program().protocol,
                     "a proxy's thread polls or changes '" + word +
                         "' atomically, which is not in "
                         "host memory",
                     "put its region into memory: host; in the GPU's memory it may look, load and "
                     "store");
  throw InputError("protocol " + thread.program().protocol,
                   "a CPU thread accesses '" + word + "', which is not in host memory",
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
  Worker* const worker = thread.worker;
  if (!is_host(address)) {
    ++(is_nic(address) ? counters_.register_stores : counters_.bar_stores);
    store.address = address;
    store.data = thread.bytes;
    // BlueFlame: an entry is pushed in whole blocks.
    store.bytes = is_entry ? (total + kLineBytes - 1) / kLineBytes * kLineBytes : total;
    store.way_ps = scaled(spec_.mmio_ns, thread.slowness);
    if (worker != nullptr && is_nic(address)) {
      Service& service = worker->served[worker->at];
      thread.context->book->posted(thread.queue, service.rung, thread.next_index(), thread.at_ps);
      service.rung = thread.next_index();
      worker->unrung = 0;
    }
    tell(thread, step, store);
    stores_.push(thread.at_ps, store);
    if (step.word == thread.program().announcement()) thread.rang = true;
    return;
  }
  ++counters_.stores;
  tell(thread, step, store);
  if (worker != nullptr && is_entry) {
    ++worker->unrung;
    if (thread.asks) ++worker->served[worker->at].asked, ++worker->unanswered;
  }
  // An entry of several blocks may go on at its ring's begin.
  std::uint64_t index = is_entry ? thread.entry_index(step) : thread.index;
  for (std::uint32_t at = 0; at < total; at += kLineBytes, ++index) {
    store.address = is_entry ? thread.address(step, index) : address;
    store.bytes = std::min(total - at, kLineBytes);
    std::copy_n(thread.bytes.begin() + at, store.bytes, store.data.begin());
    stores_.push(thread.at_ps, store);
  }
}

void Core::tell(const Thread& thread, const Step& step, Store& store) const {
  if (thread.worker == nullptr || step.word != thread.program().proxy.completes) return;
  store.book = thread.context->book;
  store.queue = thread.queue;
  store.completed = thread.completed;
}

void Core::take_effect(Store& store, Ps at_ps) {
  if (is_host(store.address)) {
    memory_->core_store(store.address, {store.data.data(), store.bytes});
    written(store.address, at_ps);
    if (store.book != nullptr) store.book->told(store.queue, store.completed, at_ps);
    return;
  }
  if (free_posted_.empty()) {
    posted_.push_back(std::make_unique<Posted>());
    Posted& fresh = *posted_.back();
    fresh.access.kind = AccessKind::kStore;
    fresh.access.device = fresh.access.core = true;
    fresh.set_extension(&fresh.access);
    fresh.set_command(tlm::TLM_WRITE_COMMAND);
    fresh.set_data_ptr(fresh.store.data.data());
    free_posted_.push_back(&fresh);
  }
  Posted& posted = *free_posted_.back();
  posted.store = store;
  posted.set_address(store.address);
  posted.set_data_length(store.bytes);
  posted.set_streaming_width(store.bytes);
  // The NIC's registers take what they need at once; memory answers when it has it.
  if (is_own(store.address)) free_posted_.pop_back();
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = as_time(store.way_ps);
  to_device->nb_transport_fw(posted, phase, delay);
}

tlm::tlm_sync_enum Core::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                         sc_core::sc_time& delay) {
  auto& posted = static_cast<Posted&>(payload);
  const Store& store = posted.store;
  if (store.book != nullptr)
    store.book->told(store.queue, store.completed, now_ps() + static_cast<Ps>(delay.value()));
  free_posted_.push_back(&posted);
  return tlm::TLM_COMPLETED;
}

Ps Core::look_ps(const Thread& thread, std::uint64_t address, Ps at_ps) {
  const double slowness = thread.slowness;
  if (is_own(address)) {
    ++counters_.bar_reads;
    return bar_.back_ps + scaled(spec_.line_ns, slowness);
  }
  const Ps written_ps = memory_->core_look(address);
  if (written_ps < 0) return scaled(spec_.poll_ns, slowness);
  // Out of order, the load goes ahead of what the core still has to do.
  const Ps window_ps =
      spec_.window_cycles > 0 ? scaled(spec_.window_cycles / spec_.clock_ghz, slowness) : 0;
  const Ps visible_ps =
      written_ps + scaled(spec_.notice_ns + random_.around(spec_.notice_spread_ns), slowness);
  const Ps fetched_ps = std::max(written_ps, at_ps - window_ps) + scaled(spec_.line_ns, slowness);
  return std::max({visible_ps, fetched_ps, at_ps + scaled(spec_.poll_ns, slowness)}) - at_ps;
}

Ps Core::sample_ps(const Thread& thread, std::uint64_t address) const {
  return is_own(address) ? scaled(spec_.mmio_ns, thread.slowness) + bar_.out_ps : 0;
}

std::uint64_t Core::load(const Thread& thread, std::uint64_t address, std::uint32_t bytes) const {
  return is_own(address) ? thread.context->l2->memory().load(address, bytes)
                         : memory_->load(address, bytes);
}

void Core::access(Thread& thread, const Step& step, Ps at_ps) {
  if (step.op == StepOp::kLook) {
    look(*thread.worker, step, at_ps);
    return;
  }
  const std::uint64_t address = place(thread, step);
  const Word& word = thread.program().words[step.word];
  const std::uint64_t old = load(thread, address, word.bytes);
  const std::uint64_t operand = thread.operand(step, step.value);
  if (step.op == StepOp::kPoll) {
    Access sought;
    sought.threshold = wanted(thread, step);
    sought.encoding = word.encoding;
    sought.entries = word.entries;
    thread.spins = sought.counted(old) < sought.threshold;
    if (thread.spins) return;  // until written() finds it there
    thread.rounds =
        1 + static_cast<std::uint32_t>((at_ps - thread.looks_from_ps) / period_ps(thread, step));
    counters_.polls += thread.rounds;
  }
  Ps back_ps = at_ps + look_ps(thread, address, at_ps);
  if (step.op == StepOp::kAtomic || step.op == StepOp::kSpin) {
    back_ps += scaled(spec_.fence_ns, thread.slowness);
    const bool spins = step.op == StepOp::kSpin && old != thread.operand(step, step.expected);
    if (spins) {
      turns_.push(back_ps + static_cast<Ps>(step.cycles * thread.cycle_ps), &thread);
      return;
    }
    std::uint64_t next = operand;
    if (step.op == StepOp::kAtomic && step.atomic == AtomicOp::kAdd) next = old + operand;
    if (step.op == StepOp::kAtomic && step.atomic == AtomicOp::kMax) next = std::max(old, operand);
    memory_->core_store(address, next, word.bytes);
    written(address, at_ps);
  }
  thread.pending = nullptr;
  if (thread.worker != nullptr && step.until == Until::kAnswered && step.op == StepOp::kPoll)
    answered(*thread.worker, address);
  thread.answer(step, old, back_ps, thread.rounds);
  if (step.op == StepOp::kPoll && step.until == Until::kEnded) thread.stream->ended(address);
  run(thread);
}

Ps Core::period_ps(const Thread& thread, const Step& step) const {
  return scaled(spec_.poll_ns, thread.slowness) + static_cast<Ps>(step.cycles * thread.cycle_ps);
}

void Core::written(std::uint64_t address, Ps at_ps) {
  const std::uint64_t line = address / kLineBytes;
  for (const auto& thread : threads_) {
    if (thread->stream) thread->stream->written(address, at_ps);
    if (!thread->spins || place(*thread, *thread->pending) / kLineBytes != line) continue;
    // Polling costs no events: its next look is at a whole number of periods.
    thread->spins = false;
    const Ps each_ps = period_ps(*thread, *thread->pending);
    const Ps looks = (at_ps - thread->looks_from_ps + each_ps - 1) / each_ps;
    turns_.push(thread->looks_from_ps + looks * each_ps, thread.get());
  }
  const auto [first, last] = watchers_.equal_range(line);
  for (auto it = first; it != last; ++it) {
    auto& [worker, at] = it->second;
    // The queue that it visits is looked at again when it leaves.
    if (!worker->parked && at / worker->looks.size() == worker->at) continue;
    if (!finds(*worker, at)) continue;
    worker->ready.insert(at);
    if (!worker->parked) continue;
    const Ps look_ps = look_time(*worker, at, at_ps);
    if (look_ps < worker->wakes_ps) wake_at(*worker, at, look_ps);
  }
}

void Core::waits(std::vector<Wait>& all) const {
  for (const auto& thread : threads_)
    if (thread->in_op && thread->pending != nullptr)
      all.push_back({thread.get(), thread->pending, thread->looks_from_ps});
}

void Core::report(CounterSink& sink) const {
  if (counters_.messages + counters_.found == 0) return;
  const auto count = [&](const char* counter, std::uint64_t value) {
    sink.add(name(), counter, static_cast<double>(value), "count");
  };
  count("messages", counters_.messages);
  count("stores to memory", counters_.stores);
  count("stores to registers", counters_.register_stores);
  count("store fences", counters_.fences);
  count("polls", counters_.polls);
  if (counters_.found == 0) return;
  count("of them found something", counters_.found);
  count("stores to GPU memory", counters_.bar_stores);
  count("reads of GPU memory", counters_.bar_reads);
}

}  // namespace marrow::host
