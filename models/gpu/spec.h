// A GPU's parameters. Cycles are of the SM clock where the work is done in the SM, of the L2 clock
// where it is done in the crossbar, the L2 or the fence logic behind it.
#pragma once

#include <cstdint>

namespace marrow {

struct GpuSpec {
  double sm_clock_ghz = 0;
  double sm_nominal_clock_ghz = 0;  ///< where L2 cycles last as long as l2_clock_ghz says in files
  double l2_clock_ghz = 0;          ///< at sm_clock_ghz
  double l2_follows_sm = 0;         ///< share of an L2 cycle that goes with the SM clock
  double sm_count = 0;
  // SM
  double store_cycles = 0;       ///< between stores of at most 8 bytes of one lane
  double store_lane_cycles = 0;  ///< of the SM's port to the L2, for each lane's store of <= 8 B
  double store16_cycles = 0;     ///< between 16-byte stores of one lane
  // L2
  double load_cycles = 0;            ///< round trip of a load that hits the SM's partition
  double load_far_extra_cycles = 0;  ///< more, once, after the line was written in the far one
  double near_cycles = 0;            ///< round trip to a line's home: atomics, store visibility
  double far_cycles = 0;
  double distance_spread_cycles = 0;  ///< half width of a line's distance, where it is drawn
  double atomic_interval_cycles = 0;  ///< between atomics on one word
  double jitter_cycles = 0;           ///< half width of a round trip's variation
  double l2_bytes = 0;                ///< capacity
  // HBM
  double hbm_cycles = 0;  ///< more than an L2 hit, of the L2 clock
  double hbm_gbps = 0;    ///< all channels
  double hbm_channels = 0;
  // fences
  double fence_cta_cycles = 0;
  double fence_gpu_cycles = 0;       ///< nothing stored since the last one
  double fence_gpu_near_cycles = 0;  ///< lines stored to since the last one are near
  double fence_gpu_far_cycles = 0;
  double fence_gpu_host_cycles = 0;               ///< host memory stored to since the last one
  double fence_gpu_beside_host_reads_cycles = 0;  ///< at least, while another SM reads the host
  double fence_gpu_peer_cycles = 0;               ///< once a peer's memory has been stored to
  double fence_sys_cycles = 0;
  double fence_sys_peer_cycles = 0;        ///< from a store to a peer until a fence sees it done
  double fence_sys_host_extra_cycles = 0;  ///< more at most, by line, after host stores
  double fence_sys_after_read_cycles = 0;  ///< end of a host read it had to wait for until its own
  double fence_sys_host_peer_cycles = 0;   ///< after host stores, where NVLink reaches a peer
  double fence_arrival_cycles = 0;         ///< until a fence arrives at the host interface
  // what CPU threads submit
  double kernel_start_ns = 0;  ///< doorbell rung until the first instruction
  double kernel_end_ns = 0;    ///< last instruction until the write that tells the host
  double copy_start_ns = 0;    ///< doorbell rung until the copy engine turns to it
  double copy_turn_ns = 0;     ///< of each copy, besides its bytes
};

}  // namespace marrow
