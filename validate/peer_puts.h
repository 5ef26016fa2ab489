// Many blocks' puts between two GPUs, predicted: marrow-probe's kernel as a recipe, run on the
// machine by as many lanes, beside what else it was measured beside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/system.h"
#include "sim/machine.h"

namespace marrow::validate {

/// One configuration of the probe's topic peers_loaded.
struct PutsCase {
  enum class Beside : std::uint8_t { kNothing, kCopyTo, kCopyFrom, kReadsHere, kReadsThere };
  std::uint32_t blocks = 1, threads = 256;
  std::uint64_t bytes = 16;  ///< of an item
  std::uint32_t items = 1;   ///< of all blocks in one turn
  bool bulk = false, both_ways = false;
  Beside beside = Beside::kNothing;
};

/// Medians, p10 and p90 over all blocks, in SM cycles.
struct PutsSpread {
  double median = 0, p10 = 0, p90 = 0;
};
struct PutsResult {
  PutsSpread issue;  ///< a turn's begin until its fence is through
  PutsSpread rtt;    ///< until the answer is seen
};

/// One row of validate/measurements/nvlink/*-puts.yaml.
struct PutsRow {
  std::string id;
  PutsCase the;
  double issue = 0, rtt = 0;  ///< measured medians, cycles
  bool fit = false;           ///< a parameter or cost rests on it
};
struct PutsTable {
  std::string system;
  double begin_spread_cycles = 0;  ///< within which the blocks of a kernel begin
  std::vector<PutsRow> rows;
};
/// Throws InputError for what the file lacks or what is not known.
PutsTable load_puts_table(const std::string& file);

class PeerPuts {
 public:
  /// Elaborates a machine: once a process. Throws InputError if the system has one GPU.
  PeerPuts(const config::SystemSpec& spec, std::string config_dir, double begin_spread_cycles);
  PutsResult predict(const PutsCase& the);

 private:
  const config::SystemSpec spec_;
  const std::string config_dir_;
  const double begin_spread_cycles_;
  sim::Machine machine_;
};

}  // namespace marrow::validate
