// Where the time went: a distribution for each stage, per run and over all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/results/quantiles.h"
#include "sim/results/recorder.h"

namespace marrow::results {

/// One line of a table. Only what occurred (count > 0) has a line.
struct StageRow {
  std::string_view stage;       ///< a stage's name, or "completion", "put", "end_to_end"
  const Distribution* times{};  ///< of the messages that count here
  double share = 0;    ///< sum of these times over the sum of end-to-end times of all messages
  bool tiles = false;  ///< a stage: the shares of all stages add up to 1
};

/// The times of some messages, stage by stage.
class StageTimes {
 public:
  void add(const Journey& journey);
  void merge(const StageTimes& other);

  std::uint64_t messages() const { return end_to_end_.count(); }
  /// In the order of the stages; then the three views of the whole:
  ///  - a stage counts the messages that passed it, that is, whose stage_ps is above 0;
  ///  - "completion", the lane's own wait, counts the messages that were waited for;
  ///  - "put", issue and own wait as the lane sees them, and "end_to_end" count every message.
  /// The rows point into this object.
  std::vector<StageRow> rows() const;

 private:
  std::array<Distribution, kStageCount> stages_;
  Distribution completion_, put_, end_to_end_;
};

class StageTable : public Recorder {
 public:
  struct Run {
    std::string name;
    StageTimes times;
  };

  void begin_run(std::uint32_t index, std::string_view name) override;
  void on_journey(const Journey& journey) override;

  /// By index in the trace. A journey of a run that was never begun makes a run "run <index>".
  const std::map<std::uint32_t, Run>& runs() const { return runs_; }
  StageTimes total() const;

 private:
  Run& run(std::uint32_t index);

  std::map<std::uint32_t, Run> runs_;
  Run* last_ = nullptr;  // the map's node: messages come run by run
  std::uint32_t last_index_ = 0;
};

/// A table for people: every run, then all runs together where there are several.
/// Times in ns; UTF-8.
void write_table(std::ostream& out, const StageTable& table);
void write_table(std::ostream& out, std::string_view heading, const StageTimes& times);

/// One line for each run and row: run,stage,count,median_ns,p90_ns,p99_ns,mean_ns,share. The total
/// is left out, so that a sum over the lines counts nothing twice.
void write_csv(std::ostream& out, const StageTable& table);

}  // namespace marrow::results
