// What the commands of the command line share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/parameters.h"
#include "sim/config/recipe.h"
#include "sim/sweep/ranks.h"
#include "sim/sweep/uncertainty.h"
#include "traces/atomic_file.h"

namespace marrow::cli {

/// What a command decides to do once its arguments are read; returns the exit code.
using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);
void add_litmus(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);

/// configs/ that a system file belongs to (its parent's parent), else the installed one.
std::string config_dir_of(const std::string& system_file);

/// Before a command works for minutes: throws InputError if an output file that it is to write
/// cannot be written, is one of its inputs, or is named by two of its options (it would be lost
/// without a word).
void check_outputs(const CLI::App& command);

/// Does what a command spreads over the ranks that mpirun started. What it throws is told first
/// where there are several.
int over_ranks(const std::function<int(sweep::Ranks&)>& work);

/// "protocol.x=v" assignments without their prefix, and the others.
struct Sets {
  std::vector<std::string> system, protocol;
};
Sets split_sets(const std::vector<std::string>& sets);

/// Which of the changes that were asked for anything uses, over all recipes that were run.
class SetsInUse {
 public:
  void add(const config::Recipe& recipe);
  /// Tells of the others on standard error.
  void warn(const Sets& sets) const;

 private:
  std::map<std::string, bool> changed_;
  bool any_ = false, nic_ = false, peer_ = false;
};

/// Writes a JSON file, whole or not at all. Names in it need not be UTF-8.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

/// A trace, or a workload written in YAML (its name ends with .yaml), to be read as one.
class TraceFile {
 public:
  /// Throws InputError like the importer of workloads.
  explicit TraceFile(const std::string& path);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<Temporary> temporary_;
};

/// One sample of what is not known exactly.
struct Drawn {
  sweep::Drawn values;
  std::uint64_t seed = 1;
};
/// Bands of the named results over samples of the parameters' intervals; none for 0 samples. Shows
/// progress.
results::Intervals sample_intervals(
    std::size_t samples, std::size_t jobs, const config::ParameterSet& parameters,
    std::uint64_t seed, const std::function<std::map<std::string, double>(const Drawn&)>& work);
/// --intervals [N] and -j.
CLI::Option* add_intervals(CLI::App* command, std::size_t& samples, std::size_t& jobs);

extern const char* const kSetHelp;

}  // namespace marrow::cli
