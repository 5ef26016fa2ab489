// Joins the NVLink ports of a host's GPUs: an access goes to the GPU in whose window its address
// lies.
#pragma once

#include <tlm_utils/multi_passthrough_initiator_socket.h>
#include <tlm_utils/multi_passthrough_target_socket.h>

#include <cstdint>
#include <systemc>
#include <tlm>

#include "models/common/access.h"

namespace marrow::nvlink {

/// GPU n's link is the n-th bound to either socket. Outputs contend at the links behind them; the
/// switch's own time is part of theirs. Answers find their way by Access::gpu.
class Switch : public sc_core::sc_module {
 public:
  tlm_utils::multi_passthrough_target_socket<Switch> from_links{"from_links"};
  tlm_utils::multi_passthrough_initiator_socket<Switch> to_links{"to_links"};

  explicit Switch(sc_core::sc_module_name name);

 private:
  tlm::tlm_sync_enum nb_transport_fw(int gpu, tlm::tlm_generic_payload& payload,
                                     tlm::tlm_phase& phase, sc_core::sc_time& delay);
  tlm::tlm_sync_enum nb_transport_bw(int gpu, tlm::tlm_generic_payload& payload,
                                     tlm::tlm_phase& phase, sc_core::sc_time& delay);
  unsigned transport_dbg(int gpu, tlm::tlm_generic_payload& payload);
};

}  // namespace marrow::nvlink
