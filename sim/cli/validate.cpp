#include <iostream>
#include <memory>
#include <optional>

#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/results/progress.h"
#include "traces/atomic_file.h"
#include "validate/compare.h"

namespace marrow::cli {

namespace {

struct Arguments {
  std::string system, capture, json, placement_from;
  std::vector<std::string> sets, only;
  std::uint64_t seed = 1;
  double bound_median_percent = -1, bound_p90_percent = -1;
};

int validate_capture(const Arguments& arguments) {
  const Sets sets = split_sets(arguments.sets);
  const auto parameters = config::load_system(arguments.system, sets.system);
  const auto base_spec = config::bind(config::load_system(arguments.system));
  // What a capture tells of its placement it tells of the machine as it was, not of a what-if.
  std::optional<sim::Machine> changed;
  if (!sets.system.empty()) changed.emplace(config::bind(parameters));
  sim::Machine base(base_spec);
  sim::Machine& machine = changed ? *changed : base;
  results::Progress progress;
  validate::Options options;
  options.config_dir = config_dir_of(arguments.system);
  options.system = parameters.system();
  options.trace_file = arguments.capture;
  options.only = arguments.only;
  options.protocol_sets = sets.protocol;
  options.seed = arguments.seed;
  options.placement_from = arguments.placement_from;
  if (progress.on()) options.observer = &progress;
  const validate::Comparison comparison = validate::compare(machine, base, base_spec, options);
  progress.finish();
  if (!arguments.json.empty()) {
    AtomicFile file(arguments.json);
    file.stream() << validate::as_json(comparison).dump(1) << '\n';
    file.commit();
  }
  validate::write_table(std::cout, comparison);
  const validate::Group all = comparison.groups().front();
  const bool missed =
      (arguments.bound_median_percent >= 0 &&
       100 * all.median_abs_error > arguments.bound_median_percent) ||
      (arguments.bound_p90_percent >= 0 && 100 * all.p90_abs_error > arguments.bound_p90_percent);
  if (missed) std::cout << "bound missed\n";
  return missed ? 1 : 0;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "validate",
      "Hold each predicted stage against a capture: one row per run and stage with medians, p90, "
      "error, role (fit, placement, predicted) and the error of a naive baseline");
  command
      ->add_option("--system", arguments->system, "System file, e.g. configs/systems/h200-c.yaml")
      ->required();
  command->add_option("--capture", arguments->capture, "Trace with captured times")->required();
  command->add_option("--only", arguments->only, "Only this run, e.g. cfg=4; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--set", arguments->sets, kSetHelp)->allow_extra_args(false);
  command->add_option("--seed", arguments->seed, "Draws what the capture does not tell")
      ->capture_default_str();
  command->add_option("--placement-from", arguments->placement_from,
                      "Read the L2 placement off this capture of the same allocation instead");
  command->add_option("--json", arguments->json,
                      "Write rows and summary, schema marrow.validate/1");
  command->add_option("--bound-median-percent", arguments->bound_median_percent,
                      "Exit with 1 if the median |error| over all rows is larger");
  command->add_option("--bound-p90-percent", arguments->bound_p90_percent,
                      "Exit with 1 if the 90th percentile of |error| is larger");
  const std::string start =
      "marrow validate --system configs/systems/h200-c.yaml --capture "
      "traces/h200-c-device-consumer.trace";
  add_examples(command, {start, start + " --only cfg=4 --json cfg4.json",
                         start + " --bound-median-percent 5"});
  command->callback(
      [&action, arguments] { action = [arguments] { return validate_capture(*arguments); }; });
}

}  // namespace marrow::cli
