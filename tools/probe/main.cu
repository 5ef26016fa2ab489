// marrow-probe: measures on this machine what the models need to know.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "tools/common/host_clock.h"
#include "tools/common/progress.h"
#include "tools/probe/gpu/context.cuh"

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
    {{"peers_loaded", "other GPUs: many puts at once, beside copies and kernels"},
     measure_peers_loaded},
};

Object header_of(Context& context, const Options& options, int gpus,
                 const std::vector<std::string>& measured) {
  Object header;
  header.add("schema", "marrow.probe/1").add("name", "device");
  add_machine(header, options.device, gpus);
  header.add("quick", options.quick).add("rounds", kRounds);
  header.add("none_cycles", context.none_cycles());
  header.add("results_pending", false);  // none is stored while an operation is timed
  return header.add_list("measured", measured);
}

void clock_row(Context& context, const char* when) {
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round)
    rounds.push_back({clock_ghz(context.quick() ? 2'000'000 : 20'000'000)});
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

  warm_up();
  clock_row(context, "start");
  const double start_ghz = clock_ghz(2'000'000);
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
    if (std::abs(clock_ghz(2'000'000) / start_ghz - 1) > kClockTolerance)
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
  return guarded("marrow-probe", [&] {
    const Options options = parse_options({argv + 1, static_cast<std::size_t>(argc - 1)}, topics);
    if (options.help)
      std::cout << help_text(topics);
    else if (options.list)
      std::cout << list_text(topics);
    else
      probe(options);
  });
}

}  // namespace
}  // namespace marrow::probe

int main(int argc, char** argv) { return marrow::probe::run(argc, argv); }
