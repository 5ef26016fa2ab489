// Two clocks that can only be compared by messages: the GPU's globaltimer and the processor's.
#pragma once

#include <cstdint>
#include <span>

namespace marrow::capture {

/// One message to the processor and its answer. GPU times are globaltimer from some moment on (a
/// double holds an absolute one only to 256 ns), processor times its own.
struct PingPong {
  double gpu_send_ns, cpu_seen_ns, cpu_reply_ns, gpu_seen_ns;
};

/// gpu = gpu_zero + cpu + offset at `at_cpu_ns`, known to lie within +-`bound_ns`: no message
/// arrives before it was sent.
struct ClockOffset {
  double at_cpu_ns = 0, offset_ns = 0, bound_ns = 0;
  std::uint64_t gpu_zero_ns = 0;  ///< the globaltimer from which the samples' GPU times count
};

/// From samples taken within a few milliseconds. Each narrows the bounds: seen - send is the way
/// there plus the offset, and so on; a sample that contradicts the others (a clock that stepped) is
/// left out. Throws std::invalid_argument if there is none.
ClockOffset align(std::span<const PingPong> samples);

/// Between two alignments: the offset drifts evenly.
class ClockMap {
 public:
  ClockMap(const ClockOffset& begin, const ClockOffset& end) : begin_(begin), end_(end) {}

  /// The globaltimer at that moment, as ns after `epoch_ns`.
  double gpu_ns_after(double cpu_ns, std::uint64_t epoch_ns) const;
  /// How far off that can be; drift that is not even is not in it.
  double bound_ns() const;

 private:
  ClockOffset begin_, end_;
};

}  // namespace marrow::capture
