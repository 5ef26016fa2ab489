#include "tools/capture/host/host_consumer.h"

#include <cstring>

#include "tools/common/host_clock.h"

namespace marrow::capture {

using tools::host_ns;

std::uint64_t ticks_now() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(host_ns());
#endif
}

double ns_per_tick() {
  static const double value = [] {
    const double begin = host_ns();
    const std::uint64_t first = ticks_now();
    double now = begin;
    while (now - begin < 2e8) now = host_ns();
    return (now - begin) / static_cast<double>(ticks_now() - first);
  }();
  return value;
}

HostConsumer::HostConsumer(const Work& work)
    : work_(work),
      times_(work.queue_count, std::vector<Times>(work.per_queue)),
      heads_(work.queue_count, 0),
      from_(work.bytes, 1),
      to_(work.bytes, 0) {}

void HostConsumer::run(const std::atomic<bool>& stop) {
  const std::uint64_t total = work_.per_queue * work_.queue_count;
  const double begin = host_ns();
  std::uint64_t sink = 0;
  const auto consume = [&](std::uint32_t q, std::uint64_t seen) {
    const auto* entry = reinterpret_cast<const volatile std::uint64_t*>(
        work_.rings[std::size_t{q} * kDepth + heads_[q] % kDepth].words);
    for (int k = 0; k < 8; ++k) sink += entry[k];
    const std::uint64_t read = ticks_now();
    if (work_.bytes) std::memcpy(to_.data(), from_.data(), work_.bytes);
    Times& times = times_[q][heads_[q]];
    times.seen = seen;
    times.read = read;
    ++heads_[q];
    std::atomic_thread_fence(std::memory_order_release);
    *static_cast<volatile std::uint64_t*>(&work_.queues[q].done) = heads_[q];
    times.done = ticks_now();
    ++consumed_;
  };
  for (std::uint64_t look = 1; consumed_ < total && !stop.load(std::memory_order_relaxed); ++look) {
    if (look % 65536 == 0 && host_ns() - begin > work_.limit_ns) break;
    for (std::uint32_t q = 0; q < work_.queue_count; ++q) {
      if (heads_[q] == work_.per_queue) continue;
      if (work_.by_tag) {
        const auto* tag = static_cast<const volatile std::uint64_t*>(
            &work_.rings[std::size_t{q} * kDepth + heads_[q] % kDepth].words[7]);
        if (*tag != heads_[q] + 1) continue;
        std::atomic_thread_fence(std::memory_order_acquire);
        consume(q, ticks_now());
        continue;
      }
      const std::uint64_t announced =
          *static_cast<const volatile std::uint64_t*>(&work_.queues[q].doorbell);
      if (announced <= heads_[q]) continue;
      std::atomic_thread_fence(std::memory_order_acquire);
      const std::uint64_t seen = ticks_now();
      while (heads_[q] < announced && heads_[q] < work_.per_queue) consume(q, seen);
    }
  }
  volatile std::uint64_t keep = sink;
  (void)keep;
}

}  // namespace marrow::capture
