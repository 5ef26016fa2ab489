// What a recipe's file lets a trace choose.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/config/yaml_source.h"

namespace marrow {

using Choices = std::map<std::string, std::string>;

/// Every combination of the choices that a recipe's file allows; numbers 1 and 4, and a
/// ring's usual depth.
inline std::vector<Choices> choices_of(const std::string& file) {
  std::vector<Choices> all = {{}};
  const auto section = config::YamlNode::open(file).find("choices");
  if (!section) return all;
  for (const auto& [name, node] : section->entries()) {
    std::vector<std::string> values;
    if (const auto allowed = node.find("allowed"))
      for (const auto& value : allowed->items()) values.push_back(value.text());
    else if (name == "depth")
      values = {node.at("default").text()};
    else
      values = {"1", "4"};
    std::vector<Choices> more;
    for (const Choices& choices : all)
      for (const std::string& value : values) {
        more.push_back(choices);
        more.back()[name] = value;
      }
    all = more;
  }
  return all;
}

}  // namespace marrow
