#include "models/pcie/link.h"

#include <algorithm>
#include <cmath>

#include "models/common/delay_line.h"

namespace marrow::pcie {

Link::Link(sc_core::sc_module_name name, const PcieSpec& spec)
    : sc_module(name), spec_(spec), wires_(spec) {
  from_device.register_transport_dbg(this, &Link::transport_dbg);
  from_device.register_nb_transport_fw(this, &Link::nb_transport_fw);
  to_root.register_nb_transport_bw(this, &Link::nb_transport_bw);
}

void Link::reset(std::uint64_t seed) {
  wires_.reset();
  random_ = Random(seed);
}

void Link::clear_counters() {
  wires_.clear_counters();
  posted_ = non_posted_ = completions_ = 0;
}

tlm::tlm_sync_enum Link::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                         sc_core::sc_time& delay) {
  const Access& access = *payload.get_extension<Access>();
  const Ps at_ps = now_ps() + static_cast<Ps>(delay.value());
  const bool posted = access.kind == AccessKind::kStore;
  const Train request = posted ? wires_.train(TlpKind::kMemWr, payload.get_data_length())
                               : wires_.train(TlpKind::kMemRd, 0);
  const Ps sent_ps = wires_.send(Way::kUp, at_ps, request).end_ps;
  ++(posted ? posted_ : non_posted_);
  const Ps request_ps = ps_from_ns(spec_.round_trip_ns * spec_.request_share_ratio +
                                   (posted ? 0 : random_.around(spec_.jitter_ns)));
  delay = sc_core::sc_time::from_value(static_cast<std::uint64_t>(sent_ps + request_ps - now_ps()));
  const auto status = to_root->nb_transport_fw(payload, phase, delay);
  if (!posted) {
    const Ps memory_ps = now_ps() + static_cast<Ps>(delay.value());
    ++completions_;
    const Ps completion_ps = ps_from_ns(spec_.round_trip_ns * (1 - spec_.request_share_ratio));
    const Train completion = wires_.train(TlpKind::kCplD, payload.get_data_length());
    const Ps back_ps = wires_.send(Way::kDown, memory_ps, completion).end_ps + completion_ps;
    delay = sc_core::sc_time::from_value(static_cast<std::uint64_t>(back_ps - now_ps()));
  }
  return status;
}

tlm::tlm_sync_enum Link::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                         sc_core::sc_time& delay) {
  const Ps completion_ps =
      ps_from_ns(spec_.round_trip_ns * (1 - spec_.request_share_ratio)) +
      wires_.length_ps(wires_.train(TlpKind::kCplD, payload.get_data_length()));
  delay += sc_core::sc_time::from_value(static_cast<std::uint64_t>(completion_ps));
  return from_device->nb_transport_bw(payload, phase, delay);
}

void Link::report(CounterSink& sink) const {
  wires_.report(Way::kUp, sink);
  sink.add("pcie.up", "MemWr (posted)", static_cast<double>(posted_), "count");
  sink.add("pcie.up", "MemRd (non-posted)", static_cast<double>(non_posted_), "count");
  wires_.report(Way::kDown, sink);
  sink.add("pcie.down", "CplD (completions)", static_cast<double>(completions_), "count");
}

}  // namespace marrow::pcie
