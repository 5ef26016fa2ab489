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
  // A block that copies to a peer: each thread loads 16 B, then stores them; or in bulk.
  double round_cycles = 0;       ///< of the SM: of a round, besides its load
  double warp_cycles = 0;        ///< of a round, for each of its warps
  double chunk_bytes = 0;        ///< one bulk copy, through shared memory
  double chunk_cycles = 0;       ///< of a chunk, besides load and bytes
  double bulk_cycles = 0;        ///< of a whole bulk copy, more
  double bulk_gbps = 0;          ///< of one SM's chunks
  double turn_bytes = 0;         ///< of one SM in its turn at the link
  double queue_bytes = 0;        ///< of one block, waiting for the link
  double turn_spread_ratio = 0;  ///< half width of its variation, by pair of SMs
  // A system fence waits in two steps: for its own SM's way, then for a flush of all that the GPU
  // has stored to peers; one flush at a time.
  double fence_cycles = 0;    ///< of the L2: until it asks for a flush
  double flush_cycles = 0;    ///< shortest flush
  double sm_way_cycles = 0;   ///< half width of an SM's way there
  double ack_wait_ratio = 0;  ///< an acknowledgement's wait for the link, to that of a store
  // While SMs read the L2 as fast as they can.
  double busy_line_cycles = 0;               ///< mean of what a line's load takes more
  double copy_outstanding_bytes = 0;         ///< of a copy, that a fence waits for
  double copy_outstanding_spread_bytes = 0;  ///< half width of its variation
  double copy_issue_us = 0;                  ///< a copy behind another, besides its bytes
  double copy_start_us = 0;                  ///< first of a row of copies, more
  double copy_queue_bytes = 0;  ///< waiting in front of the link while a copy saturates it
};

}  // namespace marrow
