// Ports, cables and switches between the NICs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <systemc>
#include <vector>

#include "models/common/delay_line.h"
#include "models/common/observer.h"
#include "models/common/random.h"
#include "models/wire/message.h"
#include "models/wire/spec.h"

namespace marrow::wire {

/// Every port sends and receives at its own rate; what goes to one port shares its egress. A switch
/// cuts through. Where an egress has queued more than its buffer, the sender's port stands still:
/// InfiniBand's credits and RoCE's PFC do so alike. Without either it drops what comes.
/// Acknowledgements do not queue behind requests: they take their time from what comes after.
/// A request takes its ports when its turn has come, so that an egress serves senders in order of
/// time however much one of them has ready.
class Fabric : public sc_core::sc_module {
 public:
  /// by_packet: every packet by itself, not a message as one train.
  Fabric(sc_core::sc_module_name name, const WireSpec& spec, std::uint32_t ports, bool by_packet);

  struct Sent {
    Ps left_ps;     ///< last byte has left the sender's port
    Ps arrived_ps;  ///< and is at the receiver's
  };
  /// sent: of a message of this port it is known when it leaves; may be empty.
  void attach(std::uint32_t port, std::function<void(Message&, Ps at_ps)> receive,
              std::function<void(const Message&, const Sent&)> sent = {});
  /// Nothing under way, no others' bytes.
  void reset(std::uint64_t seed);

  /// first_ps, last_ps: when the first and the last byte of the payload are ready at the port.
  void send(const Message& message, Ps first_ps, Ps last_ps);
  /// Others' bytes take this port's egress at the switch, so many at once, evenly at this rate from
  /// that time on. An egress gives the two sides turns where both wait.
  void load(std::uint32_t port, Ps from_ps, double gbps, std::uint64_t bytes);
  /// Bytes on the wire, headers included.
  std::uint64_t wire_bytes(const Message& message) const;
  std::uint32_t ports() const { return static_cast<std::uint32_t>(ports_.size()); }
  bool loses() const { return spec_.loss_ratio > 0 || spec_.pauses == 0; }
  std::uint64_t mtu_bytes() const { return static_cast<std::uint64_t>(spec_.mtu_bytes); }
  /// How long a port takes for so many bytes.
  Ps port_ps(std::uint64_t bytes) const;

  void report(CounterSink& sink) const;
  void clear_counters();
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  struct Waiting {
    Message message;
    Ps first_ps, last_ps;
  };
  struct Load {
    Ps next_ps, gap_ps, length_ps;
  };
  struct Port {
    Ps out_free_ps = 0, in_free_ps = 0;
    std::deque<Waiting> waiting;  ///< requests that are ready before their turn
    std::vector<Load> loads;
    std::uint64_t packets = 0, bytes = 0, payload_bytes = 0, lost = 0;
    Ps busy_ps = 0, stalled_ps = 0;
    std::function<void(Message&, Ps)> receive;
    std::function<void(const Message&, const Sent&)> sent;
  };
  /// One train, or one packet, on both ports.
  struct Crossing {
    Ps begin_ps;  ///< on the sender's port
    Sent sent;
    Ps first_ps;   ///< the train's first packet is at the receiver's port
    bool dropped;  ///< at a full egress
  };
  Crossing cross(Port& out, Port& in, std::uint64_t bytes, Ps packet_ps, Ps first_ps, Ps last_ps,
                 bool answers);
  void go(const Waiting& request);
  void take_turn(std::uint32_t port, Ps at_ps);
  /// Others' bytes that came until then take the egress first.
  void catch_up(Port& in, Ps at_ps) const;
  /// When an own train that begins then has passed, others' bytes in between.
  Ps pass(Port& in, Ps begin_ps, Ps length_ps) const;
  std::uint64_t packets(const Message& message) const;

  const WireSpec spec_;
  const bool by_packet_;
  std::vector<Port> ports_;
  DelayLine<Message> arrivals_;
  DelayLine<std::uint32_t> turns_;
  Random random_;
  Observer* observer_ = nullptr;
};

}  // namespace marrow::wire
