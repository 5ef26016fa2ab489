// One operation at a time, from an idle path: stores, fences, atomics.
#include <algorithm>

#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

enum class Op {
  kNone,
  kGlobaltimer,
  kFenceCta,
  kFenceGpu,
  kFenceSys,
  kStoreFenceCta,
  kStoreFenceGpu,
  kStoreFenceSys,
  kStore64FenceGpu,
  kStore64FenceSys,
  kStoreReleaseGpu,
  kStoreReleaseSys,
  kStore8,
  kStore64By16,
  kStore64By8,
  kLoadRelaxedSys,
  kAddGpu,
  kCasGpu,
  kAddSys,
  kCasSys,
  kReduceGpu,
  kBothFenceGpu,
  kBothFenceSys,
};

constexpr int kWords = 64;
constexpr int kUncounted = 16;
constexpr int kMostTimed = 512;             // by one kernel
constexpr std::uint64_t kGapCycles = 4000;  // the path is idle again after it

/// Times `count` of them, each on the next of 64 words; `beside` are 64 words of another memory.
template <Op op>
struct Operation {
  std::uint64_t* const* targets;
  std::uint64_t* const* beside;
  int count;
  std::uint32_t* cycles;

  __device__ static void store64(std::uint64_t* p, std::uint32_t v) {
    for (int k = 0; k < 4; ++k) store16(p + 2 * k, v);
  }

  __device__ void operator()() const {
    __shared__ volatile std::uint64_t hold;
    // Until the end here: a store of a result to memory would be one more that a fence waits for.
    __shared__ std::uint32_t taken[kMostTimed];
    for (int i = 0; i < count + kUncounted; ++i) {
      std::uint64_t* p = targets[i % kWords];
      std::uint64_t* other = beside[i % kWords];
      auto* counter = reinterpret_cast<unsigned long long*>(p);
      const auto value = static_cast<std::uint64_t>(i);
      // Both pointers are here before the clock is read.
      hold = reinterpret_cast<std::uint64_t>(p) + reinterpret_cast<std::uint64_t>(other);
      idle(kGapCycles);
      std::uint64_t result = 0;
      const std::uint64_t begin = cycles_now();
      if constexpr (op == Op::kGlobaltimer) result = nanoseconds_now();
      if constexpr (op == Op::kStoreFenceCta || op == Op::kStoreFenceGpu ||
                    op == Op::kStoreFenceSys || op == Op::kStore8)
        *reinterpret_cast<volatile std::uint64_t*>(p) = value;
      if constexpr (op == Op::kStore64FenceGpu || op == Op::kStore64FenceSys ||
                    op == Op::kStore64By16 || op == Op::kBothFenceGpu || op == Op::kBothFenceSys)
        store64(p, static_cast<std::uint32_t>(i));
      if constexpr (op == Op::kBothFenceGpu || op == Op::kBothFenceSys)
        *reinterpret_cast<volatile std::uint64_t*>(other) = value;
      if constexpr (op == Op::kStore64By8)
        for (int k = 0; k < 8; ++k)
          asm volatile("st.volatile.global.u64 [%0],%1;" ::"l"(p + k), "l"(value) : "memory");
      if constexpr (op == Op::kFenceCta || op == Op::kStoreFenceCta) __threadfence_block();
      if constexpr (op == Op::kFenceGpu || op == Op::kStoreFenceGpu || op == Op::kStore64FenceGpu ||
                    op == Op::kBothFenceGpu)
        __threadfence();
      if constexpr (op == Op::kFenceSys || op == Op::kStoreFenceSys || op == Op::kStore64FenceSys ||
                    op == Op::kBothFenceSys)
        __threadfence_system();
      if constexpr (op == Op::kStoreReleaseGpu)
        asm volatile("st.release.gpu.global.u64 [%0],%1;" ::"l"(p), "l"(value) : "memory");
      if constexpr (op == Op::kStoreReleaseSys)
        asm volatile("st.release.sys.global.u64 [%0],%1;" ::"l"(p), "l"(value) : "memory");
      if constexpr (op == Op::kLoadRelaxedSys) result = load_relaxed(p);
      if constexpr (op == Op::kAddGpu) result = atomicAdd(counter, 1ull);
      if constexpr (op == Op::kCasGpu) result = atomicCAS(counter, value, value + 1);
      if constexpr (op == Op::kAddSys) result = atomicAdd_system(counter, 1ull);
      if constexpr (op == Op::kCasSys) result = atomicCAS_system(counter, value, value + 1);
      if constexpr (op == Op::kReduceGpu)
        asm volatile("red.relaxed.gpu.global.add.u64 [%0],%1;" ::"l"(p), "l"(value) : "memory");
      hold = result;
      const std::uint64_t end = cycles_now();
      if (i >= kUncounted) taken[i - kUncounted] = static_cast<std::uint32_t>(end - begin);
    }
    for (int i = 0; i < count; ++i) cycles[i] = taken[i];
  }
};

struct Place {
  const char* where;
  DeviceArray<std::uint64_t*> targets, beside;

  Place(const char* name, const Targets& words, const Targets& others)
      : where(name), targets(kWords), beside(kWords) {
    const auto repeated = [](const Targets& list) {
      Targets all;
      for (int i = 0; i < kWords; ++i) all.push_back(list[i % list.size()]);
      return all;
    };
    targets.fill_from(repeated(words));
    beside.fill_from(repeated(others));
  }
};

template <Op op>
Rounds time_operation(Context& context, const Place& place) {
  const int count = std::min(context.per_round(2000), kMostTimed);
  DeviceArray<std::uint32_t> cycles(count);
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) {
    context.run_on_sm(context.sm(),
                      Operation<op>{place.targets.get(), place.beside.get(), count, cycles.get()});
    rounds.push_back(cycles.samples());
  }
  return rounds;
}

template <Op op>
void measure(Context& context, const char* name, const Place& place) {
  Object conditions;
  conditions.add("op", name).add("where", place.where);
  context.row("op", conditions, "cycles", time_operation<op>(context, place),
              context.none_cycles());
}

void measure_stores_and_fences(Context& context, const Place& place) {
  measure<Op::kStoreFenceCta>(context, "st8+fence.cta", place);
  measure<Op::kStoreFenceGpu>(context, "st8+fence.gpu", place);
  measure<Op::kStoreFenceSys>(context, "st8+fence.sys", place);
  measure<Op::kStore64FenceGpu>(context, "st64+fence.gpu", place);
  measure<Op::kStore64FenceSys>(context, "st64+fence.sys", place);
  measure<Op::kStoreReleaseGpu>(context, "st.release.gpu", place);
  measure<Op::kStoreReleaseSys>(context, "st.release.sys", place);
  measure<Op::kStore8>(context, "st8", place);
  measure<Op::kStore64By16>(context, "st64(4x16)", place);
  measure<Op::kStore64By8>(context, "st64(8x8)", place);
  measure<Op::kLoadRelaxedSys>(context, "ld.relaxed.sys", place);
}

void measure_atomics(Context& context, const Place& place) {
  measure<Op::kAddGpu>(context, "atom.add.gpu", place);
  measure<Op::kCasGpu>(context, "atom.cas.gpu", place);
  measure<Op::kAddSys>(context, "atom.add.sys", place);
  measure<Op::kReduceGpu>(context, "red.add.gpu", place);
}

Targets lines_of(std::uint64_t* first) {
  Targets lines;
  for (int i = 0; i < kWords; ++i) lines.push_back(first + i * (kLineBytes / 8));
  return lines;
}

}  // namespace

double measure_none(Context& context) {
  DeviceArray<std::uint64_t> memory(kWords * kLineBytes / 8);
  const Place place("gpu", lines_of(memory.get()), lines_of(memory.get()));
  const Rounds rounds = time_operation<Op::kNone>(context, place);
  Object conditions;
  context.row("op", conditions.add("op", "none").add("where", "gpu"), "cycles", rounds);
  return summarize(rounds).median;
}

void measure_operations(Context& context) {
  DeviceArray<std::uint64_t> memory(kWords * kLineBytes / 8);
  HostArray<std::uint64_t> host_memory(2 * kWords * kLineBytes / 8);
  const Targets gpu_lines = lines_of(memory.get());
  const Targets host_lines = lines_of(host_memory.device());
  const SideMap& sides = context.sides();
  context.none_cycles();

  const Place gpu("gpu", gpu_lines, host_lines);
  measure<Op::kGlobaltimer>(context, "globaltimer", gpu);
  measure<Op::kFenceCta>(context, "fence.cta", gpu);
  measure<Op::kFenceGpu>(context, "fence.gpu", gpu);
  measure<Op::kFenceSys>(context, "fence.sys", gpu);
  measure_stores_and_fences(context, gpu);
  measure_atomics(context, Place("gpu", {memory.get()}, host_lines));

  for (const bool far : {false, true}) {
    const Targets& lines = far ? sides.far : sides.near;
    if (lines.empty() || !sides.two) continue;
    const Place place(far ? "gpu far" : "gpu near", lines, host_lines);
    measure_stores_and_fences(context, place);
    measure_atomics(context, place);
  }

  const Place host("host", host_lines, gpu_lines);
  measure_stores_and_fences(context, host);
  measure<Op::kAddSys>(context, "atom.add.sys", Place("host", {host_lines[0]}, gpu_lines));

  const Place both("gpu and host", gpu_lines, host_lines);
  measure<Op::kBothFenceGpu>(context, "st64 gpu+st8 host+fence.gpu", both);
  measure<Op::kBothFenceSys>(context, "st64 gpu+st8 host+fence.sys", both);
}

}  // namespace marrow::probe
