// NVLink's parameters: what lies between one GPU's L2 and another's.
#pragma once

namespace marrow {

struct NvlinkSpec {
  double peers = 0;             ///< other GPUs that a GPU reaches
  double rate_gbps = 0;         ///< all links of a GPU, each way
  double link_layer_ratio = 0;  ///< share of the rate that CRC, credits and acknowledgements take
  double packet_overhead_bytes = 0;  ///< header of a packet
  double partial_bytes = 0;          ///< byte enables of a packet that does not fill its sectors
  double packet_bytes = 0;           ///< largest payload of a packet
  double sector_bytes = 0;           ///< payloads are whole sectors
  double load_round_trip_ns = 0;     ///< L2 to a line in the peer's and back: loads
  double atomic_round_trip_ns = 0;   ///< the same, atomics
  double store_ns = 0;               ///< L2 until a store is visible in the peer's
  double load_spread_ns = 0;         ///< half width of a load's variation, by line
  // What one SM or a copy engine brings to the link.
  double sm_store_gbps = 0;          ///< 16 B stores in order
  double sm_load_gbps = 0;           ///< 16 B loads in order
  double sm_scattered_store_ns = 0;  ///< between stores of which no two share a packet
  double copy_issue_us = 0;          ///< a copy behind another, besides its bytes
  double copy_start_us = 0;          ///< first of a row of copies, more
  double copy_queue_bytes = 0;       ///< waiting in front of the link while a copy saturates it
};

}  // namespace marrow
