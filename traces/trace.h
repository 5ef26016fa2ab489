// Reading and writing trace files (traces/format/trace.proto) in constant memory.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace marrow::trace {

enum class OpKind : std::uint8_t {
  kPut = 1,
  kPutSignal,
  kGet,
  kAtomic,
  kFence,
  kQuiet,
  kWait,
  kBarrier,
  kCompute
};

struct Header {
  std::string machine;
  std::string origin;
  double sm_clock_ghz = 0;  ///< 0: no captured times
};

struct Lane {
  std::uint32_t warp = 0;
  std::optional<std::uint32_t> sm;  ///< nothing: the model places it
  std::uint32_t queue = 0;
  std::uint32_t pe = 0;                              ///< processing element it runs on
  std::optional<std::uint32_t> peer = std::nullopt;  ///< the one it talks to; nothing: the next
  bool background = false;  ///< its operations repeat until all other lanes are done
  double period_ns = 0;     ///< an operation begins so long after the last one, at the earliest
  /// Messages go to so many queues in turn, `visit_stride` apart, `puts_per_visit` to each before
  /// the next. 0: to `queue` alone.
  std::uint32_t visits = 0, visit_stride = 0;
  std::uint64_t puts_per_visit = 0;
};

/// Bytes that pass a place evenly for as long as the run's lanes have work.
struct Traffic {
  enum class Place : std::uint8_t { kGpuLinkUp, kGpuLinkDown, kNicLinkUp, kNicLinkDown, kWire };
  Place place = Place::kGpuLinkUp;  ///< kWire: the switch's port towards the element's NIC
  std::uint32_t pe = 0;
  double gbps = 0;          ///< of payload
  std::uint64_t bytes = 0;  ///< that come at once
};
/// By Traffic::Place: "gpu_link_up", ...
inline constexpr std::array<std::string_view, 5> kTrafficPlaces = {
    "gpu_link_up", "gpu_link_down", "nic_link_up", "nic_link_down", "wire"};

struct Run {
  std::string name;
  std::string protocol;
  std::map<std::string, std::string> choices;
  std::vector<Lane> lanes;
  std::uint32_t queues = 1;
  std::uint64_t puts_per_lane = 0;
  std::vector<std::string> measured_stages;
  /// Globaltimer value from which Measured::start_ns counts, and consumer_seen_ns where the
  /// consumer is a GPU: a double cannot hold an absolute globaltimer to better than 256 ns.
  std::uint64_t epoch_ns = 0;
  std::uint32_t peers = 1;  ///< queues lead in turn to so many other elements
  std::vector<Traffic> traffic;
};

struct Measured {
  std::uint64_t start_ns = 0;               ///< globaltimer, after Run::epoch_ns
  std::vector<std::uint32_t> stage_cycles;  ///< in the order of Run::measured_stages
  std::uint32_t polls = 0;
  std::uint64_t index = 0;  ///< position in the queue
  bool rang = false;
  bool timed_out = false;  ///< the program gave up waiting
  // the consumer's side, 0 where unknown
  double consumer_seen_ns = 0;  ///< a GPU's globaltimer after Run::epoch_ns, or a CPU's own clock
  double consumer_read_ns = 0;  ///< from seen until the entry was read
  double consumer_done_ns = 0;  ///< from read until the completion was written
};

struct Op {
  OpKind kind = OpKind::kPut;
  std::uint32_t warp = 0;
  std::uint64_t bytes = 0;
  bool flush = false;
  bool wait = false;
  std::uint64_t compute_cycles = 0;
  std::uint64_t count = 1;
  std::optional<Measured> measured;
};

/// Lower-case name of an operation kind: "put_signal".
std::string_view name(OpKind kind);

/// Reads a trace file front to back.
/// Throws InputError, naming file, record and run, on a missing, foreign, truncated or corrupt
/// file, on a format version from the future and on a run or operation that breaks the format's
/// rules.
class Reader {
 public:
  explicit Reader(const std::string& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Header& header() const;
  /// The next run, skipping what is left of the current one; nothing at the end of the file.
  std::optional<Run> next_run();
  /// Fills op with the current run's next operation; false at the run's end.
  bool next_op(Op& op);
  /// Starts again at the first run.
  void rewind();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes a trace file; the file appears under its name only when close() has succeeded.
/// Holds what it writes to the rules that Reader checks, and throws InputError like it.
class Writer {
 public:
  /// gzip_level: 1 (fast) to 9 (small).
  Writer(const std::string& path, const Header& header, int gzip_level = 6);
  ~Writer();  ///< without close(): removes what was written
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void run(const Run& run);
  void op(const Op& op);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace marrow::trace
