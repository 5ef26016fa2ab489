#include <filesystem>
#include <iostream>
#include <memory>

#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/report/gather.h"
#include "sim/report/page.h"
#include "traces/atomic_file.h"

namespace marrow::cli {

namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::string out = "report.html", notes;
};

int run(const Arguments& arguments) {
  namespace fs = std::filesystem;
  std::string notes = arguments.notes;
  const std::string own = MARROW_CONFIG_DIR "/../docs/validation-misses.txt";
  if (notes.empty() && fs::exists(own)) notes = own;
  const auto data = report::gather(arguments.paths, notes, MARROW_VERSION);
  for (const auto& source : data["sources"])
    if (source.contains("fault"))
      std::cerr << "marrow: left out: " << source["fault"].get<std::string>() << '\n';
  AtomicFile file(arguments.out);
  report::write_page(file.stream(), MARROW_REPORT_PAGE, data);
  file.commit();
  std::cout << arguments.out << ": " << data["runs"].size() << " runs, " << data["messages"].size()
            << " files of messages, " << data["validations"].size() << " validations, "
            << data["sweeps"].size() << " sweeps\n";
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "report",
      "One HTML page, complete in itself, of what other commands wrote: where the time goes, "
      "distributions, predicted against measured, latency by size, sweeps and sensitivities, and "
      "what each number rests on");
  command
      ->add_option("path", arguments->paths,
                   "Files of `run --json`, `run --messages-csv`, `validate --json`, and folders "
                   "that hold such files or are those of `sweep`")
      ->required();
  command->add_option("--out", arguments->out, "The page to write")->capture_default_str();
  command->add_option("--notes", arguments->notes,
                      "Why rows miss, lines \"capture | case | stage | why\" (default: "
                      "docs/validation-misses.txt)");
  add_examples(command, {"marrow report cfg4.json sweep-pcie-generation --out report.html",
                         "marrow report fences"});
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace marrow::cli
