// What joins a GPU, its NIC and the host's memory: a PCIe switch, or the root complexes between
// them where GPU and NIC have no switch in common.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/pcie/link.h"
#include "models/pcie/path.h"
#include "models/pcie/spec.h"

namespace marrow::pcie {

/// Routes by address. What the GPU writes to the NIC's registers takes its time here; what the NIC
/// reads and writes its DMA engine has timed, on the way that path() gives.
class Switch : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Switch> from_gpu{"from_gpu"};
  tlm_utils::simple_target_socket<Switch> from_nic{"from_nic"};
  /// What cores write into the NIC's registers and, through its BAR, into the GPU's memory.
  tlm_utils::simple_target_socket_optional<Switch> from_host{"from_host"};
  tlm_utils::simple_initiator_socket<Switch> to_gpu{"to_gpu"};
  tlm_utils::simple_initiator_socket<Switch> to_nic{"to_nic"};
  tlm_utils::simple_initiator_socket<Switch> to_root{"to_root"};

  /// The links are shared with what else goes over them and must outlive the switch.
  Switch(sc_core::sc_module_name name, const SwitchSpec& spec, Link& gpu_link, Link& nic_link);

  /// Between the NIC and the memory that an address lies in. Memory's own latency is what the
  /// access takes there.
  const Path& path(std::uint64_t address) const { return is_own(address) ? gpu_path_ : host_path_; }

 private:
  tlm::tlm_sync_enum gpu_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);
  tlm::tlm_sync_enum host_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                             sc_core::sc_time& delay);
  tlm::tlm_sync_enum nic_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);
  tlm::tlm_sync_enum post(const std::vector<Hop>& way, tlm::tlm_generic_payload& payload,
                          tlm::tlm_phase& phase, sc_core::sc_time& delay, bool to_nic_registers);
  tlm::tlm_sync_enum answer(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);

  Link& gpu_link_;
  std::vector<Hop> from_gpu_, from_host_;  ///< to the NIC's registers
  std::vector<Hop> to_bar_;                ///< from the host to the GPU's memory
  Path gpu_path_, host_path_;
};

}  // namespace marrow::pcie
