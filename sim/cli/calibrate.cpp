#include "validate/calibrate/calibrate.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/results/progress.h"
#include "sim/sweep/journal.h"
#include "traces/atomic_file.h"

namespace marrow::cli {

namespace {

struct Arguments {
  calibrate::Inputs inputs;
  calibrate::FitOptions fit;
  std::string out, json;
  std::size_t jobs = 0;
};

int run_on(sweep::Ranks& ranks, Arguments arguments) {
  calibrate::Inputs& inputs = arguments.inputs;
  inputs.config_dir = config_dir_of(inputs.system);
  const calibrate::Problem problem(inputs);
  const sweep::Work work = [&](const sweep::Job& job) { return problem.work(job); };
  if (ranks.rank() > 0) {
    sweep::help(ranks, work);
    return 0;
  }
  for (const std::string& warning : problem.warnings()) std::cerr << "marrow: " << warning << '\n';
  const std::string path = arguments.out + ".journal";
  const nlohmann::ordered_json head = {{"schema", "marrow.calibrate.evaluations/1"},
                                       {"fingerprint", problem.fingerprint()},
                                       {"starts", arguments.fit.starts}};
  {
    sweep::Journal journal(path, head.dump(),
                           {"marrow calibrate",
                            "holds evaluations of another calibration, or of this one before a "
                            "file of it was changed",
                            path, "file with --out"});
    const std::size_t kept = journal.lines().size();
    const std::size_t jobs = arguments.jobs > 0 ? arguments.jobs
                             : ranks.size() > 1 ? 1
                                                : std::max(1U, std::thread::hardware_concurrency());
    results::Progress progress(0, "evaluations");
    sweep::JobRunner runner(ranks, jobs, work);
    const calibrate::Fit fit =
        calibrate::solve(problem, runner, journal, arguments.fit,
                         [&](std::size_t fresh) { progress.advance(fresh); });
    progress.finish();
    AtomicFile overlay(arguments.out);
    calibrate::write_overlay(overlay.stream(), problem, fit,
                             std::filesystem::path(arguments.out).stem().string());
    std::unique_ptr<AtomicFile> json;
    if (!arguments.json.empty()) {
      json = std::make_unique<AtomicFile>(arguments.json);
      json->stream() << calibrate::as_json(problem, fit)
                            .dump(1, ' ', false, nlohmann::json::error_handler_t::replace)
                     << '\n';
    }
    overlay.commit();
    if (json) json->commit();
    calibrate::write_table(std::cout, problem, fit);
    std::cout << "\nWritten: " << arguments.out << ", after " << journal.lines().size()
              << " evaluations";
    if (kept > 0) std::cout << " (" << kept << " were there already)";
    std::cout << '\n';
  }
  std::filesystem::remove(path);
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  calibrate::Inputs& inputs = arguments->inputs;
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "Fit a system's parameters to what was measured on a machine: a YAML overlay with values, "
      "sources and 90 % intervals, and what the measurements cannot tell. One process an "
      "evaluation, all cores; one that was ended goes on where it was. `mpirun -n N marrow "
      "calibrate` spreads it over machines");
  command->add_option("--system", inputs.system, "System file to start from")->required();
  command->add_option("--probe", inputs.probes, "File of marrow-probe; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--capture", inputs.captures,
                   "Trace with captured times to fit to as well; may be repeated")
      ->allow_extra_args(false);
  auto* keys = command
                   ->add_option("--parameters", inputs.keys,
                                "What to fit: key,key (default: every parameter that is no plain "
                                "fact, such as a count or a clock)")
                   ->delimiter(',')
                   ->allow_extra_args(false);
  command
      ->add_option("--parameters-from", inputs.group, "Fit the parameters of this group: gpu.fence")
      ->excludes(keys);
  command
      ->add_option("--hold-out", inputs.hold_out,
                   "Share of the rows that is not fitted to, to check by")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  command->add_option("--starts", arguments->fit.starts, "Points that the search starts from")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", inputs.seed, "Draws what is held out and where starts lie")
      ->capture_default_str();
  command
      ->add_option("-j,--jobs", arguments->jobs,
                   "Evaluations at once (default: one a core; under mpirun one a rank)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--out", arguments->out, "The overlay to write; a system includes it")
      ->required();
  command->add_option("--json", arguments->json,
                      "Write everything as JSON, schema marrow.calibrate/1");
  const std::string start =
      "marrow calibrate --system configs/systems/h200-c.yaml --probe "
      "validate/probes/h200-i-probe.jsonl";
  add_examples(command, {start + " --out h200-i.yaml",
                         start + " --parameters gpu.fence.sys_cycles,pcie.round_trip_ns --out "
                                 "h200-i.yaml --json fit.json"});
  command->callback([&action, arguments] {
    if (arguments->inputs.probes.empty() && arguments->inputs.captures.empty())
      throw CLI::RequiredError("--probe (or --capture)");
    arguments->fit.seed = arguments->inputs.seed;
    action = [arguments] {
      return over_ranks([&](sweep::Ranks& ranks) { return run_on(ranks, *arguments); });
    };
  });
}

}  // namespace marrow::cli
