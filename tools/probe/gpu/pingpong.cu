// Flags there and back: between two SMs, between GPU and processor; alone and beside a copy.
#include <array>

#include "tools/common/host_clock.h"
#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

constexpr int kUncounted = 50;
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;

/// Copies that load the link, one way, in a stream of their own.
class CopyBackground {
 public:
  CopyBackground(CopyLoad load, int copies) : load_(load) {
    if (load == CopyLoad::kNone) return;
    host_ = std::make_unique<HostArray<char>>(kCopyBytes);
    gpu_ = std::make_unique<DeviceArray<char>>(kCopyBytes);
    copies_ = copies;
  }
  void start() {
    for (int i = 0; i < copies_; ++i) {
      if (load_ == CopyLoad::kHostToDevice)
        MARROW_CUDA(cudaMemcpyAsync(gpu_->get(), host_->host(), kCopyBytes, cudaMemcpyHostToDevice,
                                    stream_));
      else
        MARROW_CUDA(cudaMemcpyAsync(host_->host(), gpu_->get(), kCopyBytes, cudaMemcpyDeviceToHost,
                                    stream_));
    }
  }
  /// Did it load the link until now? Waits for its end.
  bool finish() {
    const bool outlasted = stream_.busy();
    stream_.wait();
    return outlasted;
  }

 private:
  CopyLoad load_;
  int copies_ = 0;
  Stream stream_;
  std::unique_ptr<HostArray<char>> host_;
  std::unique_ptr<DeviceArray<char>> gpu_;
};

struct Serve {
  std::uint64_t *there, *back;
  int count;
  std::uint32_t *cycles, *gave_up;
  __device__ void operator()() const {
    for (int i = 1; i <= count; ++i) {
      std::uint64_t looks;
      const std::uint64_t begin = cycles_now();
      store_relaxed(there, i);
      if (!wait_for(back, i, kGpuLooks, looks)) {
        *gave_up = 1;
        return;
      }
      cycles[i - 1] = static_cast<std::uint32_t>(cycles_now() - begin);
    }
  }
};

struct Return {
  std::uint64_t *there, *back;
  int count;
  std::uint32_t* gave_up;
  __device__ void operator()() const {
    for (int i = 1; i <= count; ++i) {
      std::uint64_t looks;
      if (!wait_for(there, i, kGpuLooks, looks)) {
        *gave_up = 1;
        return;
      }
      store_relaxed(back, i);
    }
  }
};

__global__ void host_pingpong_kernel(std::uint64_t* to_host, const std::uint64_t* to_gpu, int count,
                                     std::uint32_t* cycles, std::uint32_t* polls,
                                     std::uint32_t* gave_up) {
  for (int i = 1; i <= count; ++i) {
    std::uint64_t looks;
    const std::uint64_t begin = cycles_now();
    store_relaxed(to_host, i);
    if (!wait_for(to_gpu, i, kFarLooks, looks)) {
      *gave_up = 1;
      return;
    }
    cycles[i - 1] = static_cast<std::uint32_t>(cycles_now() - begin);
    polls[i - 1] = static_cast<std::uint32_t>(looks);
    idle(20000);
  }
}

void between_sms(Context& context, std::uint32_t sm_a, std::uint32_t sm_b, const char* sides,
                 CopyLoad load) {
  const int count = context.per_round(4000) + kUncounted;
  const SideMap& map = context.sides();
  std::uint64_t* there = map.near.at(0);
  std::uint64_t* back = map.near.at(1);
  DeviceArray<std::uint32_t> cycles(count);
  CopyBackground copies(load, context.quick() ? 4 : 8);
  Stream stream;
  Rounds rounds;
  bool outlasted = load != CopyLoad::kNone;
  for (int round = 0; round < kRounds; ++round) {
    for (std::uint64_t* flag : {there, back}) MARROW_CUDA(cudaMemset(flag, 0, sizeof *flag));
    MARROW_CUDA(cudaDeviceSynchronize());
    context.run_on_two_sms(sm_a, sm_b, Serve{there, back, count, cycles.get(), context.gave_up()},
                           Return{there, back, count, context.gave_up()}, stream,
                           [&] { copies.start(); });
    outlasted = copies.finish() && outlasted;
    rounds.push_back(cycles.samples(kUncounted, count - kUncounted));
  }
  Object conditions;
  conditions.add("sm_a", sm_a).add("sm_b", sm_b).add("sides", sides);
  conditions.add("flags", "near a").add("load", name_of(load));
  if (load != CopyLoad::kNone) conditions.add("load_outlasted", outlasted);
  context.row("sm_pingpong_rtt", conditions, "cycles", rounds);
}

void with_host(Context& context, CopyLoad load) {
  const int count = context.per_round(4000) + kUncounted;
  HostArray<std::uint64_t> flags(1024);
  volatile std::uint64_t* to_host = flags.host();
  volatile std::uint64_t* to_gpu = flags.host() + 512;
  DeviceArray<std::uint32_t> cycles(count), polls(count);
  // A turn takes about 13 us, a copy about 1.2 ms.
  CopyBackground copies(load, 8 + count / 50);
  Stream stream;
  Rounds rtt, looks;
  bool outlasted = load != CopyLoad::kNone;
  for (int round = 0; round < kRounds; ++round) {
    *to_host = 0;
    *to_gpu = 0;
    context.clear_gave_up();
    copies.start();
    host_pingpong_kernel<<<1, 1, 0, stream>>>(flags.device(), flags.device() + 512, count,
                                              cycles.get(), polls.get(), context.gave_up());
    MARROW_LAUNCHED("host_pingpong_kernel");
    bool answered = true;
    for (int i = 1; i <= count && answered; ++i) {
      answered = host_wait_for(to_host, i);
      if (answered) *to_gpu = i;
    }
    stream.wait();
    outlasted = copies.finish() && outlasted;
    context.throw_if_gave_up("GPU and processor");
    if (!answered) throw StuckError("GPU and processor: the GPU's flag did not come");
    rtt.push_back(cycles.samples(kUncounted, count - kUncounted));
    looks.push_back(polls.samples(kUncounted, count - kUncounted));
  }
  Object conditions;
  conditions.add("load", name_of(load));
  if (load != CopyLoad::kNone) conditions.add("load_outlasted", outlasted);
  context.row("gpu_cpu_pingpong_rtt", conditions, "cycles", rtt);
  context.row("gpu_cpu_pingpong_polls", conditions, "count", looks);
}

}  // namespace

void measure_pingpong(Context& context) {
  const SideMap& map = context.sides();
  for (const CopyLoad load : kCopyLoads) {
    between_sms(context, map.sm, map.same.back(), "same", load);
    if (!map.other.empty()) between_sms(context, map.sm, map.other.back(), "other", load);
  }
  for (const CopyLoad load : kCopyLoads) with_host(context, load);
}

}  // namespace marrow::probe
