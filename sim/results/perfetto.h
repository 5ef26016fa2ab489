// A timeline for ui.perfetto.dev.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string_view>

#include "sim/results/recorder.h"

namespace marrow::results {

/// Writes Perfetto's own trace format as messages complete, packed
/// (TracePacket.compressed_packets), in memory that grows with what is in flight at a time but not
/// with the length of the trace.
///
/// Each run is a process "marrow: <run>". In it:
///  - "GPU 0" > "SM 125" > "warp 3": its puts, in them the steps of the issue and the lane's own
///    wait ("completion");
///  - "NIC 0", "wire of NIC 0", "far side of NIC 0", "host 0": a track for each stage of the
///    messages that GPU 0 has sent, named as the stage;
///  - "queues of GPU 0": for each queue, how many messages are in flight;
///  - each block and link that reports activity, its first 100,000 activities, and how busy it is,
///  in
///    percent of every us.
/// Arrows (flows) lead from a put along its message's stages. What overlaps on a track goes to
/// further tracks of the same name, so that slices nest as they should; viewers show them as one.
/// What was measured stands beside it in a process "measured: <run>".
///
/// Times are those of the simulation, rounded to whole ns; every run counts from where it began.
class PerfettoWriter : public Recorder {
 public:
  /// `out` must be open in binary mode and outlive this.
  explicit PerfettoWriter(std::ostream& out);
  ~PerfettoWriter() override;

  void begin_run(std::uint32_t index, std::string_view name) override;
  void on_journey(const Journey& journey) override;
  void on_activity(const Activity& activity) override;
  bool wants_activity() const override { return true; }

  /// A journey as it was measured, of the run last begun; start_ps counts from the run's beginning.
  void measured(const Journey& journey);

  /// Hands everything to the stream. Whether it arrived, the stream's state tells.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace marrow::results
