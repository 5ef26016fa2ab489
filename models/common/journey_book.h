// Follows the messages in flight and hands each to the observer once its journey is complete.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "models/common/journey.h"
#include "models/common/observer.h"
#include "models/common/program.h"

namespace marrow {

/// What a lane's descriptor says to the proxy that posts for it.
struct Request {
  OpKind kind = OpKind::kPut;
  std::uint32_t lane = 0, peer = 0;
  std::uint64_t version = 0, signals = 0;  ///< the lane's counts, this message included
};

/// A message in flight: what its lane has recorded, and when each boundary beyond the lane was
/// passed (-1: not yet).
struct Flight {
  Journey journey;
  Ps issued_ps = -1;   ///< lane: last issue step
  Ps noticed_ps = -1;  ///< a proxy has seen its descriptor, or the word that announces it
  Ps posted_ps = -1;   ///< that proxy's doorbell store was issued
  Ps arrived_ps = -1;  ///< its announcement reached the consumer's memory
  Ps started_ps = -1;  ///< the consumer turned to this entry
  Ps fetched_ps = -1;  ///< entry read
  // What lies between, where there is a NIC.
  Ps translated_ps = -1;   ///< addresses and connection known
  Ps gathered_ps = -1;     ///< payload's first packet ready
  Ps transmitted_ps = -1;  ///< last byte has left the port
  Ps wired_ps = -1;        ///< last byte is at the far port
  Ps received_ps = -1;     ///< through the far NIC's receive pipeline
  Ps placed_ps = -1;       ///< payload visible in far memory
  Ps acked_ps = -1;        ///< acknowledgement back
  Ps cqe_ps = -1;          ///< CQE visible to a proxy that passes it on
  Ps completed_ps = -1;    ///< completion visible where it is polled
  Ps seen_ps = -1;         ///< lane saw the completion
  Ps launched_ps = -1;     ///< the next kernel has started
  bool lane_done = false;
  bool filler = false;  ///< not the first entry of its message
  Request request;      ///< what a proxy is asked to do
};

class JourneyBook {
 public:
  /// told: a message is complete when a proxy says so, not with its CQE.
  void begin(std::uint32_t queues, Observer* observer, bool told = false);
  /// entries: 64 B entries that the message takes; only the first is a flight.
  Flight& open(std::uint32_t queue, std::uint64_t index, std::uint32_t entries = 1);
  /// Is there a message at that place, not yet handed on?
  bool holds(std::uint32_t queue, std::uint64_t index) const {
    const Queue& q = queues_[queue];
    return index >= q.base && index - q.base < q.flights.size();
  }
  Flight& flight(std::uint32_t queue, std::uint64_t index);
  /// The message to which that place belongs, or nothing.
  Flight* message(std::uint32_t queue, std::uint64_t index) {
    while (holds(queue, index)) {
      Flight& f = flight(queue, index);
      if (!f.filler) return &f;
      if (index-- == 0) break;
    }
    return nullptr;
  }
  /// The place behind the last entry of the message that starts there.
  std::uint64_t message_end(std::uint32_t queue, std::uint64_t index) {
    do ++index;
    while (holds(queue, index) && flight(queue, index).filler);
    return index;
  }
  /// Entries below `next` are announced as from at_ps.
  void arrived(std::uint32_t queue, std::uint64_t next, Ps at_ps);
  /// Only entry `index` is announced as from at_ps.
  void arrived_one(std::uint32_t queue, std::uint64_t index, Ps at_ps);
  void completed(std::uint32_t queue, std::uint64_t index, Ps at_ps);
  /// Entries below `next` are told to be complete as from at_ps.
  void told(std::uint32_t queue, std::uint64_t next, Ps at_ps);
  /// A proxy has seen, or rung for, the entries from `index` on and below `next`.
  void noticed(std::uint32_t queue, std::uint64_t index, std::uint64_t next, Ps at_ps);
  void posted(std::uint32_t queue, std::uint64_t index, std::uint64_t next, Ps at_ps);
  void lane_done(std::uint32_t queue, std::uint64_t index);
  std::uint64_t in_flight() const;
  std::uint64_t total() const { return total_; }

 private:
  struct Queue {
    std::deque<Flight> flights;  ///< of index base, base + 1, …
    std::uint64_t base = 0;
    std::uint64_t announced = 0, told = 0;
  };
  void close_finished(Queue& queue);
  void emit(Flight& flight);

  std::vector<Queue> queues_;
  Observer* observer_ = nullptr;
  std::uint64_t total_ = 0;
  bool told_ = false;
};

}  // namespace marrow
