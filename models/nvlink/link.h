// A GPU's port into NVLink, all its links as one: serialisation each way, packet by packet in
// bytes.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <systemc>
#include <tlm>
#include <unordered_map>

#include "models/common/access.h"
#include "models/common/observer.h"
#include "models/common/random.h"
#include "models/nvlink/spec.h"

namespace marrow::nvlink {

/// Time that `payload_bytes` in packets (a request or an acknowledgement: 0) occupy one direction.
double train_ns(const NvlinkSpec& spec, std::uint64_t payload_bytes);

/// Out is from the GPU to the switch. An access takes its turn on both GPUs' links as it leaves;
/// its way comes on top, so that turns are taken in the order of time. A store takes effect in the
/// peer's L2 after a fixed way beyond what it waits for the links; a load or an atomic never
/// arrives before an earlier store of its SM.
class Link : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Link> from_gpu{"from_gpu"};
  tlm_utils::simple_initiator_socket<Link> to_switch{"to_switch"};
  tlm_utils::simple_target_socket<Link> from_switch{"from_switch"};
  tlm_utils::simple_initiator_socket<Link> to_gpu{"to_gpu"};

  /// name: the block's in counters and activities, with ".out" and ".in".
  Link(sc_core::sc_module_name name, const NvlinkSpec& spec);
  void reset(std::uint64_t seed);
  /// Reserves one direction from at_ps on; the time at which the first byte leaves.
  Ps send_out(Ps at_ps, std::uint64_t payload_bytes, const char* what);
  Ps send_in(Ps at_ps, std::uint64_t payload_bytes, const char* what);
  /// A copy engine keeps the direction busy from now on, or no longer: others get half of it, and
  /// wait behind what it has there.
  void copies_out(bool busy) { out_.copies = busy; }
  void copies_in(bool busy) { in_.copies = busy; }
  Ps free_out_ps() const { return out_.free_ps; }
  /// What a train that wants to leave at that time waits.
  Ps waits_out_ps(Ps at_ps);
  /// From the L2 to its visibility in the peer's, over idle links.
  Ps store_ps() const { return ps_from_ns(spec_.store_ns); }
  /// A load's round trip between idle L2s, its data included; drawn anew each time and counted.
  Ps load_round_trip_ps(std::uint64_t payload_bytes);
  void report(CounterSink& sink) const;
  void clear_counters();
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  struct Direction {
    std::string name;
    Ps free_ps = 0;
    bool copies = false;
    std::uint64_t packets = 0, bytes = 0, payload_bytes = 0;
    Ps busy_ps = 0;
  };
  tlm::tlm_sync_enum leaves(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);
  tlm::tlm_sync_enum arrives(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                             sc_core::sc_time& delay);
  tlm::tlm_sync_enum answer_leaves(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                   sc_core::sc_time& delay);
  tlm::tlm_sync_enum answer_arrives(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                    sc_core::sc_time& delay);
  unsigned body_leaves(tlm::tlm_generic_payload& payload) {
    return to_switch->transport_dbg(payload);
  }
  unsigned body_arrives(tlm::tlm_generic_payload& payload) {
    return to_gpu->transport_dbg(payload);
  }
  /// Adds a train to what has been sent; the time it occupies.
  /// What the copy engine has in front of a packet.
  Ps copy_wait_ps();
  Ps count(Direction& direction, std::uint64_t payload_bytes);
  Ps send(Direction& direction, Ps at_ps, std::uint64_t payload_bytes, const char* what);

  const NvlinkSpec spec_;
  Direction out_, in_;
  std::unordered_map<std::uint64_t, Ps> store_arrives_ps_;  ///< the last, by GPU and SM that asked
  Random random_;
  Observer* observer_ = nullptr;
};

}  // namespace marrow::nvlink
