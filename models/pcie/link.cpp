#include "models/pcie/link.h"

#include <algorithm>
#include <cmath>

#include "models/common/delay_line.h"

namespace marrow::pcie {

double raw_bytes_per_second(int generation, int lanes) {
  constexpr double kGigatransfers[] = {0, 2.5, 5, 8, 16, 32, 64};
  const double encoding = generation <= 2 ? 8.0 / 10 : generation <= 5 ? 128.0 / 130 : 236.0 / 256;
  return kGigatransfers[generation] * 1e9 * lanes * encoding / 8;
}

double train_ns(const PcieSpec& spec, std::uint64_t payload_bytes) {
  const double tlps = std::max(1.0, std::ceil(static_cast<double>(payload_bytes) / spec.mps_bytes));
  const double bytes = static_cast<double>(payload_bytes) + tlps * spec.tlp_overhead_bytes;
  const double rate =
      raw_bytes_per_second(static_cast<int>(spec.generation), static_cast<int>(spec.lanes)) *
      (1 - spec.dllp_ratio);
  return bytes / rate * 1e9;
}

Link::Link(sc_core::sc_module_name name, const PcieSpec& spec) : sc_module(name), spec_(spec) {
  from_device.register_transport_dbg(this, &Link::transport_dbg);
  from_device.register_nb_transport_fw(this, &Link::nb_transport_fw);
  to_root.register_nb_transport_bw(this, &Link::nb_transport_bw);
}

void Link::reset(std::uint64_t seed) {
  up_.free_ps = down_.free_ps = 0;
  random_ = Random(seed);
}

void Link::clear_counters() {
  up_ = {up_.free_ps};
  down_ = {down_.free_ps};
  posted_ = non_posted_ = completions_ = 0;
}

Ps Link::send(Direction& direction, Ps at_ps, std::uint64_t payload_bytes, const char* block,
              const char* what) {
  const Ps start_ps = std::max(at_ps, direction.free_ps);
  const Ps length_ps = train_ps(payload_bytes);
  direction.free_ps = start_ps + length_ps;
  direction.busy_ps += length_ps;
  const auto tlps = static_cast<std::uint64_t>(
      std::max(1.0, std::ceil(static_cast<double>(payload_bytes) / spec_.mps_bytes)));
  direction.tlps += tlps;
  direction.payload_bytes += payload_bytes;
  direction.bytes += payload_bytes + static_cast<std::uint64_t>(static_cast<double>(tlps) *
                                                                spec_.tlp_overhead_bytes);
  if (observer_ && observer_->wants_activity())
    observer_->on_activity({block, what, start_ps, direction.free_ps});
  return direction.free_ps;
}

Ps Link::train_ps(std::uint64_t payload_bytes) const {
  return ps_from_ns(train_ns(spec_, payload_bytes));
}

Ps Link::send_up(Ps at_ps, std::uint64_t payload_bytes, const char* what) {
  return send(up_, at_ps, payload_bytes, "pcie.up", what);
}

Ps Link::send_down(Ps at_ps, std::uint64_t payload_bytes, const char* what) {
  return send(down_, at_ps, payload_bytes, "pcie.down", what);
}

tlm::tlm_sync_enum Link::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                         sc_core::sc_time& delay) {
  const Access& access = *payload.get_extension<Access>();
  const Ps at_ps = now_ps() + static_cast<Ps>(delay.value());
  const bool posted = access.kind == AccessKind::kStore;
  const Ps sent_ps =
      posted ? send_up(at_ps, payload.get_data_length(), "MemWr") : send_up(at_ps, 0, "MemRd");
  ++(posted ? posted_ : non_posted_);
  const Ps request_ps = ps_from_ns(spec_.round_trip_ns * spec_.request_share_ratio +
                                   (posted ? 0 : random_.around(spec_.jitter_ns)));
  delay = sc_core::sc_time::from_value(static_cast<std::uint64_t>(sent_ps + request_ps - now_ps()));
  const auto status = to_root->nb_transport_fw(payload, phase, delay);
  if (!posted) {
    // A completion is small and late: its turn on the way down is taken now, in request order.
    const Ps memory_ps = now_ps() + static_cast<Ps>(delay.value());
    ++completions_;
    const Ps completion_ps = ps_from_ns(spec_.round_trip_ns * (1 - spec_.request_share_ratio));
    const Ps back_ps = send_down(memory_ps, payload.get_data_length(), "CplD") + completion_ps;
    delay = sc_core::sc_time::from_value(static_cast<std::uint64_t>(back_ps - now_ps()));
  }
  return status;
}

tlm::tlm_sync_enum Link::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                         sc_core::sc_time& delay) {
  const Ps completion_ps = ps_from_ns(spec_.round_trip_ns * (1 - spec_.request_share_ratio) +
                                      train_ns(spec_, payload.get_data_length()));
  delay += sc_core::sc_time::from_value(static_cast<std::uint64_t>(completion_ps));
  return from_device->nb_transport_bw(payload, phase, delay);
}

void Link::report(CounterSink& sink) const {
  const auto direction = [&](const char* block, const Direction& d) {
    sink.add(block, "TLPs", static_cast<double>(d.tlps), "count");
    sink.add(block, "bytes", static_cast<double>(d.bytes), "bytes");
    sink.add(block, "payload", static_cast<double>(d.payload_bytes), "bytes");
    sink.add(block, "busy", static_cast<double>(d.busy_ps) / 1000, "ns");
  };
  direction("pcie.up", up_);
  sink.add("pcie.up", "MemWr (posted)", static_cast<double>(posted_), "count");
  sink.add("pcie.up", "MemRd (non-posted)", static_cast<double>(non_posted_), "count");
  direction("pcie.down", down_);
  sink.add("pcie.down", "CplD (completions)", static_cast<double>(completions_), "count");
}

}  // namespace marrow::pcie
