// A system's parameters fitted to what was measured on one machine: probe files and captures.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/config/parameters.h"
#include "sim/sweep/jobs.h"
#include "sim/sweep/journal.h"
#include "validate/calibrate/fit.h"
#include "validate/gpu_probe.h"

namespace marrow::calibrate {

struct Inputs {
  std::string system;      ///< file
  std::string config_dir;  ///< of the recipes that captures name
  std::vector<std::string> probes, captures;
  std::vector<std::string> keys;  ///< to fit; empty: see `group`
  std::string group;              ///< "gpu.fence"; empty: all whose value is no plain fact
  double hold_out = 0.2;          ///< share of the rows, of those with others like them
  std::uint64_t seed = 1;         ///< draws what is held out and the starts
};

/// One measured value with its source.
struct Row {
  std::string file, place, label, unit;  ///< place: "file:line" where there are lines
  std::string kind;                      ///< rows of one kind are predicted by the same numbers
  Datum datum;
};

/// What is fitted to what. Every rank makes the same of the same inputs.
class Problem {
 public:
  /// Throws InputError for files and keys that are not good.
  explicit Problem(const Inputs& inputs);

  const Inputs& inputs() const { return inputs_; }
  const config::ParameterSet& parameters() const { return parameters_; }
  const std::vector<Knob>& knobs() const { return knobs_; }
  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Why rows of the probes are not predicted, and how many.
  const std::map<std::string, std::size_t>& unpredicted() const { return unpredicted_; }
  /// "2026-11-29"; empty where no file has one.
  std::string dates() const;
  /// Of everything that the result rests on.
  std::string fingerprint() const;

  /// A point as a job's text, and what it comes to: the predictions, or {"error": "..."}.
  static std::string job_text(const std::vector<double>& point);
  std::string work(const sweep::Job& job) const;

 private:
  void choose_knobs();
  void read_probes();
  void read_captures();
  void hold_out();
  std::vector<double> predict(const std::vector<double>& point) const;

  Inputs inputs_;
  config::ParameterSet parameters_;
  std::vector<Knob> knobs_;
  std::vector<Row> rows_;
  std::vector<std::string> models_;  ///< of the rows of probes, which come first
  std::vector<std::string> dates_;
  std::vector<std::string> warnings_;
  std::map<std::string, std::size_t> unpredicted_;
};

/// Fits on this rank; `runner` works on evaluations. Those in the journal are not repeated.
/// Throws InputError if an evaluation fails.
Fit solve(const Problem& problem, sweep::JobRunner& runner, sweep::Journal& journal,
          const FitOptions& options, const std::function<void(std::size_t fresh)>& on_done);

/// The overlay: a fragment that a system can include.
void write_overlay(std::ostream& out, const Problem& problem, const Fit& fit,
                   const std::string& name);
void write_table(std::ostream& out, const Problem& problem, const Fit& fit);
/// Schema "marrow.calibrate/1".
nlohmann::ordered_json as_json(const Problem& problem, const Fit& fit);

}  // namespace marrow::calibrate
