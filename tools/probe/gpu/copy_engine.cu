// The copy engine by size and direction.
#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

void measure_copy_engine(Context& context) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  HostArray<char> host(kMost);
  DeviceArray<char> gpu(kMost);
  for (std::size_t bytes = 64; bytes <= kMost; bytes *= 4)
    for (const bool out : {false, true}) {
      const int copies = bytes <= 65536 ? 64 : 8;
      const Rounds ms = context.event_ms([&] {
        for (int i = 0; i < copies; ++i)
          MARROW_CUDA(out ? cudaMemcpyAsync(host.host(), gpu.get(), bytes, cudaMemcpyDeviceToHost)
                          : cudaMemcpyAsync(gpu.get(), host.host(), bytes, cudaMemcpyHostToDevice));
      });
      Rounds us, gigabytes;
      for (const auto& round : ms) {
        us.push_back({round[0] * 1e3 / copies});
        gigabytes.push_back({static_cast<double>(bytes) * copies / (round[0] * 1e6)});
      }
      Object conditions;
      conditions.add("bytes", bytes).add("dir", out ? "d2h" : "h2d");
      context.row("copy_engine", conditions, "us", us);
      context.row("copy_engine_bw", conditions, "GB/s", gigabytes);
    }
}

}  // namespace marrow::probe
