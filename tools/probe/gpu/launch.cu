// What the host pays to start a kernel and to notice its end.
#include "tools/common/host_clock.h"
#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

__global__ void nothing_kernel() {}
__global__ void stamp_kernel(std::uint64_t* stamp) {
  *stamp = nanoseconds_now();
  __threadfence_system();
}
__global__ void flag_kernel(std::uint64_t* flag, std::uint64_t value, std::uint64_t before) {
  idle(before);
  store_relaxed(flag, value);
  __threadfence_system();
}

/// The first tries of each round are not counted.
constexpr int kUncounted = 20;

/// `one` measures once and appends to as many rows as it has.
template <std::size_t rows, class One>
std::array<Rounds, rows> repeat(Context& context, const One& one) {
  std::array<Rounds, rows> all;
  const int count = context.per_round(600);
  for (int round = 0; round < kRounds; ++round) {
    for (Rounds& row : all) row.emplace_back();
    for (int i = 0; i < count + kUncounted; ++i) {
      const std::array<double, rows> samples = one();
      if (i < kUncounted) continue;
      for (std::size_t row = 0; row < rows; ++row) all[row].back().push_back(samples[row]);
    }
  }
  return all;
}

}  // namespace

void measure_launch(Context& context) {
  HostArray<std::uint64_t> flag(16);
  DeviceArray<std::uint64_t> stamps(2);
  Stream stream;
  Event done(cudaEventDisableTiming);
  std::uint64_t turn = 0;

  const auto clock_only = repeat<1>(context, [&] {
    const double begin = host_ns();
    return std::array{host_ns() - begin};
  });
  context.row("host_clock_none", cond(), "ns", clock_only[0]);
  const double none = summarize(clock_only[0]).median;

  const auto raise = [&](std::uint64_t before) {
    flag_kernel<<<1, 1, 0, stream>>>(flag.device(), ++turn, before);
    MARROW_LAUNCHED("flag_kernel");
  };
  const auto wait_for_flag = [&] {
    if (!host_wait_for(flag.host(), turn)) throw StuckError("launch: the kernel's flag never came");
  };
  const auto noticed = repeat<2>(context, [&] {
    stream.wait();
    const double begin = host_ns();
    raise(0);
    wait_for_flag();
    const double seen = host_ns();
    stream.wait();
    return std::array{seen - begin, host_ns() - seen};
  });
  context.row("launch_to_host_flag", cond(), "ns", noticed[0], none);
  context.row("host_flag_to_stream_sync_return", cond(), "ns", noticed[1], none);

  const auto queried = repeat<1>(context, [&] {
    stream.wait();
    raise(100000);
    MARROW_CUDA(cudaEventRecord(done, stream));
    wait_for_flag();
    const double seen = host_ns();
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady && host_ns() - seen < kHostWaitNs)
      state = cudaEventQuery(done);
    MARROW_CUDA(state);
    return std::array{host_ns() - seen};
  });
  context.row("host_flag_to_event_query_done", cond(), "ns", queried[0], none);

  const auto two_kernels = [&](bool by_host) {
    return repeat<1>(context, [&, by_host] {
      stamp_kernel<<<1, 1, 0, stream>>>(stamps.get());
      if (by_host) stream.wait();
      stamp_kernel<<<1, 1, 0, stream>>>(stamps.get() + 1);
      MARROW_LAUNCHED("stamp_kernel");
      stream.wait();
      const auto ns = stamps.values();
      return std::array{static_cast<double>(ns[1]) - static_cast<double>(ns[0])};
    });
  };
  context.row("kernel_to_kernel_via_cpu_sync", cond(), "ns", two_kernels(true)[0]);
  context.row("kernel_to_kernel_queued", cond(), "ns", two_kernels(false)[0]);

  const auto call = repeat<1>(context, [&] {
    stream.wait();
    const double begin = host_ns();
    nothing_kernel<<<1, 1, 0, stream>>>();
    const double end = host_ns();
    MARROW_LAUNCHED("nothing_kernel");
    return std::array{end - begin};
  });
  context.row("launch_call_cpu_cost", cond(), "ns", call[0], none);
  stream.wait();
}

}  // namespace marrow::probe
