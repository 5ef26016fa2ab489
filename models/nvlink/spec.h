// NVLink's parameters: what lies between one GPU's L2 and another's.
#pragma once

namespace marrow {

struct NvlinkSpec {
  double peers = 0;                  ///< other GPUs that a GPU reaches
  double rate_gbps = 0;              ///< all links of a GPU, each way
  double packet_overhead_bytes = 0;  ///< header, CRC and flow control of a packet
  double packet_bytes = 0;           ///< largest payload of a packet
  double sector_bytes = 0;           ///< payloads are whole sectors
  double load_round_trip_ns = 0;     ///< L2 to a line in the peer's and back: loads
  double atomic_round_trip_ns = 0;   ///< the same, atomics
  double store_ns = 0;               ///< L2 until a store is visible in the peer's
  double load_spread_ns = 0;         ///< half width of a load's variation, by line
};

}  // namespace marrow
