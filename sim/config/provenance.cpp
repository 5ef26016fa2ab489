#include "sim/config/provenance.h"

#include <fmt/format.h>

#include <boost/uuid/detail/sha1.hpp>
#include <fstream>
#include <sstream>

#include "sim/config/report.h"

namespace marrow::config {

namespace {

std::string sha1_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = text.str();
  boost::uuids::detail::sha1 sha1;
  sha1.process_bytes(bytes.data(), bytes.size());
  boost::uuids::detail::sha1::digest_type digest;
  sha1.get_digest(digest);
  return fmt::format("{:08x}", fmt::join(digest, ""));
}

}  // namespace

void Provenance::add(const ParameterSet& parameters) {
  systems_[parameters.files().front()] = evidence_counts(parameters);
  files_.insert(parameters.files().begin(), parameters.files().end());
}

void Provenance::add(const Recipe& recipe) {
  auto& costs = recipe_costs_[recipe.program.protocol];
  costs.clear();
  for (const RecipeCost& cost : recipe.costs) ++costs[cost.evidence];
  files_.insert(recipe.file);
}

nlohmann::ordered_json Provenance::as_json() const {
  nlohmann::ordered_json json = {{"version", MARROW_VERSION}};
  if (systems_.size() == 1) {
    const auto& counts = systems_.begin()->second;
    for (std::size_t i = 0; i < counts.size(); ++i)
      json["parameters"][std::string(name(static_cast<Evidence>(i)))] = counts[i];
  }
  json["recipe_costs"] = nlohmann::ordered_json::object();
  for (const auto& [recipe, costs] : recipe_costs_)
    for (const auto& [evidence, count] : costs)
      json["recipe_costs"][recipe][std::string(name(evidence))] = count;
  json["files"] = nlohmann::ordered_json::array();
  for (const std::string& file : files_)
    json["files"].push_back({{"file", file}, {"sha1", sha1_of(file)}});
  return json;
}

}  // namespace marrow::config
