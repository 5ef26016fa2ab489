// Predicted against measured, stage by stage.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine.h"
#include "sim/sweep/uncertainty.h"
#include "traces/trace.h"
#include "validate/placement.h"

namespace marrow::validate {

/// "fit": parameters were fitted to this run; "placement": only the L2 placement was read off it;
/// "predicted": neither.
enum class Role : std::uint8_t {
  kFit,
  kPlacement,
  kPredicted,
  kShown  ///< a prediction that no bound is put on: in no summary
};
std::string_view name(Role role);

struct Spread {
  double median = 0, p10 = 0, p90 = 0;
  double p99 = 0;  ///< of a published measurement's simulation
};

struct Row {
  std::string run;    ///< the trace's name of the run: "cfg 4"
  std::string stage;  ///< stage name, "completion" (the lane's own wait), or "put"
  Role role = Role::kPredicted;
  std::string unit = "cycles";
  Spread measured, predicted;            ///< "put": means instead of medians
  double error = 0;                      ///< predicted / measured - 1
  std::optional<double> baseline_error;  ///< of repeating the first uncontended run's value
  bool stable = true;                    ///< the halves of the measurement agree within 15 %
  bool scored = true;                    ///< the measured median is at least 100 cycles
  bool within = true;  ///< the predicted median lies within the measured p10 to p90
  /// Where the median lies with 90 %, by the parameters' intervals and the models' own error.
  std::optional<results::Interval> interval;
  bool inside() const {  ///< is the measured median in it?
    return interval && interval->low <= measured.median && measured.median <= interval->high;
  }
  bool hard() const { return baseline_error && std::abs(*baseline_error) > 0.10; }
};

struct Group {
  std::string name;
  std::size_t rows = 0;
  double median_abs_error = 0, p90_abs_error = 0;
  std::string worst_run, worst_stage;
  double worst_error = 0;
};

/// A row's error, predicted / measured - 1.
struct Missed {
  std::string_view run, stage;
  double error = 0;
};
/// Median and p90 of |error|, and the worst.
Group group_of(const std::string& name, const std::vector<Missed>& rows);

/// How often the stated intervals hold.
struct Coverage {
  std::size_t rows = 0, inside = 0;
  double share() const {
    return rows ? static_cast<double>(inside) / static_cast<double>(rows) : 0;
  }
};

struct Comparison {
  std::string system, trace;
  std::string machine;  ///< that the trace was captured on
  std::vector<Row> rows;
  std::vector<std::string> placement_runs;
  std::size_t unstable = 0, unstable_within = 0;

  /// Over stable scored rows: all, hard, put, each over every role and over predicted rows alone.
  std::vector<Group> groups() const;
  /// Over stable scored rows with an interval: those that nothing was fitted to, or all.
  Coverage coverage(bool predicted_alone) const;
};

struct Options {
  std::string config_dir;
  std::string system;
  std::string trace_file;
  std::vector<std::string> only;  ///< run names or "cfg=4"; empty: all
  std::vector<std::string> protocol_sets;
  std::uint64_t seed = 1;
  std::string placement_from;  ///< another trace of the same allocation; empty: this one
  Observer* observer = nullptr;
  /// The recipe of each run before it is simulated; may be empty.
  std::function<void(const config::Recipe&)> on_recipe;
};

/// base: the system as its file has it, with which the placement is inferred; machine: the one to
/// compare, the same where nothing is changed. Throws InputError if the trace holds no captured
/// times.
Comparison compare(sim::Machine& machine, sim::Machine& base, const config::SystemSpec& base_spec,
                   const Options& options);

/// The predicted medians by name, as sweep::intervals_of() takes them, and their intervals.
std::map<std::string, double> medians(const Comparison& comparison);
/// error_percent: the models' own, besides the parameters' (prediction.stage_error_percent).
void add_intervals(Comparison& comparison, const results::Intervals& intervals,
                   double error_percent);

void write_table(std::ostream& out, const Comparison& comparison);
/// Schema "marrow.validate/1".
nlohmann::ordered_json as_json(const Comparison& comparison);
nlohmann::ordered_json as_json(const Group& group);

}  // namespace marrow::validate
