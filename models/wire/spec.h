// The network's parameters.
#pragma once

namespace marrow {

struct WireSpec {
  double gbps = 0;                  ///< a port's data rate
  double mtu_bytes = 0;             ///< payload of a packet at most
  double header_bytes = 0;          ///< of every packet: link, network, BTH, checksums, gap
  double request_header_bytes = 0;  ///< more in a request's first packet (RETH)
  double ack_header_bytes = 0;      ///< more in an acknowledgement (AETH)
  double cable_ns = 0;              ///< one cable, one way, with both ends' PHYs and FEC
  double switches = 0;              ///< switches on the way
  double switch_ns = 0;             ///< one switch, cut-through
  double buffer_bytes = 0;  ///< what a switch's egress may queue until credits (InfiniBand) or PFC
                            ///< (RoCE) stop the sender
  double pauses = 1;        ///< a full egress stops the sender; 0: it drops what comes
  double loss_ratio = 0;    ///< share of packets lost
};

}  // namespace marrow
