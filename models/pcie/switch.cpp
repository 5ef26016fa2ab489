#include "models/pcie/switch.h"

#include <algorithm>

#include "models/common/delay_line.h"

namespace marrow::pcie {

namespace {

Ps at(const sc_core::sc_time& delay) { return now_ps() + static_cast<Ps>(delay.value()); }

sc_core::sc_time until(Ps at_ps) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(std::max<Ps>(at_ps - now_ps(), 0)));
}

bool posted(const tlm::tlm_generic_payload& payload) {
  return payload.get_extension<Access>()->kind == AccessKind::kStore;
}

}  // namespace

Switch::Switch(sc_core::sc_module_name name, const SwitchSpec& spec, Link& gpu_link,
               Link& nic_link)
    : sc_module(name), spec_(spec), gpu_link_(gpu_link), nic_link_(nic_link) {
  from_gpu.register_nb_transport_fw(this, &Switch::gpu_fw);
  from_nic.register_nb_transport_fw(this, &Switch::nic_fw);
  from_host.register_nb_transport_fw(this, &Switch::host_fw);
  to_gpu.register_nb_transport_bw(this, &Switch::gpu_bw);
  to_root.register_nb_transport_bw(this, &Switch::host_bw);
}

Ps Switch::round_trip_ps() const {
  return 2 * ps_from_ns(spec_.gpu_ns + spec_.hop_ns) + 2 * gpu_link_.train_ps(0) +
         2 * nic_link_.train_ps(0);
}

Ps Switch::to_nic_ps(Ps at_ps, std::uint64_t bytes, const char* what) {
  const Ps up_ps = gpu_link_.send_up(at_ps + ps_from_ns(spec_.gpu_ns), bytes, what);
  const Ps head_ps = up_ps - gpu_link_.train_ps(bytes) + ps_from_ns(spec_.hop_ns);
  return std::max(nic_link_.send_down(head_ps, bytes, what), up_ps + ps_from_ns(spec_.hop_ns));
}

Ps Switch::to_gpu_ps(Ps at_ps, std::uint64_t bytes, const char* what) {
  const Ps up_ps = nic_link_.send_up(at_ps, bytes, what);
  const Ps head_ps = up_ps - nic_link_.train_ps(bytes) + ps_from_ns(spec_.hop_ns);
  return std::max(gpu_link_.send_down(head_ps, bytes, what), up_ps + ps_from_ns(spec_.hop_ns)) +
         ps_from_ns(spec_.gpu_ns);
}

tlm::tlm_sync_enum Switch::gpu_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  delay = until(to_nic_ps(at(delay), payload.get_data_length(), "MemWr"));
  return to_nic->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::host_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                   sc_core::sc_time& delay) {
  delay = until(nic_link_.send_down(at(delay) + ps_from_ns(spec_.host_ns),
                                    payload.get_data_length(), "MemWr"));
  return to_nic->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::nic_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  const bool write = posted(payload);
  const std::uint64_t bytes = write ? payload.get_data_length() : 0;
  const char* what = write ? "MemWr" : "MemRd";
  if (is_own(payload.get_address())) {
    delay = until(to_gpu_ps(at(delay), bytes, what));
    return to_gpu->nb_transport_fw(payload, phase, delay);
  }
  delay = until(nic_link_.send_up(at(delay), bytes, what) + ps_from_ns(spec_.host_ns));
  return to_root->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::gpu_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  // A write is done where it took effect; a read's data travel back.
  if (!posted(payload)) delay = until(to_nic_ps(at(delay), payload.get_data_length(), "CplD"));
  return from_nic->nb_transport_bw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::host_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                   sc_core::sc_time& delay) {
  if (!posted(payload))
    delay = until(nic_link_.send_down(at(delay) + ps_from_ns(spec_.host_ns + spec_.host_read_ns),
                                      payload.get_data_length(), "CplD"));
  return from_nic->nb_transport_bw(payload, phase, delay);
}

}  // namespace marrow::pcie
