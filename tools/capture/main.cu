// marrow-capture: runs GPU-initiated puts on this machine and notes when each step happened.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>

#include "models/common/error.h"
#include "tools/capture/gpu/nic.cuh"
#include "tools/capture/gpu/runner.cuh"
#include "tools/capture/host/options.h"
#include "tools/common/gpu/program.cuh"
#include "tools/common/host_clock.h"
#include "tools/common/progress.h"

namespace marrow::capture {
namespace {

using namespace tools;

struct Planned {
  std::string name;
  Configuration configuration;
};

/// The GPU that consumes: the one asked for, else the first that each can reach from the other.
std::optional<int> find_peer(const Options& options, int gpus) {
  for (int peer = 0; peer < gpus; ++peer) {
    if (peer == options.device || (options.peer && *options.peer != peer)) continue;
    int there = 0, back = 0;
    MARROW_CUDA(cudaDeviceCanAccessPeer(&there, options.device, peer));
    MARROW_CUDA(cudaDeviceCanAccessPeer(&back, peer, options.device));
    if (there && back) return peer;
  }
  if (options.peer)
    throw InputError("--peer",
                     "GPU " + std::to_string(*options.peer) +
                         " is not there, or its memory is out of this one's reach",
                     "nvidia-smi topo -p2p r shows who reaches whom; leave --peer out for any");
  return std::nullopt;
}

std::vector<Planned> plan(const Options& options, bool has_peer) {
  std::vector<Planned> planned;
  if (options.one) return {{"cfg 0", *options.one}};
  std::vector<Configuration> set = default_set();
  if (options.consumer == Consumer::kNic)
    for (Configuration& c : set)
      if (c.consumer == Consumer::kPeer) c.consumer = Consumer::kNic;
  for (std::uint32_t number = 0; number < set.size(); ++number) {
    Configuration& c = set[number];
    if (options.quick) {
      const std::uint32_t step = std::max(c.batch, std::max(c.wait_every, 1u));
      c.puts = std::max(c.puts / 4 / step, 1u) * step;
    }
    const bool asked = std::count(options.only.begin(), options.only.end(), number) != 0;
    if (!options.only.empty() && !asked) continue;
    if (options.consumer && c.consumer != *options.consumer) continue;
    if (c.consumer == Consumer::kPeer && !has_peer && !asked && !options.consumer) continue;
    planned.push_back({"cfg " + std::to_string(number), c});
  }
  if (planned.empty())
    throw InputError("--only", "leaves no configuration of that consumer", "see --list");
  return planned;
}

void need_peer(const std::vector<Planned>& planned, bool has_peer) {
  for (const Planned& p : planned)
    if (p.configuration.consumer == Consumer::kPeer && !has_peer)
      throw InputError("--consumer peer", "there is no second GPU in reach of this one",
                       "use --consumer device, or leave it out");
}

/// A run without stamps, then one with them.
Run captured(Runner& runner, const Configuration& c) {
  Run run;
  run.configuration = c;
  run.cycles_per_put_unstamped = runner.run(c, false).cycles_per_put;
  Outcome outcome = runner.run(c, true);
  run.cycles_per_put = outcome.cycles_per_put;
  run.records = std::move(outcome.records);
  run.consumed = std::move(outcome.consumed);
  run.consumer_clock_bound_ns = outcome.consumer_clock_bound_ns;
  run.consumer_sm = outcome.consumer_sm;
  run.words = runner.words(c, run.records, run.consumer_sm);
  return run;
}

void capture_all(const Options& options) {
  const double begin = host_ns();
  // No kernel is loaded while another one waits for what it will do.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  const int gpus = count_gpus(options.device);
  MARROW_CUDA(cudaInitDevice(options.device, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid));
  MARROW_CUDA(cudaSetDevice(options.device));
  const std::optional<int> peer = find_peer(options, gpus);
  const std::vector<Planned> planned = plan(options, peer.has_value());
  need_peer(planned, peer.has_value());
  MeasurementFile file(options.out);

  const bool wants_nic = std::any_of(planned.begin(), planned.end(), [](const Planned& p) {
    return p.configuration.consumer == Consumer::kNic;
  });
  std::unique_ptr<NicRunner> nic;
  std::string no_nic = "not asked for (--consumer nic)";
  if (wants_nic) nic = std::make_unique<NicRunner>(options.device, options.nic);  // throws: why not

  warm_up();
  Runner runner(options.device, peer);
  Progress progress;
  progress.show(0, planned.size(), "which lines are near to which SM");
  runner.find_sides();
  const double start_ghz = clock_ghz(20'000'000);

  const std::uint32_t repeats = options.quick ? 1 : options.repeats;
  std::vector<std::string> moved, skipped;
  std::map<std::string, int> used;
  std::size_t runs = 0, puts = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const Planned& p = planned[i];
    if ((host_ns() - begin) * 1e-9 > options.seconds) {
      skipped.push_back(p.name);
      continue;
    }
    progress.show(i + 1, planned.size(), description(p.configuration));
    for (std::uint32_t repeat = 1; repeat <= repeats; ++repeat) {
      Run run = nic && p.configuration.consumer == Consumer::kNic
                    ? nic->captured(p.configuration)
                    : captured(runner, p.configuration);
      run.name = repeat == 1 ? p.name : p.name + " repeat " + std::to_string(repeat);
      run.repeat = repeat;
      run.sm_clock_ghz = clock_ghz(2'000'000);
      run.clock_changed = std::abs(run.sm_clock_ghz / start_ghz - 1) > kClockTolerance;
      add_run(file, run);
      ++runs;
      puts += run.records.size();
      ++used[name(p.configuration.consumer)];
      if (run.clock_changed) moved.push_back(run.name);
    }
  }
  progress.clear();
  file.add_line(Object().add("end", true).add("runs", runs).add("puts", puts).text());

  Object header;
  header.add("schema", "marrow.capture/1").add("name", "device");
  add_machine(header, options.device, gpus);
  header.add("sm_clock_ghz", start_ghz).add("quick", options.quick).add("repeats", repeats);
  header.add("two_sides", runner.two_sides()).add("near_cycles", runner.near_cycles());
  header.add("far_cycles", runner.far_cycles());
  std::vector<std::string> consumers;
  for (const auto& [consumer, count] : used) consumers.push_back(consumer);
  header.add_list("consumers", consumers);
  header.add("nic", nic ? nic->about() : "none: " + no_nic);
  header.add("seconds", (host_ns() - begin) * 1e-9);
  header.add("clock_changed", !moved.empty()).add_list("clock_changed_in", moved);
  header.add_list("skipped", skipped);
  file.commit(header);

  std::cerr << "marrow-capture: " << puts << " puts in " << runs << " runs, "
            << std::lround((host_ns() - begin) * 1e-9) << " s. Consumers used:";
  for (const auto& [consumer, count] : used) std::cerr << ' ' << consumer << " (" << count << ')';
  std::cerr << "; mlx5 NIC: " << (nic ? nic->about() : no_nic)
            << (peer || wants_nic ? "" : "; no second GPU in reach, so no peer consumer") << '\n';
  if (!moved.empty())
    std::cerr << "marrow-capture: the SM clock moved from " << start_ghz << " GHz in "
              << moved.size()
              << " runs (clock_changed_in): capture again on an idle, cool machine\n";
  if (!skipped.empty())
    std::cerr << "marrow-capture: " << skipped.size() << " configurations were not started within "
              << options.seconds << " s (--seconds); the header names them\n";
}

int run(int argc, char** argv) {
  return guarded("marrow-capture", [&] {
    const Options options = parse_options({argv + 1, static_cast<std::size_t>(argc - 1)});
    if (options.help)
      std::cout << help_text();
    else if (options.list)
      std::cout << list_text();
    else
      capture_all(options);
  });
}

}  // namespace
}  // namespace marrow::capture

int main(int argc, char** argv) { return marrow::capture::run(argc, argv); }
