// What joins a GPU, its NIC and the host's memory: a PCIe switch, or the root complexes between
// them where GPU and NIC have no switch in common.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <systemc>
#include <tlm>

#include "models/common/access.h"
#include "models/pcie/link.h"
#include "models/pcie/spec.h"

namespace marrow::pcie {

/// Routes by address. Writes and read completions are cut through: a train's first TLP goes on
/// while the rest still arrives. Posted writes keep their order on each link.
class Switch : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Switch> from_gpu{"from_gpu"};
  tlm_utils::simple_target_socket<Switch> from_nic{"from_nic"};
  tlm_utils::simple_target_socket_optional<Switch> from_host{"from_host"};  ///< to NIC registers
  tlm_utils::simple_initiator_socket<Switch> to_gpu{"to_gpu"};
  tlm_utils::simple_initiator_socket<Switch> to_nic{"to_nic"};
  tlm_utils::simple_initiator_socket<Switch> to_root{"to_root"};

  /// The links are shared with what else goes over them and must outlive the switch.
  Switch(sc_core::sc_module_name name, const SwitchSpec& spec, Link& gpu_link, Link& nic_link);

  /// From the GPU's L2 to the NIC and back, for an empty write: what acknowledging one takes.
  Ps round_trip_ps() const;

 private:
  tlm::tlm_sync_enum gpu_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);
  tlm::tlm_sync_enum host_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                             sc_core::sc_time& delay);
  tlm::tlm_sync_enum nic_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);
  tlm::tlm_sync_enum gpu_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);
  tlm::tlm_sync_enum host_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                             sc_core::sc_time& delay);
  Ps to_nic_ps(Ps at_ps, std::uint64_t bytes, const char* what);
  Ps to_gpu_ps(Ps at_ps, std::uint64_t bytes, const char* what);

  const SwitchSpec spec_;
  Link& gpu_link_;
  Link& nic_link_;
};

}  // namespace marrow::pcie
