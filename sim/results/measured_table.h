// What a trace carries of a run as a whole (a benchmark's row) beside what the simulation shows.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/results/metrics.h"
#include "sim/results/recorder.h"
#include "traces/trace.h"

namespace marrow::results {

struct MeasuredRow {
  std::string run;
  trace::Summary measured;
  double predicted = 0;  ///< in the unit of what was measured
  double error() const { return predicted / measured.value - 1; }
};

/// Keeps what a run's summaries need to be predicted, one run at a time: the metrics of metrics.h
/// "iteration" (a lane's whole time by its rounds) and, of messages that a proxy posts,
/// "proxy_post" (that stage) and "post_to_completion" (from there until the proxy has passed the
/// completion on).
class MeasuredTable : public Recorder {
 public:
  void begin_run(std::uint32_t, std::string_view) override { finish(); }
  /// The run that has begun, with its summaries.
  void expect(const trace::Run& run);
  void on_journey(const Journey& journey) override;
  void on_operation(const Operation& operation) override;
  /// The last run has ended.
  void finish();

  /// Only of what the simulation shows too, and where the measured value is not 0.
  const std::vector<MeasuredRow>& rows() const { return rows_; }

 private:
  /// What the run showed of the metric, in ns, Mmsg/s or GB/s; empty: nothing.
  std::vector<double> sample_of(std::string_view metric) const;

  std::string run_;
  std::vector<trace::Summary> summaries_;
  std::uint64_t rounds_ = 0;
  Observed observed_;
  std::vector<double> posts_, completions_;  ///< ns, of messages that a proxy posted
  std::optional<Keeper> keeper_;             ///< while the run has something to compare with
  std::vector<MeasuredRow> rows_;
};

/// For people: medians, means, 99th percentiles and rates; nothing at all if there are none.
void write_table(std::ostream& out, const MeasuredTable& table);

}  // namespace marrow::results
