// One PCIe link: serialisation each way, TLP by TLP in bytes, shared by everybody behind it.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <cstdint>
#include <systemc>
#include <tlm>

#include "models/common/access.h"
#include "models/common/random.h"
#include "models/pcie/duplex.h"

namespace marrow::pcie {

/// The link that TLM accesses cross.
class Link : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket_optional<Link> from_device{"from_device"};
  tlm_utils::simple_initiator_socket_optional<Link> to_root{"to_root"};

  Link(sc_core::sc_module_name name, const PcieSpec& spec);
  void reset(std::uint64_t seed);
  /// What everybody on the link shares, DMA engines included.
  Duplex& wires() { return wires_; }
  void report(CounterSink& sink) const;
  void clear_counters();
  void set_observer(Observer* observer, const std::string& name = "") {
    wires_.set_observer(observer, name);
  }

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) {
    return to_root->transport_dbg(payload);
  }

  const PcieSpec spec_;
  Duplex wires_;
  Random random_;
  std::uint64_t posted_ = 0, non_posted_ = 0, completions_ = 0;
};

}  // namespace marrow::pcie
