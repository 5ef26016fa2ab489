// Parameters of PCIe links and of what joins them.
#pragma once

namespace marrow {

struct PcieSpec {
  double generation = 0;  ///< 1 to 6
  double lanes = 0;
  double tlp_overhead_bytes = 0;   ///< header, sequence number, LCRC and framing of a TLP
  double dllp_ratio = 0;           ///< share of the raw rate that ACK and credit DLLPs take
  double mps_bytes = 0;            ///< maximum payload size
  double round_trip_ns = 0;        ///< L2 to host memory and back: read of one idle line
  double jitter_ns = 0;            ///< half width of a read's variation
  double request_share_ratio = 0;  ///< share of the round trip until memory is reached
};

/// What joins a GPU and its NIC.
struct SwitchSpec {
  double gpu_ns = 0;   ///< between a GPU's L2 and its end of the link, one way
  double hop_ns = 0;   ///< between the links of GPU and NIC, one way, beyond serialisation
  double host_ns = 0;  ///< between the NIC's link and host memory or a core's way out, one way
  double host_read_ns = 0;  ///< more for a read of host memory: what writes need not wait for
};

}  // namespace marrow
