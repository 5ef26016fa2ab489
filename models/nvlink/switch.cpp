#include "models/nvlink/switch.h"

namespace marrow::nvlink {

Switch::Switch(sc_core::sc_module_name name) : sc_module(name) {
  from_links.register_nb_transport_fw(this, &Switch::nb_transport_fw);
  from_links.register_transport_dbg(this, &Switch::transport_dbg);
  to_links.register_nb_transport_bw(this, &Switch::nb_transport_bw);
}

tlm::tlm_sync_enum Switch::nb_transport_fw(int gpu, tlm::tlm_generic_payload& payload,
                                           tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  payload.get_extension<Access>()->gpu = static_cast<std::uint32_t>(gpu);
  const std::uint64_t address = payload.get_address();
  payload.set_address(peer_offset(address));
  return to_links[static_cast<int>(peer_gpu(address))]->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::nb_transport_bw(int gpu, tlm::tlm_generic_payload& payload,
                                           tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  payload.set_address(peer_address(static_cast<std::uint32_t>(gpu), payload.get_address()));
  return from_links[static_cast<int>(payload.get_extension<Access>()->gpu)]->nb_transport_bw(
      payload, phase, delay);
}

unsigned Switch::transport_dbg(int, tlm::tlm_generic_payload& payload) {
  const std::uint64_t address = payload.get_address();
  payload.set_address(peer_offset(address));
  const unsigned bytes = to_links[static_cast<int>(peer_gpu(address))]->transport_dbg(payload);
  payload.set_address(address);
  return bytes;
}

}  // namespace marrow::nvlink
