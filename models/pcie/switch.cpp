#include "models/pcie/switch.h"

#include "models/common/delay_line.h"

namespace marrow::pcie {

Switch::Switch(sc_core::sc_module_name name, const SwitchSpec& spec, Link& gpu_link, Link& nic_link)
    : sc_module(name), gpu_link_(gpu_link) {
  from_gpu.register_nb_transport_fw(this, &Switch::gpu_fw);
  from_nic.register_nb_transport_fw(this, &Switch::nic_fw);
  from_host.register_nb_transport_fw(this, &Switch::host_fw);
  to_gpu.register_nb_transport_bw(this, &Switch::answer);
  to_root.register_nb_transport_bw(this, &Switch::answer);
  Duplex* const gpu = &gpu_link.wires();
  Duplex* const nic = &nic_link.wires();
  const Ps gpu_ps = ps_from_ns(spec.gpu_ns), hop_ps = ps_from_ns(spec.hop_ns);
  const Ps host_ps = ps_from_ns(spec.host_ns);
  from_gpu_ = {{nullptr, Way::kUp, gpu_ps}, {gpu, Way::kUp, hop_ps, true}, {nic, Way::kDown, 0}};
  gpu_path_.out = {{nic, Way::kUp, hop_ps, true}, {gpu, Way::kDown, gpu_ps}};
  gpu_path_.back = from_gpu_;
  from_host_ = {{nullptr, Way::kUp, host_ps}, {nic, Way::kDown, 0}};
  // The way back of what SMs read from the host.
  const PcieSpec& link = gpu->spec();
  to_bar_ = {{gpu, Way::kDown, ps_from_ns(link.round_trip_ns * (1 - link.request_share_ratio))}};
  host_path_.out = {{nic, Way::kUp, host_ps}};
  host_path_.back = {{nullptr, Way::kUp, host_ps + ps_from_ns(spec.host_read_ns)},
                     {nic, Way::kDown, 0}};
  gpu_path_.read_latency =
      host_path_.read_latency = [](std::uint64_t, std::uint64_t) { return Ps{0}; };
}

tlm::tlm_sync_enum Switch::gpu_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  return post(from_gpu_, payload, phase, delay, true);
}

tlm::tlm_sync_enum Switch::host_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                   sc_core::sc_time& delay) {
  const bool registers = !is_own(payload.get_address());
  return post(registers ? from_host_ : to_bar_, payload, phase, delay, registers);
}

tlm::tlm_sync_enum Switch::post(const std::vector<Hop>& way, tlm::tlm_generic_payload& payload,
                                tlm::tlm_phase& phase, sc_core::sc_time& delay,
                                bool to_nic_registers) {
  const Ps at_ps = now_ps() + static_cast<Ps>(delay.value());
  const std::uint64_t bytes = payload.get_data_length();
  const Train train = gpu_link_.wires().train(TlpKind::kMemWr, bytes);
  const Ps there_ps = travel(way, {train, bytes, bytes, at_ps, at_ps}).last_ps;
  delay = sc_core::sc_time::from_value(static_cast<std::uint64_t>(there_ps - now_ps()));
  return to_nic_registers ? to_nic->nb_transport_fw(payload, phase, delay)
                          : to_gpu->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::nic_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  if (is_own(payload.get_address())) return to_gpu->nb_transport_fw(payload, phase, delay);
  return to_root->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::answer(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  return payload.get_extension<Access>()->core ? from_host->nb_transport_bw(payload, phase, delay)
                                               : from_nic->nb_transport_bw(payload, phase, delay);
}

}  // namespace marrow::pcie
