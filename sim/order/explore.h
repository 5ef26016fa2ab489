// Every order of a small program that the rules allow, the shortest first.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "sim/order/machine.h"

namespace marrow::order {

struct Exploration {
  struct Found {
    Finding finding;
    std::vector<std::string> witness;  ///< what happens, line by line, up to it
  };
  std::vector<Found> found;                ///< each hazard once
  std::set<std::vector<Word16>> outcomes;  ///< results of all ends that were reached
  /// Witness of the outcome that was asked for, if it was reached.
  std::vector<std::string> wanted;
  std::size_t states = 0;
  bool cut_off = false;  ///< more states than allowed: what is not found may still happen
};

constexpr std::size_t kMostStates = 2'000'000;

/// A pattern for outcomes: a value for each result, kAnyValue where it does not matter.
constexpr Word16 kAnyValue = -32768;

/// Breadth first, so that witnesses are short. stop_at_first: the first hazard is enough.
/// Throws InputError where a moment of the program does not fit the machine.
Exploration explore(const OrderProgram& program, std::size_t most_states = kMostStates,
                    const std::vector<Word16>& wanted = {}, bool stop_at_first = false);

}  // namespace marrow::order
