// The raw data, for people who want to analyse it themselves.
#pragma once

#include <ostream>
#include <string>

#include "sim/results/recorder.h"

namespace marrow::results {

/// Writes one line a message as messages complete: run, warp, sm, queue, index, op, start_ns, every
/// stage ("<stage>_ns", 0 where the message did not pass it), completion_ns (empty where the lane
/// did not wait), polls, rang, put_ns, end_to_end_ns. Times are exact to the picosecond.
class MessageCsv : public Recorder {
 public:
  /// Writes the heading at once; `out` must outlive this.
  explicit MessageCsv(std::ostream& out);
  void begin_run(std::uint32_t index, std::string_view name) override;
  void on_journey(const Journey& journey) override;

 private:
  std::ostream& out_;
  std::string run_;
};

}  // namespace marrow::results
