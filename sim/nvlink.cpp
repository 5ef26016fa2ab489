#include "sim/nvlink.h"

#include <fmt/format.h>

namespace marrow::sim {

namespace {

std::vector<std::unique_ptr<nvlink::Link>> links_of(const config::SystemSpec& spec,
                                                    std::size_t gpus) {
  std::vector<std::unique_ptr<nvlink::Link>> links;
  for (std::size_t gpu = 0; gpu < gpus; ++gpu)
    links.push_back(
        std::make_unique<nvlink::Link>(fmt::format("gpu{}_nvlink", gpu).c_str(), spec.nvlink));
  return links;
}

}  // namespace

Nvlink::Nvlink(const config::SystemSpec& spec, const std::vector<gpu::L2*>& l2s)
    : links_(links_of(spec, l2s.size())),
      switch_("nvlink_switch"),
      warp_("peer_warp", spec.gpu, 1, 0, l2s[1], links_[1].get()) {
  warp_.memory.bind(l2s[1]->from_sms);
  std::vector<gpu::PeerPort::Gpu> gpus;
  for (std::size_t gpu = 0; gpu < l2s.size(); ++gpu) {
    nvlink::Link& link = *links_[gpu];
    l2s[gpu]->to_peers.bind(link.from_gpu);
    link.to_switch.bind(switch_.from_links);
    switch_.to_links.bind(link.from_switch);
    link.to_gpu.bind(l2s[gpu]->from_sms);
    gpus.push_back({l2s[gpu], &link});
  }
  for (std::uint32_t gpu = 0; gpu < gpus.size(); ++gpu)
    ports_.push_back(std::make_unique<gpu::PeerPort>(fmt::format("gpu{}_peer_port", gpu).c_str(),
                                                     spec.gpu, spec.nvlink, gpu, gpus));
}

void Nvlink::reset(std::uint64_t seed) {
  for (auto& link : links_) link->reset(seed++);
  for (auto& port : ports_) port->reset(seed++);
}

void Nvlink::set_observer(Observer* observer) {
  for (auto& link : links_) link->set_observer(observer);
}

void Nvlink::report(CounterSink& sink) const {
  for (const auto& link : links_) link->report(sink);
  for (const auto& port : ports_) port->report(sink);
  warp_.report(sink);
}

void Nvlink::clear_counters() {
  for (auto& link : links_) link->clear_counters();
  for (auto& port : ports_) port->clear_counters();
  warp_.clear_counters();
}

}  // namespace marrow::sim
