// Parameters of PCIe links and of what joins them.
#pragma once

namespace marrow {

struct PcieSpec {
  double generation = 0;  ///< 1 to 6
  double lanes = 0;
  double tlp_overhead_bytes = 0;         ///< header, sequence number, LCRC and framing of a request
  double completion_overhead_bytes = 0;  ///< the same of a completion
  double dllp_ratio = 0;     ///< share of the raw rate that no TLP and no DLLP counted below gets
  double ack_bytes = 0;      ///< DLLP bytes that acknowledge one TLP, on the other direction
  double credit_bytes = 0;   ///< DLLP bytes that give one request's credits back, likewise
  double mps_bytes = 0;      ///< maximum payload size
  double mrrs_bytes = 0;     ///< maximum read request size, a power of two
  double rcb_bytes = 0;      ///< read completion boundary
  double combine_bytes = 0;  ///< shortest request whose completions are filled up to MPS
  double round_trip_ns = 0;  ///< L2 to host memory and back: read of one idle line
  double jitter_ns = 0;      ///< half width of a read's variation
  double request_share_ratio = 0;  ///< share of the round trip until memory is reached
};

/// What joins a GPU and its NIC.
struct SwitchSpec {
  double gpu_ns = 0;        ///< between a GPU's L2 and its end of the link, one way
  double hop_ns = 0;        ///< between the links of GPU and NIC, one way, beyond serialisation
  double host_ns = 0;       ///< between the NIC's link and host memory or a core's way out, one way
  double host_read_ns = 0;  ///< more for a read of host memory: what writes need not wait for
};

/// A device's DMA engine.
struct DmaSpec {
  double tags_count = 0;         ///< read requests on their way
  double outstanding_bytes = 0;  ///< read bytes on their way
  double setup_ns = 0;           ///< descriptor handed over until the engine works on it
  double request_ns = 0;         ///< between read requests of one transfer
  double completion_ns = 0;      ///< between completions that the engine takes in
  double read_turn_ns = 0;       ///< per read, on the bus that delivers data in the device
  double read_beat_bytes = 0;
  double read_beat_ns = 0;
  double gather_ns = 0;      ///< latency of the device's own memory, read before a write
  double write_turn_ns = 0;  ///< per write, on the bus that gathers data, and between writes' TLPs
  double write_beat_bytes = 0;
  double write_beat_ns = 0;
};

}  // namespace marrow
