#include "sim/order/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/order/lists.h"

namespace marrow::order {

namespace {

constexpr std::uint8_t kLater = 0xff;  ///< choice of a load: done later
constexpr int kAtHome = 3;
constexpr std::size_t kMostAlone = 1000;  ///< steps of a thread that nobody else notices

}  // namespace

Machine::Machine(const OrderProgram& program) : program_(program) {
  if (program.locations.size() > kMostLocations) too_large("words", kMostLocations);
  if (program.threads.size() > kMostThreads) too_large("threads", kMostThreads);
  if (program.queues.size() > kMostQueues) too_large("queues", kMostQueues);
  if (program.entries.size() > 64) too_large("entries", 63);
  for (std::uint32_t a = 0; a < program.threads.size(); ++a)
    for (std::uint32_t b = 0; b < program.threads.size(); ++b) {
      const Thread &x = program.threads[a], &y = program.threads[b];
      if (a == b || x.on == MemoryKind::kHost || x.node != y.node || x.on != y.on) continue;
      (x.cta == y.cta ? has_mate_ : has_neighbour_)[a] = true;
    }
}

State Machine::start(Log& log) const {
  State s;
  for (std::size_t l = 0; l < program_.locations.size(); ++l) {
    const Location& location = program_.locations[l];
    s.memory[l] = location.initial;
    if (location.history < 0) continue;
    const auto k = static_cast<std::size_t>(location.history);
    s.past[k][0] = location.initial;
    s.from[k][0] = kDevice;
    s.past_count[k] = 1;
  }
  for (std::size_t t = 0; t < program_.threads.size(); ++t)
    s.threads[t].regs[kQueueReg] = program_.threads[t].queue;
  settle(s, log);
  return s;
}

Word16 Machine::value(const State& s, std::uint32_t t, const Operand& operand) const {
  if (operand.reg < 0) return operand.add;
  return static_cast<Word16>(
      s.threads[t].regs[static_cast<std::size_t>(operand.reg)] * operand.scale + operand.add);
}

std::uint16_t Machine::location(const State& s, std::uint32_t t, const Op& op) const {
  const Table& table = program_.tables[op.table];
  const auto queue = table.by_queue ? static_cast<std::uint32_t>(s.threads[t].regs[kQueueReg]) : 0U;
  return table.locations[queue * table.depth +
                         static_cast<std::uint32_t>(value(s, t, op.slot)) % table.depth];
}

bool Machine::same_cta(std::uint32_t a, std::uint32_t b) const {
  const Thread &x = program_.threads[a], &y = program_.threads[b];
  return x.node == y.node && x.on == y.on && x.cta == y.cta && x.on != MemoryKind::kHost;
}

bool Machine::own_home(std::uint32_t t, std::uint16_t l) const {
  return program_.locations[l].home == Home{program_.threads[t].node, program_.threads[t].on};
}

/// How far a store of thread t to l must have come before a fence of that scope is done.
std::int8_t Machine::level_for(std::uint32_t t, std::uint16_t l, Scope scope) const {
  if (program_.threads[t].on == MemoryKind::kHost) return scope == Scope::kSys ? kAtHome : 0;
  const std::int8_t cta = has_mate_[t] ? 1 : 0;
  switch (scope) {
    case Scope::kNone:
      return 0;
    case Scope::kCta:
      return cta;
    case Scope::kGpu:  // gpu-home
      return own_home(t, l) ? kAtHome : on_its_gpu(t, l) ? 2 : cta;
    case Scope::kSys:
      return kAtHome;
  }
  return 0;
}

/// What a read finds now. in_flight: a store that is not at its home yet.
Word16 Machine::seen(const State& s, std::uint32_t t, std::uint16_t l, bool* in_flight) const {
  *in_flight = true;
  for (std::size_t i = s.pending_count; i-- > 0;)
    if (s.pending[i].location == l && s.pending[i].thread == static_cast<int>(t))
      return s.pending[i].value;
  for (std::size_t i = s.pending_count; i-- > 0;) {
    const auto& p = s.pending[i];
    if (p.location != l) continue;
    const auto by = static_cast<std::uint32_t>(p.thread);
    const Thread &reader = program_.threads[t], &writer = program_.threads[by];
    if (reader.on == MemoryKind::kHost || writer.node != reader.node || writer.on != reader.on)
      continue;
    if (p.level >= (same_cta(t, by) ? 1 : 2)) return p.value;
  }
  *in_flight = false;
  return s.memory[l];
}

/// Thread t has read l: a fence of its own now answers for what it saw (cumulativity).
void Machine::observe(State& s, std::uint32_t t, std::uint16_t l) const {
  for (std::size_t i = s.pending_count; i-- > 0;) {
    const auto p = s.pending[i];
    if (p.location != l || p.level < 1 || p.thread == static_cast<int>(t)) continue;
    for (std::size_t j = 0; j <= i; ++j)
      if (s.pending[j].thread == p.thread && s.pending[j].level >= 1)
        s.pending[j].seen = static_cast<std::uint8_t>(s.pending[j].seen | (1U << t));
  }
  const int k = program_.locations[l].history;
  if (k >= 0)
    s.floor[t][static_cast<std::size_t>(k)] =
        static_cast<std::int8_t>(s.past_count[static_cast<std::size_t>(k)] - 1);
}

/// From here the thread reads nothing older than what writers in that scope have made visible.
void Machine::acquire(State& s, std::uint32_t t, Scope scope) const {
  if (scope == Scope::kNone || program_.threads[t].on == MemoryKind::kHost) return;
  // What the CTA, or the GPU, sees already: the thread's own fences answer for it from now on. A
  // store that its lane did not fence may still be at level 0 here, so nothing is taken for
  // granted.
  for (std::size_t i = 0; i < s.pending_count; ++i) {
    auto& p = s.pending[i];
    const auto by = static_cast<std::uint32_t>(p.thread);
    const Thread &reader = program_.threads[t], &writer = program_.threads[by];
    if (writer.node != reader.node || writer.on != reader.on) continue;
    if (same_cta(t, by) ? p.level >= 1 : scope >= Scope::kGpu && p.level >= 2)
      p.seen = static_cast<std::uint8_t>(p.seen | (1U << t));
  }
  for (std::uint16_t l = 0; l < program_.locations.size(); ++l) {
    if (program_.locations[l].history < 0) continue;
    const auto k = static_cast<std::size_t>(program_.locations[l].history);
    for (std::int8_t i = static_cast<std::int8_t>(s.past_count[k] - 1); i > s.floor[t][k]; --i) {
      const std::int8_t by = s.from[k][static_cast<std::size_t>(i)];
      Scope needed = own_home(t, l) ? Scope::kGpu : Scope::kSys;  // gpu-home
      if (by >= 0) {
        const Thread &reader = program_.threads[t],
                     &writer = program_.threads[static_cast<std::size_t>(by)];
        if (same_cta(t, static_cast<std::uint32_t>(by)))
          needed = Scope::kCta;
        else if (writer.node == reader.node && writer.on == reader.on)
          needed = Scope::kGpu;
      }
      if (scope < needed) continue;
      s.floor[t][k] = i;
      break;
    }
  }
}

bool Machine::fence_may(const State& s, std::uint32_t t, Scope scope) const {
  for (std::size_t i = 0; i < s.pending_count; ++i) {
    const auto& p = s.pending[i];
    if (p.thread != static_cast<int>(t) && !(p.seen >> t & 1U)) continue;
    if (p.level < level_for(static_cast<std::uint32_t>(p.thread), p.location, scope)) return false;
  }
  return true;
}

void Machine::fence(State& s, std::uint32_t t, Scope scope) const {
  for (std::size_t i = 0; i < s.pending_count; ++i) {
    auto& p = s.pending[i];
    if (p.thread == static_cast<int>(t) || (p.seen >> t & 1U))
      p.fenced = std::max(p.fenced, static_cast<std::int8_t>(scope));
  }
  acquire(s, t, scope);
}

/// gdr-launch: a kernel sees what came before the CPU's call that launched it.
bool Machine::devices_write(const State& s, std::uint32_t t) const {
  for (std::size_t i = 0; i < s.item_count; ++i)
    if (s.items[i].channel == channel(program_.threads[t].node, MemoryKind::kGpu)) return true;
  return false;
}

/// Which of a proxy's looks finds something; op.looks.size(): none.
std::size_t Machine::finds(const State& s, std::uint32_t t, const Op& op, std::size_t from) const {
  for (std::size_t i = from; i < op.looks.size(); ++i) {
    const Look& look = op.looks[i];
    bool in_flight = false;
    const Word16 v = seen(s, t, look_at(s, t, look), &in_flight);
    if (v > value(s, t, look.above) && !(look.has_most && v > value(s, t, look.most))) return i;
  }
  return op.looks.size();
}

std::uint16_t Machine::look_at(const State& s, std::uint32_t t, const Look& look) const {
  Op op;
  op.table = look.table;
  op.slot = look.slot;
  return location(s, t, op);
}

bool Machine::may_atomic(const State& s, std::uint32_t t, std::uint16_t l) const {
  for (std::size_t i = 0; i < s.pending_count; ++i)
    if (s.pending[i].location == l && same_cta(t, static_cast<std::uint32_t>(s.pending[i].thread)))
      return false;
  return true;
}

void Machine::write_home(State& s, std::uint16_t l, Word16 v, std::int8_t from) const {
  s.memory[l] = v;
  if (program_.locations[l].history < 0) return;
  const auto k = static_cast<std::size_t>(program_.locations[l].history);
  if (s.past_count[k] == kMostPast) too_large("values of a word", kMostPast);
  const auto at = static_cast<std::size_t>(s.past_count[k]++);
  s.past[k][at] = v;
  s.from[k][at] = from;
  if (from >= 0) s.floor[static_cast<std::size_t>(from)][k] = static_cast<std::int8_t>(at);
}

void Machine::add_pending(State& s, std::uint32_t t, std::uint16_t l, Word16 v) const {
  State::Pending p{};
  p.thread = static_cast<std::int8_t>(t);
  p.location = l;
  p.value = v;
  insert_sorted(
      s.pending, s.pending_count, p, [](const State::Pending& x) { return x.thread; },
      "stores on their way");
}

void Machine::drop_pending(State& s, std::uint32_t i) const {
  erase(s.pending, s.pending_count, i);
}

void Machine::note(Finding finding, Log& log) const {
  if (log.lines)
    log.lines->push_back(
        fmt::format("  !! {}: {}", order::name(finding.hazard).says, finding.second));
  log.findings.push_back(std::move(finding));
}

void Machine::say(Log& log, const std::string& who, const std::string& what) const {
  log.lines->push_back(fmt::format("{:<9}{}", who, what));
}

/// A store to a queue's register or announcement has come there.
void Machine::ring(State& s, std::uint16_t l, Word16 v, std::uint32_t by) const {
  for (std::size_t q = 0; q < program_.queues.size(); ++q) {
    const Queue& queue = program_.queues[q];
    if (queue.bell != l) continue;
    auto& state = s.queues[q];
    if (v >= state.bell) {
      state.bell = v;
      state.by = static_cast<Word16>(by);
    }
    if (queue.record != 0xffff)
      state.covered = std::max(state.covered, std::min(v, s.memory[queue.record]));
  }
}

void Machine::finish_load(State& s, std::uint32_t t, const Op& op, std::uint16_t l, Word16 v,
                          bool stale, Log& log) const {
  if (op.result >= 0) s.threads[t].regs[static_cast<std::size_t>(op.result)] = v;
  if (log.lines)
    say(log, thread_name(t),
        fmt::format("{} -> {}{}", op.text, v, stale ? " (done before: an older value)" : ""));
  if (v < op.expects) reader_hazard(s, t, op, l, log);
}

void Machine::bind_late(State& s, std::uint32_t i, Log& log) const {
  const State::Late late = s.late[i];
  const auto t = static_cast<std::uint32_t>(late.thread);
  const Op& op = program_.threads[t].ops[late.pc];
  bool in_flight = false;
  const Word16 v = seen(s, t, late.location, &in_flight);
  observe(s, t, late.location);
  erase(s.late, s.late_count, i);
  finish_load(s, t, op, late.location, v, false, log);
}

/// An operation that needs an earlier load's result, or a fence that waits for it.
bool Machine::must_wait_for_late(const State& s, std::uint32_t t, const Op& op) const {
  if (s.late_count == 0) return false;
  for (std::size_t i = 0; i < s.late_count; ++i) {
    const auto& late = s.late[i];
    if (late.thread != static_cast<int>(t)) continue;
    if (op.value.reg == late.reg || op.expected.reg == late.reg || op.slot.reg == late.reg)
      return true;
    switch (op.code) {
      case OpCode::kFence:
        if (op.scope >= Scope::kGpu || (op.scope == Scope::kCta && has_mate_[t])) return true;
        break;
      case OpCode::kSync:
      case OpCode::kPost:
      case OpCode::kEnd:
        return true;
      case OpCode::kStore:
      case OpCode::kLoad:
      case OpCode::kAtomic:
      case OpCode::kPoll:
      case OpCode::kSpin:
        if (location(s, t, op) == late.location) return true;
        break;
      default:
        break;
    }
  }
  return false;
}

/// Can the thread go on without anybody else noticing, in one way only?
bool Machine::local(const State& s, std::uint32_t t) const {
  const Op& op = program_.threads[t].ops[s.threads[t].pc];
  if (op.code == OpCode::kEnd || must_wait_for_late(s, t, op)) return false;
  switch (op.code) {
    case OpCode::kStore:
    case OpCode::kSkipUnless:
    case OpCode::kPick:
    case OpCode::kMove:
      return true;
    case OpCode::kFence:
      if (op.acquire != Scope::kNone) return true;
      return fence_may(s, t, op.scope) && !(op.drains && devices_write(s, t));
    case OpCode::kTake:
      return true;
    case OpCode::kLook:
      return false;
    case OpCode::kPost:
      return fence_may(s, t, Scope::kSys);
    case OpCode::kSync:
      return !s.threads[t].synced && fence_may(s, t, Scope::kCta);
    default:
      break;
  }
  const std::uint16_t l = location(s, t, op);
  if (program_.locations[l].shared) return false;
  if (op.code == OpCode::kPoll) return s.memory[l] >= value(s, t, op.value);
  if (op.code == OpCode::kSpin) return s.memory[l] == value(s, t, op.expected);
  return true;
}

void Machine::settle(State& s, Log& log) const {
  bool again = true;
  while (again) {
    again = false;
    for (std::uint32_t t = 0; t < program_.threads.size(); ++t)
      for (std::size_t steps = 0; local(s, t); ++steps) {
        if (steps == kMostAlone) {  // a loop without end: it gets nowhere
          again = false;
          break;
        }
        again = true;
        step(s, t, 0, log);
      }
  }
  // What nobody can read any more is forgotten.
  for (std::uint16_t l = 0; l < program_.locations.size(); ++l) {
    if (program_.locations[l].history < 0) continue;
    const auto k = static_cast<std::size_t>(program_.locations[l].history);
    std::int8_t lowest = static_cast<std::int8_t>(s.past_count[k] - 1);
    const auto newest = lowest;
    for (std::size_t t = 0; t < program_.threads.size(); ++t) {
      const Thread& thread = program_.threads[t];
      if (thread.on == MemoryKind::kHost || thread.ops[s.threads[t].pc].code == OpCode::kEnd)
        s.floor[t][k] = newest;
      lowest = std::min(lowest, s.floor[t][k]);
    }
    if (lowest == 0) continue;
    const auto cut = static_cast<std::size_t>(lowest);
    for (std::size_t i = 0; i < kMostPast; ++i) {
      const bool kept = i + cut < static_cast<std::size_t>(s.past_count[k]);
      s.past[k][i] = kept ? s.past[k][i + cut] : Word16{0};
      s.from[k][i] = kept ? s.from[k][i + cut] : std::int8_t{0};
    }
    s.past_count[k] = static_cast<std::int8_t>(s.past_count[k] - lowest);
    for (std::size_t t = 0; t < program_.threads.size(); ++t)
      s.floor[t][k] = static_cast<std::int8_t>(s.floor[t][k] - lowest);
  }
}

bool Machine::step(State& s, std::uint32_t t, std::uint8_t choice, Log& log) const {
  const Thread& thread = program_.threads[t];
  auto& me = s.threads[t];
  const std::uint16_t pc = me.pc++;
  const Op& op = thread.ops[pc];
  const auto result = [&](Word16 v) {
    if (op.result >= 0) me.regs[static_cast<std::size_t>(op.result)] = v;
  };
  switch (op.code) {
    case OpCode::kStore: {
      const std::uint16_t l = location(s, t, op);
      const Word16 v = value(s, t, op.value);
      if (op.rings) me.regs[kRangReg] = 1;
      if (op.request > 0) {  // what the descriptor says
        const Table& table = program_.tables[op.requests];
        const auto queue = static_cast<std::uint32_t>(me.regs[kQueueReg]);
        s.memory[table.locations[queue * table.depth +
                                 static_cast<std::uint32_t>(me.regs[kIndexReg]) % table.depth]] =
            op.request;
      }
      if (!program_.locations[l].shared) {
        write_home(s, l, v, static_cast<std::int8_t>(t));
        return true;
      }
      if (log.lines) say(log, thread.name, fmt::format("{} (on its way)", op.text));
      add_pending(s, t, l, v);
      return true;
    }
    case OpCode::kLoad: {
      const std::uint16_t l = location(s, t, op);
      if (choice == kLater) {
        if (s.late_count == kMostLate) too_large("late loads", kMostLate);
        insert_sorted(
            s.late, s.late_count, {static_cast<std::int8_t>(t), op.result, l, pc},
            [](const State::Late& x) { return x.thread * 4096 + x.pc; }, "late loads");
        return true;
      }
      bool in_flight = false;
      Word16 v = seen(s, t, l, &in_flight);
      bool stale = false;
      const int history = program_.locations[l].history;
      if (!in_flight && history >= 0 && thread.on != MemoryKind::kHost) {
        const auto k = static_cast<std::size_t>(history);
        const auto at = static_cast<std::size_t>(s.floor[t][k] + choice);
        stale = at + 1 < static_cast<std::size_t>(s.past_count[k]);
        v = s.past[k][at];
        s.floor[t][k] = static_cast<std::int8_t>(at);
      } else {
        observe(s, t, l);
      }
      finish_load(s, t, op, l, v, stale, log);
      acquire(s, t, op.acquire);
      return true;
    }
    case OpCode::kAtomic: {
      const std::uint16_t l = location(s, t, op);
      const Word16 old = s.memory[l], v = value(s, t, op.value);
      const Word16 now = op.atomic == AtomicOp::kAdd   ? static_cast<Word16>(old + v)
                         : op.atomic == AtomicOp::kMax ? std::max(old, v)
                                                       : v;
      write_home(s, l, now, static_cast<std::int8_t>(t));
      result(old);
      acquire(s, t, op.acquire);
      if (log.lines) say(log, thread.name, fmt::format("{}: {} -> {}", op.text, old, now));
      return true;
    }
    case OpCode::kSpin: {
      const std::uint16_t l = location(s, t, op);
      const Word16 v = value(s, t, op.value);
      if (log.lines) say(log, thread.name, fmt::format("{}: {} -> {}", op.text, s.memory[l], v));
      write_home(s, l, v, static_cast<std::int8_t>(t));
      acquire(s, t, op.acquire);
      return true;
    }
    case OpCode::kPoll: {
      const std::uint16_t l = location(s, t, op);
      bool in_flight = false;
      const Word16 v = seen(s, t, l, &in_flight);
      observe(s, t, l);
      acquire(s, t, op.acquire);
      result(v);
      if (log.lines) say(log, thread.name, fmt::format("{}: sees {}", op.text, v));
      return true;
    }
    case OpCode::kFence:
      if (op.acquire != Scope::kNone)
        acquire(s, t, op.acquire);
      else
        fence(s, t, op.scope);
      if (log.lines) say(log, thread.name, op.text);
      return true;
    case OpCode::kSkipUnless: {
      const Word16 a = value(s, t, op.value), b = value(s, t, op.expected);
      const auto index = me.regs[kIndexReg];
      const bool crosses = op.modulus != 0 &&
                           index / static_cast<int>(op.modulus) != b / static_cast<int>(op.modulus);
      bool holds = true;
      switch (op.test) {
        case Test::kAlways:
          break;
        case Test::kNever:
          holds = false;
          break;
        case Test::kAtLeast:
          holds = a >= b;
          break;
        case Test::kBelow:
          holds = a < b;
          break;
        case Test::kEqualOrCrosses:
          holds = a == b || crosses;
          break;
        case Test::kCrosses:
          holds = crosses;
          break;
      }
      if (!holds) me.pc = static_cast<std::uint16_t>(op.target);
      return true;
    }
    case OpCode::kPick: {
      // The queues of the lane's node come one after the other.
      std::vector<Word16> mine;
      for (std::size_t q = 0; q < program_.queues.size(); ++q)
        if (program_.queues[q].node == thread.node) mine.push_back(static_cast<Word16>(q));
      const Word16 n = value(s, t, op.value);
      me.regs[kQueueReg] = mine[static_cast<std::size_t>(n) % mine.size()];
      return true;
    }
    case OpCode::kMove:
      result(value(s, t, op.value));
      return true;
    case OpCode::kSync: {
      me.pc = pc;
      me.synced = 1;
      const auto barrier = static_cast<std::size_t>(op.value.add);
      const auto at_it = [&](std::size_t u) {
        const Op& other = program_.threads[u].ops[s.threads[u].pc];
        return s.threads[u].synced && other.code == OpCode::kSync &&
               other.value.add == op.value.add;
      };
      std::size_t here = 0;
      for (std::size_t u = 0; u < program_.threads.size(); ++u) here += at_it(u);
      if (here < program_.synced[barrier]) return true;
      for (std::uint32_t u = 0; u < program_.threads.size(); ++u) {
        if (!at_it(u)) continue;
        for (std::size_t i = 0; i < s.pending_count; ++i)
          if (s.pending[i].level >= 1 &&
              same_cta(u, static_cast<std::uint32_t>(s.pending[i].thread)))
            s.pending[i].seen = static_cast<std::uint8_t>(s.pending[i].seen | (1U << u));
        acquire(s, u, Scope::kCta);
      }
      for (std::size_t u = 0; u < program_.threads.size(); ++u)
        if (at_it(u)) {
          s.threads[u].synced = 2;  // moves on below, once all have been seen
        }
      for (std::size_t u = 0; u < program_.threads.size(); ++u)
        if (s.threads[u].synced == 2) {
          s.threads[u].synced = 0;
          ++s.threads[u].pc;
        }
      if (log.lines) say(log, "", op.text + ": all are there");
      return true;
    }
    case OpCode::kPost: {
      const auto q = static_cast<std::size_t>(op.slot.add);
      const Queue& queue = program_.queues[q];
      auto& state = s.queues[q];
      const Entry& entry = program_.entries[op.entry];
      s.memory[queue.ring[static_cast<std::size_t>(state.bell) % queue.ring.size()]] =
          entry_word(op.entry, state.bell);
      state.bell = static_cast<Word16>(state.bell + static_cast<Word16>(entry.blocks));
      state.by = static_cast<Word16>(t);
      if (log.lines) say(log, thread.name, op.text);
      return true;
    }
    case OpCode::kLook: {
      if (choice >= op.looks.size()) return true;  // nothing there: on with what follows
      const Look& look = op.looks[choice];
      const std::uint16_t l = look_at(s, t, look);
      bool in_flight = false;
      const Word16 v = seen(s, t, l, &in_flight);
      observe(s, t, l);
      if (look.into >= 0) me.regs[static_cast<std::size_t>(look.into)] = v;
      me.pc = static_cast<std::uint16_t>(look.target);
      if (log.lines)
        say(log, thread.name, fmt::format("finds {} in {}", v, program_.locations[l].name));
      return true;
    }
    case OpCode::kTake: {
      const Word16 index = me.regs[kIndexReg];
      for (std::uint16_t table : op.tables) {
        Op word;
        word.table = table;
        word.slot = {kIndexReg, 1, 0};
        const std::uint16_t l = location(s, t, word);
        bool in_flight = false;
        const Word16 v = seen(s, t, l, &in_flight);
        if (v > index + static_cast<int>(program_.tables[table].depth)) {
          note({Hazard::kSlot, fmt::format("{} reads request {}", thread.name, index),
                fmt::format("request {} is written over it", v - 1),
                "that the slot's earlier request had been read", "nic-slot",
                "wait until the request a ring's length before is told to be done (poll until "
                "slot_free)"},
               log);
          return false;
        }
        if (v > index) continue;
        note({Hazard::kEntry,
              fmt::format("{} is stored for request {}", program_.locations[l].name, index),
              fmt::format("{} reads request {}", thread.name, index),
              "that a request whose first word is there is there as a whole", "ptx-weak",
              "look at each word's own validity, or a fence (sys) before the word that announces"},
             log);
        return false;
      }
      return true;
    }
    case OpCode::kEnd:
      me.pc = pc;
      return true;
  }
  return true;
}

void Machine::next(const State& s, std::vector<Transition>& list) const {
  list.clear();
  for (std::uint32_t t = 0; t < program_.threads.size(); ++t) {
    const Op& op = program_.threads[t].ops[s.threads[t].pc];
    if (op.code != OpCode::kLoad && op.code != OpCode::kAtomic && op.code != OpCode::kSpin &&
        op.code != OpCode::kPoll && op.code != OpCode::kLook)
      continue;
    if (op.code == OpCode::kLook) {
      std::size_t found = finds(s, t, op, 0);
      if (found == op.looks.size() && op.may_miss)
        list.push_back({Move::kStep, static_cast<std::uint8_t>(t), kLater});
      for (; found < op.looks.size(); found = finds(s, t, op, found + 1))
        list.push_back(
            {Move::kStep, static_cast<std::uint8_t>(t), static_cast<std::uint8_t>(found)});
      continue;
    }
    if (must_wait_for_late(s, t, op)) continue;
    const std::uint16_t l = location(s, t, op);
    const auto who = static_cast<std::uint8_t>(t);
    bool in_flight = false;
    switch (op.code) {
      case OpCode::kLoad: {
        seen(s, t, l, &in_flight);
        const int history = program_.locations[l].history;
        std::uint8_t choices = 1;
        if (!in_flight && history >= 0 && program_.threads[t].on != MemoryKind::kHost) {
          const auto k = static_cast<std::size_t>(history);
          choices = static_cast<std::uint8_t>(s.past_count[k] - s.floor[t][k]);
        }
        for (std::uint8_t c = 0; c < choices; ++c) list.push_back({Move::kStep, who, c});
        if (op.may_wait && program_.threads[t].on != MemoryKind::kHost)
          list.push_back({Move::kStep, who, kLater});
        break;
      }
      case OpCode::kAtomic:
        if (may_atomic(s, t, l)) list.push_back({Move::kStep, who, 0});
        break;
      case OpCode::kSpin:
        if (may_atomic(s, t, l) && s.memory[l] == value(s, t, op.expected))
          list.push_back({Move::kStep, who, 0});
        break;
      default:
        if (seen(s, t, l, &in_flight) >= value(s, t, op.value))
          list.push_back({Move::kStep, who, 0});
    }
  }
  for (std::size_t i = 0; i < s.pending_count; ++i) {
    const auto& p = s.pending[i];
    const Thread& thread = program_.threads[static_cast<std::size_t>(p.thread)];
    const auto strong = [&](std::uint16_t l) {  // x86-tso, x86-uc
      return program_.locations[l].home.memory == MemoryKind::kHost ||
             program_.locations[l].uncached;
    };
    const bool in_line = thread.on == MemoryKind::kHost && strong(p.location);
    bool may = true;
    for (std::size_t j = 0; j < i && may; ++j) {
      const auto& e = s.pending[j];
      if (e.thread != p.thread) continue;
      const bool first_in_line = in_line && strong(e.location);
      if ((e.location == p.location && e.level <= p.level) || first_in_line) may = false;
    }
    if (may) list.push_back({Move::kReach, static_cast<std::uint8_t>(i), 0});
  }
  for (std::uint32_t q = 0; q < program_.queues.size(); ++q) {
    const Queue& queue = program_.queues[q];
    const auto who = static_cast<std::uint8_t>(q);
    if (queue.consumer) {
      if (may_consume(s, q)) list.push_back({Move::kConsume, who, 0});
      continue;
    }
    const auto taken = s.queues[q].taken;
    if (queue.pushed) {  // nic-push
      const Word16 held = s.memory[queue.ring[static_cast<std::size_t>(taken) % queue.ring.size()]];
      if (held % 64 != 0 && held / 64 == taken) list.push_back({Move::kExecute, who, 0});
    } else if (s.queues[q].bell > taken) {
      list.push_back({Move::kExecute, who, 0});
    }
    if (may_deliver(s, q)) list.push_back({Move::kDeliver, who, 0});
    if (may_answer(s, q)) list.push_back({Move::kAnswer, who, 0});
  }
  for (std::uint32_t i = 0; i < s.item_count; ++i)
    if (may_place(s, i)) list.push_back({Move::kPlace, static_cast<std::uint8_t>(i), 0});
  for (std::uint32_t i = 0; i < s.late_count; ++i)
    list.push_back({Move::kLate, static_cast<std::uint8_t>(i), 0});
}

bool Machine::take(State& s, const Transition& transition, Log& log) const {
  bool goes_on = true;
  switch (transition.move) {
    case Move::kStep:
      goes_on = step(s, transition.which, transition.choice, log);
      break;
    case Move::kReach: {
      auto& p = s.pending[transition.which];
      const auto t = static_cast<std::uint32_t>(p.thread);
      const Location& where = program_.locations[p.location];
      if (p.level < 1 && has_mate_[t]) {
        p.level = 1;
        if (log.lines)
          say(log, "",
              fmt::format("{}'s store to {} is seen in its CTA", thread_name(t), where.name));
      } else if (p.level < 2 && on_its_gpu(t, p.location) && !own_home(t, p.location)) {
        p.level = 2;
        if (log.lines)
          say(log, "",
              fmt::format("{}'s store to {} is seen on its GPU", thread_name(t), where.name));
      } else {
        const auto done = p;
        drop_pending(s, transition.which);
        if (log.lines)
          say(log, "",
              fmt::format("{}'s store to {} is at its place: {}", thread_name(t), where.name,
                          where.name.find("entry") != std::string::npos
                              ? fmt::format("entry {}", done.value / 64)
                              : fmt::format("{}", done.value)));
        // An entry over one that was not read.
        for (std::size_t q = 0; q < program_.queues.size(); ++q) {
          const Queue& queue = program_.queues[q];
          if (std::find(queue.ring.begin(), queue.ring.end(), done.location) == queue.ring.end())
            continue;
          const Word16 old = s.memory[done.location];
          if (old % 64 != 0 && old / 64 >= s.queues[q].taken && old / 64 != done.value / 64) {
            note({Hazard::kSlot, fmt::format("the NIC reads entry {} of queue {}", old / 64, q),
                  fmt::format("{} writes entry {} over it", thread_name(t), done.value / 64),
                  "that the slot's earlier entry had been read", "nic-slot",
                  "wait until the completion of the entry a ring's length before (poll until "
                  "slot_free)"},
                 log);
            goes_on = false;
          }
        }
        if (where.bell) {
          s.memory[done.location] = std::max(s.memory[done.location], done.value);
          ring(s, done.location, done.value, t);
        } else {
          write_home(s, done.location, done.value, done.thread);
          if (where.history >= 0)
            for (std::size_t u = 0; u < program_.threads.size(); ++u)
              if (done.seen >> u & 1U) {
                const auto k = static_cast<std::size_t>(where.history);
                s.floor[u][k] = static_cast<std::int8_t>(s.past_count[k] - 1);
              }
        }
      }
      break;
    }
    case Move::kExecute:
      goes_on = execute(s, transition.which, log);
      break;
    case Move::kDeliver:
      deliver(s, transition.which, log);
      break;
    case Move::kAnswer:
      answer(s, transition.which, log);
      break;
    case Move::kPlace:
      place(s, transition.which, log);
      break;
    case Move::kConsume: {
      const Queue& queue = program_.queues[transition.which];
      auto& state = s.queues[transition.which];
      const int index = state.taken;
      goes_on =
          check_entry(s, transition.which,
                      queue.ring[static_cast<std::size_t>(index) % queue.ring.size()], index, log);
      if (!goes_on) break;
      state.taken = static_cast<Word16>(index + 1);
      if (log.lines) say(log, "consumer", fmt::format("reads entry {}", index));
      post(s, {channel(queue.node, program_.locations[queue.completed].home.memory),
               static_cast<std::int8_t>(transition.which), 0, kCompletion, queue.completed,
               static_cast<Word16>(index + 1), static_cast<Word16>(index)});
      break;
    }
    case Move::kLate:
      bind_late(s, transition.which, log);
      break;
  }
  if (goes_on) settle(s, log);
  return goes_on;
}

void Machine::reader_hazard(const State& s, std::uint32_t t, const Op& op, std::uint16_t l,
                            Log& log) const {
  const std::string name = program_.locations[l].name;
  Finding f{Hazard::kReader,
            fmt::format("version {} of {} is written", op.expects, name),
            fmt::format("{}: {}", thread_name(t), op.text),
            "",
            "",
            ""};
  const bool waits = program_.threads[t].waits;
  if (s.memory[l] >= op.expects) {
    f.rule = waits ? "ptx-acquire" : "no-wait";
    f.assumed = "that a load behind the wait is done behind it";
    f.mend = own_home(t, l) ? "an acquire at the wait, or fence: {scope: gpu} behind it"
                            : "an acquire at the wait, or fence: {scope: sys} behind it";
  }
  for (std::size_t i = 0; f.rule.empty() && i < s.pending_count; ++i)
    if (s.pending[i].location == l) {
      const auto writer = static_cast<std::uint32_t>(s.pending[i].thread);
      f.first = fmt::format("{} stores version {} of {}", thread_name(writer), op.expects, name);
      f.rule = program_.threads[writer].on == MemoryKind::kHost ? "x86-wc"
               : s.pending[i].fenced > 0                        ? "ptx-scope"
                                                                : "ptx-weak";
      f.assumed = "that the flag's store is seen behind the data's";
      f.mend = "a release (fence) between data and flag of a scope that holds the reader";
    }
  for (std::size_t i = 0; f.rule.empty() && i < s.item_count; ++i) {
    if (s.items[i].location != l) continue;
    f.first = fmt::format("the far NIC's write of {} is placed", name);
    if (s.items[i].relaxed) {
      f.rule = "pcie-relaxed";
      f.assumed = "that the flag's write stays behind the data's";
      f.mend =
          "register the flag's memory without relaxed ordering, or let the reader wait for what "
          "says 'placed'";
    } else {
      f.rule = program_.gdr_unordered ? "gdr-order" : "pcie-paths";
      f.assumed = "that writes of one NIC are seen in their order";
      f.mend = "put data and flag into one memory, or read back (flush) behind the flag";
    }
  }
  if (f.rule.empty()) {
    f.rule = "rc-queues";
    f.assumed = "that the flag's request comes behind the data's";
    f.mend = "put and signal on one queue, or a fence (all queues completed) between them";
  }
  if (!waits) {
    f.rule = "no-wait";
    f.assumed = "that what the sender completed is seen by whoever comes next";
    f.mend = "let the reader wait for a signal, or a barrier of both";
  }
  note(std::move(f), log);
}

/// It has ended, or looks in vain.
bool Machine::idles(const State& s, std::uint32_t t) const {
  const Op& op = program_.threads[t].ops[s.threads[t].pc];
  return op.code == OpCode::kEnd || (op.code == OpCode::kLook && !op.may_miss);
}

bool Machine::done(const State& s) const {
  for (std::uint32_t t = 0; t < program_.threads.size(); ++t)
    if (!idles(s, t)) return false;
  return s.late_count == 0;
}

void Machine::at_end(const State& s, Log& log) const {
  if (!done(s)) {
    for (std::size_t t = 0; t < program_.threads.size(); ++t) {
      const Op& op = program_.threads[t].ops[s.threads[t].pc];
      if (idles(s, static_cast<std::uint32_t>(t))) continue;
      note({Hazard::kStuck, "what it waits for",
            fmt::format("{}: {}", program_.threads[t].name, op.text), "that somebody announces it",
            "nic-bell", "ring for every entry that somebody waits for"},
           log);
    }
    return;
  }
  for (std::size_t q = 0; q < program_.queues.size(); ++q) {
    const Queue& queue = program_.queues[q];
    if (queue.record == 0xffff || s.queues[q].covered >= s.queues[q].bell) continue;
    const auto by = static_cast<std::size_t>(std::max<Word16>(s.queues[q].by, 0));
    note({Hazard::kRecord,
          fmt::format("{} stores the record for index {}", program_.threads[by].name,
                      s.queues[q].bell),
          fmt::format("the doorbell for index {} reaches the NIC", s.queues[q].bell),
          "that the record is visible when the last bell comes", "nic-record",
          "a fence between the record's store and the (last) doorbell"},
         log);
  }
}

std::vector<Word16> Machine::outcome(const State& s) const {
  std::vector<Word16> values;
  for (const auto& result : program_.results)
    values.push_back(s.threads[result.thread].regs[static_cast<std::size_t>(result.reg)]);
  return values;
}

}  // namespace marrow::order
