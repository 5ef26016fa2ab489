// What a result rests on, for the JSON that it is written into.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "sim/config/parameters.h"
#include "sim/config/recipe.h"

namespace marrow::config {

class Provenance {
 public:
  void add(const ParameterSet& parameters);
  void add(const Recipe& recipe);
  void add_file(const std::string& path) { files_.insert(path); }

  /// How many costs of each recipe rest on each class.
  const std::map<std::string, std::map<Evidence, std::size_t>>& recipe_costs() const {
    return recipe_costs_;
  }
  /// {version, parameters {class: how many}, recipe_costs {recipe: {class: how many}},
  ///  files [{file, sha1}]}: this program's version; the system's parameters by class of evidence
  /// (left out where there are several systems); every configuration file read, by name, as
  /// sha1sum has it.
  nlohmann::ordered_json as_json() const;

 private:
  std::map<std::string, std::array<std::size_t, 5>> systems_;
  std::map<std::string, std::map<Evidence, std::size_t>> recipe_costs_;
  std::set<std::string> files_;
};

}  // namespace marrow::config
