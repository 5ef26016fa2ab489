#include "sim/order/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/order/build.h"

namespace marrow::order {

namespace {

bool has(const Program& p, OpKind kind) { return !p.of(kind).empty(); }

bool any(const Program& p, const std::function<bool(const Step&)>& holds) {
  for (const auto& steps : p.steps)
    if (std::any_of(steps.begin(), steps.end(), holds)) return true;
  return false;
}

/// Does a put wait for its completion where the trace says so?
bool waits_by_itself(const Program& p) {
  const auto& put = p.of(OpKind::kPut);
  return std::any_of(put.begin(), put.end(),
                     [](const Step& s) { return s.condition == Condition::kWaits; });
}

/// Does a plain put end the receiver's wait: by an immediate, or by the data itself?
bool tells_receiver(const Program& p) {
  const auto& wait = p.of(OpKind::kWait);
  const auto& put = p.of(OpKind::kPut);
  if (std::any_of(wait.begin(), wait.end(),
                  [&](const Step& s) { return s.op == StepOp::kPoll && s.word == p.nic.receives; }))
    return std::any_of(put.begin(), put.end(), [](const Step& s) { return s.immediate; });
  return p.nic.signal == kNoWord || p.nic.receives != kNoWord;
}

/// Without the operations that a run does not use.
Program reduced(const Program& program, const Use& use) {
  Program p = program;
  for (std::size_t k = 0; k < kOpKindCount; ++k)
    if (!(use.operations >> k & 1U)) p.steps[k].clear();
  return p;
}

/// Puts one scenario together.
class Scene {
 public:
  Scene(const Program& program, const CheckOptions& options, Setup setup)
      : p_(program), options_(options), builder_(&program, setup) {
    builder_.relax(program.nic.relaxed_target, program.nic.relaxed_signal);
    builder_.program().ack_placed = program.nic.claims_ack_placed;
    builder_.program().atomic_placed = program.nic.claims_atomic_placed;
  }
  std::uint8_t lane(const std::string& name, std::uint8_t node, std::uint8_t number) {
    return builder_.thread(name, node, p_.on_cpu ? MemoryKind::kHost : MemoryKind::kGpu,
                           options_.same_cta ? std::uint8_t{0} : number, number, 0);
  }
  void write(std::uint8_t t, const std::string& data) {
    if (!p_.nic.present) return;
    builder_.write(t, data);
    if (options_.caller_releases) builder_.fence(t, Scope::kSys);
  }
  void read(std::uint8_t t, const std::string& data) {
    if (options_.caller_acquires) builder_.fence(t, Scope::kSys);
    builder_.read(t, data, 1, "");
  }
  void read_sink(std::uint8_t t, const std::string& data) {
    if (options_.caller_acquires) builder_.fence(t, Scope::kSys);
    builder_.read_sink(t, data, 1, "");
  }
  void call(std::uint8_t t, OpKind kind, const std::string& data, bool wait = false,
            bool flush = true) {
    Call c;
    c.kind = kind;
    c.data = data;
    c.flush = flush;
    c.wait = wait;
    c.elsewhere = options_.other_queue && kind == options_.moved;
    builder_.call(t, c);
    uses_ |= 1U << static_cast<unsigned>(kind);
  }
  /// The operation, and whatever the recipe has by which a lane knows that it is done: then it may
  /// use the source again.
  void complete(std::uint8_t t, OpKind kind, const std::string& data) {
    call(t, kind, data, !has(p_, OpKind::kQuiet));
    if (has(p_, OpKind::kQuiet)) call(t, OpKind::kQuiet, data);
  }
  void use_again(std::uint8_t t, const std::string& data) {
    if (has(p_, OpKind::kQuiet) || waits_by_itself(p_)) write(t, data);
  }
  Scenario done(std::string name, std::string asks) {
    return {std::move(name), std::move(asks), builder_.finish(), uses_};
  }

 private:
  const Program& p_;
  const CheckOptions& options_;
  Builder builder_;
  std::uint32_t uses_ = 0;
};

std::string reading(const Program& program, const Finding& finding) {
  const auto it =
      program.readings.find(fmt::format("{} {}", order::name(finding.hazard).id, finding.rule));
  return it == program.readings.end() ? "" : it->second;
}

std::string with(const std::string& what, OpKind kind) {
  return what + ", " + std::string(kOpKindNames[static_cast<std::size_t>(kind)]);
}

}  // namespace

std::vector<Scenario> scenarios(const Program& program, const CheckOptions& options) {
  std::vector<Scenario> list;
  const Program p = reduced(program, options.use);
  const bool shares =
      options.use.shares_queues && !any(p, [](const Step& s) { return s.op == StepOp::kOwnIndex; });
  const bool picks = any(p, [](const Step& s) { return s.op == StepOp::kPick; });
  // Does it depend on what the trace says whether a put rings?
  const bool may_skip = any(p, [](const Step& s) {
    return s.condition == Condition::kBatchBoundary || s.condition == Condition::kMultiple;
  });
  const bool waits = any(p, [](const Step& s) { return s.condition == Condition::kWaits; });
  std::uint32_t most_blocks = 1;
  for (std::size_t k = 0; k < kOpKindCount; ++k)
    most_blocks = std::max(most_blocks, p.blocks(static_cast<OpKind>(k), 8));
  Setup one;
  one.depth = std::max(std::min(4 * most_blocks, 8U), 2 * most_blocks);
  if (p.proxy.present) one.depth = 2 * most_blocks;  // rings of many words each
  one.queues = options.other_queue ? 2 : 1;
  Setup two = one;
  two.queues = 2;
  Setup three = one;  // one for each of two puts, and one for the signal
  three.queues = 3;
  if (has(p, OpKind::kPut)) {
    Scene s(p, options, one);
    const auto a = s.lane("A", 0, 0);
    s.write(a, "a");
    s.complete(a, OpKind::kPut, "a");
    s.use_again(a, "a");
    list.push_back(s.done("one put",
                          "payload, entry, record and doorbell of one lane, and its "
                          "source once it has waited"));
  }
  const auto writes_after = [&](OpKind waiting, const char* name, const char* what) {
    Scene s(p, options, one);
    const auto a = s.lane("A", 0, 0);
    s.write(a, "a");
    s.call(a, waiting, "a", true);
    s.write(a, "a");
    list.push_back(s.done(name, what));
  };
  if (waits && has(p, OpKind::kQuiet))
    writes_after(OpKind::kPut, "put that waits", "its source once the put has waited");
  const auto& signalled = p.of(OpKind::kPutSignal);
  if (std::any_of(signalled.begin(), signalled.end(),
                  [](const Step& s) { return s.condition == Condition::kWaits; }))
    writes_after(OpKind::kPutSignal, "put with signal that waits", "its source once it has waited");
  const OpKind beside = has(p, OpKind::kPut) ? OpKind::kPut : OpKind::kPutSignal;
  if (options.use.reuses_sources && has(p, beside)) {
    Scene s(p, options, one);
    const auto a = s.lane("A", 0, 0);
    s.write(a, "a");
    s.call(a, beside, "a");
    s.write(a, "a");
    list.push_back(s.done("source used again", "a source that is stored to before anything waits"));
  }
  // Each operation that posts, beside a put of another lane on the same queue, and in a full ring.
  for (OpKind kind :
       {OpKind::kPut, OpKind::kPutSignal, OpKind::kGet, OpKind::kAtomic, OpKind::kBarrier}) {
    if (!has(p, kind) || !has(p, beside)) continue;
    if (shares) {
      Scene s(p, options, one);
      const auto a = s.lane("A", 0, 0), b = s.lane("B", 0, 1);
      s.write(a, "a");
      s.write(b, "b");
      if (kind == OpKind::kPut) {
        s.complete(a, kind, "a");
        s.use_again(a, "a");
        s.complete(b, kind, "b");
        s.use_again(b, "b");
      } else {
        s.call(a, kind, "a");
        s.call(b, beside, "b", waits && !has(p, OpKind::kQuiet));
        if (kind == OpKind::kBarrier) s.call(s.lane("R", 1, 0), kind, "a");
      }
      list.push_back(s.done(with("two lanes, one queue", kind),
                            "who rings for whom, and what a completion of a shared queue says"));
    }
    const auto& steps = p.of(kind);
    if (!options.use.wraps || (options.use.operations == ~0U &&
                               std::none_of(steps.begin(), steps.end(), [](const Step& s) {
                                 return s.op == StepOp::kSkipUnless &&
                                        s.condition == Condition::kRingWrapped;
                               })))
      continue;
    Setup small = one;
    small.depth = std::max({p.blocks(kind, 8), p.blocks(beside, 8), 1U});
    Scene s(p, options, small);
    const auto a = s.lane("A", 0, 0);
    if (kind == OpKind::kPut || !shares) {
      for (const char* data : {"a", "b"}) {
        s.write(a, data);
        s.call(a, kind, data);
      }
      s.write(a, "c");
      s.complete(a, kind, "c");
    } else {
      const auto b = s.lane("B", 0, 1);
      s.write(a, "a");
      s.call(a, kind, "a");
      s.write(b, "b");
      s.call(b, beside, "b");
      if (kind == OpKind::kBarrier) s.call(s.lane("R", 1, 0), kind, "a");
    }
    list.push_back(s.done(with("full ring", kind), "slots used again"));
  }
  if (shares && may_skip && has(p, OpKind::kPut)) {
    Scene s(p, options, one);
    const auto a = s.lane("A", 0, 0), b = s.lane("B", 0, 1);
    s.write(a, "a");
    s.call(a, OpKind::kPut, "a", false, false);
    s.write(b, "b");
    s.call(b, OpKind::kPut, "b");
    list.push_back(s.done("two lanes, one rings", "an entry whose lane leaves the bell to others"));
    if (has(p, OpKind::kAtomic)) {
      Scene t(p, options, one);
      const auto c = t.lane("A", 0, 0), d = t.lane("B", 0, 1);
      t.call(c, OpKind::kAtomic, "a", false, false);
      t.write(d, "b");
      t.call(d, OpKind::kPut, "b");
      list.push_back(t.done("two lanes, one rings, atomic", "the same of an atomic"));
    }
  }
  if (has(p, OpKind::kQuiet) && picks && has(p, OpKind::kPut)) {
    Scene s(p, options, two);
    const auto a = s.lane("A", 0, 0);
    for (const char* data : {"a", "b"}) {
      s.write(a, data);
      s.call(a, OpKind::kPut, data);
    }
    s.call(a, OpKind::kQuiet, "a");
    s.write(a, "a");
    s.write(a, "b");
    list.push_back(s.done("quiet", "completion of every queue that was used"));
  }
  /// A sender, what it does behind its put, and a receiver that waits and reads.
  const auto transfer = [&](const std::string& name, const std::string& asks, const Setup& setup,
                            std::vector<OpKind> sends, OpKind waits_by) {
    Scene s(p, options, setup);
    const auto a = s.lane("A", 0, 0);
    // Puts that rotate over queues: two, so that one is on another queue than what follows.
    const bool both = picks && sends.size() > 1;
    if (both) {
      s.write(a, "b");
      s.call(a, OpKind::kPut, "b");
    }
    s.write(a, "a");
    for (OpKind kind : sends) s.call(a, kind, "a", false, kind == sends.back());
    const auto r = s.lane("R", 1, 0);
    s.call(r, waits_by, "a");
    s.read(r, "a");
    if (both) s.read(r, "b");
    list.push_back(s.done(name, asks));
  };
  const bool can_wait = has(p, OpKind::kWait);
  if (has(p, OpKind::kPutSignal) && can_wait)
    transfer("put with signal", "data behind a signal that was waited for", two,
             {OpKind::kPutSignal}, OpKind::kWait);
  if (has(p, OpKind::kPut) && has(p, OpKind::kAtomic) && can_wait && !picks)
    transfer("put, atomic", "data behind an atomic on the same queue", one,
             {OpKind::kPut, OpKind::kAtomic}, OpKind::kWait);
  if (has(p, OpKind::kPut) && has(p, OpKind::kAtomic) && has(p, OpKind::kFence) && can_wait)
    transfer("put, fence, atomic", "data behind a signal on any queue", three,
             {OpKind::kPut, OpKind::kFence, OpKind::kAtomic}, OpKind::kWait);
  if (has(p, OpKind::kPut) && has(p, OpKind::kBarrier)) {
    transfer("put, barrier", "data behind a barrier of both", picks ? three : one,
             {OpKind::kPut, OpKind::kBarrier}, OpKind::kBarrier);
  }
  if (can_wait && has(p, OpKind::kPut) && tells_receiver(p))
    transfer("put, wait", "data behind what the receiver waits for", one, {OpKind::kPut},
             OpKind::kWait);
  for (const auto& sends : options.use.sends) {
    const OpKind waits_by = sends.back() == OpKind::kBarrier ? OpKind::kBarrier : OpKind::kWait;
    if (!has(p, waits_by)) continue;
    Scene s(p, options, picks ? three : one);
    const auto a = s.lane("A", 0, 0);
    std::vector<std::string> sent;
    std::string name;
    for (OpKind kind : sends) {
      name +=
          (name.empty() ? "" : ", ") + std::string(kOpKindNames[static_cast<std::size_t>(kind)]);
      const std::string data(1, static_cast<char>('a' + sent.size()));
      const bool brings = kind == OpKind::kPut || kind == OpKind::kPutSignal;
      if (brings) {
        s.write(a, data);
        sent.push_back(data);
      }
      s.call(a, kind, data);
    }
    if (sent.empty()) continue;
    const auto r = s.lane("R", 1, 0);
    s.call(r, waits_by, "a");
    for (const std::string& data : sent) s.read(r, data);
    list.push_back(s.done(name, "what was sent before a signal, read behind it"));
  }
  if (has(p, OpKind::kGet)) {
    Scene s(p, options, one);
    const auto a = s.lane("A", 0, 0);
    // Some wait in the call, the others need a quiet.
    const auto& get = p.of(OpKind::kGet);
    if (std::any_of(get.begin(), get.end(), [](const Step& step) {
          return step.op == StepOp::kSkipUnless && step.condition == Condition::kBehind;
        }))
      s.call(a, OpKind::kGet, "a");
    else
      s.complete(a, OpKind::kGet, "a");
    s.read_sink(a, "a");
    list.push_back(s.done("get", "data behind a get"));
    if (waits && has(p, OpKind::kQuiet)) {
      Scene t(p, options, one);
      const auto c = t.lane("A", 0, 0);
      t.call(c, OpKind::kGet, "a", true);
      t.read_sink(c, "a");
      list.push_back(t.done("get that waits", "data behind a get's own wait"));
    }
  }
  return list;
}

CheckResult check(const Program& program, const CheckOptions& options) {
  CheckResult result;
  for (const Scenario& scenario : scenarios(program, options)) {
    if (!(scenario.uses & options.only)) continue;
    const Exploration e = explore(scenario.program, options.most_states, {},
                                  options.stop_at_first && options.readings);
    result.ran.push_back(scenario.name);
    result.states += e.states;
    if (e.cut_off) result.cut_off.push_back(scenario.name);
    for (const auto& found : e.found)
      if (options.readings || reading(program, found.finding).empty())
        result.findings.push_back(
            {scenario.name, found.finding, reading(program, found.finding), found.witness});
    if (options.stop_at_first && !result.findings.empty()) break;
  }
  return result;
}

}  // namespace marrow::order
