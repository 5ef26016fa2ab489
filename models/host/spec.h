// A host's parameters.
#pragma once

#include <cstdint>

#include "models/common/time.h"

namespace marrow {

struct HostSpec {
  double write_buffer_bytes = 0;  ///< posted writes that the root complex holds
  double write_drain_gbps = 0;    ///< at which memory takes them
  double socket_hop_ns = 0;       ///< to the other socket, one way
  // A core's times hold at its full clock and grow with a lower one.
  double clock_ghz = 0;            ///< of a core that is busy without pause
  double cold_clock_ghz = 0;       ///< of one that has been idle
  double cold_extra = 1;           ///< how much longer its times are than its clock says
  double window_cycles = 0;        ///< that a core loads ahead of what it does
  double line_ns = 0;              ///< a line that a device wrote a while ago, to a core
  double poll_ns = 0;              ///< a look at one cached word
  double notice_ns = 0;            ///< device write at the memory until a core can have the word
  double notice_spread_ns = 0;     ///< half width of its variation
  double fence_ns = 0;             ///< a core's store fence or locked instruction
  double mmio_ns = 0;              ///< a core's store to a register until the root complex has it
  double snoop_ns = 0;             ///< more for a device read of a line that a core wrote last
  double device_written_ns = 0;    ///< the same, of a line that a device wrote last
  double read_after_store_ns = 0;  ///< more for a device read behind its own posted writes
  double copy_overhead_ns = 0;     ///< memcpy between host buffers: fixed part
  double copy_l1_gb_per_s = 0;     ///< while both buffers fit copy_l1_bytes
  double copy_l1_bytes = 0;
  double copy_gb_per_s = 0;        ///< beyond
  double launch_call_ns = 0;       ///< a thread's call that launches a kernel into an idle stream
  double launch_behind_ratio = 0;  ///< the same into a stream with work before it, to that
  double copy_call_ns = 0;         ///< a thread's call that starts a copy engine's copy
};

/// A core's memcpy between host buffers.
inline Ps memcpy_ps(const HostSpec& host, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  const auto size = static_cast<double>(bytes);
  const double rate = size <= host.copy_l1_bytes ? host.copy_l1_gb_per_s : host.copy_gb_per_s;
  return ps_from_ns(host.copy_overhead_ns + size / rate);
}

}  // namespace marrow
