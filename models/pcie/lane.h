// One direction of a link: bytes leave one after the other, whoever sends them.
#pragma once

#include <cstdint>
#include <deque>

#include "models/common/time.h"

namespace marrow::pcie {

/// A calendar of the times at which a direction is taken. Callers may reserve ahead of simulated
/// time and in any order: a reservation takes the first free times at or after its own, so what is
/// due late (a completion) does not hold up what is due early. A train goes on in the next gap;
/// that a TLP cannot be cut is ignored.
class Lane {
 public:
  struct Slot {
    Ps begin_ps = 0;  ///< the first byte leaves
    Ps end_ps = 0;    ///< the last byte has left
  };

  /// at_ps: the earliest time. length_ps: at least 0; 0 takes nothing.
  Slot reserve(Ps at_ps, Ps length_ps);
  void reset() { busy_.clear(), floor_ps_ = 0; }

 private:
  /// Older gaps are forgotten: more than the TLPs of the longest transfers that are on their way.
  static constexpr std::size_t kIntervals = 16384;
  std::deque<Slot> busy_;  ///< sorted, disjoint, not touching
  Ps floor_ps_ = 0;        ///< nothing is free before
};

}  // namespace marrow::pcie
