#include "tools/capture/host/clock_alignment.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace marrow::capture {

ClockOffset align(std::span<const PingPong> samples) {
  if (samples.empty()) throw std::invalid_argument("no samples to align clocks with");
  // The offset is less than gpu_seen - cpu_reply and more than gpu_send - cpu_seen. The samples
  // with the shortest round trips bound it best.
  std::vector<PingPong> sorted(samples.begin(), samples.end());
  const auto trip = [](const PingPong& s) {
    return (s.gpu_seen_ns - s.gpu_send_ns) - (s.cpu_reply_ns - s.cpu_seen_ns);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const PingPong& a, const PingPong& b) { return trip(a) < trip(b); });
  double low = sorted.front().gpu_send_ns - sorted.front().cpu_seen_ns;
  double high = sorted.front().gpu_seen_ns - sorted.front().cpu_reply_ns;
  double at_ns = 0;
  for (const PingPong& s : sorted) {
    at_ns += s.cpu_seen_ns / static_cast<double>(sorted.size());
    const double above = s.gpu_send_ns - s.cpu_seen_ns, below = s.gpu_seen_ns - s.cpu_reply_ns;
    if (above > high || below < low) continue;
    low = std::max(low, above);
    high = std::min(high, below);
  }
  return {at_ns, (low + high) / 2, (high - low) / 2, 0};
}

double ClockMap::gpu_ns_after(double cpu_ns, std::uint64_t epoch_ns) const {
  const auto after = [&](const ClockOffset& at) {
    return cpu_ns + at.offset_ns +
           static_cast<double>(static_cast<std::int64_t>(at.gpu_zero_ns - epoch_ns));
  };
  const double span = end_.at_cpu_ns - begin_.at_cpu_ns;
  const double share = span > 0 ? (cpu_ns - begin_.at_cpu_ns) / span : 0;
  return after(begin_) + share * (after(end_) - after(begin_));
}

double ClockMap::bound_ns() const { return std::max(begin_.bound_ns, end_.bound_ns); }

}  // namespace marrow::capture
