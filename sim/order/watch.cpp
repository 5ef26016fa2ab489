#include "sim/order/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace marrow::order {

namespace {

// Beyond that a program is said to be cut off: a run does not wait long for its check.
constexpr std::size_t kMostStatesOfARun = 50'000;
constexpr std::uint64_t kFourOperations = 0xffff;
constexpr std::size_t kMostShapes = 16;

bool announces(OpKind kind) {
  return kind == OpKind::kPutSignal || kind == OpKind::kAtomic || kind == OpKind::kBarrier;
}
bool brings_data(OpKind kind) { return kind == OpKind::kPut || kind == OpKind::kPutSignal; }

/// Texts and rule of what a run itself shows, where no program of the check comes to it.
Finding seen_in_run(Hazard hazard, const std::string& first, const std::string& second) {
  switch (hazard) {
    case Hazard::kSource:
      return {hazard,
              first,
              second,
              "that the NIC had read the source when the call returned",
              "nic-fetch",
              "wait for the entry's completion (quiet, flush, or the completion poll) first"};
    case Hazard::kSlot:
      return {hazard,
              first,
              second,
              "that the slot's earlier entry had been read",
              "nic-slot",
              "wait until the completion of the entry a ring's length before (poll until "
              "slot_free)"};
    case Hazard::kReader:
      return {hazard,
              first,
              second,
              "that the flag's request comes behind the data's",
              "rc-queues",
              "put and signal on one queue, or a fence (all queues completed) between them"};
    default:
      return {hazard,     first,
              second,     "that every entry before the announced index was written",
              "nic-bell", "publish in the order of reservation, and announce what is published"};
  }
}

std::string one_sentence(const Finding& f) {
  return fmt::format("{} may come before: {}", f.second, f.first);
}

}  // namespace

void Watch::begin_run(const std::string& name, const Program& program, bool shares_queues) {
  run_ = name;
  program_ = program;
  shares_queues_ = shares_queues;
  lanes_.clear();
  use_ = {};
  use_.operations = 0;
  use_.wraps = false;
  sends_.clear();
  happened_.assign(static_cast<std::size_t>(Hazard::kCount), {});
  messages_ = waits_ = 0;
  broken_.clear();
  // What a wait counts: signals, or the messages themselves.
  by_signals_ = true;
  const auto& wait = program.of(OpKind::kWait);
  if (program.nic.signal == kNoWord) by_signals_ = false;
  for (const Step& step : wait)
    if (step.op == StepOp::kPoll && step.until == Until::kSignalled)
      by_signals_ = step.word == program.nic.signal;
  const auto& put = program.of(OpKind::kPut);
  put_waits_ = std::any_of(put.begin(), put.end(),
                           [](const Step& s) { return s.condition == Condition::kWaits; });
}

Watch::LaneState& Watch::state(std::uint32_t pe, std::uint32_t lane) {
  if (lanes_.size() <= pe) lanes_.resize(pe + 1);
  if (lanes_[pe].size() <= lane) lanes_[pe].resize(lane + 1);
  return lanes_[pe][lane];
}

void Watch::on_operation_begin(const LaneMoment& m) {
  LaneState& s = state(m.pe, m.lane);
  use_.operations |= 1U << static_cast<unsigned>(m.kind);
  const auto code = static_cast<std::uint64_t>(m.kind) + 1;
  if (is_message(m.kind) || m.kind == OpKind::kFence || m.kind == OpKind::kQuiet ||
      m.kind == OpKind::kBarrier) {
    if ((s.recent & 0xff) != (code << 4 | code))
      s.recent = (s.recent << 4 | code) & kFourOperations;
    if (announces(m.kind)) {
      if (s.recent != s.told && sends_.size() < kMostShapes) sends_.insert(s.recent);
      s.told = std::exchange(s.recent, 0);
    }
  }
  if (m.messages == 0) return;
  if (brings_data(m.kind) && std::exchange(s.unwaited, true) && options_.one_source)
    use_.reuses_sources = true;
  for (std::uint32_t l = 0; l < m.messages; ++l) {
    Sent sent;
    sent.start_ps = m.at_ps;
    sent.cover = !by_signals_        ? m.version - m.messages + l + 1
                 : announces(m.kind) ? m.signals
                                     : m.signals + 1;
    s.sent.push_back(sent);
  }
  s.cover = s.sent.back().cover;
}

void Watch::on_operation_end(const LaneMoment& m) {
  LaneState& s = state(m.pe, m.lane);
  const bool completes = m.kind == OpKind::kQuiet || m.kind == OpKind::kBarrier;
  if (completes || (m.waits && m.messages > 0 && put_waits_)) {
    // A quiet is of all before, a put's own wait of its own message.
    std::uint64_t from = std::max(s.returned, s.base);
    const std::uint64_t end = m.kind == OpKind::kBarrier ? m.version - m.messages : m.version;
    if (!completes) from = std::max(from, m.version - m.messages + 1);
    for (; from <= end; ++from) s.sent[from - s.base].returned_ps = m.at_ps;
    s.returned = std::max(s.returned, from);
    s.unwaited = false;
  }
  if (m.kind == OpKind::kWait || m.kind == OpKind::kBarrier) {
    ++waits_;
    if (!s.many_senders) s.waits.push_back(m.at_ps);
  }
}

void Watch::happened(Hazard hazard, const char* first, const char* second, std::uint32_t pe,
                     const Flight& f, const char* promised, Ps promised_ps, Ps read_ps) {
  Happened& h = happened_[static_cast<std::size_t>(hazard)];
  if (h.count++ > 0) return;
  h.finding = seen_in_run(hazard, first, second);
  const auto ns = [&](Ps at_ps) {
    return fmt::format("{:.1f} ns", static_cast<double>(at_ps - begin_ps_) / kPsPerNs);
  };
  const std::string what =
      fmt::format("processing element {}, lane {}, message {} (queue {}, entry {})", pe,
                  f.request.lane, f.request.version, f.journey.queue, f.journey.index);
  h.first = fmt::format(
      "{}: {} at {}, {}", what, promised, ns(promised_ps),
      read_ps >= 0 ? fmt::format("{} at {}", first, ns(read_ps)) : fmt::format("{}: never", first));
}

void Watch::on_message(std::uint32_t pe, const Flight& f, const Flight*) {
  ++messages_;
  use_.wraps |= f.journey.index + 1 > program_.lane_depth();
  LaneState& s = state(pe, f.request.lane);
  const std::uint64_t version = f.request.version;
  if (version < s.base || version - s.base >= s.sent.size()) return;
  Sent& sent = s.sent[version - s.base];
  sent.done = true;
  if (f.source_read_ps >= 0) {
    if (sent.returned_ps >= 0 && sent.returned_ps < f.source_read_ps)
      happened(Hazard::kSource, "the NIC has read the source", "the call that completes it returns",
               pe, f, "the call that completes it returned", sent.returned_ps, f.source_read_ps);
    const auto k = static_cast<std::size_t>(f.request.kind);
    const std::uint64_t next = version - s.base + std::max(program_.lanes[k], 1U);
    if (options_.one_source && next < s.sent.size() && s.sent[next].start_ps < f.source_read_ps)
      happened(Hazard::kSource, "the NIC has read the source", "the next version is stored there",
               pe, f, "the next version was stored there", s.sent[next].start_ps, f.source_read_ps);
  }
  LaneState& r = state(f.request.peer, f.request.lane);
  if (brings_data(f.request.kind) && f.journey.bytes > 0 && program_.nic.present) {
    if (r.sender >= 0 && r.sender != static_cast<std::int64_t>(pe)) {
      r.many_senders = true;  // whose signal a wait has seen cannot be told
      r.waits.clear();
    }
    r.sender = pe;
    const std::uint64_t cover = s.sent[version - s.base].cover;
    // An acknowledgement may be back before the far memory has the last byte.
    const Ps placed_ps = f.placed_ps >= 0 ? f.placed_ps : std::max(f.completed_ps, f.acked_ps);
    if (cover >= r.first_wait && cover - r.first_wait < r.waits.size() &&
        r.waits[cover - r.first_wait] < placed_ps)
      happened(Hazard::kReader, "it is placed in the far memory",
               "the far lane reads behind its wait", pe, f, "the far lane's wait for it returned",
               r.waits[cover - r.first_wait], placed_ps);
  }
  LaneState& own = state(pe, f.request.lane);
  while (!own.sent.empty() && own.sent.front().done) {
    own.sent.pop_front();
    ++own.base;
  }
  // Waits for what has been placed are done with.
  const std::uint64_t open = own.sent.empty() ? own.cover : own.sent.front().cover;
  LaneState& far = state(f.request.peer, f.request.lane);
  while (!far.waits.empty() && far.first_wait < open) {
    far.waits.pop_front();
    ++far.first_wait;
  }
}

void Watch::on_unfinished(std::uint32_t pe, std::uint32_t queue, std::uint64_t index,
                          const Flight& f, const Flight* over) {
  use_.wraps |= index + 1 > program_.lane_depth();
  if (f.filler || f.fetched_ps >= 0 || f.started_ps < 0) return;
  if (!broken_.insert(std::uint64_t{pe} << 32 | queue).second) return;
  Flight named = f;
  named.journey.queue = queue;
  named.journey.index = index;
  if (over != nullptr)
    happened(Hazard::kSlot, "the NIC has read the entry", "another entry is written over it", pe,
             named, "another entry was written over it", over->written_ps, -1);
  else if (f.written_ps < 0 || f.written_ps > f.started_ps)
    happened(shares_queues_ ? Hazard::kOtherEntry : Hazard::kEntry, "the entry is written",
             "the NIC reads it", pe, named, "the NIC turned to it", f.started_ps, f.written_ps);
}

std::size_t Watch::kept() const {
  std::size_t n = 0;
  for (const auto& pe : lanes_)
    for (const LaneState& s : pe) n += s.sent.size() + s.waits.size();
  return n;
}

Hazards Watch::finish_run() {
  CheckOptions options;
  options.same_cta = options_.same_cta;
  options.caller_releases = options_.caller_releases;
  options.caller_acquires = options_.caller_acquires;
  options.most_states = kMostStatesOfARun;
  use_.shares_queues = shares_queues_;
  for (std::uint64_t code : sends_) {
    std::vector<OpKind> sends;
    for (; code != 0; code >>= 4) sends.push_back(static_cast<OpKind>((code & 0xf) - 1));
    std::reverse(sends.begin(), sends.end());
    use_.sends.push_back(std::move(sends));
  }
  options.use = use_;
  const CheckResult result = check(program_, options);
  Hazards hazards;
  hazards.run = run_;
  hazards.protocol = program_.protocol;
  hazards.ran = result.ran;
  hazards.cut_off = result.cut_off;
  hazards.states = result.states;
  hazards.messages = messages_;
  hazards.waits = waits_;
  const auto same = [](const Finding& a, const Finding& b) {
    return a.hazard == b.hazard && a.rule == b.rule && a.mend == b.mend;
  };
  for (const CheckFinding& found : result.findings)
    if (std::none_of(hazards.list.begin(), hazards.list.end(),
                     [&](const auto& one) { return same(one.can.finding, found.finding); }))
      hazards.list.push_back({found, 0, ""});
  for (const Happened& h : happened_) {
    if (h.count == 0) continue;
    // Lanes of the models load in program order: an early load is not what happened.
    auto it = std::find_if(hazards.list.begin(), hazards.list.end(), [&](const auto& one) {
      return one.can.finding.hazard == h.finding.hazard && one.can.finding.rule != "ptx-acquire" &&
             one.count == 0;
    });
    if (it == hazards.list.end())
      it = hazards.list.insert(it, {{"this run", h.finding, "", {}}, 0, ""});
    it->count = h.count;
    it->happened = h.first;
  }
  std::stable_sort(hazards.list.begin(), hazards.list.end(),
                   [](const auto& a, const auto& b) { return a.count > 0 && b.count == 0; });
  return hazards;
}

void write(std::ostream& out, const Hazards& h) {
  out << fmt::format(
      "\norder of '{}', {}: {} hazard{}; {} messages and {} waits followed, {} programs tried in "
      "every order\n",
      h.run, h.protocol, h.list.size(), h.list.size() == 1 ? "" : "s", h.messages, h.waits,
      h.ran.size());
  for (const std::string& name : h.cut_off)
    out << fmt::format("'{}' was cut off: what is not found there may still happen\n", name);
  for (const Hazards::One& one : h.list) {
    const Finding& f = one.can.finding;
    out << fmt::format("{}: {}\n", name(f.hazard).says,
                       one.count == 0   ? "can happen"
                       : one.count == 1 ? std::string("HAPPENED once")
                                        : fmt::format("HAPPENED {} times", one.count));
    if (one.count > 0) out << fmt::format("  {}\n", one.happened);
    out << fmt::format("  {} (in '{}')\n  assumed: {}\n  {}: {}\n  mend: {}\n", one_sentence(f),
                       one.can.scenario, f.assumed, f.rule, rule_named(f.rule)->says, f.mend);
    if (!one.can.reading.empty())
      out << fmt::format("  reading, not a verdict on the library: {}\n", one.can.reading);
  }
}

nlohmann::ordered_json to_json(const Hazards& h) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Hazards::One& one : h.list) {
    const Finding& f = one.can.finding;
    nlohmann::ordered_json item = {{"hazard", name(f.hazard).id},
                                   {"says", name(f.hazard).says},
                                   {"happened", one.count > 0},
                                   {"count", one.count},
                                   {"first", f.first},
                                   {"second", f.second},
                                   {"assumed", f.assumed},
                                   {"rule", f.rule},
                                   {"rule_says", rule_named(f.rule)->says},
                                   {"mend", f.mend},
                                   {"program", one.can.scenario}};
    if (one.count > 0) item["first_time"] = one.happened;
    if (!one.can.reading.empty()) item["reading"] = one.can.reading;
    if (!one.can.witness.empty()) item["witness"] = one.can.witness;
    list.push_back(item);
  }
  return {{"run", h.run},       {"protocol", h.protocol}, {"messages", h.messages},
          {"waits", h.waits},   {"programs", h.ran},      {"cut_off", h.cut_off},
          {"states", h.states}, {"hazards", list}};
}

}  // namespace marrow::order
