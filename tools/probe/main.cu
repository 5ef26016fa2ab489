// marrow-probe: measures on this machine what the models need to know.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>

#include "models/common/error.h"
#include "tools/probe/gpu/context.cuh"
#include "tools/probe/gpu/host_clock.h"
#include "tools/probe/machine_facts.h"

namespace marrow::probe {
namespace {

struct Measurement {
  Topic topic;
  void (*measure)(Context&);
};

constexpr Measurement kMeasurements[] = {
    {{"sides", "near and far lines of the L2, by line and SM"}, measure_sides},
    {{"loads", "load latencies: L1, L2, HBM, host"}, measure_loads},
    {{"operations", "stores, fences by scope, atomics, from an idle path"}, measure_operations},
    {{"contention", "atomics and ordered publication by many warps"}, measure_contention},
    {{"pingpong", "flags SM-SM and GPU-CPU, alone and beside a copy"}, measure_pingpong},
    {{"host_stores", "posted writes to host memory by size and stride"}, measure_host_stores},
    {{"host_loads", "reads of host memory in bulk"}, measure_host_loads},
    {{"copy_engine", "copies by size and direction"}, measure_copy_engine},
    {{"launch", "kernel launch and notice of its end"}, measure_launch},
    {{"peers", "other GPUs: load, store, fence, atomic, put, bandwidth"}, measure_peers},
};

// The SM clock is looked at after each measurement; more than this apart and it has moved.
constexpr double kClockTolerance = 0.005;

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc;
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

/// The line with which a person waits; nothing where stderr is no terminal.
class Progress {
 public:
  Progress() = default;
  ~Progress() { clear(); }  // before an error's message
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t number, std::size_t total, const char* name) {
    if (on_) std::cerr << "\r\033[K[" << number << '/' << total << "] " << name << std::flush;
  }
  void clear() {
    if (on_) std::cerr << "\r\033[K" << std::flush;
  }

 private:
  bool on_ = isatty(STDERR_FILENO) != 0;
};

/// Throws InputError where there is nothing to measure on.
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

Object header_of(Context& context, const Options& options, int gpus,
                 const std::vector<std::string>& measured) {
  const cudaDeviceProp& gpu = context.device();
  int driver = 0, runtime = 0, clock_khz = 0, atomics = 0;
  MARROW_CUDA(cudaDriverGetVersion(&driver));
  MARROW_CUDA(cudaRuntimeGetVersion(&runtime));
  MARROW_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, options.device));
  MARROW_CUDA(
      cudaDeviceGetAttribute(&atomics, cudaDevAttrHostNativeAtomicSupported, options.device));
  char bus[32] = "";
  MARROW_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, options.device));
  std::string address = bus;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });

  Object header;
  header.add("schema", "marrow.probe/1").add("name", "device").add("date", utc_date());
  header.add("gpu", gpu.name).add("gpus", gpus).add("sms", gpu.multiProcessorCount);
  header.add("l2", gpu.l2CacheSize).add("clock_khz", clock_khz);
  header.add("cc", std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
  header.add("host_native_atomics", atomics);
  header.add("driver", read_driver_version(file_text("/proc/driver/nvidia/version")));
  header.add("cuda_driver", driver).add("cuda_runtime", runtime);
  header.add("pcie", read_pcie("/sys/bus/pci/devices/" + address).object());
  header.add("cpu", read_cpu(file_text("/proc/cpuinfo")));
  header.add("quick", options.quick).add("rounds", kRounds);
  header.add("none_cycles", context.none_cycles());
  header.add("results_pending", false);  // none is stored while an operation is timed
  return header.add_list("measured", measured);
}

void clock_row(Context& context, const char* when) {
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round)
    rounds.push_back({context.clock_ghz(context.quick() ? 2'000'000 : 20'000'000)});
  context.row("sm_clock", Object().add("when", when), "GHz", rounds);
}

void probe(const Options& options) {
  const int gpus = count_gpus(options.device);
  // Spin: how this process waits for the GPU, and what notice costs are measured with.
  MARROW_CUDA(cudaInitDevice(options.device, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid));
  MARROW_CUDA(cudaSetDevice(options.device));
  MeasurementFile file(options.out);
  Context context(options, file);
  Progress progress;
  const double begin = host_ns();

  std::vector<const Measurement*> chosen;
  for (const Measurement& measurement : kMeasurements)
    if (options.only.empty() || std::find(options.only.begin(), options.only.end(),
                                          measurement.topic.name) != options.only.end())
      chosen.push_back(&measurement);

  warm_up(context);
  clock_row(context, "start");
  const double start_ghz = context.clock_ghz(2'000'000);
  std::vector<std::string> measured, moved;
  std::vector<double> seconds;
  for (const Measurement* measurement : chosen) {
    progress.show(measured.size() + 1, chosen.size(), measurement->topic.name);
    const double before = host_ns();
    try {
      measurement->measure(context);
      MARROW_CUDA(cudaDeviceSynchronize());
    } catch (const StuckError& error) {
      throw StuckError(std::string(measurement->topic.name) + ": " + error.what());
    } catch (const CudaError& error) {
      throw CudaError(std::string(measurement->topic.name) + ": " + error.call(), error.code());
    }
    seconds.push_back((host_ns() - before) * 1e-9);
    measured.emplace_back(measurement->topic.name);
    if (std::abs(context.clock_ghz(2'000'000) / start_ghz - 1) > kClockTolerance)
      moved.push_back(measured.back());
  }
  clock_row(context, "end");
  progress.clear();
  if (!moved.empty()) {
    std::cerr << "marrow-probe: the SM clock moved from " << start_ghz << " GHz after:";
    for (const std::string& name : moved) std::cerr << ' ' << name;
    std::cerr << ". Cycles before and after are not the same: measure again on an idle, cool "
                 "machine.\n";
  }
  Object header = header_of(context, options, gpus, measured);
  header.add_list("seconds", seconds).add("clock_changed", !moved.empty());
  file.commit(header.add_list("clock_changed_in", moved));
  std::cerr << "marrow-probe: " << file.rows() << " rows in "
            << std::lround((host_ns() - begin) * 1e-9) << " s\n";
}

int run(int argc, char** argv) {
  std::vector<Topic> topics;
  for (const Measurement& measurement : kMeasurements) topics.push_back(measurement.topic);
  try {
    const Options options = parse_options({argv + 1, static_cast<std::size_t>(argc - 1)}, topics);
    if (options.help)
      std::cout << help_text(topics);
    else if (options.list)
      std::cout << list_text(topics);
    else
      probe(options);
    return 0;
  } catch (const InputError& error) {
    std::cerr << "marrow-probe: " << error.what() << '\n';
    return 2;
  } catch (const CudaError& error) {
    std::cerr << "marrow-probe: " << error.what() << '\n';
    if (error.code() == cudaErrorNoKernelImageForDevice ||
        error.code() == cudaErrorUnsupportedPtxVersion) {
      std::cerr << "marrow-probe: it was not built for this GPU; build it here (docs/probe.md)\n";
      return 2;
    }
    return 3;
  } catch (const std::exception& error) {
    std::cerr << "marrow-probe: " << error.what() << '\n';
    return 3;
  }
}

}  // namespace
}  // namespace marrow::probe

int main(int argc, char** argv) { return marrow::probe::run(argc, argv); }
