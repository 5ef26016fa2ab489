#include <algorithm>
#include <ctime>
#include <iostream>

#include "models/common/error.h"
#include "tools/common/gpu/program.cuh"
#include "tools/common/machine_facts.h"

namespace marrow::tools {

namespace {

__global__ void clock_kernel(std::uint64_t span_ns, std::uint64_t* out) {
  // Begin where globaltimer steps: it moves in steps of 32 ns and more.
  std::uint64_t begin = nanoseconds_now();
  for (const std::uint64_t old = begin; begin == old;) begin = nanoseconds_now();
  const std::uint64_t begin_cycles = cycles_now();
  std::uint64_t end = begin;
  while (end < begin + span_ns) end = nanoseconds_now();
  out[0] = cycles_now() - begin_cycles;
  out[1] = end - begin;
}

__global__ void busy_kernel(std::uint64_t cycles) { idle(cycles); }

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc;
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

}  // namespace

int count_gpus(int device) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    const auto version = [](int v) {
      return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
    };
    throw InputError("driver",
                     driver == 0 ? "there is no NVIDIA driver on this machine"
                                 : "it serves CUDA " + version(driver) +
                                       ", this program was built with CUDA " + version(runtime),
                     driver == 0 ? "run it on a machine with an NVIDIA GPU"
                                 : "build it with the older CUDA, or update the driver");
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
    throw InputError("GPU", "there is none that CUDA can see",
                     "run it on a machine with an NVIDIA GPU; CUDA_VISIBLE_DEVICES may hide it");
  MARROW_CUDA(code);
  if (device >= count)
    throw InputError("--device", "there is no GPU " + std::to_string(device),
                     "this machine has " + std::to_string(count) + ", counted from 0");
  return count;
}

void add_machine(Object& header, int device, int gpus) {
  cudaDeviceProp gpu;
  MARROW_CUDA(cudaGetDeviceProperties(&gpu, device));
  int driver = 0, runtime = 0, clock_khz = 0, atomics = 0;
  MARROW_CUDA(cudaDriverGetVersion(&driver));
  MARROW_CUDA(cudaRuntimeGetVersion(&runtime));
  MARROW_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device));
  MARROW_CUDA(cudaDeviceGetAttribute(&atomics, cudaDevAttrHostNativeAtomicSupported, device));
  char bus[32] = "";
  MARROW_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  std::string address = bus;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  header.add("date", utc_date());
  header.add("gpu", gpu.name).add("gpus", gpus).add("sms", gpu.multiProcessorCount);
  header.add("l2", gpu.l2CacheSize).add("clock_khz", clock_khz);
  header.add("cc", std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
  header.add("host_native_atomics", atomics);
  header.add("driver", read_driver_version(file_text("/proc/driver/nvidia/version")));
  header.add("cuda_driver", driver).add("cuda_runtime", runtime);
  header.add("pcie", read_pcie("/sys/bus/pci/devices/" + address).object());
  header.add("cpu", read_cpu(file_text("/proc/cpuinfo")));
}

void warm_up() {
  int device = 0, sms = 0;
  MARROW_CUDA(cudaGetDevice(&device));
  MARROW_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  for (int i = 0; i < 200; ++i) {
    busy_kernel<<<sms, 128>>>(2'000'000);
    MARROW_LAUNCHED("busy_kernel");
  }
  MARROW_CUDA(cudaDeviceSynchronize());
}

double clock_ghz(std::uint64_t span_ns) {
  DeviceArray<std::uint64_t> out(2);
  clock_kernel<<<1, 1>>>(span_ns, out.get());
  MARROW_LAUNCHED("clock_kernel");
  MARROW_CUDA(cudaDeviceSynchronize());
  const auto spans = out.values();
  return static_cast<double>(spans[0]) / static_cast<double>(spans[1]);
}

int guarded(const char* program, const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const InputError& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 2;
  } catch (const CudaError& error) {
    std::cerr << program << ": " << error.what() << '\n';
    if (error.code() != cudaErrorNoKernelImageForDevice &&
        error.code() != cudaErrorUnsupportedPtxVersion)
      return 3;
    std::cerr << program << ": it was not built for this GPU; build it here (docs/)\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return 3;
  }
}

}  // namespace marrow::tools
