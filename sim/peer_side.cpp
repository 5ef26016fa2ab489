#include "sim/peer_side.h"

#include <algorithm>

namespace marrow::sim {

PeerSide::PeerSide(const config::SystemSpec& spec, gpu::L2& gpu0_l2)
    : spec_(spec),
      hbm_("gpu1_hbm", spec.gpu),
      l2_("gpu1_l2", spec.gpu, ps_from_ns(spec.pcie.round_trip_ns + spec.host.device_written_ns),
          hbm_.memory()),
      gpu0_link_("gpu0_nvlink", spec.nvlink),
      gpu1_link_("gpu1_nvlink", spec.nvlink),
      switch_("nvlink_switch"),
      warp_("peer_warp", spec.gpu, 1, 0, &l2_, &gpu1_link_) {
  l2_.to_hbm.bind(hbm_.from_l2);
  warp_.memory.bind(l2_.from_sms);
  gpu::L2* l2s[] = {&gpu0_l2, &l2_};
  nvlink::Link* links[] = {&gpu0_link_, &gpu1_link_};
  for (int gpu : {0, 1}) {
    l2s[gpu]->to_peers.bind(links[gpu]->from_gpu);
    links[gpu]->to_switch.bind(switch_.from_links);
    switch_.to_links.bind(links[gpu]->from_switch);
    links[gpu]->to_gpu.bind(l2s[gpu]->from_sms);
  }
}

void PeerSide::reset(std::uint64_t bytes, std::uint64_t seed) {
  bytes = std::max<std::uint64_t>(bytes, Placement::kPageBytes);
  placement_.draw(bytes, static_cast<std::uint32_t>(spec_.gpu.sm_count), seed,
                  spec_.gpu.distance_spread_cycles);
  hbm_.reset(placement_.gpu_bytes());
  l2_.reset(placement_.gpu_bytes(), &placement_, seed);
  gpu0_link_.reset(seed);
  gpu1_link_.reset(seed + 1);
}

void PeerSide::set_observer(Observer* observer) {
  l2_.set_observer(observer);
  gpu0_link_.set_observer(observer);
  gpu1_link_.set_observer(observer);
}

void PeerSide::report(CounterSink& sink) const {
  l2_.report(sink);
  hbm_.report(sink);
  gpu0_link_.report(sink);
  gpu1_link_.report(sink);
  warp_.report(sink);
}

void PeerSide::clear_counters() {
  l2_.clear_counters();
  hbm_.clear_counters();
  gpu0_link_.clear_counters();
  gpu1_link_.clear_counters();
  warp_.clear_counters();
}

}  // namespace marrow::sim
