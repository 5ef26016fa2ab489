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
#include "sim/results/stage_table.h"
#include "traces/trace.h"

namespace marrow {
namespace {

const std::string kConfigs = MARROW_SOURCE_DIR "/configs";
constexpr std::uint64_t kBytes = 64;

/// The SystemC kernel is global and elaborates once: every benchmark runs on the same machine.
sim::Machine& machine() {
  static sim::Machine* const one =
      new sim::Machine(config::bind(config::load_system(kConfigs + "/systems/h200-c.yaml")));
  return *one;
}

config::Recipe recipe(const std::string& protocol) {
  const std::map<std::string, std::string> choices =
      protocol == "capture-gdaki" ? std::map<std::string, std::string>{{"doorbell_in", "gpu"}}
                                  : std::map<std::string, std::string>{};
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
              std::uint32_t queues, std::uint64_t puts) {
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
    setup.next_op = [&](std::uint32_t warp, gpu::Op& put) {
      if (left[warp] == 0) return false;
      --left[warp];
      put = {OpKind::kPut, kBytes, left[warp] == 0, true, 0};
      return true;
    };
    machine().run(setup);
    messages += table.total().messages();
  }
  if (messages != state.iterations() * lanes * puts)
    state.SkipWithError("not every put became a message");
  state.SetItemsProcessed(static_cast<std::int64_t>(messages));
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
