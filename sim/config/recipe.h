// Reads a protocol recipe (configs/protocols/*.yaml) into the program that the models execute.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/common/program.h"
#include "sim/config/parameters.h"

namespace marrow::config {

/// A recipe's cost with its evidence, for tables.
struct RecipeCost {
  std::string key;
  double value = 0;
  Evidence evidence = Evidence::kAssumed;
  std::string source;
  std::string place;
};

struct Recipe {
  std::string file;
  Program program;
  std::string description;
  std::map<std::string, std::string> choices;  ///< in force
  std::map<std::string, std::string> allowed;  ///< for each choice, as text: "gpu, host"
  std::vector<RecipeCost> costs;
  /// Choices and costs that a --set or the trace changed ("--set protocol.worker", "choice
  /// worker=warm of the trace"): does anything that is in force use them?
  std::map<std::string, bool> changed;
  /// stage -> word whose distance in the L2 that stage shows when nothing contends.
  std::vector<std::pair<Stage, std::uint32_t>> placed_by;
};

/// file: a path. choices: from the trace, checked against the recipe's own. sets: "protocol.x.y=v"
/// without "protocol." changes field y of the step with id x; "cost=v" changes a named cost; a
/// choice's name changes the choice. Throws InputError naming file, line, key and the mend.
Recipe load_recipe(const std::string& file, const std::map<std::string, std::string>& choices,
                   const std::vector<std::string>& sets = {});

/// The path of a recipe named in a trace or on the command line: a path stays one; a name is looked
/// up in `config_dir`/protocols. Throws InputError listing the recipes there are.
std::string recipe_path(const std::string& name, const std::string& config_dir);

}  // namespace marrow::config
