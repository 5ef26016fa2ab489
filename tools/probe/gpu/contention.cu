// Many warps on one word: tickets, and tickets with publication in order.
#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

constexpr int kRing = 1024;
using Counter = unsigned long long;

/// From the first warp's begin to the last one's end, in ns.
struct Span {
  Counter begin, end;
  __device__ void cover(std::uint64_t from, std::uint64_t to) {
    atomicMin(&begin, static_cast<Counter>(from));
    atomicMax(&end, static_cast<Counter>(to));
  }
};

__global__ void add_kernel(Counter* counter, int count, Span* span) {
  if (threadIdx.x % 32) return;
  const std::uint64_t begin = nanoseconds_now();
  for (int i = 0; i < count; ++i) atomicAdd(counter, 1ull);
  span->cover(begin, nanoseconds_now());
}

/// As device-side verbs do: a ticket, a 64 B entry, a gpu fence, a compare-and-swap in order.
__global__ void publish_kernel(Counter* reserved, Counter* ready, std::uint64_t* ring, int count,
                               Span* span, std::uint32_t* gave_up) {
  if (threadIdx.x % 32) return;
  const std::uint64_t begin = nanoseconds_now();
  for (int i = 0; i < count; ++i) {
    const Counter ticket = atomicAdd(reserved, 1ull);
    std::uint64_t* entry = ring + ticket % kRing * 8;
    for (int k = 0; k < 4; ++k) store16(entry + 2 * k, static_cast<std::uint32_t>(ticket));
    __threadfence();
    std::uint64_t look = 0;
    while (atomicCAS(ready, ticket, ticket + 1) != ticket) {
      // Whoever gives up leaves a gap that nobody passes: one look at the flag ends all.
      if (++look == kGpuLooks) atomicExch(gave_up, 1u);
      if (look % 4096 == 0 && atomicAdd(gave_up, 0u)) return;
    }
  }
  span->cover(begin, nanoseconds_now());
}

}  // namespace

void measure_contention(Context& context) {
  DeviceArray<Counter> counters(64);  // the two words are in lines of their own
  DeviceArray<std::uint64_t> ring(kRing * 8);
  DeviceArray<Span> span(1);
  const int sms = context.device().multiProcessorCount;
  const int adds = context.quick() ? 500 : 2000, puts = context.quick() ? 100 : 500;
  for (const int blocks : {1, 2, 4, 8, 16, 32, 64, sms})
    for (const int warps_each : {1, 4}) {
      const int warps = blocks * warps_each;
      const auto measure = [&](const auto& launch, int count) {
        Rounds rounds;
        for (int round = 0; round < kRounds; ++round) {
          counters.clear();
          context.clear_gave_up();
          span.fill_from({Span{~0ull, 0}});
          launch(count);
          MARROW_LAUNCHED("contention");
          MARROW_CUDA(cudaDeviceSynchronize());
          context.throw_if_gave_up("publication in order");
          const Span took = span.values()[0];
          rounds.push_back({static_cast<double>(took.end - took.begin) / count / warps});
        }
        return rounds;
      };
      Object conditions;
      conditions.add("warps", warps).add("blocks", blocks);
      context.row("atomic_add_interval", conditions, "ns_per_op",
                  measure(
                      [&](int count) {
                        add_kernel<<<blocks, 32 * warps_each>>>(counters.get(), count, span.get());
                      },
                      adds));
      context.row("publish_interval", conditions, "ns_per_wqe",
                  measure(
                      [&](int count) {
                        publish_kernel<<<blocks, 32 * warps_each>>>(
                            counters.get(), counters.get() + 16, ring.get(), count, span.get(),
                            context.gave_up());
                      },
                      puts));
    }
}

}  // namespace marrow::probe
