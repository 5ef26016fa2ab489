#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "models/common/error.h"
#include "sim/cli/common.h"
#include "sim/config/report.h"
#include "sim/machine.h"
#include "sim/replay.h"
#include "sim/results/counters.h"
#include "sim/results/message_csv.h"
#include "sim/results/perfetto.h"
#include "sim/results/progress.h"
#include "sim/results/recorder.h"
#include "sim/results/run_json.h"
#include "sim/results/stage_table.h"
#include "traces/atomic_file.h"
#include "validate/placement.h"

namespace marrow::cli {

namespace {

struct Arguments {
  std::string system, protocol, trace, json, csv, messages_csv, perfetto;
  std::vector<std::string> sets, only;
  std::uint64_t seed = 1;
};

/// A captured operation as a journey, for the timeline beside the predicted one.
Journey measured_journey(std::uint32_t index, const trace::Run& run, const trace::Op& op,
                         double sm_clock_ghz) {
  Journey journey;
  journey.run = index;
  journey.warp = op.warp;
  for (const trace::Lane& lane : run.lanes)
    if (lane.warp == op.warp) {
      journey.sm = lane.sm.value_or(0);
      journey.queue = lane.queue;
    }
  journey.index = op.measured->index;
  journey.start_ps = static_cast<Ps>(op.measured->start_ns) * kPsPerNs;
  journey.polls = op.measured->polls;
  journey.rang = op.measured->rang;
  journey.waited = op.wait;
  for (std::size_t i = 0; i < run.measured_stages.size(); ++i) {
    const Ps ps = ps_from_ns(op.measured->stage_cycles[i] / sm_clock_ghz);
    if (const auto stage = stage_named(run.measured_stages[i]))
      journey.at(*stage) = ps;
    else
      journey.waited_ps = ps;
  }
  return journey;
}

nlohmann::ordered_json provenance(const config::ParameterSet& parameters) {
  const auto counts = config::evidence_counts(parameters);
  nlohmann::ordered_json classes = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < counts.size(); ++i)
    classes[std::string(config::name(static_cast<config::Evidence>(i)))] = counts[i];
  return {{"parameters", classes}};
}

int run(const Arguments& arguments) {
  const Sets sets = split_sets(arguments.sets);
  const auto parameters = config::load_system(arguments.system, sets.system);
  const auto spec = config::bind(parameters);
  trace::Reader reader(arguments.trace);

  results::StageTable table;
  results::Recorders recorders;
  recorders.add(table);
  results::Progress progress;
  if (progress.on()) recorders.add(progress);
  std::optional<AtomicFile> messages_file, perfetto_file;
  std::optional<results::MessageCsv> messages;
  if (!arguments.messages_csv.empty()) {
    messages_file.emplace(arguments.messages_csv);
    recorders.add(messages.emplace(messages_file->stream()));
  }
  std::optional<results::PerfettoWriter> perfetto;
  if (!arguments.perfetto.empty()) {
    perfetto_file.emplace(arguments.perfetto);
    recorders.add(perfetto.emplace(perfetto_file->stream()));
  }

  sim::Machine machine(spec);
  sim::ReplayOptions options;
  options.config_dir = config_dir_of(arguments.system);
  if (!arguments.protocol.empty()) options.protocol = arguments.protocol;
  options.protocol_sets = sets.protocol;
  options.seed = arguments.seed;
  if (!arguments.only.empty())
    options.selects = [&](const trace::Run& r) {
      return std::find(arguments.only.begin(), arguments.only.end(), r.name) !=
             arguments.only.end();
    };

  // Where the trace itself tells how its words lay in the L2, the replay uses that.
  const double sm_clock_ghz = reader.header().sm_clock_ghz;
  validate::InferredPlacement placement;
  if (sm_clock_ghz > 0 && arguments.protocol.empty()) {
    placement = validate::infer_placement(reader, machine, options.config_dir, arguments.seed, spec);
    if (!placement.empty())
      options.place = [&](const trace::Run&, const config::Recipe& recipe,
                          const QueueLayout& layout, Placement& drawn) {
        placement.apply(recipe, layout, drawn);
      };
  }
  std::set<std::string> protocols;
  options.on_run = [&](std::uint32_t index, const trace::Run& r, const config::Recipe& recipe) {
    protocols.insert(recipe.program.protocol);
    recorders.begin_run(index, r.name);
  };
  if (perfetto && sm_clock_ghz > 0)
    options.on_measured = [&](std::uint32_t index, const trace::Run& r, const trace::Op& op) {
      perfetto->measured(measured_journey(index, r, op, sm_clock_ghz));
    };
  reader.rewind();
  machine.clear_counters();
  const std::uint32_t runs = sim::replay(reader, machine, options, &recorders);
  progress.finish();
  if (runs == 0)
    throw InputError("--only", "no run of " + arguments.trace + " is named so",
                     "`marrow trace info " + arguments.trace + "` lists them");

  results::Counters counters;
  machine.report(counters);
  results::RunInfo info;
  info.system = parameters.system();
  info.protocols.assign(protocols.begin(), protocols.end());
  info.trace = arguments.trace;
  info.seed = arguments.seed;
  info.provenance = provenance(parameters);

  if (!arguments.json.empty()) {
    AtomicFile file(arguments.json);
    results::write_json(file.stream(), info, table, counters);
    file.commit();
  }
  if (!arguments.csv.empty()) {
    AtomicFile file(arguments.csv);
    results::write_csv(file.stream(), table);
    file.commit();
  }
  if (messages_file) messages_file->commit();
  if (perfetto) {
    perfetto->finish();
    perfetto_file->commit();
  }
  results::write_table(std::cout, table);
  results::write_table(std::cout, counters);
  std::cout << "\nThe prediction rests on ";
  config::evidence_summary(parameters, std::cout);
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "run", "Replay a trace: for every stage count, median, p90, p99 and share; counters per block");
  command->add_option("--system", arguments->system, "System file, e.g. configs/systems/h200-c.yaml")
      ->required();
  command->add_option("--trace", arguments->trace, "Trace file (see `marrow import`)")->required();
  command->add_option("--protocol", arguments->protocol,
                      "Recipe, by name or path, instead of the trace's own");
  command->add_option("--set", arguments->sets, kSetHelp)->allow_extra_args(false);
  command->add_option("--only", arguments->only, "Only this run, e.g. \"cfg 4\"; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--seed", arguments->seed, "Draws what is not known: L2 placement, noise")
      ->capture_default_str();
  command->add_option("--json", arguments->json, "Write the result as JSON, schema marrow.run/1");
  command->add_option("--csv", arguments->csv, "Write the stage table as CSV");
  command->add_option("--messages-csv", arguments->messages_csv,
                      "Write every message's stages as CSV");
  command->add_option("--perfetto", arguments->perfetto,
                      "Write a timeline for ui.perfetto.dev, measured beside predicted");
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace marrow::cli
