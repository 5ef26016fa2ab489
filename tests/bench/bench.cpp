// How many messages a second does the simulator carry, with every stage of each recorded, and how
// does that change with contention and with the number of lanes?
//
// items_per_second counts messages (of trace reading: operations) by CPU time.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <map>
#include <string>
#include <systemc>
#include <vector>

#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/machine.h"
#include "sim/order/watch.h"
#include "sim/results/stage_table.h"
#include "traces/trace.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";
constexpr std::uint64_t kBytes = 64;

/// The SystemC kernel is global and elaborates once: a system has one machine, in a kernel context
/// of its own.
sim::Machine& machine(const std::string& system) {
  struct Built {
    sc_core::sc_simcontext* context;
    sim::Machine* machine;
  };
  static auto* const all = new std::map<std::string, Built>;
  const auto use = [](sc_core::sc_simcontext* context) {
    sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = context;
  };
  auto it = all->find(system);
  if (it == all->end()) {
    auto* const context = new sc_core::sc_simcontext;
    use(context);
    it = all->emplace(system, Built{context, new sim::Machine(config::bind(config::load_system(
                                                 kConfigs + "/systems/" + system + ".yaml")))})
             .first;
  }
  use(it->second.context);
  return *it->second.machine;
}

config::Recipe recipe(const std::string& protocol) {
  std::map<std::string, std::string> choices;
  if (protocol == "capture-gdaki") choices = {{"doorbell_in", "gpu"}};
  if (protocol == "mini-gda") choices = {{"sharing", "handoff"}, {"batch", "32"}};
  return config::load_recipe(config::recipe_path(protocol, kConfigs), choices);
}

/// Lanes 0, 1, … on queues in turn. The machine's own placement takes every second SM and then
/// begins anew, so more than 66 lanes share SMs.
trace::Run run_of(std::uint32_t lanes, std::uint32_t queues) {
  trace::Run run;
  run.name = "bench";
  run.queues = queues;
  for (std::uint32_t warp = 0; warp < lanes; ++warp)
    run.lanes.push_back({warp, std::nullopt, warp % queues});
  return run;
}

/// Every lane issues `puts` puts and waits for each: one iteration is one run of the machine.
void simulate(benchmark::State& state, const std::string& protocol, std::uint32_t lanes,
              std::uint32_t queues, std::uint64_t puts, const std::string& system = "h200-c",
              std::uint64_t bytes = kBytes, bool wait = true, bool check_order = false) {
  const config::Recipe program = recipe(protocol);
  const trace::Run run = run_of(lanes, queues);
  std::vector<std::uint64_t> left;
  std::uint64_t messages = 0;
  for (auto _ : state) {
    results::StageTable table;
    table.begin_run(0, run.name);
    left.assign(lanes, puts);
    sim::RunSetup setup;
    setup.recipe = &program;
    setup.run = &run;
    setup.observer = &table;
    order::Watch watch({});
    if (check_order) {
      watch.begin_run(run.name, program.program, lanes > queues);
      setup.order = &watch;
    }
    setup.next_op = [&](std::uint32_t warp, gpu::Op& put) {
      if (left[warp] == 0) return false;
      --left[warp];
      put = {OpKind::kPut, bytes, left[warp] == 0, wait, 0};
      return true;
    };
    machine(system).run(setup);
    if (check_order) benchmark::DoNotOptimize(watch.finish_run());
    messages += table.total().messages();
  }
  if (messages != state.iterations() * lanes * puts)
    state.SkipWithError("not every put became a message");
  state.SetItemsProcessed(static_cast<std::int64_t>(messages));
  state.SetBytesProcessed(static_cast<std::int64_t>(messages * bytes));
}

void isolated(benchmark::State& state, const std::string& protocol) {
  simulate(state, protocol, 1, 1, 20'000);
}
BENCHMARK_CAPTURE(isolated, ibgda, "capture-ibgda")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(isolated, gdaki, "capture-gdaki")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(isolated, host_gdaki, "capture-host-gdaki")->Unit(benchmark::kMillisecond);

/// Warps spin for their turn and for the lock, so that a message costs more events.
void contended(benchmark::State& state, const std::string& protocol) {
  const auto warps = static_cast<std::uint32_t>(state.range(0));
  simulate(state, protocol, warps, 1, 8'000 / warps);
}
BENCHMARK_CAPTURE(contended, ibgda, "capture-ibgda")
    ->ArgName("warps")
    ->Arg(8)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(contended, gdaki, "capture-gdaki")
    ->ArgName("warps")
    ->Arg(8)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

/// Does a message's cost stay bounded as lanes are added? With so many puts a lane that setting up
/// lanes and queues does not show.
void growth(benchmark::State& state) {
  simulate(state, "capture-ibgda", static_cast<std::uint32_t>(state.range(0)), 16, 64);
}
BENCHMARK(growth)->ArgName("lanes")->Arg(64)->Arg(1'024)->Arg(16'384)->Unit(
    benchmark::kMillisecond);

/// Through a NIC and over a wire to another GPU: every stage from SM to SM's memory.
void nic_isolated(benchmark::State& state) { simulate(state, "gdaki", 1, 1, 20'000, "p-ib", 8); }
BENCHMARK(nic_isolated)->Unit(benchmark::kMillisecond);

/// The same followed by --check-order, its programs tried in every order included.
void nic_isolated_checked(benchmark::State& state) {
  simulate(state, "gdaki", 1, 1, 20'000, "p-ib", 8, true, true);
}
BENCHMARK(nic_isolated_checked)->Unit(benchmark::kMillisecond);
void nic_shared(benchmark::State& state) {
  simulate(state, "gdaki", 64, 8, 1'000, "p-ib", 8, true, state.range(0) != 0);
}
BENCHMARK(nic_shared)->ArgName("check_order")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// The NIC never rests: 64 queue pairs, a warp each.
void nic_saturated(benchmark::State& state) {
  simulate(state, "gdaki", 64, 64, 1'000, "p-ib", 8, false);
}
BENCHMARK(nic_saturated)->Unit(benchmark::kMillisecond);

/// bytes_per_second: of payload, simulated in a second of one core.
void nic_long(benchmark::State& state) {
  simulate(state, "gdaki", 1, 1, 2'000, "p-ib", 1 << 20, false);
}
BENCHMARK(nic_long)->Unit(benchmark::kMillisecond);

/// 64 warps, one queue pair: each put waits for its turn to be published.
void nic_shared_queue(benchmark::State& state, const std::string& protocol) {
  simulate(state, protocol, 64, 1, 200, "p-ib", 8, false);
}
BENCHMARK_CAPTURE(nic_shared_queue, gdaki, "gdaki")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(nic_shared_queue, mini_gda, "mini-gda")->Unit(benchmark::kMillisecond);

/// 4,096 threads, 16 queue pairs.
void nic_many_threads(benchmark::State& state, const std::string& protocol) {
  simulate(state, protocol, 4'096, 16, 8, "p-ib", 8, false);
}
BENCHMARK_CAPTURE(nic_many_threads, nvshmem, "nvshmem-ibgda")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(nic_many_threads, mini_gda, "mini-gda")->Unit(benchmark::kMillisecond);

/// So many messages outstanding at once: that many lanes, each waits for its own.
void nic_growth(benchmark::State& state) {
  const auto lanes = static_cast<std::uint32_t>(state.range(0));
  simulate(state, "nvshmem-ibgda", lanes, 16, 65'536 / lanes, "p-ib", 8);
}
BENCHMARK(nic_growth)
    ->ArgName("outstanding")
    ->Arg(64)
    ->Arg(1'024)
    ->Arg(16'384)
    ->Unit(benchmark::kMillisecond);

/// One CPU thread serves all rings; every ring is full, so 1,024 times as many messages are
/// outstanding (16,384 of 16 rings).
void proxy(benchmark::State& state) {
  const auto rings = static_cast<std::uint32_t>(state.range(0));
  simulate(state, "mini-proxy", rings, rings, 64'000 / rings, "p-ib", 8, false);
}
BENCHMARK(proxy)->ArgName("rings")->Arg(1)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond);

void trace_reading(benchmark::State& state) {
  trace::Reader reader(MARROW_SOURCE_DIR "/traces/h200-c-device-consumer.trace");
  std::int64_t ops = 0;
  trace::Op op;
  for (auto _ : state) {
    reader.rewind();
    while (reader.next_run())
      while (reader.next_op(op)) ++ops;
  }
  state.SetItemsProcessed(ops);
}
BENCHMARK(trace_reading)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace marrow

int main(int argc, char** argv) {
  // SystemC's own notices have no place among the figures.
  sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
  sc_core::sc_report_handler::set_actions(sc_core::SC_WARNING, sc_core::SC_DO_NOTHING);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
