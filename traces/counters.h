// Counters that a trace carries, held against its own operations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/trace.h"

namespace marrow::trace {

/// What operations ask of the NIC at their target.
struct Requests {
  double writes = 0, reads = 0, atomics = 0;
  void add(const Op& op);
};

/// A counter of the trace's devices, summed up over them, and what it should be.
struct CounterCheck {
  std::string name;
  double counted = 0, expected = 0;
};

/// One for each of rx_write_requests, rx_read_requests and rx_atomic_requests that the trace
/// carries, if there are operations at all.
std::vector<CounterCheck> check_counters(const Header& header, const Requests& requests);

}  // namespace marrow::trace
