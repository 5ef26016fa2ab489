// Microbenchmarks between two GPUs, predicted: single operations run on the machine, ping-pong by
// the two polling loops, bulk traffic by the links' arithmetic.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/config/system.h"
#include "sim/machine.h"

namespace marrow::validate {

/// One row of validate/measurements/nvlink/h200x2-f-peer.yaml.
struct PeerRow {
  std::string name;                               ///< as in the probe: "peer_op"
  std::map<std::string, std::string> conditions;  ///< "op": "ld8"
  std::string unit;                               ///< "cycles", "GB/s", "ns_per_store"
  double measured = 0;
  bool fit = false;   ///< a parameter or cost rests on it
  std::string place;  ///< "file:line"
};

/// The measuring programs' own time, as the file states it: cycles of the SM clock, us.
struct PeerCosts {
  double stamp_cycles = 0, aggregated_add_cycles = 0, pingpong_poll_cycles = 0;
  double put_setup_cycles = 0, put_lane_round_cycles = 0, put_warp_round_cycles = 0,
         put_warp_issue_cycles = 0;
  double kernel_us = 0;
};

struct PeerTable {
  std::string system;
  PeerCosts costs;
  std::vector<PeerRow> rows;
};

/// Throws InputError for what the file lacks or what is not known.
PeerTable load_peer_table(const std::string& file);

class PeerProbe {
 public:
  /// Elaborates a machine: once a process. Throws InputError if the system has one GPU.
  PeerProbe(const config::SystemSpec& spec, const PeerCosts& costs);

  /// The row's median, in its unit. Throws InputError for a row that no model is for.
  double predict(const PeerRow& row);

 private:
  double load_cycles(const PeerRow& row);
  double operation_cycles(const PeerRow& row);
  /// Runs the steps from an idle path, again and again; the median of what they take.
  double run_cycles(std::vector<Step> steps);
  double pingpong_cycles(double beside_copy_ns, double issue_cycles);
  double put_issue_cycles(std::uint64_t bytes, std::uint64_t threads) const;

  const config::SystemSpec spec_;
  const PeerCosts costs_;
  sim::Machine machine_;
};

}  // namespace marrow::validate
