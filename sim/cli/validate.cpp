#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/config/provenance.h"
#include "sim/results/progress.h"
#include "validate/compare.h"
#include "validate/measurements.h"

namespace marrow::cli {

namespace {

struct Arguments {
  std::string system, capture, measurements, json, placement_from;
  std::vector<std::string> sets, only;
  std::uint64_t seed = 1;
  std::size_t intervals = 0, jobs = 0;
  double bound_median_percent = -1, bound_p90_percent = -1;
};

/// The exit code that the bounds ask for.
int missed_bound(const Arguments& arguments, const validate::Group& all) {
  const bool missed =
      (arguments.bound_median_percent >= 0 &&
       100 * all.median_abs_error > arguments.bound_median_percent) ||
      (arguments.bound_p90_percent >= 0 && 100 * all.p90_abs_error > arguments.bound_p90_percent);
  if (missed) std::cout << "bound missed\n";
  return missed ? 1 : 0;
}

/// The comparison with these values of the parameters. What a capture tells of its placement it
/// tells of the machine as its file has it, not of a what-if.
validate::Comparison compare(const Arguments& arguments, const Sets& sets,
                             const config::ParameterSet& parameters,
                             const config::ParameterSet& base_parameters, std::uint64_t seed,
                             Observer* observer = nullptr,
                             std::function<void(const config::Recipe&)> on_recipe = nullptr) {
  const auto base_spec = config::bind(base_parameters);
  std::optional<sim::Machine> changed;
  if (!sets.system.empty()) changed.emplace(config::bind(parameters));
  sim::Machine base(base_spec);
  validate::Options options;
  options.config_dir = config_dir_of(arguments.system);
  options.system = parameters.system();
  options.trace_file = arguments.capture;
  options.only = arguments.only;
  options.protocol_sets = sets.protocol;
  options.seed = seed;
  options.placement_from = arguments.placement_from;
  options.observer = observer;
  options.on_recipe = std::move(on_recipe);
  return validate::compare(changed ? *changed : base, base, base_spec, options);
}

int validate_capture(const Arguments& arguments) {
  const Sets sets = split_sets(arguments.sets);
  const auto parameters = config::load_system(arguments.system, sets.system);
  const auto base_parameters = config::load_system(arguments.system);
  // Samples first: they elaborate machines of their own, and this process must have none then.
  const results::Intervals intervals = sample_intervals(
      arguments.intervals, arguments.jobs, parameters, arguments.seed, [&](const Drawn& drawn) {
        auto sampled = parameters, base = base_parameters;
        sweep::apply(sampled, drawn.values);
        sweep::apply(base, drawn.values);
        return validate::medians(compare(arguments, sets, sampled, base, drawn.seed));
      });
  results::Progress progress;
  config::Provenance provenance;
  provenance.add(parameters);
  SetsInUse in_use;
  validate::Comparison comparison =
      compare(arguments, sets, parameters, base_parameters, arguments.seed,
              progress.on() ? &progress : nullptr, [&](const config::Recipe& recipe) {
                provenance.add(recipe);
                in_use.add(recipe);
              });
  progress.finish();
  in_use.warn(sets);
  validate::add_intervals(comparison, intervals, config::bind(parameters).stage_error_percent);
  if (!arguments.json.empty()) {
    auto json = validate::as_json(comparison);
    json["provenance"] = provenance.as_json();
    write_json(arguments.json, json);
  }
  validate::write_table(std::cout, comparison);
  return missed_bound(arguments, comparison.groups().front());
}

int validate_measurements(const Arguments& arguments) {
  const Sets sets = split_sets(arguments.sets);
  validate::MeasurementOptions options;
  options.config_dir = config_dir_of("");
  options.system_sets = sets.system;
  options.protocol_sets = sets.protocol;
  options.seed = arguments.seed;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal)
    options.on_progress = [](std::size_t done, std::size_t all) {
      std::cerr << "\r\033[K";
      if (done < all) std::cerr << done << " of " << all << " simulations";
      std::cerr << std::flush;
    };
  const auto tables = validate::load_measurements(arguments.measurements, options.config_dir);
  const auto predictions = validate::predict(tables, options);
  if (!arguments.json.empty()) {
    auto json = validate::as_json(tables, predictions);
    json["provenance"] = validate::provenance(tables, options).as_json();
    write_json(arguments.json, json);
  }
  validate::write_table(std::cout, tables, predictions, options.seeds);
  const int missed = missed_bound(
      arguments, validate::group_of("all rows", predictions, [](const auto&) { return true; }));
  const bool failed = std::any_of(predictions.begin(), predictions.end(),
                                  [](const auto& p) { return !p.fault.empty(); });
  return failed ? 2 : missed;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "validate",
      "Hold each predicted stage against a capture: one row per run and stage with medians, p90, "
      "error, role (fit, placement, predicted) and the error of a naive baseline; or predictions "
      "against published tables");
  auto* system = command->add_option("--system", arguments->system,
                                     "System file, e.g. configs/systems/h200-c.yaml");
  auto* capture = command->add_option("--capture", arguments->capture, "Trace with captured times");
  auto* only =
      command->add_option("--only", arguments->only, "Only this run, e.g. cfg=4; may be repeated")
          ->allow_extra_args(false);
  command->add_option("--set", arguments->sets, kSetHelp)->allow_extra_args(false);
  command->add_option("--seed", arguments->seed, "Draws what the capture does not tell")
      ->capture_default_str();
  auto* placement =
      command->add_option("--placement-from", arguments->placement_from,
                          "Read the L2 placement off this capture of the same allocation instead");
  auto* intervals = add_intervals(command, arguments->intervals, arguments->jobs);
  command
      ->add_option("--measurements", arguments->measurements,
                   "Published tables instead of a capture: a file of validate/measurements, or a "
                   "folder of them")
      ->excludes(system)
      ->excludes(capture)
      ->excludes(only)
      ->excludes(placement)
      ->excludes(intervals);
  command->add_option("--json", arguments->json,
                      "Write rows and summary, schema marrow.validate/1");
  command->add_option("--bound-median-percent", arguments->bound_median_percent,
                      "Exit with 1 if the median |error| over all rows is larger");
  command->add_option("--bound-p90-percent", arguments->bound_p90_percent,
                      "Exit with 1 if the 90th percentile of |error| is larger");
  const std::string start =
      "marrow validate --system configs/systems/h200-c.yaml --capture "
      "traces/h200-c-device-consumer.trace";
  add_examples(command,
               {start, start + " --only cfg=4 --json cfg4.json",
                start + " --bound-median-percent 5", start + " --intervals",
                "marrow validate --measurements validate/measurements/dissecting/dissect-t4.yaml"});
  command->callback([&action, arguments] {
    if (!arguments->measurements.empty()) {
      action = [arguments] { return validate_measurements(*arguments); };
      return;
    }
    if (arguments->system.empty()) throw CLI::RequiredError("--system (or --measurements)");
    if (arguments->capture.empty()) throw CLI::RequiredError("--capture");
    action = [arguments] { return validate_capture(*arguments); };
  });
}

}  // namespace marrow::cli
