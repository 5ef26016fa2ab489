// Reading and writing trace files (traces/format/trace.proto) in constant memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace marrow::trace {

enum class OpKind : std::uint8_t {
  kPut = 1, kPutSignal, kGet, kAtomic, kFence, kQuiet, kWait, kBarrier, kCompute
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
};

struct Run {
  std::string name;
  std::string protocol;
  std::map<std::string, std::string> choices;
  std::vector<Lane> lanes;
  std::uint32_t queues = 1;
  std::uint64_t puts_per_lane = 0;
  std::vector<std::string> measured_stages;
};

struct Measured {
  std::uint64_t start_ns = 0;
  std::vector<std::uint32_t> stage_cycles;
  std::uint32_t polls = 0;
  std::uint64_t index = 0;
  bool rang = false;
  bool timed_out = false;
  double consumer_seen_ns = 0;
  double consumer_read_ns = 0;
  double consumer_done_ns = 0;
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

/// Reads a trace file front to back.
/// Throws InputError, naming file and record, on a missing, foreign, truncated or corrupt file and
/// on a format version from the future.
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
class Writer {
 public:
  Writer(const std::string& path, const Header& header);
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
