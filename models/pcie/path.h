// The way between a device and a memory: links, switches and sockets, hop by hop.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/pcie/duplex.h"

namespace marrow::pcie {

/// One direction of a link, then what lies behind it: a switch, a root complex, another socket.
/// Everybody who crosses the link shares it.
struct Hop {
  Duplex* link = nullptr;  ///< null: a hop that cannot contend
  Way way = Way::kUp;
  Ps latency_ps = 0;
  bool cuts_through = false;  ///< what lies behind sends a TLP on while it still comes in
};

/// Where posted writes wait until memory has taken them. Its space is the sender's credit.
struct WriteBuffer {
  double bytes = 0;
  double ps_per_byte = 0;  ///< at which it drains
  Ps drained_ps = 0;
};

/// NIC to a GPU behind the same switch: out = {NIC's link up, switch}, {GPU's link down, 0}, back
/// the other ways about. To host memory: out = {NIC's link up, root complex}. To a GPU of the other
/// socket: out = {NIC's link up, root complex}, {null, socket link}, {GPU's link down, 0}.
struct Path {
  std::vector<Hop> out;   ///< requests and what is written; the device's own link first
  std::vector<Hop> back;  ///< completions
  /// From a request's arrival at the memory until its data are there to be sent.
  std::function<Ps(std::uint64_t address, std::uint64_t bytes)> read_latency;
  WriteBuffer* buffer = nullptr;  ///< null: memory takes writes as fast as links bring them
};

/// A train on a path. Its TLPs become ready evenly between two times.
struct Flow {
  Train train;
  std::uint64_t first_bytes = 0, last_bytes = 0;  ///< payload of the first and of the last TLP
  Ps first_ready_ps = 0, last_ready_ps = 0;
};

struct Arrival {
  Ps first_ps = 0;  ///< the first TLP is there, whole
  Ps last_ps = 0;   ///< the last TLP is there
  Ps sent_ps = 0;   ///< the last byte has left the first link on the way
};

/// Takes a train over hops. A link receives a TLP whole before the next hop sends it, unless that
/// cuts through.
Arrival travel(const std::vector<Hop>& hops, const Flow& flow);

}  // namespace marrow::pcie
