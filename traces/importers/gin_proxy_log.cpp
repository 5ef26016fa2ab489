// The TRACE lines of NCCL's GIN proxy: when it saw each descriptor, had handed it to the network
// plugin, and found it completed.
//
// Each process becomes a run, each of its contexts and targets a lane with a queue of its own (NCCL
// has a ring for each). The log is read once to learn them and twice more for each process, for
// what sums it up and for its operations, so that memory holds what is in flight and no more.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "models/common/error.h"
#include "traces/guess.h"
#include "traces/importers/importers.h"
#include "traces/importers/log.h"
#include "traces/importers/quantiles.h"
#include "traces/rules.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

constexpr std::string_view kMarker = " NCCL TRACE ";
constexpr std::string_view kSeenText = "GFD on context ";
constexpr std::string_view kSubmittedText = "GFD submitted into GIN plugin - ";
constexpr std::string_view kCompletedText = "GFD completed - ";
constexpr std::string_view kConsumedText = "Updated cis[";

// ncclGinProxyOp_t
constexpr std::uint64_t kPut = 1 << 0, kSignalInc = 1 << 3, kSignalAdd = 1 << 4, kVaSignal = 1 << 5,
                        kGet = 1 << 6, kFlush = 1 << 7, kKnownBits = 0xff;

struct LaneKey {
  std::uint64_t context = 0, target = 0;
  auto operator<=>(const LaneKey&) const = default;
};

struct Event {
  enum class What : std::uint8_t { kSeen, kSubmitted, kCompleted, kConsumed } what;
  std::string process;                             ///< "host:pid"
  double time_ms = 0;                              ///< since NCCL's start
  LaneKey lane;                                    ///< kSeen, kConsumed
  std::uint64_t context = 0, state = 0;            ///< all but kConsumed
  std::uint64_t raw_index = 0, op = 0, bytes = 0;  ///< kSeen
  std::uint64_t consumed = 0;                      ///< kConsumed: so many
};

/// The number behind `key`, whatever stands before it.
std::optional<std::uint64_t> field(std::string_view text, std::string_view key,
                                   std::uint64_t most = std::numeric_limits<std::uint32_t>::max()) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  const std::size_t end = text.find_first_not_of("0123456789");
  if (end != std::string_view::npos &&
      std::string_view(", ]").find(text[end]) == std::string_view::npos)
    return {};
  const auto value = to_whole(text.substr(0, end));
  return value && *value <= most ? value : std::nullopt;
}

/// "%#lx": 0x9, or 0
std::optional<std::uint64_t> hex_field(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  text = text.substr(0, text.find_first_of(", "));
  const bool prefixed = text.starts_with("0x");
  if (prefixed) text.remove_prefix(2);
  if (text.empty() || text.size() > 16) return {};
  std::uint64_t value = 0;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return {};
    value = value * 16 + static_cast<std::uint64_t>(digit);
  }
  return prefixed || value == 0 ? std::optional(value) : std::nullopt;
}

/// Reads the log's events; everything else in it is passed over.
class Events {
 public:
  explicit Events(const std::string& path) : log_(path) {}

  bool next(Event& event) {
    while (log_.next()) {
      const std::string_view line = log_.whole();
      std::size_t at = line.find(kMarker);
      const std::string_view text =
          at == std::string_view::npos ? line : line.substr(at + kMarker.size());
      const bool ours = text.starts_with(kSeenText) || text.starts_with(kSubmittedText) ||
                        text.starts_with(kCompletedText) ||
                        (text.starts_with(kConsumedText) && at != std::string_view::npos);
      if (!ours) {
        if (at == std::string_view::npos && (line.find(kSubmittedText) != std::string_view::npos ||
                                             line.find(kCompletedText) != std::string_view::npos))
          fail_no_time();
        continue;
      }
      if (at == std::string_view::npos) fail_no_time();
      log_.must_be_whole();
      take_prefix(line.substr(0, at), event);
      take(text, event);
      return true;
    }
    return false;
  }
  const Log& log() const { return log_; }

 private:
  [[noreturn]] void fail_no_time() const {
    log_.fail("the line has lost NCCL's prefix, and with it its time",
              "keep the lines as NCCL_DEBUG=TRACE writes them: "
              "host:pid:tid [device] milliseconds function:line NCCL TRACE ...");
  }

  /// "... host:pid:tid [0] 1234.567890 proxyGinPollGfd:204"
  void take_prefix(std::string_view prefix, Event& event) const {
    const std::vector<std::string_view> found = words(prefix);
    if (found.size() < 4) fail_no_time();
    const auto time = to_number(found[found.size() - 2]);
    const std::string_view device = found[found.size() - 3];
    const std::string_view thread = found[found.size() - 4];
    const std::size_t last = thread.rfind(':');
    if (!time || *time < 0 || *time > 1e12 || !device.starts_with('[') ||
        last == std::string_view::npos || last == 0)
      fail_no_time();
    event.time_ms = *time;
    // A launcher's prefix may stick to the host's name: "[1,0]<stdout>:node1:10:11".
    event.process = without_prefix(thread.substr(0, last));
  }

  void take(std::string_view text, Event& event) const {
    const auto need = [&](std::optional<std::uint64_t> value, const char* what) {
      if (!value)
        log_.fail(fmt::format("the line has no {}, or one out of range", what),
                  "is the line cut off or mixed up?");
      return *value;
    };
    if (text.starts_with(kConsumedText)) {
      event.what = Event::What::kConsumed;
      event.lane = {need(field(text, " for context "), "context"),
                    need(field(text, "cis["), "target")};
      event.consumed = need(field(text, "] to "), "number of consumed descriptors");
      return;
    }
    event.state = need(field(text, "stateIdx: "), "stateIdx");
    if (text.starts_with(kSeenText)) {
      event.what = Event::What::kSeen;
      event.lane = {need(field(text, kSeenText), "context"),
                    need(field(text, "target PE "), "target PE")};
      event.context = event.lane.context;
      event.raw_index = need(field(text, "raw idx: "), "raw idx");
      event.op = need(hex_field(text, "op: "), "op");
      event.bytes = need(field(text, "size: ", kMaxOpBytes), "size");
      return;
    }
    event.what =
        text.starts_with(kSubmittedText) ? Event::What::kSubmitted : Event::What::kCompleted;
    event.context = need(field(text, "contextId: "), "contextId");
    // What follows is the last field: a line cut behind a digit would go unseen.
    if (text.find("request: ") == std::string_view::npos) need({}, "request");
  }

  Log log_;
};

struct Process {
  std::map<LaneKey, std::uint64_t> puts;
  double first_ms = std::numeric_limits<double>::max();
};

class Importer {
 public:
  Importer(const std::string& in, const std::string& out, const ImportOptions& options)
      : path_(in),
        cycles_per_ms_(options.sm_clock_ghz * 1e6),
        writer_(out, {machine_of(in, options.machine),
                      file_name(in) + ": TRACE lines of NCCL's GIN proxy", options.sm_clock_ghz,
                      options.counters}) {}

  void import() {
    std::map<std::string, Process> processes = all_processes();
    for (const auto& [name, process] : processes) import_process(name, process);
    writer_.close();
  }

 private:
  struct Pending {
    std::size_t line = 0;
    double seen_ms = 0, submitted_ms = -1, completed_ms = -1;
    std::uint64_t raw_index = 0, op = 0, bytes = 0, state = 0;

    bool complete() const { return completed_ms >= 0; }
    /// NCCL logs the submission of puts alone.
    bool tells_submission() const { return (op & kPut) != 0; }
  };
  struct LaneState {
    std::uint32_t warp = 0;
    std::deque<Pending> pending;  ///< in the ring's order
    double last_seen_ms = 0;
  };

  std::map<std::string, Process> all_processes() const {
    std::map<std::string, Process> processes;
    Events events(path_);
    Event event;
    while (events.next(event)) {
      Process& process = processes[event.process];
      if (event.what != Event::What::kSeen) continue;
      ++process.puts[event.lane];
      process.first_ms = std::min(process.first_ms, event.time_ms);
    }
    if (processes.empty())
      found_nothing(path_, events.log().head(), "gin-proxy-log",
                    "has no line of NCCL's GIN proxy ('NCCL TRACE GFD on context ...')",
                    "build NCCL with TRACE=1, run with NCCL_DEBUG=TRACE NCCL_DEBUG_SUBSYS=NET");
    return processes;
  }

  void import_process(const std::string& name, const Process& process) {
    Run run;
    run.name = name;
    run.protocol = "gin-proxy";
    run.measured_stages = {"proxy_post"};
    run.epoch_ns = static_cast<std::uint64_t>(std::max(0.0, std::floor(process.first_ms * 1e6)));
    lanes_.clear();
    states_.clear();
    for (const auto& [key, puts] : process.puts) {
      const auto warp = static_cast<std::uint32_t>(lanes_.size());
      run.lanes.push_back({warp, std::nullopt, warp, 0, std::nullopt});
      run.puts_per_lane = std::max(run.puts_per_lane, puts);
      lanes_[key].warp = warp;
    }
    run.queues = static_cast<std::uint32_t>(run.lanes.size());
    if (run.lanes.empty()) {
      Events events(path_);
      Event event;
      while (events.next(event))
        if (event.process == name) fail_unseen(events.log(), event);
    }
    epoch_ms_ = static_cast<double>(run.epoch_ns) / 1e6;
    posts_ = completions_ = {};
    measuring_ = true;
    read_process(name);
    summarise("proxy_post", posts_, "from the descriptor's being seen to its submission", run);
    summarise("post_to_completion", completions_, "from there until the proxy found it completed",
              run);
    writer_.run(run);
    measuring_ = false;
    read_process(name);
  }

  static void summarise(const char* metric, const Quantiles& times, const char* note, Run& run) {
    if (times.count() == 0) return;
    for (const auto& [statistic, value] :
         {std::pair("min", times.min()), std::pair("median", times.median()),
          std::pair("mean", times.mean()), std::pair("p90", times.quantile(0.9)),
          std::pair("p99", times.quantile(0.99)), std::pair("max", times.max())})
      run.summaries.push_back({metric, statistic, value, "ns", times.count(), note});
  }

  /// One pass over the log for the process's operations.
  void read_process(const std::string& name) {
    states_.clear();
    for (auto& [key, lane] : lanes_) lane = {lane.warp, {}, 0};
    Events events(path_);
    Event event;
    while (events.next(event))
      if (event.process == name) take(events.log(), event);
    for (auto& [key, lane] : lanes_) {
      if (!lane.pending.empty() && !lane.pending.front().complete())
        throw InputError(events.log().place(lane.pending.front().line),
                         fmt::format("the operation of stateIdx {} in context {} is seen here and "
                                     "never completed",
                                     lane.pending.front().state, key.context),
                         "take the whole log, to the end of the program");
      while (!lane.pending.empty()) write(lane);
    }
  }

  [[noreturn]] static void fail_unseen(const Log& log, const Event& event) {
    log.fail(event.what == Event::What::kConsumed
                 ? fmt::format("context {} consumes descriptors that were never seen",
                               event.lane.context)
                 : fmt::format("stateIdx {} of context {} is {} without having been seen",
                               event.state, event.context,
                               event.what == Event::What::kSubmitted ? "submitted" : "completed"),
             "take the whole log, from the start of the program");
  }

  void take(const Log& log, const Event& event) {
    if (event.what == Event::What::kSeen) return take_seen(log, event);
    if (event.what == Event::What::kConsumed) {
      const auto lane = lanes_.find(event.lane);
      if (lane == lanes_.end()) fail_unseen(log, event);
      // A flush that needs nothing completes without a line of its own.
      for (Pending& p : lane->second.pending) {
        if (!before(p.raw_index, event.consumed) || p.complete()) continue;
        if ((p.op & kFlush) == 0)
          log.fail(fmt::format("stateIdx {} of context {}, seen in line {}, is consumed without "
                               "having been completed",
                               p.state, event.lane.context, p.line),
                   "take the whole log");
        complete(log, event, p);
      }
      return settle(lane->second);
    }
    const auto at = states_.find({event.context, event.state});
    if (at == states_.end()) fail_unseen(log, event);
    LaneState& lane = *at->second;
    const auto pending = std::find_if(lane.pending.begin(), lane.pending.end(), [&](const auto& p) {
      return p.state == event.state && !p.complete();
    });
    if (pending == lane.pending.end()) fail_unseen(log, event);
    if (event.what == Event::What::kSubmitted) {
      if (pending->submitted_ms >= 0)
        log.fail(
            fmt::format("stateIdx {} of context {} is submitted twice", event.state, event.context),
            "is the log two logs?");
      pending->submitted_ms = ordered(log, event, pending->seen_ms);
      return;
    }
    if (pending->tells_submission() && pending->submitted_ms < 0)
      log.fail(
          fmt::format("stateIdx {} of context {}, seen in line {}, is completed without having "
                      "been submitted",
                      event.state, event.context, pending->line),
          "take the whole log");
    complete(log, event, *pending);
    settle(lane);
  }

  void take_seen(const Log& log, const Event& event) {
    if ((event.op & ~kKnownBits) != 0 || event.op == 0)
      log.fail(fmt::format("operation {:#x} is not known", event.op),
               "known are the bits 0x1 to 0x80 of ncclGinProxyOp_t");
    LaneState& lane = lanes_.at(event.lane);
    for (const Pending& p : lane.pending)
      if (p.state == event.state && !p.complete())
        log.fail(
            fmt::format("stateIdx {} of context {} is seen again, but its operation of line {} "
                        "was never completed",
                        event.state, event.context, p.line),
            "take the whole log");
    if (!lane.pending.empty() && !follows(lane.pending.back().raw_index, event.raw_index))
      log.fail(fmt::format("raw idx {} follows on {} of the same context and target",
                           event.raw_index, lane.pending.back().raw_index),
               "take the whole log");
    const double seen_ms = ordered(log, event, lane.last_seen_ms);
    lane.last_seen_ms = seen_ms;
    lane.pending.push_back(
        {log.number(), seen_ms, -1, -1, event.raw_index, event.op, event.bytes, event.state});
    states_[{event.context, event.state}] = &lane;
    settle(lane);
  }

  // The indices are 32 bits wide and go round.
  static bool before(std::uint64_t index, std::uint64_t other) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(other - index)) > 0;
  }
  static bool follows(std::uint64_t index, std::uint64_t next) {
    return static_cast<std::uint32_t>(index + 1) == static_cast<std::uint32_t>(next);
  }

  static double ordered(const Log& log, const Event& event, double not_before_ms) {
    if (event.time_ms < not_before_ms)
      log.fail("the time is before that of the operation's line above",
               "keep each process's lines in their order");
    return event.time_ms;
  }

  static void complete(const Log& log, const Event& event, Pending& p) {
    p.completed_ms = ordered(log, event, std::max(p.seen_ms, p.submitted_ms));
  }

  /// Writes what is complete and whose successor is known, in the ring's order.
  void settle(LaneState& lane) {
    while (lane.pending.size() > 1 && lane.pending.front().complete()) write(lane);
  }

  std::uint32_t cycles(double ms) const {
    return static_cast<std::uint32_t>(
        std::clamp(std::round(ms * cycles_per_ms_), 0.0, 4294967295.0));
  }

  void write(LaneState& lane) {
    const Pending p = lane.pending.front();
    lane.pending.pop_front();
    Op op;
    op.kind = (p.op & kVaSignal) != 0                   ? OpKind::kAtomic
              : (p.op & kGet) != 0                      ? OpKind::kGet
              : (p.op & kFlush) != 0                    ? OpKind::kQuiet
              : (p.op & (kSignalInc | kSignalAdd)) != 0 ? OpKind::kPutSignal
                                                        : OpKind::kPut;
    op.warp = lane.warp;
    op.bytes = op.kind == OpKind::kAtomic ? 8 : op.kind == OpKind::kQuiet ? 0 : p.bytes;
    // What is only posted once the one before has completed waits for it: the replay keeps that.
    const bool last = lane.pending.empty();
    op.wait = op.kind != OpKind::kQuiet && (last || lane.pending.front().seen_ms >= p.completed_ms);
    op.flush = op.wait;
    if (!last && op.wait) op.compute_cycles = cycles(lane.pending.front().seen_ms - p.completed_ms);
    // Of other operations than puts NCCL logs no submission.
    const double post_ms = p.submitted_ms < 0 ? 0 : p.submitted_ms - p.seen_ms;
    if (measuring_) {
      if (p.submitted_ms < 0) return;
      posts_.add(post_ms * 1e6);
      completions_.add((p.completed_ms - p.submitted_ms) * 1e6);
      return;
    }
    Measured m;
    m.start_ns = static_cast<std::uint64_t>(std::llround((p.seen_ms - epoch_ms_) * 1e6));
    m.stage_cycles = {cycles(post_ms)};
    m.index = p.raw_index;
    m.consumer_seen_ns = std::round(p.seen_ms * 1e6);
    m.consumer_done_ns = std::round((p.completed_ms - p.seen_ms) * 1e6);
    op.measured = m;
    writer_.op(op);
  }

  std::string path_;
  double cycles_per_ms_;
  Writer writer_;
  double epoch_ms_ = 0;
  bool measuring_ = false;
  Quantiles posts_, completions_;  ///< ns, of the process's puts
  std::map<LaneKey, LaneState> lanes_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, LaneState*> states_;  ///< by context, stateIdx
};

}  // namespace

void import_gin_proxy_log(const std::string& in, const std::string& out,
                          const ImportOptions& options) {
  Importer(in, out, options).import();
}

}  // namespace marrow::trace
