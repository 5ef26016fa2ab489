// A core's thread that works for a proxy: its passes over the queues, what it finds and posts.
#include <algorithm>
#include <limits>

#include "models/gpu/l2.h"
#include "models/host/core.h"

namespace marrow::host {

namespace {

constexpr std::uint32_t kLineBytes = 64;
constexpr std::uint32_t kCqeCounterByte =
    60;  // mlx5's CQE: index of the entry, 16 bits, big endian

Ps scaled(double ns, double slowness) { return ps_from_ns(ns * slowness); }

}  // namespace

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

}  // namespace marrow::host
