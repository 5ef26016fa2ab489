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

/// What a device counted while the trace's work was done.
struct Counter {
  std::string device;  ///< "mlx5_0/1"
  std::string name;    ///< "rx_write_requests"
  double value = 0;
  std::string unit;   ///< empty: a count
  std::string taken;  ///< "difference" (of two snapshots), "snapshot"; "total", "mean", "max"
};

struct Header {
  std::string machine;
  std::string origin;
  double sm_clock_ghz = 0;  ///< 0: no captured times
  std::vector<Counter> counters = {};
  std::map<std::string, std::string> facts = {};  ///< of a capture's machine; none that names it
  double l2_near_cycles = 0;  ///< mean of Sight::cycles over near lines, or over all
  double l2_far_cycles = 0;   ///< and over far ones; 0: there are none, or nothing was measured
};

/// A number that sums up a run, as a benchmark prints it.
struct Summary {
  std::string metric;     ///< "one_way", "put_completion", "iteration", "rate", "goodput", ...
  std::string statistic;  ///< "mean", "median", "min", "max", "stdev", "p99", "p99.9", ...
  double value = 0;
  std::string unit;         ///< "us", "MiB/s", "Mmsg/s", ...
  std::uint64_t count = 0;  ///< iterations behind it; 0: unknown
  std::string note;         ///< for a person: "half of a round trip"
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

/// A copy engine's, across NVLink, for as long as the run's lanes have work.
struct NvlinkCopy {
  std::uint32_t from = 0, to = 0;  ///< processing elements
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

/// How far a word's line is from the SM of a warp, measured while nothing else ran.
struct Sight {
  std::uint32_t warp = 0;
  std::uint32_t cycles = 0;  ///< of a compare-and-swap, with the cost of reading the clock
  bool far = false;
};

/// Where a word of a queue lay in GPU memory; of an entry ring, one 4 KiB page.
struct PlacedWord {
  std::string word;  ///< as the recipe calls it
  std::uint32_t queue = 0;
  std::uint32_t first_entry = 0;
  std::uint64_t address = 0;  ///< virtual
  std::vector<Sight> seen;
  std::optional<Sight> from_consumer = std::nullopt;  ///< from Run::consumer_sm; no warp
};

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
  std::vector<Summary> summaries;  ///< what was measured of the run as a whole
  /// Why the run cannot be simulated; empty: it can. Only then may the protocol be empty.
  std::string not_replayable;
  std::vector<PlacedWord> words = {};  ///< none: not known, to be inferred
  double put_cycles = 0;               ///< mean of a put, from a warp's first put to its last
  double put_unstamped_cycles = 0;     ///< the same of a run without stamps; 0: not measured
  std::string consumer = {};           ///< device, peer, host, nic; empty: not told
  std::optional<std::uint32_t> consumer_sm = std::nullopt;  ///< of a warp on the same GPU
  /// Above 0: a CPU's times are translated to the GPU's clock, known to +- this.
  double consumer_clock_bound_ns = 0;
  bool clock_changed = false;  ///< the SM clock moved meanwhile
  std::uint32_t peers = 1;     ///< queues lead in turn to so many other elements
  std::vector<Traffic> traffic = {};
  std::vector<NvlinkCopy> nvlink_copies = {};
  std::vector<std::uint32_t> l2_readers = {};  ///< GPUs whose SMs read their L2 meanwhile
};

struct Measured {
  /// A GPU's globaltimer, or the clock of the host that captured; after Run::epoch_ns.
  std::uint64_t start_ns = 0;
  std::vector<std::uint32_t> stage_cycles;  ///< in the order of Run::measured_stages
  std::uint32_t polls = 0;
  std::uint64_t index = 0;  ///< position in the queue
  bool rang = false;
  bool timed_out = false;  ///< the program gave up waiting
  // the consumer's side, 0 where unknown
  /// A GPU's globaltimer after Run::epoch_ns; a CPU's own clock, unless that was translated.
  double consumer_seen_ns = 0;
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
