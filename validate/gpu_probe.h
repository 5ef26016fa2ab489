// Microbenchmarks of one GPU and its way to the host, as marrow-probe writes them: read, and
// predicted by the models.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/config/system.h"
#include "sim/machine.h"

namespace marrow::validate {

/// One measured row.
struct ProbeRow {
  std::string name;                               ///< "op"
  std::map<std::string, std::string> conditions;  ///< "op": "fence.sys", "where": "gpu"
  std::string unit;                               ///< "cycles", "ns", "GB/s", "GHz"
  double min = 0, p10 = 0, median = 0, p90 = 0;
  double median_low = 0, median_high = 0;  ///< of its rounds; the median where it had one
  std::optional<double> overhead;          ///< the measurement's own cost in them
  std::string place;                       ///< "file:line"
  const std::string& condition(const std::string& key) const;  ///< empty: it says none
};

/// A file of tools/probe (schema marrow.probe/1), or of the program before it, whose rows are of
/// the same shape.
struct ProbeFile {
  std::string path, gpu, date;  ///< date: empty where the file has none
  bool marrow_probe = false;    ///< written by tools/probe
  bool results_pending = true;  ///< the program's own results were on their way while it measured
  double none_cycles = 0;       ///< own cost of an operation's row: the row `op none`
  double stamp_cycles = 0;      ///< of a timed load: one by one less the chain timed as a whole
  bool clock_changed = false;
  bool whole = false;  ///< ends with the row that is measured last
  /// Facts of the header under the system's keys: "pcie.mps_bytes".
  std::vector<std::pair<std::string, double>> facts;
  std::vector<ProbeRow> rows;
};

/// Throws InputError naming file and line for what is no such file or row.
ProbeFile load_probe(const std::string& path);

enum class Statistic { kMin, kP10, kMedian, kP90, kWidth, kLowerWidth };

std::string_view name(Statistic statistic);

/// What of a row the models predict.
struct ProbeQuantity {
  std::size_t row = 0;
  Statistic statistic = Statistic::kMedian;
  std::string model;       ///< what predicts it: a name that GpuProbe knows
  double overhead = 0;     ///< own cost that `measured` no longer holds
  double measured = 0;     ///< in the row's unit
  double uncertainty = 0;  ///< standard error, what the row's rounds do not show included
};

struct ProbeReading {
  std::vector<ProbeQuantity> quantities;
  std::map<std::string, std::size_t> unpredicted;  ///< why, and how many rows
};

/// spec tells on whose side a word is whose row does not say it: that of the nearer latency.
ProbeReading read_quantities(const ProbeFile& file, const config::SystemSpec& spec);

/// "op fence.sys, gpu".
std::string label_of(const ProbeRow& row);

/// Elaborates a machine: once a process. Single operations run on it, from an idle path; bulk rates
/// are the links' arithmetic. Nothing varies: distances and jitter are zero where a median is
/// asked.
class GpuProbe {
 public:
  explicit GpuProbe(const config::SystemSpec& spec);

  /// In the unit of the rows that it predicts: cycles of the nominal SM clock, ns, GB/s, GHz.
  double predict(const std::string& model);

  const config::SystemSpec& spec() const { return spec_; }
  /// Median cycles that `timed` takes behind `before`; on words of this side.
  double cycles(const std::vector<Step>& before, const std::vector<Step>& timed, bool far);
  /// Median cycles from a flag's store until its answer is seen.
  double pingpong_cycles(ConsumerProgram::Where with, bool other_side);

 private:
  double run(const config::Recipe& recipe, std::size_t repeats, std::uint64_t gap_cycles,
             const std::function<void(Placement&)>& place, bool pingpong);

  const config::SystemSpec spec_;
  sim::Machine machine_;
  std::map<std::string, double> known_;
};

}  // namespace marrow::validate
