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
  to_gpu.register_nb_transport_bw(this, &Switch::gpu_bw);
  to_root.register_nb_transport_bw(this, &Switch::host_bw);
}

Ps Switch::round_trip_ps() const {
  const auto both_ps = [](Duplex& wires) {
    return 2 * wires.length_ps(wires.train(TlpKind::kMemWr, 0));
  };
  return 2 * ps_from_ns(spec_.gpu_ns + spec_.hop_ns) + both_ps(gpu_link_.wires()) +
         both_ps(nic_link_.wires());
}

Ps Switch::cross_ps(Duplex& from, Duplex& to, Ps at_ps, const Train& train) const {
  const Ps hop_ps = ps_from_ns(spec_.hop_ns);
  const Lane::Slot up = from.send(Way::kUp, at_ps, train);
  return std::max(to.send(Way::kDown, up.begin_ps + hop_ps, train).end_ps, up.end_ps + hop_ps);
}

Ps Switch::to_nic_ps(Ps at_ps, TlpKind kind, std::uint64_t bytes) {
  return cross_ps(gpu_link_.wires(), nic_link_.wires(), at_ps + ps_from_ns(spec_.gpu_ns),
                  gpu_link_.wires().train(kind, bytes));
}

Ps Switch::to_gpu_ps(Ps at_ps, TlpKind kind, std::uint64_t bytes) {
  return cross_ps(nic_link_.wires(), gpu_link_.wires(), at_ps,
                  nic_link_.wires().train(kind, bytes)) +
         ps_from_ns(spec_.gpu_ns);
}

tlm::tlm_sync_enum Switch::gpu_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  delay = until(to_nic_ps(at(delay), TlpKind::kMemWr, payload.get_data_length()));
  return to_nic->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::nic_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  const bool write = posted(payload);
  const std::uint64_t bytes = write ? payload.get_data_length() : 0;
  const TlpKind kind = write ? TlpKind::kMemWr : TlpKind::kMemRd;
  if (is_own(payload.get_address())) {
    delay = until(to_gpu_ps(at(delay), kind, bytes));
    return to_gpu->nb_transport_fw(payload, phase, delay);
  }
  Duplex& wires = nic_link_.wires();
  delay = until(wires.send(Way::kUp, at(delay), wires.train(kind, bytes)).end_ps +
                ps_from_ns(spec_.host_ns));
  return to_root->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::gpu_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                  sc_core::sc_time& delay) {
  // A write is done where it took effect; a read's data travel back.
  if (!posted(payload)) delay = until(to_nic_ps(at(delay), TlpKind::kCplD, payload.get_data_length()));
  return from_nic->nb_transport_bw(payload, phase, delay);
}

tlm::tlm_sync_enum Switch::host_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                   sc_core::sc_time& delay) {
  if (!posted(payload)) {
    Duplex& wires = nic_link_.wires();
    delay = until(wires.send(Way::kDown, at(delay) + ps_from_ns(spec_.host_ns),
                             wires.train(TlpKind::kCplD, payload.get_data_length()))
                      .end_ps);
  }
  return from_nic->nb_transport_bw(payload, phase, delay);
}

}  // namespace marrow::pcie
