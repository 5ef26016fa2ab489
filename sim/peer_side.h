// What NVLink adds to a machine: a second GPU, as far as its memory is reached and a warp of it
// polls there, and the links between the two.
#pragma once

#include <cstdint>

#include "models/common/observer.h"
#include "models/common/placement.h"
#include "models/gpu/hbm.h"
#include "models/gpu/l2.h"
#include "models/gpu/peer_warp.h"
#include "models/nvlink/link.h"
#include "models/nvlink/switch.h"
#include "sim/config/system.h"

namespace marrow::sim {

class PeerSide {
 public:
  /// Binds itself to the L2 of GPU 0.
  PeerSide(const config::SystemSpec& spec, gpu::L2& gpu0_l2);

  /// Before each run. bytes: of GPU 1's memory that the run uses.
  void reset(std::uint64_t bytes, std::uint64_t seed);
  Consumer& consumer() { return warp_; }
  void set_observer(Observer* observer);
  void report(CounterSink& sink) const;
  void clear_counters();

 private:
  const config::SystemSpec spec_;
  gpu::Hbm hbm_;
  gpu::L2 l2_;
  nvlink::Link gpu0_link_, gpu1_link_;
  nvlink::Switch switch_;
  gpu::PeerWarp warp_;
  Placement placement_;
};

}  // namespace marrow::sim
