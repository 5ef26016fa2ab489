// Follows the messages in flight and hands each to the observer once its journey is complete.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "models/common/journey.h"
#include "models/common/observer.h"

namespace marrow {

/// A message in flight: what its lane has recorded, and when each boundary beyond the lane was
/// passed (-1: not yet).
struct Flight {
  Journey journey;
  Ps issued_ps = -1;     ///< lane: last issue step
  Ps arrived_ps = -1;    ///< its announcement reached the consumer's memory
  Ps started_ps = -1;    ///< the consumer turned to this entry
  Ps fetched_ps = -1;    ///< entry read
  Ps completed_ps = -1;  ///< completion visible where it is polled
  Ps seen_ps = -1;       ///< lane saw the completion
  bool lane_done = false;
  std::uint64_t bytes = 0;  ///< payload
};

class JourneyBook {
 public:
  void begin(std::uint32_t queues, Observer* observer);
  Flight& open(std::uint32_t queue, std::uint64_t index);
  Flight& flight(std::uint32_t queue, std::uint64_t index);
  /// Entries below `next` are announced as from at_ps.
  void arrived(std::uint32_t queue, std::uint64_t next, Ps at_ps);
  /// Only entry `index` is announced as from at_ps.
  void arrived_one(std::uint32_t queue, std::uint64_t index, Ps at_ps);
  void completed(std::uint32_t queue, std::uint64_t index, Ps at_ps);
  void lane_done(std::uint32_t queue, std::uint64_t index);
  std::uint64_t in_flight() const;
  std::uint64_t total() const { return total_; }

 private:
  struct Queue {
    std::deque<Flight> flights;  ///< of index base, base + 1, …
    std::uint64_t base = 0;
    std::uint64_t announced = 0;
  };
  void close_finished(Queue& queue);
  void emit(Flight& flight);

  std::vector<Queue> queues_;
  Observer* observer_ = nullptr;
  std::uint64_t total_ = 0;
};

}  // namespace marrow
