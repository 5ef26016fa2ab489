#include <filesystem>
#include <iostream>
#include <memory>

#include "models/common/error.h"
#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/config/recipe.h"
#include "sim/config/report.h"
#include "sim/config/system.h"
#include "sim/config/yaml_source.h"

namespace marrow::cli {

namespace {

bool is_recipe(const std::string& file) {
  const auto root = config::YamlNode::open(file);
  return root.is_map() && root.has("protocol") && !root.has("system");
}

/// A system's file, or a recipe by name or path.
void show(const std::string& what, const std::vector<std::string>& sets, bool json) {
  // A name without folder and ending is a recipe's, as in `marrow run --protocol`.
  const std::string file =
      std::filesystem::exists(what) ? what : config::recipe_path(what, MARROW_CONFIG_DIR);
  const Sets split = split_sets(sets);
  if (!is_recipe(file)) {
    if (!split.protocol.empty())
      throw InputError("--set protocol." + split.protocol.front(), file + " is no protocol recipe",
                       "show the recipe whose choice, cost or step it names");
    config::show(config::load_system(file, sets), json, std::cout);
    return;
  }
  if (!split.system.empty())
    throw InputError("--set " + split.system.front(), file + " is a protocol recipe",
                     "write protocol.NAME=VALUE, or show a system");
  config::show(config::load_recipe(file, {}, split.protocol), json, std::cout);
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
  CLI::App* config =
      app.add_subcommand("config", "Parameters with their units, ranges and sources");
  config->require_subcommand(1);
  add_examples(config, {"marrow config show configs/systems/h200-c.yaml"});
  struct Arguments {
    std::string file;
    std::vector<std::string> sets;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();

  CLI::App* show_command = config->add_subcommand(
      "show", "List every parameter of a system, or the choices and costs of a protocol recipe");
  show_command
      ->add_option("file", arguments->file,
                   "System file, e.g. configs/systems/h200-c.yaml; or recipe, by name or path")
      ->required();
  show_command->add_option("--set", arguments->sets, kSetHelp)->allow_extra_args(false);
  show_command->add_flag("--json", arguments->json, "As JSON, schema marrow.config/1");
  add_examples(show_command, {"marrow config show configs/systems/h200-c.yaml",
                              "marrow config show capture-gdaki"});
  show_command->callback([&action, arguments] {
    action = [arguments] {
      show(arguments->file, arguments->sets, arguments->json);
      return 0;
    };
  });

  CLI::App* check = config->add_subcommand("check", "Check a system file without running anything");
  check
      ->add_option("system", arguments->file,
                   "System file; parts that it includes are checked with it")
      ->required();
  add_examples(check, {"marrow config check configs/systems/h200-c.yaml"});
  check->callback([&action, arguments] {
    action = [arguments] {
      const auto parameters = config::load_system(arguments->file);
      std::cout << arguments->file << ": OK, ";
      config::evidence_summary(parameters, std::cout);
      return 0;
    };
  });
}

}  // namespace marrow::cli
