// The CPU thread that stands where a NIC or a proxy thread would stand.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "tools/capture/host/layout.h"

namespace marrow::capture {

/// The processor's cheapest clock: ticks of a steady rate.
std::uint64_t ticks_now();
/// ns per tick, by CLOCK_MONOTONIC_RAW over a fifth of a second; measured once.
double ns_per_tick();

class HostConsumer {
 public:
  /// When one entry was seen, read and completed, in ticks.
  struct Times {
    std::uint64_t seen = 0, read = 0, done = 0;
  };
  struct Work {
    HostQueue* queues;   ///< zero at first
    const Entry* rings;  ///< kDepth entries a queue
    std::uint32_t queue_count;
    std::uint64_t per_queue;  ///< entries to come in each queue
    std::uint64_t bytes;      ///< copied for each entry before it completes
    /// false: a doorbell announces entries; true: the tag in an entry's last word does, which is
    /// the entry's index plus 1.
    bool by_tag;
    double limit_ns;  ///< gives up after so long
  };
  explicit HostConsumer(const Work& work);

  /// Polls until all entries have come, `stop` is set or the time is over. Runs in the caller's
  /// thread.
  void run(const std::atomic<bool>& stop);

  std::uint64_t consumed() const { return consumed_; }
  const std::vector<Times>& times(std::uint32_t queue) const { return times_[queue]; }

 private:
  Work work_;
  std::vector<std::vector<Times>> times_;
  std::vector<std::uint64_t> heads_;
  std::vector<char> from_, to_;
  std::uint64_t consumed_ = 0;
};

}  // namespace marrow::capture
