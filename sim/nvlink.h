// What NVLink adds to a machine: the ports of its GPUs, the switch between them, what each GPU's
// SMs have on the way to peers, and a warp of GPU 1 that can stand for the NIC.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/common/observer.h"
#include "models/gpu/l2.h"
#include "models/gpu/peer_port.h"
#include "models/gpu/peer_warp.h"
#include "models/nvlink/link.h"
#include "models/nvlink/switch.h"
#include "sim/config/system.h"

namespace marrow::sim {

class Nvlink {
 public:
  /// Binds itself to the GPUs' L2s: two or more.
  Nvlink(const config::SystemSpec& spec, const std::vector<gpu::L2*>& l2s);

  /// Before each run.
  void reset(std::uint64_t seed);
  Consumer& consumer() { return warp_; }
  gpu::PeerPort& port(std::uint32_t gpu) { return *ports_[gpu]; }
  void set_observer(Observer* observer);
  void report(CounterSink& sink) const;
  void clear_counters();

 private:
  std::vector<std::unique_ptr<nvlink::Link>> links_;
  nvlink::Switch switch_;
  std::vector<std::unique_ptr<gpu::PeerPort>> ports_;
  gpu::PeerWarp warp_;
};

}  // namespace marrow::sim
