#include <iostream>
#include <memory>

#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/config/report.h"
#include "sim/config/system.h"

namespace marrow::cli {

void add_config(CLI::App& app, Action& action) {
  CLI::App* config =
      app.add_subcommand("config", "Parameters with their units, ranges and sources");
  config->require_subcommand(1);
  add_examples(config, {"marrow config show configs/systems/h200-c.yaml"});
  struct Arguments {
    std::string system;
    std::vector<std::string> sets;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();

  CLI::App* show = config->add_subcommand("show", "List every parameter of a system");
  show->add_option("system", arguments->system, "System file, e.g. configs/systems/h200-c.yaml")
      ->required();
  show->add_option("--set", arguments->sets, kSetHelp)->allow_extra_args(false);
  show->add_flag("--json", arguments->json, "As JSON, schema marrow.config/1");
  add_examples(show, {"marrow config show configs/systems/h200-c.yaml"});
  show->callback([&action, arguments] {
    action = [arguments] {
      config::show(config::load_system(arguments->system, arguments->sets), arguments->json,
                   std::cout);
      return 0;
    };
  });

  CLI::App* check = config->add_subcommand("check", "Check a system file without running anything");
  check->add_option("system", arguments->system, "System file")->required();
  add_examples(check, {"marrow config check configs/systems/h200-c.yaml"});
  check->callback([&action, arguments] {
    action = [arguments] {
      const auto parameters = config::load_system(arguments->system);
      std::cout << arguments->system << ": OK, ";
      config::evidence_summary(parameters, std::cout);
      return 0;
    };
  });
}

}  // namespace marrow::cli
