#include "models/gpu/hbm.h"

#include <algorithm>

#include "models/common/delay_line.h"
#include "models/common/placement.h"

namespace marrow::gpu {

Hbm::Hbm(sc_core::sc_module_name name, const GpuSpec& spec)
    : sc_module(name),
      spec_(spec),
      channel_free_ps_(static_cast<std::size_t>(spec.hbm_channels), 0) {
  from_l2.register_b_transport(this, &Hbm::b_transport);
}

void Hbm::reset(std::uint64_t bytes) {
  memory_.resize(bytes);
  std::fill(channel_free_ps_.begin(), channel_free_ps_.end(), 0);
}

void Hbm::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  ++lines_;
  const std::uint64_t line = payload.get_address() / Placement::kLineBytes;
  Ps& free_ps = channel_free_ps_[line % channel_free_ps_.size()];
  const Ps at_ps = now_ps() + static_cast<Ps>(delay.value());
  const Ps start_ps = std::max(at_ps, free_ps);
  const double channel_bytes_per_ns = spec_.hbm_gbps / 8 / spec_.hbm_channels;
  free_ps =
      start_ps + ps_from_ns(static_cast<double>(Placement::kLineBytes) / channel_bytes_per_ns);
  delay = sc_core::sc_time::from_value(static_cast<std::uint64_t>(
      start_ps + static_cast<Ps>(spec_.hbm_cycles * 1000.0 / spec_.l2_clock_ghz) - now_ps()));
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

void Hbm::report(CounterSink& sink) const {
  if (lines_ == 0) return;
  sink.add(name(), "lines read", static_cast<double>(lines_), "count");
}

}  // namespace marrow::gpu
