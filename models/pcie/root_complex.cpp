#include "models/pcie/root_complex.h"

#include <algorithm>

#include "models/common/delay_line.h"

namespace marrow::pcie {

RootComplex::RootComplex(sc_core::sc_module_name name, const HostSpec& host)
    : sc_module(name), host_(host) {
  from_link.register_transport_dbg(this, &RootComplex::transport_dbg);
  from_link.register_nb_transport_fw(this, &RootComplex::nb_transport_fw);
  from_switch.register_nb_transport_fw(this, &RootComplex::nb_transport_fw);
  to_memory.register_nb_transport_bw(this, &RootComplex::nb_transport_bw);
}

void RootComplex::reset() {
  last_posted_ps_ = device_posted_ps_ = 0;
  posted_by_sm_ps_.clear();
}

tlm::tlm_sync_enum RootComplex::nb_transport_fw(tlm::tlm_generic_payload& payload,
                                                tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  const Access& access = *payload.get_extension<Access>();
  Ps at_ps = now_ps() + static_cast<Ps>(delay.value());
  if (access.device) {
    at_ps = std::max(at_ps, device_posted_ps_);
    if (access.kind == AccessKind::kStore) device_posted_ps_ = at_ps;
  } else if (access.kind == AccessKind::kStore) {
    last_posted_ps_ = at_ps = std::max(at_ps, last_posted_ps_);
    if (access.sm >= posted_by_sm_ps_.size()) posted_by_sm_ps_.resize(access.sm + 1, -1);
    posted_by_sm_ps_[access.sm] = at_ps;
  } else {
    at_ps = std::max(at_ps, last_posted_ps_);
    // The requester's own write that is still being committed delays its read further.
    if (access.sm < posted_by_sm_ps_.size() && posted_by_sm_ps_[access.sm] >= 0)
      at_ps = std::max(at_ps, posted_by_sm_ps_[access.sm] + ps_from_ns(host_.read_after_store_ns));
  }
  delay =
      sc_core::sc_time::from_value(static_cast<std::uint64_t>(std::max<Ps>(at_ps - now_ps(), 0)));
  return to_memory->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum RootComplex::nb_transport_bw(tlm::tlm_generic_payload& payload,
                                                tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (payload.get_extension<Access>()->device)
    return from_switch->nb_transport_bw(payload, phase, delay);
  return from_link->nb_transport_bw(payload, phase, delay);
}

}  // namespace marrow::pcie
