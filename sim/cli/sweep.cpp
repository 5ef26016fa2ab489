#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/results/progress.h"
#include "sim/sweep/chooser.h"
#include "sim/sweep/results.h"
#include "sim/sweep/runner.h"
#include "traces/atomic_file.h"

namespace marrow::cli {

namespace {

struct Arguments {
  std::string study, out;
  std::size_t jobs = 0;
};

int run_on(sweep::Ranks& ranks, const Arguments& arguments) {
  sweep::Study study = sweep::load_study(arguments.study, config_dir_of(arguments.study));
  const std::vector<sweep::Point> points = sweep::points_of(study);
  const std::string fingerprint = sweep::fingerprint(study, points);
  std::optional<TraceFile> trace;
  if (!study.trace.empty()) study.trace = trace.emplace(study.trace).path();
  if (ranks.rank() > 0) {
    sweep::help(study, points, ranks);
    return 0;
  }
  const std::string folder = arguments.out.empty() ? "sweep-" + study.name : arguments.out;
  std::vector<std::string> outputs = {"results.csv", "results.json", "sensitivity.csv"};
  if (!study.choose_for.empty()) outputs.emplace_back("chooser.csv");
  if (std::filesystem::is_directory(folder))
    for (const std::string& output : outputs) AtomicFile::check(folder + "/" + output);
  sweep::Journal journal(folder, study.name, fingerprint, points.size());
  const std::size_t kept = journal.lines().size();
  results::Progress progress(points.size() - kept, "points");
  sweep::RunOptions options;
  options.jobs = arguments.jobs > 0 ? arguments.jobs
                 : ranks.size() > 1 ? 1
                                    : std::max(1U, std::thread::hardware_concurrency());
  options.on_done = [&](std::size_t fresh) { progress.advance(fresh); };

  sweep::Results results{&study, &points, {}, {}};
  results.outcomes = sweep::run_points(study, points, journal, ranks, options);
  progress.finish();
  results.sensitivities = sweep::sensitivities(study, points, results.outcomes);
  const auto write = [&](const char* name, auto writer) {
    AtomicFile file(folder + "/" + name);
    writer(file.stream(), results);
    file.commit();
  };
  write("results.csv", sweep::write_csv);
  write("results.json", sweep::write_json);
  write("sensitivity.csv", sweep::write_sensitivity_csv);
  if (!study.choose_for.empty()) write("chooser.csv", sweep::write_chooser_csv);
  sweep::write_table(std::cout, results);

  std::size_t failed = 0;
  std::string first;
  for (std::size_t p = 0; p < points.size(); ++p)
    if (!results.outcomes[p].error.empty() && failed++ == 0)
      first = "point " + std::to_string(p) + ": " + results.outcomes[p].error;
  std::cout << "Results of " << points.size() << " points in " << folder << ": "
            << fmt::format("{}", fmt::join(outputs, ", "));
  if (kept > 0) std::cout << " (" << kept << " points were there already)";
  std::cout << '\n';
  if (failed > 0)
    std::cerr << "marrow: " << failed << " of " << points.size()
              << " points failed, see the column error; " << first << '\n';
  return failed == points.size() ? 2 : 0;
}

}  // namespace

void add_sweep(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "sweep",
      "Simulate every point of a study (configs/studies/*.yaml): what each parameter, recipe "
      "choice or load does to each metric. One process a point, all cores; a study that was ended "
      "goes on where it was. `mpirun -n N marrow sweep` spreads it over machines");
  command->add_option("study", arguments->study, "Study file, see docs/sweeps.md")->required();
  command
      ->add_option("-j,--jobs", arguments->jobs,
                   "Simulations at once (default: one a core; under mpirun one a rank)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--out", arguments->out,
                      "Folder for points.jsonl, results.csv, results.json, sensitivity.csv "
                      "(default: sweep-NAME)");
  add_examples(command, {"marrow sweep configs/studies/pcie-generation.yaml",
                         "marrow sweep configs/studies/fences-and-stores.yaml -j 2 --out fences"});
  command->callback([&action, arguments] {
    action = [arguments] {
      return over_ranks([&](sweep::Ranks& ranks) { return run_on(ranks, *arguments); });
    };
  });
}

}  // namespace marrow::cli
