// Dependent loads by place and kind.
#include <algorithm>
#include <numeric>
#include <random>

#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

enum class Kind { kCa, kCg, kVolatile, kRelaxedSys, kAcquireSys, kAcquireGpu };

template <Kind kind>
__device__ __forceinline__ std::uint64_t load(const std::uint64_t* p) {
  std::uint64_t v;
  if constexpr (kind == Kind::kCa)
    asm volatile("ld.global.ca.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
  if constexpr (kind == Kind::kCg)
    asm volatile("ld.global.cg.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
  if constexpr (kind == Kind::kVolatile)
    asm volatile("ld.volatile.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
  if constexpr (kind == Kind::kRelaxedSys)
    asm volatile("ld.relaxed.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
  if constexpr (kind == Kind::kAcquireSys)
    asm volatile("ld.acquire.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
  if constexpr (kind == Kind::kAcquireGpu)
    asm volatile("ld.acquire.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

constexpr const char* kKindNames[] = {"ca",          "cg",          "volatile",
                                      "relaxed.sys", "acquire.sys", "acquire.gpu"};

/// One load at a time, each timed. Starts where `at` says and leaves there where it stopped.
template <Kind kind>
struct ChaseEach {
  const std::uint64_t* words;
  std::uint64_t* at;
  int warm, count;
  std::uint32_t* cycles;

  __device__ void operator()() const {
    __shared__ volatile std::uint64_t hold;
    std::uint64_t index = *at;
    for (int i = 0; i < warm; ++i) index = load<kind>(words + index);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t begin = cycles_now();
      index = load<kind>(words + index);
      hold = index;  // the clock is read when the value is there
      cycles[i] = static_cast<std::uint32_t>(cycles_now() - begin);
    }
    *at = index;
  }
};

/// The same chain, timed as a whole: no cost of reading clocks.
template <Kind kind>
struct ChaseAll {
  const std::uint64_t* words;
  std::uint64_t* at;
  int warm, count;
  std::uint64_t* cycles;

  __device__ void operator()() const {
    std::uint64_t index = *at;
    for (int i = 0; i < warm; ++i) index = load<kind>(words + index);
    const std::uint64_t begin = cycles_now();
    for (int i = 0; i < count; ++i) index = load<kind>(words + index);
    *at = index;
    *cycles = cycles_now() - begin;
  }
};

__global__ void write_words(std::uint64_t* words, const std::uint32_t* order, std::size_t count,
                            std::size_t stride_words) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) words[order[i] * stride_words] = order[(i + 1) % count] * stride_words;
}

std::vector<std::uint32_t> random_cycle(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin() + 1, order.end(), random);
  return order;
}

struct Chain {
  const char* where;
  std::uint64_t* words;
  std::size_t bytes, stride_bytes;
  int loads;          ///< of all rounds, in a full run
  bool warm;          ///< go through it once before the first round
  bool with_average;  ///< a whole chain timed at once, too
};

template <Kind kind>
void measure(Context& context, const Chain& chain) {
  const int count = context.per_round(chain.loads);
  DeviceArray<std::uint32_t> cycles(count);
  DeviceArray<std::uint64_t> at(1), total(1);
  int warm = chain.warm ? static_cast<int>(chain.bytes / chain.stride_bytes) : 0;
  Rounds each, all;
  for (int round = 0; round < kRounds; ++round) {
    context.run_on_sm(context.sm(),
                      ChaseEach<kind>{chain.words, at.get(), warm, count, cycles.get()});
    each.push_back(cycles.samples());
    if (round == 0 && chain.warm) warm = std::min(warm, 512);  // L1 forgets between kernels
    if (!chain.with_average) continue;
    context.run_on_sm(context.sm(),
                      ChaseAll<kind>{chain.words, at.get(), warm, count, total.get()});
    all.push_back({static_cast<double>(total.values()[0]) / count});
  }
  Object conditions;
  conditions.add("where", chain.where).add("footprint", chain.bytes);
  conditions.add("stride", chain.stride_bytes).add("load", kKindNames[static_cast<int>(kind)]);
  context.row("load", conditions, "cycles", each);
  if (chain.with_average) context.row("load_avg", conditions, "cycles", all);
}

}  // namespace

void write_chain(std::uint64_t* words, std::size_t bytes, std::size_t stride_bytes,
                 std::uint64_t seed) {
  const std::vector<std::uint32_t> order = random_cycle(bytes / stride_bytes, seed);
  DeviceArray<std::uint32_t> device_order(order.size());
  device_order.fill_from(order);
  const auto blocks = static_cast<unsigned>((order.size() + 255) / 256);
  write_words<<<blocks, 256>>>(words, device_order.get(), order.size(), stride_bytes / 8);
  MARROW_LAUNCHED("write_words");
  MARROW_CUDA(cudaDeviceSynchronize());
}

void measure_loads(Context& context) {
  constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
  const std::size_t far_bytes = (context.quick() ? 512 : 2048) * kMiB;
  DeviceArray<std::uint64_t> memory(far_bytes / 8);
  const auto gpu = [&](const char* where, std::size_t bytes, int loads) {
    write_chain(memory.get(), bytes, kLineBytes, bytes);
    return Chain{where, memory.get(), bytes, kLineBytes, loads, true, true};
  };
  measure<Kind::kCa>(context, gpu("l1", 16 * kKiB, 2000));
  const Chain l2 = gpu("l2", kMiB, 8192);
  measure<Kind::kCg>(context, l2);
  measure<Kind::kVolatile>(context, l2);
  measure<Kind::kRelaxedSys>(context, l2);
  measure<Kind::kAcquireSys>(context, l2);
  measure<Kind::kAcquireGpu>(context, l2);
  measure<Kind::kCg>(context, gpu("l2", 16 * kMiB, 16384));
  measure<Kind::kCg>(context, gpu("l2_far_mix", 40 * kMiB, 16384));

  const auto hbm = [&](std::size_t bytes, std::size_t stride) {
    write_chain(memory.get(), bytes, stride, bytes + stride);
    DeviceArray<char> evict(512 * kMiB);  // being cleared, it drives everything out of the L2
    measure<Kind::kCg>(context, {"hbm", memory.get(), bytes, stride, 16384, false, false});
  };
  hbm(far_bytes, kPageBytes);
  hbm(32 * kMiB, kLineBytes);

  HostArray<std::uint64_t> host_memory(256 * kMiB / 8);
  const auto host = [&](std::size_t bytes, std::size_t stride, bool warm) {
    // By the processor: its caches hold the lines until the GPU has read them.
    const std::vector<std::uint32_t> order = random_cycle(bytes / stride, bytes);
    for (std::size_t i = 0; i < order.size(); ++i)
      host_memory.host()[order[i] * (stride / 8)] =
          order[(i + 1) % order.size()] * std::uint64_t{stride / 8};
    return Chain{"host", host_memory.device(), bytes, stride, 4000, warm, true};
  };
  const Chain small = host(16 * kKiB, kLineBytes, true);
  measure<Kind::kVolatile>(context, small);
  measure<Kind::kRelaxedSys>(context, small);
  measure<Kind::kAcquireSys>(context, small);
  measure<Kind::kCg>(context, small);
  measure<Kind::kVolatile>(context, host(2 * kMiB, kLineBytes, false));
  measure<Kind::kVolatile>(context, host(256 * kMiB, kPageBytes, false));
}

}  // namespace marrow::probe
