// What the SMs do to host memory in bulk: posted writes by size, stride and fences; reads.
#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

constexpr std::size_t kHostBytes = std::size_t{256} << 20;

template <int bytes>
__global__ void store_kernel(char* memory, std::size_t each, std::size_t stride, int fence_every) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  for (std::size_t i = 0; i < each; ++i) {
    char* p = memory + (i * threads + thread) * stride;
    if constexpr (bytes == 4) *reinterpret_cast<volatile std::uint32_t*>(p) = i;
    if constexpr (bytes == 8) *reinterpret_cast<volatile std::uint64_t*>(p) = i;
    if constexpr (bytes == 16) store16(p, i);
    if (fence_every && i % fence_every == fence_every - 1) __threadfence_system();
  }
  __threadfence_system();
}

template <int bytes>
__global__ void load_kernel(const char* memory, std::size_t each, std::uint64_t* sink) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < each; ++i) {
    const char* p = memory + (i * threads + thread) * bytes;
    if constexpr (bytes == 4) sum += *reinterpret_cast<const volatile std::uint32_t*>(p);
    if constexpr (bytes == 8) sum += *reinterpret_cast<const volatile std::uint64_t*>(p);
    if constexpr (bytes == 16) {
      std::uint32_t x, y, z, w;
      asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3},[%4];"
                   : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                   : "l"(p)
                   : "memory");
      sum += x + y + z + w;
    }
  }
  if (sum == 0x1234567) *sink = sum;  // never: the memory holds zeros or small numbers
}

struct Shape {
  const char* name;
  int bytes, blocks, threads;
  std::size_t each, stride;
  int fence_every;
};

void launch_stores(const Shape& shape, char* memory) {
  const auto run = [&](auto kernel) {
    kernel<<<shape.blocks, shape.threads>>>(memory, shape.each, shape.stride, shape.fence_every);
  };
  if (shape.bytes == 4) run(store_kernel<4>);
  if (shape.bytes == 8) run(store_kernel<8>);
  if (shape.bytes == 16) run(store_kernel<16>);
  MARROW_LAUNCHED("store_kernel");
}

void measure_shape(Context& context, const Shape& shape, char* memory) {
  const double count = static_cast<double>(shape.blocks) * shape.threads * shape.each;
  const Rounds ms = context.event_ms([&] { launch_stores(shape, memory); });
  Rounds ns_each, gigabytes;
  for (const auto& round : ms) {
    ns_each.push_back({round[0] * 1e6 / count});
    gigabytes.push_back({count * shape.bytes / (round[0] * 1e6)});
  }
  Object conditions;
  conditions.add("bytes", shape.bytes).add("blocks", shape.blocks).add("threads", shape.threads);
  conditions.add("stride", shape.stride).add("fence_every", shape.fence_every);
  conditions.add("per_thread", shape.each);
  context.row(shape.name, conditions, "ns_per_store", ns_each,
              context.empty_kernel_ms() * 1e6 / count);
  const std::string rate = std::string(shape.name) + "_bw";
  context.row(rate.c_str(), conditions, "GB/s", gigabytes);
}

}  // namespace

void measure_host_stores(Context& context) {
  HostArray<char> host(kHostBytes);
  const int sms = context.device().multiProcessorCount;
  std::vector<Shape> shapes;
  for (const int b : {4, 8, 16})
    shapes.push_back({"store_host", b, 1, 1, 20000, static_cast<std::size_t>(b), 0});
  shapes.push_back({"store_host", 8, 1, 1, 20000, 64, 0});
  shapes.push_back({"store_host", 8, 1, 1, 20000, 4096, 0});
  shapes.push_back({"store_host", 8, 1, 1, 4000, 8, 1});
  shapes.push_back({"store_host", 8, 1, 1, 8000, 8, 8});
  for (const int b : {4, 8, 16}) {
    const auto stride = static_cast<std::size_t>(b);
    shapes.push_back({"store_host", b, 1, 32, 20000, stride, 0});
    shapes.push_back({"store_host", b, 1, 128, 4000, stride, 0});
    shapes.push_back({"store_host", b, 8, 256, 2000, stride, 0});
    shapes.push_back({"store_host", b, 32, 256, 500, stride, 0});
    shapes.push_back({"store_host", b, sms, 512, 150, stride, 0});
  }
  for (const int blocks : {1, 2, 4, 8, 16, 32, 64, 128})
    shapes.push_back({"doorbell_like", 8, blocks, 1, 4000, 64, 0});
  for (const Shape& shape : shapes) measure_shape(context, shape, host.device());
}

void measure_host_loads(Context& context) {
  HostArray<char> host(kHostBytes);
  DeviceArray<std::uint64_t> sink(1);
  const int sms = context.device().multiProcessorCount;
  for (const int bytes : {4, 8, 16})
    for (const auto& [blocks, threads, each] :
         {std::array{1, 32, 2000}, std::array{1, 1024, 500}, std::array{8, 1024, 300},
          std::array{32, 1024, 100}, std::array{sms, 1024, 50}}) {
      const Rounds ms = context.event_ms([&, blocks = blocks, threads = threads, each = each] {
        const auto run = [&](auto kernel) {
          kernel<<<blocks, threads>>>(host.device(), static_cast<std::size_t>(each), sink.get());
        };
        if (bytes == 4) run(load_kernel<4>);
        if (bytes == 8) run(load_kernel<8>);
        if (bytes == 16) run(load_kernel<16>);
        MARROW_LAUNCHED("load_kernel");
      });
      const double total = static_cast<double>(blocks) * threads * each * bytes;
      Rounds gigabytes;
      for (const auto& round : ms) gigabytes.push_back({total / (round[0] * 1e6)});
      Object conditions;
      conditions.add("bytes", bytes).add("blocks", blocks).add("threads", threads);
      context.row("load_host_bw", conditions, "GB/s", gigabytes);
    }
}

}  // namespace marrow::probe
