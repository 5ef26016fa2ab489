// One PCIe link: serialisation each way, TLP by TLP in bytes, shared by everybody behind it.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <cstdint>
#include <systemc>
#include <tlm>

#include "models/common/access.h"
#include "models/common/observer.h"
#include "models/common/random.h"
#include "models/pcie/spec.h"

namespace marrow::pcie {

/// Raw rate of a link in bytes a second, encoding taken off (PCI Express Base Specification:
/// 8b/10b to Gen2, 128b/130b to Gen5, FLIT with 236 of 256 bytes for TLPs in Gen6).
/// generation: 1 to 6. lanes: 1 to 16.
double raw_bytes_per_second(int generation, int lanes);

/// Time that `payload_bytes` of data in TLPs of at most MPS occupy one direction.
double train_ns(const PcieSpec& spec, std::uint64_t payload_bytes);

/// Upstream is from the device to the root complex.
class Link : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket_optional<Link> from_device{"from_device"};
  tlm_utils::simple_initiator_socket_optional<Link> to_root{"to_root"};

  Link(sc_core::sc_module_name name, const PcieSpec& spec);
  void reset(std::uint64_t seed);
  /// Reserves one direction for a train of TLPs from at_ps on; the time its last byte has left.
  Ps send_up(Ps at_ps, std::uint64_t payload_bytes, const char* what);
  Ps send_down(Ps at_ps, std::uint64_t payload_bytes, const char* what);
  /// How long a train of TLPs occupies one direction.
  Ps train_ps(std::uint64_t payload_bytes) const;
  void report(CounterSink& sink) const;
  void clear_counters();
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  struct Direction {
    Ps free_ps = 0;
    std::uint64_t tlps = 0, bytes = 0, payload_bytes = 0;
    Ps busy_ps = 0;
  };
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) {
    return to_root->transport_dbg(payload);
  }
  Ps send(Direction& direction, Ps at_ps, std::uint64_t payload_bytes, const char* block,
          const char* what);

  const PcieSpec spec_;
  Direction up_, down_;
  Random random_;
  std::uint64_t posted_ = 0, non_posted_ = 0, completions_ = 0;
  Observer* observer_ = nullptr;
};

}  // namespace marrow::pcie
