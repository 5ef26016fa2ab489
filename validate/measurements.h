// Predictions held against what papers have published: every cell of a table names a simulation
// and what to read off it. The tables are data (validate/measurements/*/*.yaml).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/provenance.h"
#include "sim/results/metrics.h"
#include "sim/work.h"
#include "validate/compare.h"
#include "validate/launch_probe.h"
#include "validate/pcie_bench.h"
#include "validate/peer_probe.h"

namespace marrow::validate {

using results::Metric;
using results::name;
using results::Observed;
using results::samples;
using sim::Work;

/// What is made of a metric that several simulations give.
enum class Take : std::uint8_t {
  kValue,          ///< one simulation: the metric itself
  kSlope,          ///< least squares, by what the sweep varies
  kClockCycles,    ///< C of T(f) = C / f + B, the sweep varying a clock in GHz; cycles
  kClockConstant,  ///< B of it
  kP99,            ///< one simulation: 99 % of its samples lie below
  kReach           ///< the sweep's first value whose metric is `at_least`
};

/// One simulation of a machine.
struct Scenario {
  std::string name, system, protocol;
  std::vector<std::string> sets;  ///< as --set
  std::map<std::string, std::string> choices;
  Work work;
  std::uint32_t draws = 0;  ///< placements that are pooled; 0: as the options say
  std::string not_covered;  ///< what is missing before it can be simulated; empty: nothing
  std::string place;        ///< "file:line"
};

/// A simulation with one of its settings varied: a parameter's key, "protocol.x", "choices.x" or
/// "work.x".
struct Sweep {
  std::string run, vary;
  std::vector<std::pair<std::string, double>> values;  ///< as written and as a number
};

/// A published value.
struct Cell {
  std::string id, what;
  std::string run, less;  ///< less: of another run, whose metric is taken away
  std::string sweep;      ///< instead of run
  std::string stage;      ///< what is read off: the metric's, the test's or the probe's name
  std::string system;     ///< Kind::kPcieBench, kLaunchProbe: on which
  LaunchCase launch;      ///< Kind::kLaunchProbe: which test
  PcieBenchCase pcie;     ///< the same: which case
  Metric metric = Metric::kIssue;
  Take take = Take::kValue;
  double at_least = 0;  ///< kReach, in the metric's own unit
  double value = 0;
  std::string unit;
  double per_unit = 1;  ///< what the prediction (ns, Mmsg/s, GB/s, cycles, ...) is multiplied with
  Role role = Role::kPredicted;
  std::string not_covered;  ///< why nothing predicts it; empty: something does
};

/// What predicts a table's cells.
enum class Kind : std::uint8_t { kSimulation, kPcieBench, kPeerProbe, kLaunchProbe };

struct Table {
  std::string file, id, title, source;
  Kind kind = Kind::kSimulation;
  PeerTable peer;  ///< kPeerProbe: its rows are those of the cells
  std::vector<Scenario> runs;
  std::map<std::string, Sweep> sweeps;
  std::vector<Cell> cells;
};

/// Reads one file, or all *.yaml of a folder and its folders by name. config_dir: where systems/
/// and protocols/ are. Throws InputError, naming file, line and key, for everything that is not as
/// described in validate/measurements/README.md.
std::vector<Table> load_measurements(const std::string& path, const std::string& config_dir);

/// The file of a system that is known by name.
std::string system_file(const std::string& name, const std::string& config_dir);

struct Line {
  double slope = 0, constant = 0;
};
/// Least squares; at least two different x.
Line fit_line(const std::vector<std::pair<double, double>>& points);

/// A cell's prediction from the metric of its simulations, in the order of the sweep's values
/// (or: the run's, then the other's that is taken away). Throws InputError if none reaches.
Spread predict(const Cell& cell, const Sweep& sweep, const std::vector<Spread>& metrics);

struct MeasurementOptions {
  std::string config_dir;
  std::vector<std::string> system_sets, protocol_sets;  ///< on top of every run's own
  std::uint64_t seed = 1;
  std::uint32_t seeds = 5;  ///< how many placements are pooled
  std::function<void(std::size_t done, std::size_t all)> on_progress;  ///< may be empty
};

/// The files that the predictions rest on; of the systems and recipes the costs.
config::Provenance provenance(const std::vector<Table>& tables, const MeasurementOptions& options);

struct Prediction {
  const Table* table = nullptr;
  const Cell* cell = nullptr;
  Spread predicted;   ///< in the cell's unit; a derived value has no p10 and p90 (NaN)
  double error = 0;   ///< predicted / measured - 1
  std::string fault;  ///< why there is no prediction; empty: there is one
};

/// Simulates what the tables ask for, each run in a process of its own, one a core. In the order of
/// the tables, without the cells that are not covered. `tables` must outlive the result.
std::vector<Prediction> predict(const std::vector<Table>& tables,
                                const MeasurementOptions& options);

/// Median and p90 of |error| over the rows that have a prediction.
Group group_of(const std::string& name, const std::vector<Prediction>& predictions,
               const std::function<bool(const Prediction&)>& takes);

void write_table(std::ostream& out, const std::vector<Table>& tables,
                 const std::vector<Prediction>& predictions, std::uint32_t seeds);
/// Schema "marrow.validate/1".
nlohmann::ordered_json as_json(const std::vector<Table>& tables,
                               const std::vector<Prediction>& predictions);

}  // namespace marrow::validate
