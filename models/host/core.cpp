#include "models/host/core.h"

#include <algorithm>
#include <limits>
#include <string>

#include "models/common/error.h"
#include "models/gpu/l2.h"

namespace marrow::host {

namespace {

// How far a thread's own time may run ahead of the kernel's before it waits: bounds what is queued,
// changes no result.
constexpr Ps kQuantumPs = 20'000'000;
constexpr std::uint32_t kLineBytes = 64;  // and a block of a queue
constexpr std::uint32_t kCqeCounterByte =
    60;  // mlx5's CQE: index of the entry, 16 bits, big endian

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

// ---- a proxy's threads ----

void Core::add_proxy(const RunContext* context) {
  const ProxyProgram& proxy = context->program->proxy;
  const bool cold = proxy.cold;
  bool reads_gpu = false;
  for (std::uint32_t number = 0; number < std::min(proxy.workers, context->queues); ++number) {
    auto worker = std::make_unique<Worker>();
    worker->worker = worker.get();
    worker->context = context;
    worker->at_ps = now_ps();
    worker->slowness = cold ? spec_.clock_ghz / spec_.cold_clock_ghz * spec_.cold_extra : 1;
    worker->cycle_ps = 1000 / spec_.clock_ghz * worker->slowness;
    std::uint32_t dealt = 0;
    for (std::uint32_t queue = 0; queue < context->queues; ++queue) {
      if (context->is_to_self(queue)) continue;
      if (dealt++ % proxy.workers != number) continue;
      worker->served.push_back({});
      worker->served.back().queue = queue;
    }
    if (worker->served.empty()) continue;
    for (std::size_t pc = 0; proxy.visit[pc].op != StepOp::kEnd;) {
      const Step& step = proxy.visit[pc];
      if (step.op == StepOp::kCompute)
        worker->visit_ps += static_cast<Ps>(step.cycles * worker->cycle_ps);
      if (step.op == StepOp::kFence && step.scope == Scope::kSys)
        worker->visit_ps += scaled(spec_.fence_ns, worker->slowness);
      if (step.op != StepOp::kLook) {
        ++pc;
        continue;
      }
      worker->looks.push_back(static_cast<std::uint32_t>(pc));
      const std::uint64_t address =
          context->layout->region_begin(context->program->words[step.word].region);
      const Ps sample = sample_ps(*worker, address);
      worker->sample_ps.push_back(worker->visit_ps + sample);
      worker->visit_ps += missed_ps(*worker, step, address);
      reads_gpu |= is_own(address);
      pc = step.target;
    }
    worker->period_ps = std::max<Ps>(static_cast<Ps>(worker->served.size()) * worker->visit_ps +
                                         static_cast<Ps>(proxy.pass_cycles * worker->cycle_ps),
                                     1);
    worker->watched.assign(worker->served.size() * worker->looks.size(), 0);
    worker->pass_from_ps = now_ps() - worker->period_ps;
    worker->at = worker->served.size() - 1;
    for (Place at = 0; at < worker->watched.size(); ++at) consider(*worker, at);
    workers_.push_back(worker.get());
    park(*worker);
    threads_.push_back(std::move(worker));
  }
  const auto changed = [this](std::uint64_t address, std::uint64_t, Ps at_ps) {
    written(address, at_ps);
  };
  memory_->watch(kHostBase, kPeerBase, changed);
  if (reads_gpu) context->l2->watch(0, kHostBase, changed);
}

Ps Core::missed_ps(const Thread& thread, const Step& step, std::uint64_t address) const {
  const Ps own_ps = static_cast<Ps>(step.cycles * thread.cycle_ps);
  if (!is_own(address)) return own_ps + scaled(spec_.poll_ns, thread.slowness);
  return own_ps + sample_ps(thread, address) + bar_.back_ps +
         scaled(spec_.line_ns, thread.slowness);
}

void Core::enter(Worker& worker, std::size_t service) {
  worker.at = service;
  const Service& s = worker.served[service];
  worker.steps = &worker.program().proxy.visit;
  worker.queue = s.queue;
  worker.value = s.value;
  worker.index = s.next;
  worker.completed = s.completed;
  worker.unanswered = s.asked - s.answered;
  worker.unrung = worker.found = 0;
  worker.entries = worker.lanes = 1;
}

void Core::leave(Worker& worker) {
  Service& s = worker.served[worker.at];
  s.value = worker.value;
  const Place first = worker.at * worker.looks.size();
  for (Place at = first; at < first + worker.looks.size(); ++at) consider(worker, at);
  worker.pass_from_ps = worker.at_ps - static_cast<Ps>(worker.at + 1) * worker.visit_ps;
  park(worker);
}

std::uint64_t Core::looks_at(const Worker& worker, Place at) const {
  const Service& s = worker.served[at / worker.looks.size()];
  const Step& step = worker.program().proxy.visit[worker.looks[at % worker.looks.size()]];
  return worker.context->layout->address(worker.program(), step.word, s.queue,
                                         step.until == Until::kAnswered ? s.answered : s.next);
}

bool Core::finds(const Worker& worker, Place at) const {
  const Service& s = worker.served[at / worker.looks.size()];
  const Step& step = worker.program().proxy.visit[worker.looks[at % worker.looks.size()]];
  const Word& word = worker.program().words[step.word];
  const std::uint64_t value = load(worker, looks_at(worker, at), word.bytes);
  if (step.until == Until::kAdvanced)
    return value > s.value[step.reg] && (step.block == 0 || value <= s.next);
  if (step.until == Until::kPresent) return value > s.next;
  Access sought;
  sought.threshold = s.answered + 1;
  sought.encoding = word.encoding;
  sought.entries = word.entries;
  return sought.counted(value) >= sought.threshold;
}

void Core::consider(Worker& worker, Place at) {
  const std::uint64_t line = looks_at(worker, at) / kLineBytes + 1;
  std::uint64_t& watched = worker.watched[at];
  if (watched != line) {
    const auto [first, last] = watchers_.equal_range(watched - 1);
    for (auto it = first; it != last; ++it)
      if (it->second == std::make_pair(&worker, at)) {
        watchers_.erase(it);
        break;
      }
    watchers_.emplace(line - 1, std::make_pair(&worker, at));
    watched = line;
  }
  if (finds(worker, at))
    worker.ready.insert(at);
  else
    worker.ready.erase(at);
}

Ps Core::look_time(const Worker& worker, Place at, Ps not_before_ps) const {
  const std::size_t looks = worker.looks.size();
  const bool next_pass = at < (worker.at + 1) * looks;
  Ps look_ps = worker.pass_from_ps + static_cast<Ps>(at / looks) * worker.visit_ps +
               worker.sample_ps[at % looks] + (next_pass ? worker.period_ps : 0);
  if (look_ps < not_before_ps)
    look_ps +=
        (not_before_ps - look_ps + worker.period_ps - 1) / worker.period_ps * worker.period_ps;
  return look_ps;
}

void Core::park(Worker& worker) {
  worker.parked = true;
  worker.wakes_ps = std::numeric_limits<Ps>::max();
  if (worker.ready.empty()) return;
  auto soonest = worker.ready.lower_bound((worker.at + 1) * worker.looks.size());
  if (soonest == worker.ready.end()) soonest = worker.ready.begin();
  wake_at(worker, *soonest, look_time(worker, *soonest, worker.at_ps));
}

void Core::wake_at(Worker& worker, Place at, Ps at_ps) {
  worker.woken_at = at;
  worker.wakes_ps = at_ps;
  wakes_.push(at_ps, {&worker, ++worker.generation});
}

void Core::wake(Wake& wake, Ps at_ps) {
  Worker& worker = *wake.worker;
  if (wake.generation != worker.generation) return;
  worker.parked = false;
  const std::size_t looks = worker.looks.size();
  const Place at = worker.woken_at;
  // What it looked at in vain meanwhile.
  const auto in_vain = static_cast<std::uint64_t>(at_ps - worker.at_ps) * worker.watched.size() /
                       static_cast<std::uint64_t>(worker.period_ps);
  counters_.polls += in_vain;
  enter(worker, at / looks);
  const Step& step = worker.program().proxy.visit[worker.looks[at % looks]];
  worker.pc = worker.looks[at % looks] + 1;
  worker.pending = &step;
  look(worker, step, at_ps);
}

void Core::look(Worker& worker, const Step& step, Ps at_ps) {
  const auto number = std::find(worker.looks.begin(), worker.looks.end(), worker.pc - 1);
  const Place at =
      worker.at * worker.looks.size() + static_cast<Place>(number - worker.looks.begin());
  const std::uint64_t address = looks_at(worker, at);
  worker.pending = nullptr;
  ++counters_.polls;
  Service& s = worker.served[worker.at];
  s.value = worker.value;
  if (!finds(worker, at)) {
    if (is_own(address)) ++counters_.bar_reads;
    worker.at_ps = at_ps - sample_ps(worker, address) + missed_ps(worker, step, address);
    worker.pc = worker.found > 0 ? step.then : step.target;
    worker.found = 0;
    run(worker);
    return;
  }
  ++counters_.found;
  ++worker.found;
  const std::uint64_t value = load(worker, address, worker.program().words[step.word].bytes);
  worker.at_ps = at_ps + look_ps(worker, address, at_ps);
  worker.most = step.count;
  switch (step.until) {
    case Until::kPresent:
      take(worker);
      break;
    case Until::kAnswered:
      answered(worker, address);
      break;
    default:
      worker.value[step.reg] = s.value[step.reg] = value;
      if (!step.is_index) break;
      worker.context->book->noticed(s.queue, s.next, value, worker.at_ps);
      s.next = value;
      worker.index = value - 1;
      worker.entries = 1;
  }
  run(worker);
}

void Core::take(Worker& worker) {
  Service& s = worker.served[worker.at];
  JourneyBook& book = *worker.context->book;
  const Flight& flight = book.flight(s.queue, s.next);
  worker.op.kind = flight.request.kind;
  worker.op.bytes = flight.journey.bytes;
  worker.number = flight.request.lane;
  worker.peer = flight.request.peer;
  worker.puts = flight.request.version;
  worker.signals = flight.request.signals;
  worker.entries = std::max(worker.program().blocks(worker.op.kind, worker.op.bytes), 1u);
  worker.index = s.next;
  s.next += worker.entries;
  book.noticed(s.queue, worker.index, s.next, worker.at_ps);
}

void Core::answered(Worker& worker, std::uint64_t cqe) {
  Service& s = worker.served[worker.at];
  ++s.answered;
  --worker.unanswered;
  const std::uint64_t counter = memory_->load(cqe / kLineBytes * kLineBytes + kCqeCounterByte, 2);
  const std::uint64_t index = (counter & 0xff) << 8 | counter >> 8;
  // The newest entry of that number.
  const std::uint64_t newest = s.next - 1;
  worker.completed = s.completed = newest - ((newest - index) & 0xffff) + 1;
}

bool Core::proxy_step(Worker& worker, const Step& step) {
  switch (step.op) {
    case StepOp::kAgain:
      if (worker.found < worker.most)
        worker.pc = step.target;
      else
        worker.found = 0;
      return true;
    case StepOp::kPost: {
      const ProxyProgram& proxy = worker.program().proxy;
      const auto kind = static_cast<std::size_t>(worker.op.kind);
      worker.more = proxy.asks_once && worker.found < worker.most && follows(worker);
      worker.resume = worker.pc;
      worker.steps = &proxy.posts[kind];
      worker.pc = 0;
      return true;
    }
    default:  // the end
      if (worker.steps != &worker.program().proxy.visit) {
        ++counters_.messages;
        worker.steps = &worker.program().proxy.visit;
        worker.pc = worker.resume;
        return true;
      }
      leave(worker);
      return false;
  }
}

bool Core::follows(const Worker& worker) const {
  const std::vector<Step>& visit = worker.program().proxy.visit;
  for (std::size_t i = 0; i < worker.looks.size(); ++i)
    if (visit[worker.looks[i]].until == Until::kPresent)
      return finds(worker, worker.at * worker.looks.size() + i);
  return false;
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
