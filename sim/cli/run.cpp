#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "models/common/error.h"
#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/config/provenance.h"
#include "sim/config/report.h"
#include "sim/machine.h"
#include "sim/replay.h"
#include "sim/results/comparison.h"
#include "sim/results/counters.h"
#include "sim/results/kernel_table.h"
#include "sim/results/measured_table.h"
#include "sim/results/message_csv.h"
#include "sim/results/operation_table.h"
#include "sim/results/perfetto.h"
#include "sim/results/progress.h"
#include "sim/results/recorder.h"
#include "sim/results/run_json.h"
#include "sim/results/stage_table.h"
#include "traces/atomic_file.h"
#include "traces/counters.h"
#include "validate/placement.h"

namespace marrow::cli {

namespace {

struct Arguments {
  std::string system, trace, json, csv, messages_csv, perfetto;
  std::vector<std::string> protocols, sets, only;
  std::uint64_t seed = 1;
  std::string placement;
  std::uint32_t draws = 5;
  bool detail = false;
  std::size_t intervals = 0, jobs = 0;
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

/// Blocks that a run did not use tell nothing.
results::Counters without_idle_blocks(const results::Counters& all) {
  std::set<std::string> busy;
  for (const results::Counter& counter : all.all())
    if (counter.value != 0) busy.insert(counter.block);
  results::Counters kept;
  for (const results::Counter& counter : all.all())
    if (busy.count(counter.block))
      kept.add(counter.block, counter.name, counter.value, counter.unit);
  return kept;
}

/// Where nothing tells how the words lie in the L2, one draw is one of many: what others would
/// give.
void report_spread(const Arguments& arguments, trace::Reader& reader, sim::Machine& machine,
                   sim::ReplayOptions options, const results::StageTable& table) {
  constexpr std::uint64_t kMostMessages = 200'000;  // of one draw; more takes too long to repeat
  if (arguments.draws < 2) return;
  if (table.total().messages() > kMostMessages) {
    std::cout << "\nThe L2 placement is one draw (--seed); the trace is too long to show others.\n";
    return;
  }
  std::map<std::uint32_t, std::vector<double>> medians;
  const auto keep = [&](const results::StageTable& result) {
    for (const auto& [index, run] : result.runs())
      for (const results::StageRow& row : run.times.rows())
        if (row.stage == "put")
          medians[index].push_back(static_cast<double>(row.times->quantile(0.5)) / 1000);
  };
  keep(table);
  for (std::uint32_t draw = 1; draw < arguments.draws; ++draw) {
    results::StageTable result;
    options.seed = arguments.seed + draw;
    options.on_run = [&](std::uint32_t index, const trace::Run& r, const config::Recipe&) {
      result.begin_run(index, r.name);
    };
    options.on_measured = nullptr;
    reader.rewind();
    sim::replay(reader, machine, options, &result);
    keep(result);
  }
  std::cout << "\nThe trace does not tell how its words lie in the L2. Median put over "
            << arguments.draws << " draws (--draws, --placement):\n";
  for (auto& [index, values] : medians) {
    std::sort(values.begin(), values.end());
    std::cout << "  " << table.runs().at(index).name << ": "
              << static_cast<std::int64_t>(values.front()) << " to "
              << static_cast<std::int64_t>(values.back()) << " ns\n";
  }
}

/// A machine and how it replays the trace, as the arguments ask for it.
class Replay {
 public:
  /// base: without --set. What a capture tells of its placement it tells of the machine as it was,
  /// not of a what-if.
  Replay(const Arguments& arguments, const Sets& sets, const config::ParameterSet& parameters,
         const config::ParameterSet& base, trace::Reader& reader, std::uint64_t seed)
      : base_(spec_of(base, arguments)) {
    if (!sets.system.empty()) changed_.emplace(spec_of(parameters, arguments));
    options.config_dir = config_dir_of(arguments.system);
    if (!arguments.protocols.empty()) options.protocol = arguments.protocols.front();
    options.protocol_sets = sets.protocol;
    options.seed = seed;
    if (!arguments.only.empty())
      options.selects = [&](const trace::Run& r) {
        return sim::run_selected(arguments.only, r.name);
      };
    // Where the trace itself tells how its words lay in the L2, the replay uses that.
    if (arguments.placement == "near" || arguments.placement == "far") {
      options.place = [&](const trace::Run&, const config::Recipe&, const QueueLayout&,
                          Placement& drawn) { drawn.put_all(arguments.placement == "far"); };
    } else if (reader.header().sm_clock_ghz > 0 && arguments.protocols.empty() &&
               arguments.placement.empty()) {
      placement_ = validate::KnownPlacement(reader, base_, options.config_dir, seed,
                                            spec_of(base, arguments));
      if (!placement_.empty())
        options.place = [&](const trace::Run& r, const config::Recipe& recipe,
                            const QueueLayout& layout,
                            Placement& drawn) { placement_.apply(r, recipe, layout, drawn); };
    }
    reader.rewind();
    machine().clear_counters();
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  sim::Machine& machine() { return changed_ ? *changed_ : base_; }
  sim::ReplayOptions options;

 private:
  static config::SystemSpec spec_of(const config::ParameterSet& parameters,
                                    const Arguments& arguments) {
    config::SystemSpec spec = config::bind(parameters);
    spec.detail = arguments.detail;
    return spec;
  }

  std::optional<sim::Machine> changed_;
  sim::Machine base_;
  validate::KnownPlacement placement_;
};

/// Medians of one sample, in ns, by results::interval_name().
std::map<std::string, double> sampled_medians(const Arguments& arguments, const Sets& sets,
                                              const config::ParameterSet& parameters,
                                              const config::ParameterSet& base,
                                              const std::string& trace, std::uint64_t seed) {
  trace::Reader reader(trace);
  Replay replay(arguments, sets, parameters, base, reader, seed);
  results::StageTable table;
  replay.options.on_run = [&](std::uint32_t index, const trace::Run& r, const config::Recipe&) {
    table.begin_run(index, r.name);
  };
  sim::replay(reader, replay.machine(), replay.options, &table);
  std::map<std::string, double> medians;
  for (const auto& [index, run] : table.runs())
    for (const results::StageRow& row : run.times.rows())
      medians[results::interval_name(index, row.stage)] =
          static_cast<double>(row.times->quantile(0.5)) / static_cast<double>(kPsPerNs);
  return medians;
}

/// The same work under each protocol: one table.
int compare(const Arguments& arguments) {
  if (!arguments.perfetto.empty() || !arguments.messages_csv.empty())
    throw InputError(arguments.perfetto.empty() ? "--messages-csv" : "--perfetto",
                     "is of one protocol", "name one --protocol");
  const Sets sets = split_sets(arguments.sets);
  const auto parameters = config::load_system(arguments.system, sets.system);
  auto spec = config::bind(parameters);
  spec.detail = arguments.detail;
  const TraceFile trace_file(arguments.trace);
  trace::Reader reader(trace_file.path());
  sim::Machine machine(spec);
  results::Comparison comparison;
  results::Recorders recorders;
  recorders.add(comparison);
  results::Progress progress;
  if (progress.on()) recorders.add(progress);
  config::Provenance provenance;
  provenance.add(parameters);
  SetsInUse in_use;
  std::map<std::string, bool> to_nic;
  sim::ReplayOptions options;
  options.config_dir = config_dir_of(arguments.system);
  options.protocol_sets = sets.protocol;
  if (!arguments.only.empty())
    options.selects = [&](const trace::Run& r) {
      return sim::run_selected(arguments.only, r.name);
    };
  const bool placed = arguments.placement == "near" || arguments.placement == "far";
  if (placed)
    options.place = [&](const trace::Run&, const config::Recipe&, const QueueLayout&,
                        Placement& drawn) { drawn.put_all(arguments.placement == "far"); };
  options.on_run = [&](std::uint32_t index, const trace::Run& r, const config::Recipe& recipe) {
    comparison.begin_protocol(recipe.program.protocol);
    recorders.begin_run(index, r.name);
    provenance.add(recipe);
    in_use.add(recipe);
    to_nic[recipe.program.protocol] = recipe.program.nic.present;
  };
  for (const std::string& protocol : arguments.protocols)
    for (std::uint32_t draw = 0; draw < (placed ? 1 : arguments.draws); ++draw) {
      options.protocol = protocol;
      options.seed = arguments.seed + draw;
      reader.rewind();
      if (sim::replay(reader, machine, options, &recorders) == 0)
        throw InputError("--only", "no run of " + arguments.trace + " is named so",
                         "`marrow trace info " + arguments.trace + "` lists them");
    }
  progress.finish();
  in_use.warn(sets);
  if (!arguments.json.empty())
    write_json(arguments.json, {{"schema", "marrow.run/1"},
                                {"system", parameters.system()},
                                {"protocols", comparison.protocols()},
                                {"trace", arguments.trace},
                                {"seed", arguments.seed},
                                {"comparison", as_json(comparison)},
                                {"provenance", provenance.as_json()}});
  if (!arguments.csv.empty()) {
    AtomicFile file(arguments.csv);
    results::write_csv(file.stream(), comparison);
    file.commit();
  }
  std::cout << "one message, from its begin (a kernel's end, where a CPU thread launches kernels) "
               "until its lane goes\non (the next kernel's start): median, and how many times the "
               "least\n\n";
  results::write_table(std::cout, comparison);
  std::string with, without;
  for (const std::string& name : comparison.protocols())
    (to_nic[name] ? with : without) += (to_nic[name] ? with : without).empty() ? name : ", " + name;
  if (!with.empty() && !without.empty())
    std::cout << "\nNot the same work: " << without
              << " ends where a consumer in a NIC's place has completed the entry, " << with
              << " goes through\nthe NIC and the wire to the far side and back.\n";
  return 0;
}

/// What the trace's devices counted beside what its operations ask for.
void check_counters(trace::Reader& reader) {
  if (reader.header().counters.empty()) return;
  trace::Requests requests;
  reader.rewind();
  trace::Op op;
  while (reader.next_run())
    while (reader.next_op(op)) requests.add(op);
  for (const trace::CounterCheck& check : trace::check_counters(reader.header(), requests))
    std::cout << check.name << ": " << static_cast<std::int64_t>(check.counted) << " counted, "
              << static_cast<std::int64_t>(check.expected)
              << " asked for by the trace's operations\n";
}

int run(const Arguments& arguments) {
  if (arguments.protocols.size() > 1) return compare(arguments);
  const Sets sets = split_sets(arguments.sets);
  const auto parameters = config::load_system(arguments.system, sets.system);
  const auto base_parameters = config::load_system(arguments.system);
  const TraceFile trace_file(arguments.trace);
  trace::Reader reader(trace_file.path());
  // Samples first: they elaborate machines of their own, and this process must have none then.
  results::Intervals intervals = sample_intervals(
      arguments.intervals, arguments.jobs, parameters, arguments.seed, [&](const Drawn& drawn) {
        auto sampled = parameters, base = base_parameters;
        sweep::apply(sampled, drawn.values);
        sweep::apply(base, drawn.values);
        return sampled_medians(arguments, sets, sampled, base, trace_file.path(), drawn.seed);
      });

  results::StageTable table;
  results::Recorders recorders;
  recorders.add(table);
  results::OperationTable operations;
  recorders.add(operations);
  results::KernelTable kernels;
  recorders.add(kernels);
  results::MeasuredTable measured;
  recorders.add(measured);
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

  Replay replay(arguments, sets, parameters, base_parameters, reader, arguments.seed);
  sim::Machine& machine = replay.machine();
  sim::ReplayOptions& options = replay.options;
  const double sm_clock_ghz = reader.header().sm_clock_ghz;
  std::set<std::string> protocols;
  config::Provenance provenance;
  provenance.add(parameters);
  SetsInUse in_use;
  options.on_run = [&](std::uint32_t index, const trace::Run& r, const config::Recipe& recipe) {
    protocols.insert(recipe.program.protocol);
    provenance.add(recipe);
    in_use.add(recipe);
    recorders.begin_run(index, r.name);
    measured.expect(r);
  };
  std::map<std::string, std::uint64_t> left_out;  // by reason
  options.on_left_out = [&](const trace::Run& r) { ++left_out[r.not_replayable]; };
  if (perfetto && sm_clock_ghz > 0)
    options.on_measured = [&](std::uint32_t index, const trace::Run& r, const trace::Op& op) {
      perfetto->measured(measured_journey(index, r, op, sm_clock_ghz));
    };
  const std::uint32_t runs = sim::replay(reader, machine, options, &recorders);
  progress.finish();
  measured.finish();
  if (runs == 0 && !left_out.empty())
    throw InputError(arguments.trace,
                     "holds what was measured, but no work to replay: " + left_out.begin()->first,
                     "`marrow trace info` shows what it holds; write the work down as a workload "
                     "(docs/traces.md) to simulate it");
  if (runs == 0 && arguments.only.empty())
    throw InputError(arguments.trace, "has no runs",
                     "`marrow trace info` shows what it holds; import counters into the trace of "
                     "the work: marrow import ... --counters");
  if (runs == 0)
    throw InputError("--only", "no run of " + arguments.trace + " is named so",
                     "`marrow trace info " + arguments.trace + "` lists them");

  for (const auto& [index, r] : table.runs())
    for (const results::StageRow& row : r.times.rows())
      if (const auto it = intervals.find(results::interval_name(index, row.stage));
          it != intervals.end())
        it->second = results::widened(
            it->second,
            static_cast<double>(row.times->quantile(0.5)) / static_cast<double>(kPsPerNs),
            config::bind(parameters).stage_error_percent);

  results::Counters all_counters;
  machine.report(all_counters);
  const results::Counters counters = without_idle_blocks(all_counters);
  results::RunInfo info;
  info.system = parameters.system();
  info.protocols.assign(protocols.begin(), protocols.end());
  info.trace = arguments.trace;
  info.seed = arguments.seed;
  info.provenance = provenance.as_json();
  in_use.warn(sets);

  if (!arguments.json.empty()) {
    AtomicFile file(arguments.json);
    results::write_json(file.stream(), info, table, operations, kernels, counters, measured,
                        intervals);
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
  if (!intervals.empty()) results::write_table(std::cout, table, intervals, arguments.intervals);
  results::write_table(std::cout, operations);
  results::write_table(std::cout, kernels);
  results::write_table(std::cout, measured);
  results::write_table(std::cout, counters);
  if (arguments.only.empty()) check_counters(reader);
  for (const auto& [reason, count] : left_out)
    std::cout << "\nLeft out, for they cannot be replayed: " << count
              << (count == 1 ? " run: " : " runs: ") << reason << '\n';
  if (!options.place) report_spread(arguments, reader, machine, options, table);
  std::cout << "\nThe prediction rests on ";
  config::evidence_summary(parameters, std::cout);
  for (const auto& [name, costs] : provenance.recipe_costs()) {
    std::size_t all = 0;
    std::string classes;
    for (const auto& [evidence, count] : costs) {
      all += count;
      classes += fmt::format(" {} {}", count, config::name(evidence));
    }
    std::cout << "and on " << all << " costs of " << name << ":" << classes << '\n';
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Replay a trace: for every stage count, median, p90, p99 and share; counters per block");
  command
      ->add_option("--system", arguments->system, "System file, e.g. configs/systems/h200-c.yaml")
      ->required();
  command
      ->add_option("--trace", arguments->trace,
                   "Trace file (see `marrow import`), or a workload in YAML")
      ->required();
  command
      ->add_option("--protocol", arguments->protocols,
                   "Recipe, by name or path, instead of the trace's own; several: one table that "
                   "compares them")
      ->allow_extra_args(false);
  command->add_option("--set", arguments->sets, kSetHelp)->allow_extra_args(false);
  command->add_option("--only", arguments->only, "Only this run, e.g. \"cfg 4\"; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--seed", arguments->seed, "Draws what is not known: L2 placement, noise")
      ->capture_default_str();
  command
      ->add_option(
          "--placement", arguments->placement,
          "How queue words lie in the L2: near or far from every SM, or drawn from the seed "
          "(default: as the capture shows, else drawn)")
      ->check(CLI::IsMember({"near", "far", "drawn"}));
  command
      ->add_option("--draws", arguments->draws,
                   "Where the placement is drawn: show the spread over so many draws")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  add_intervals(command, arguments->intervals, arguments->jobs);
  command->add_flag("--detail", arguments->detail,
                    "Every PCIe TLP and every packet by itself, not in trains: slower, to check "
                    "the default by");
  command->add_option("--json", arguments->json, "Write the result as JSON, schema marrow.run/1");
  command->add_option("--csv", arguments->csv, "Write the stage table, or the comparison, as CSV");
  command->add_option("--messages-csv", arguments->messages_csv,
                      "Write every message's stages as CSV");
  command->add_option("--perfetto", arguments->perfetto,
                      "Write a timeline for ui.perfetto.dev, measured beside predicted");
  const std::string start =
      "marrow run --system configs/systems/h200-c.yaml --trace "
      "traces/h200-c-device-consumer.trace --only cfg=4";
  add_examples(command, {start + " --perfetto cfg4.perfetto-trace",
                         start + " --set gpu.sm.clock_ghz=1.2", start + " --intervals",
                         start + " --set protocol.wqe.bytes=16 --set protocol.wqe.count=3"});
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace marrow::cli
