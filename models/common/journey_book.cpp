#include "models/common/journey_book.h"

#include <algorithm>

namespace marrow {

void JourneyBook::begin(std::uint32_t queues, Observer* observer, bool told) {
  queues_.assign(queues, {});
  observer_ = observer;
  told_ = told;
}

Flight& JourneyBook::open(std::uint32_t queue, std::uint64_t index, std::uint32_t entries) {
  Queue& q = queues_[queue];
  // Lanes run ahead in their own time, so positions may be opened out of order.
  while (q.base + q.flights.size() < index + entries) q.flights.emplace_back();
  for (std::uint64_t i = index + 1; i < index + entries; ++i)
    flight(queue, i).filler = flight(queue, i).lane_done = true;
  return flight(queue, index);
}

Flight& JourneyBook::flight(std::uint32_t queue, std::uint64_t index) {
  Queue& q = queues_[queue];
  return q.flights[index - q.base];
}

void JourneyBook::arrived(std::uint32_t queue, std::uint64_t next, Ps at_ps) {
  Queue& q = queues_[queue];
  for (; q.announced < next; ++q.announced)
    if (q.announced >= q.base) flight(queue, q.announced).arrived_ps = at_ps;
}

void JourneyBook::arrived_one(std::uint32_t queue, std::uint64_t index, Ps at_ps) {
  flight(queue, index).arrived_ps = at_ps;
}

void JourneyBook::completed(std::uint32_t queue, std::uint64_t index, Ps at_ps) {
  (told_ ? flight(queue, index).cqe_ps : flight(queue, index).completed_ps) = at_ps;
  if (!told_) close_finished(queues_[queue]);
}

void JourneyBook::told(std::uint32_t queue, std::uint64_t next, Ps at_ps) {
  Queue& q = queues_[queue];
  for (; q.told < next; ++q.told)
    if (holds(queue, q.told)) flight(queue, q.told).completed_ps = at_ps;
  close_finished(q);
}

void JourneyBook::noticed(std::uint32_t queue, std::uint64_t index, std::uint64_t next, Ps at_ps) {
  for (; index < next; ++index)
    if (holds(queue, index)) flight(queue, index).noticed_ps = at_ps;
}

void JourneyBook::posted(std::uint32_t queue, std::uint64_t index, std::uint64_t next, Ps at_ps) {
  for (; index < next; ++index)
    if (holds(queue, index)) flight(queue, index).posted_ps = at_ps;
}

void JourneyBook::lane_done(std::uint32_t queue, std::uint64_t index) {
  flight(queue, index).lane_done = true;
  close_finished(queues_[queue]);
}

std::uint64_t JourneyBook::in_flight() const {
  std::uint64_t n = 0;
  for (const Queue& q : queues_) n += q.flights.size();
  return n;
}

void JourneyBook::close_finished(Queue& q) {
  while (!q.flights.empty() && q.flights.front().lane_done && q.flights.front().completed_ps >= 0) {
    if (!q.flights.front().filler) emit(q.flights.front());
    q.flights.pop_front();
    ++q.base;
  }
}

void JourneyBook::emit(Flight& f) {
  ++total_;
  // Boundaries tile: a stage starts where the one before ended, also where the hardware overlaps
  // (a first doorbell may arrive before the second one is issued).
  Ps at = f.issued_ps;
  auto until = [&](Stage stage, Ps boundary) {
    if (boundary < 0) return;
    const Ps next = std::max(at, boundary);
    f.journey.at(stage) = next - at;
    at = next;
  };
  until(Stage::kProxyNotice, f.noticed_ps);
  until(Stage::kProxyPost, f.posted_ps);
  until(Stage::kMmio, f.arrived_ps);
  until(Stage::kNicSchedule, f.started_ps);
  until(Stage::kWqeFetch, f.fetched_ps);
  until(Stage::kTranslate, f.translated_ps);
  until(Stage::kPayloadFetch, f.gathered_ps);
  until(Stage::kTransmit, f.transmitted_ps);
  until(Stage::kWire, f.wired_ps);
  until(Stage::kReceive, f.received_ps);
  // The acknowledgement may overtake the payload's way into far memory.
  if (f.acked_ps < 0 || f.placed_ps < f.acked_ps) until(Stage::kPayloadWrite, f.placed_ps);
  until(Stage::kAck, f.acked_ps);
  until(Stage::kCqeWrite, f.cqe_ps >= 0 ? f.cqe_ps : f.completed_ps);
  until(Stage::kProxyComplete, f.completed_ps);
  until(Stage::kPoll, f.seen_ps);
  until(Stage::kLaunch, f.launched_ps);
  if (observer_) observer_->on_journey(f.journey);
}

}  // namespace marrow
