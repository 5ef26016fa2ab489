// Ports, cables and switches between the NICs.
#pragma once

#include <cstdint>
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
class Fabric : public sc_core::sc_module {
 public:
  /// by_packet: every packet by itself, not a message as one train.
  Fabric(sc_core::sc_module_name name, const WireSpec& spec, std::uint32_t ports, bool by_packet);

  void attach(std::uint32_t port, std::function<void(Message&, Ps at_ps)> receive);
  void reset(std::uint64_t seed);

  struct Sent {
    Ps left_ps;     ///< last byte has left the sender's port
    Ps arrived_ps;  ///< and is at the receiver's
  };
  /// first_ps, last_ps: when the first and the last byte of the payload are ready at the port.
  Sent send(const Message& message, Ps first_ps, Ps last_ps);
  /// Bytes from elsewhere take a port's egress at the switch, from then on.
  void load(std::uint32_t port, Ps at_ps, std::uint64_t bytes);
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
  struct Port {
    Ps out_free_ps = 0, in_free_ps = 0;
    std::uint64_t packets = 0, bytes = 0, payload_bytes = 0, lost = 0;
    Ps busy_ps = 0, stalled_ps = 0;
    std::function<void(Message&, Ps)> receive;
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
  std::uint64_t packets(const Message& message) const;

  const WireSpec spec_;
  const bool by_packet_;
  std::vector<Port> ports_;
  DelayLine<Message> arrivals_;
  Random random_;
  Observer* observer_ = nullptr;
};

}  // namespace marrow::wire
