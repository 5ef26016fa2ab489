// The root complex: orders what comes up the link and hands it to host memory.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/host/spec.h"

namespace marrow::pcie {

/// PCIe ordering, producer-consumer model: a read never passes an earlier posted write, a posted
/// write never passes an earlier posted write (no relaxed ordering for what SMs store).
class RootComplex : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<RootComplex> from_link{"from_link"};
  tlm_utils::simple_target_socket_optional<RootComplex> from_switch{"from_switch"};
  tlm_utils::simple_initiator_socket<RootComplex> to_memory{"to_memory"};

  RootComplex(sc_core::sc_module_name name, const HostSpec& host);
  void reset();

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) {
    return to_memory->transport_dbg(payload);
  }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);

  const HostSpec host_;
  Ps last_posted_ps_ = 0;    ///< of what came up the GPU's link
  Ps device_posted_ps_ = 0;  ///< of what came from a device

  std::vector<Ps> posted_by_sm_ps_;  ///< -1: nothing yet
};

}  // namespace marrow::pcie
