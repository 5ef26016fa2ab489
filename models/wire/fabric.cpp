#include "models/wire/fabric.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace marrow::wire {

Fabric::Fabric(sc_core::sc_module_name name, const WireSpec& spec, std::uint32_t ports,
               bool by_packet)
    : sc_module(name),
      spec_(spec),
      by_packet_(by_packet),
      ports_(ports),
      arrivals_("arrivals", [this](Message& m, Ps at_ps) { ports_[m.to].receive(m, at_ps); }),
      turns_("turns", [this](std::uint32_t& port, Ps at_ps) { take_turn(port, at_ps); }) {}

void Fabric::attach(std::uint32_t port, std::function<void(Message&, Ps)> receive,
                    std::function<void(const Message&, const Sent&)> sent) {
  ports_[port].receive = std::move(receive);
  ports_[port].sent = std::move(sent);
}

void Fabric::reset(std::uint64_t seed) {
  for (Port& port : ports_) {
    port.out_free_ps = port.in_free_ps = 0;
    port.waiting.clear();
    port.loads.clear();
  }
  random_ = Random(seed);
}

void Fabric::clear_counters() {
  for (Port& port : ports_) {
    port.packets = port.bytes = port.payload_bytes = port.lost = 0;
    port.busy_ps = port.stalled_ps = 0;
  }
}

namespace {

/// Without a payload, to a request.
bool is_answer(const Message& message) {
  using Kind = Message::Kind;
  return message.kind == Kind::kAck || message.kind == Kind::kNak ||
         message.kind == Kind::kRefused || message.kind == Kind::kAtomicResponse;
}

}  // namespace

std::uint64_t Fabric::packets(const Message& message) const {
  const bool carries =
      message.kind == Message::Kind::kWrite || message.kind == Message::Kind::kReadResponse;
  if (!carries || message.bytes == 0) return 1;
  return (message.bytes + mtu_bytes() - 1) / mtu_bytes();
}

std::uint64_t Fabric::wire_bytes(const Message& message) const {
  const auto headers =
      static_cast<std::uint64_t>(spec_.header_bytes * static_cast<double>(packets(message)));
  switch (message.kind) {
    case Message::Kind::kWrite:  // ImmDt: 4 B
      return headers + static_cast<std::uint64_t>(spec_.request_header_bytes) + message.bytes +
             (message.immediate ? 4 : 0);
    case Message::Kind::kRead:
      return headers + static_cast<std::uint64_t>(spec_.request_header_bytes);
    case Message::Kind::kAtomic:  // AtomicETH: address, key, two operands
      return headers + static_cast<std::uint64_t>(spec_.request_header_bytes) + 12;
    case Message::Kind::kReadResponse:
      return headers + static_cast<std::uint64_t>(spec_.ack_header_bytes) + message.bytes;
    case Message::Kind::kAtomicResponse:
      return headers + static_cast<std::uint64_t>(spec_.ack_header_bytes) + 8;
    default:
      return headers + static_cast<std::uint64_t>(spec_.ack_header_bytes);
  }
}

Ps Fabric::port_ps(std::uint64_t bytes) const {
  return ps_from_ns(static_cast<double>(bytes) * 8 / spec_.gbps);
}

Fabric::Crossing Fabric::cross(Port& out, Port& in, std::uint64_t bytes, Ps packet_ps, Ps first_ps,
                               Ps last_ps, bool answers) {
  const Ps length_ps = port_ps(bytes);
  packet_ps = std::min(length_ps, packet_ps);
  const Ps way_ps =
      ps_from_ns(spec_.cable_ns * (spec_.switches + 1) + spec_.switch_ns * spec_.switches);
  if (answers) {  // small, and sent before requests that wait
    out.out_free_ps += length_ps;
    in.in_free_ps += length_ps;
    out.busy_ps += length_ps;
    const Ps left_ps = first_ps + length_ps;
    return {first_ps, {left_ps, left_ps + way_ps}, left_ps + way_ps, false};
  }
  Ps start_ps = std::max(first_ps, out.out_free_ps);
  catch_up(in, start_ps + way_ps);
  // The egress towards the receiver is the receiver's port seen from the other side.
  const Ps queued_ps = std::max<Ps>(in.in_free_ps - (start_ps + way_ps), 0);
  const Ps stall_ps =
      std::max<Ps>(queued_ps - port_ps(static_cast<std::uint64_t>(spec_.buffer_bytes)), 0);
  const bool drops = stall_ps > 0 && spec_.pauses == 0;
  if (!drops) {
    start_ps += stall_ps;
    out.stalled_ps += stall_ps;
  }
  out.busy_ps += length_ps;
  const Ps left_ps = std::max(start_ps + length_ps, last_ps + packet_ps);
  out.out_free_ps = start_ps + length_ps;
  if (drops) return {start_ps, {left_ps, left_ps + way_ps}, start_ps + way_ps, true};
  const Ps in_start_ps = std::max(start_ps + way_ps, in.in_free_ps);
  in.in_free_ps = pass(in, in_start_ps, length_ps);
  return {start_ps,
          {left_ps, std::max(in.in_free_ps, left_ps + way_ps)},
          in_start_ps + packet_ps,
          false};
}

void Fabric::load(std::uint32_t port, Ps from_ps, double gbps, std::uint64_t bytes) {
  ports_[port].loads.push_back({from_ps,
                                std::max<Ps>(ps_from_ns(static_cast<double>(bytes) * 8 / gbps), 1),
                                port_ps(bytes)});
}

void Fabric::catch_up(Port& in, Ps at_ps) const {
  const Ps buffer_ps = port_ps(static_cast<std::uint64_t>(spec_.buffer_bytes));
  for (Load& load : in.loads)
    for (; load.next_ps <= at_ps; load.next_ps += load.gap_ps)
      // Behind a full egress its sender waits, too.
      if (in.in_free_ps - load.next_ps <= buffer_ps)
        in.in_free_ps = std::max(in.in_free_ps, load.next_ps) + load.length_ps;
}

Ps Fabric::pass(Port& in, Ps begin_ps, Ps length_ps) const {
  Ps end_ps = begin_ps + length_ps;
  for (Load& load : in.loads)
    for (Ps turns_ps = 0; load.next_ps < end_ps && turns_ps < length_ps;
         load.next_ps += load.gap_ps) {
      turns_ps += load.length_ps;
      end_ps += load.length_ps;
    }
  return end_ps;
}

void Fabric::send(const Message& message, Ps first_ps, Ps last_ps) {
  Port& out = ports_[message.from];
  if (is_answer(message) || (out.waiting.empty() && out.out_free_ps <= first_ps)) {
    go({message, first_ps, last_ps});
    return;
  }
  out.waiting.push_back({message, first_ps, last_ps});
  if (out.waiting.size() == 1) turns_.push(std::max(out.out_free_ps, now_ps()), message.from);
}

void Fabric::take_turn(std::uint32_t port, Ps at_ps) {
  Port& out = ports_[port];
  if (out.waiting.empty()) return;  // of an earlier run
  // An answer may have taken the port meanwhile.
  if (out.out_free_ps <= at_ps) {
    const Waiting request = out.waiting.front();
    out.waiting.pop_front();
    go(request);
    if (out.waiting.empty()) return;
  }
  turns_.push(std::max(out.out_free_ps, at_ps), port);
}

void Fabric::go(const Waiting& request) {
  const auto& [message, first_ps, last_ps] = request;
  Port& out = ports_[message.from];
  Port& in = ports_[message.to];
  const std::uint64_t bytes = wire_bytes(message), count = packets(message);
  const Ps packet_ps = port_ps(mtu_bytes());
  Crossing way{};
  if (by_packet_ && count > 1) {
    const std::uint64_t whole = mtu_bytes() + static_cast<std::uint64_t>(spec_.header_bytes);
    for (std::uint64_t i = 0, rest = bytes; i < count; ++i) {
      const std::uint64_t packet = i + 1 < count ? whole : rest;
      rest -= packet;
      const Ps ready_ps =
          first_ps + (last_ps - first_ps) * static_cast<Ps>(i) / static_cast<Ps>(count - 1);
      const Crossing one = cross(out, in, packet, packet_ps, ready_ps, ready_ps, false);
      if (i == 0) way = one;
      way.sent = one.sent;
      way.dropped |= one.dropped;
    }
  } else {
    way = cross(out, in, bytes, packet_ps, first_ps, last_ps, is_answer(message));
  }
  out.packets += count;
  out.bytes += bytes;
  out.payload_bytes += message.bytes;
  if (out.sent) out.sent(message, way.sent);
  if (observer_ && observer_->wants_activity())
    observer_->on_activity({"wire.port", "packets", way.begin_ps, way.sent.left_ps});
  if (way.dropped ||
      (spec_.loss_ratio > 0 &&
       random_.unit() > std::pow(1 - spec_.loss_ratio, static_cast<double>(count)))) {
    ++out.lost;
    return;
  }
  Message arriving = message;
  arriving.rest_ps = count > 1 ? std::max<Ps>(way.sent.arrived_ps - way.first_ps, 0) : 0;
  arrivals_.push(way.sent.arrived_ps, arriving);
}

void Fabric::report(CounterSink& sink) const {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const Port& port = ports_[i];
    const std::string block = "wire.port" + std::to_string(i);
    sink.add(block, "packets", static_cast<double>(port.packets), "count");
    sink.add(block, "bytes", static_cast<double>(port.bytes), "bytes");
    sink.add(block, "payload", static_cast<double>(port.payload_bytes), "bytes");
    sink.add(block, "messages lost", static_cast<double>(port.lost), "count");
    sink.add(block, "busy", static_cast<double>(port.busy_ps) / 1000, "ns");
    sink.add(block, "stalled by the receiver's side", static_cast<double>(port.stalled_ps) / 1000,
             "ns");
  }
}

}  // namespace marrow::wire
