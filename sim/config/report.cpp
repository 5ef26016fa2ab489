#include "sim/config/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

namespace marrow::config {
namespace {

constexpr std::size_t kSourceWidth = 44;

// Characters rather than bytes, for sources with µ or ± in them.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<std::string> wrapped(const std::string& text) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (width(line) + 1 + width(word) <= kSourceWidth) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string interval_text(const Parameter& parameter) {
  if (!parameter.interval) return "-";
  return fmt::format("{} to {}", parameter.interval->first, parameter.interval->second);
}

std::string_view component(std::string_view key) { return key.substr(0, key.find('.')); }

struct Row {
  std::string_view group;
  std::array<std::string, 5> cells;  // key, value, unit, interval, evidence
  std::string source, place;
};

/// Rows by group, groups in order of appearance.
void print_rows(const std::vector<Row>& rows, std::ostream& out) {
  std::array<std::size_t, 5> widths = {3, 5, 4, 8, 8};  // of the headings
  std::size_t source_width = 6;
  std::vector<std::string_view> groups;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], width(row.cells[i]));
    }
    for (const std::string& line : wrapped(row.source)) {
      source_width = std::max(source_width, width(line));
    }
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) {
      groups.push_back(row.group);
    }
  }
  const auto print = [&](const std::array<std::string, 5>& row, const std::string& source,
                         const std::string& place) {
    std::string line = fmt::format("  {:<{}}  {:>{}}  {:<{}}  {:<{}}  {:<{}}  {:<{}}  {}", row[0],
                                   widths[0], row[1], widths[1], row[2], widths[2], row[3],
                                   widths[3], row[4], widths[4], source, source_width, place);
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };

  print({"key", "value", "unit", "interval", "evidence"}, "source", "place");
  for (const std::string_view group : groups) {
    out << '\n' << group << '\n';
    for (const Row& row : rows) {
      if (row.group != group) continue;
      const std::vector<std::string> source = wrapped(row.source);
      print(row.cells, source.front(), row.place);
      for (std::size_t i = 1; i < source.size(); ++i) print({}, source[i], "");
    }
  }
  out << '\n';
}

void show_table(const ParameterSet& parameters, std::ostream& out) {
  out << "system " << parameters.system();
  if (!parameters.description().empty()) out << ": " << parameters.description();
  out << "\n\n";
  std::vector<Row> rows;
  for (const Parameter& p : parameters.all()) {
    rows.push_back({component(p.key),
                    {p.key, fmt::format("{}", p.value), std::string(unit_of(p.key)),
                     interval_text(p), std::string(name(p.evidence))},
                    p.source,
                    p.place});
  }
  print_rows(rows, out);
  evidence_summary(parameters, out);
}

void show_table(const Recipe& recipe, std::ostream& out) {
  out << "protocol " << recipe.program.protocol;
  if (!recipe.description.empty()) out << ": " << recipe.description;
  out << "\n\n";
  std::vector<Row> rows;
  for (const auto& [key, value] : recipe.choices) {
    rows.push_back({"choices",
                    {"protocol." + key, value, "", "-", "choice"},
                    "of " + recipe.allowed.at(key),
                    ""});
  }
  for (const RecipeCost& cost : recipe.costs) {
    rows.push_back({"costs",
                    {"protocol." + cost.key, fmt::format("{}", cost.value),
                     std::string(unit_of(cost.key)), "-", std::string(name(cost.evidence))},
                    cost.source,
                    cost.place});
  }
  print_rows(rows, out);
}

void show_json(const Recipe& recipe, std::ostream& out) {
  using Json = nlohmann::ordered_json;
  Json costs = Json::array();
  for (const RecipeCost& cost : recipe.costs) {
    costs.push_back({{"key", cost.key},
                     {"value", cost.value},
                     {"unit", unit_of(cost.key)},
                     {"evidence", name(cost.evidence)},
                     {"source", cost.source},
                     {"place", cost.place}});
  }
  Json choices = Json::array();
  for (const auto& [key, value] : recipe.choices) {
    choices.push_back({{"key", key}, {"value", value}, {"allowed", recipe.allowed.at(key)}});
  }
  const Json document = {{"schema", "marrow.config/1"},
                         {"protocol", recipe.program.protocol},
                         {"description", recipe.description},
                         {"choices", choices},
                         {"costs", costs}};
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void show_json(const ParameterSet& parameters, std::ostream& out) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const Parameter& parameter : parameters.all()) {
    Json row;
    row["key"] = parameter.key;
    row["value"] = parameter.value;
    row["unit"] = unit_of(parameter.key);
    row["min"] = parameter.declaration->min;
    row["max"] = parameter.declaration->max;
    row["evidence"] = name(parameter.evidence);
    row["source"] = parameter.source;
    row["interval"] = nullptr;
    if (parameter.interval) {
      row["interval"] = {parameter.interval->first, parameter.interval->second};
    }
    row["place"] = parameter.place;
    row["doc"] = parameter.declaration->doc;
    rows.push_back(std::move(row));
  }
  Json counts;
  const auto classes = evidence_counts(parameters);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    counts[std::string(name(static_cast<Evidence>(i)))] = classes[i];
  }
  Json document;
  document["schema"] = "marrow.config/1";
  document["system"] = parameters.system();
  document["description"] = parameters.description();
  document["evidence"] = std::move(counts);
  document["parameters"] = std::move(rows);
  // Texts from files may hold broken UTF-8; it must not stop the listing.
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace

std::array<std::size_t, 5> evidence_counts(const ParameterSet& parameters) {
  std::array<std::size_t, 5> counts{};
  for (const Parameter& parameter : parameters.all()) {
    ++counts[static_cast<std::size_t>(parameter.evidence)];
  }
  return counts;
}

void evidence_summary(const ParameterSet& parameters, std::ostream& out) {
  out << fmt::format("{} parameters", parameters.all().size());
  const auto counts = evidence_counts(parameters);
  std::string_view separator = ": ";
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    out << separator << counts[i] << ' ' << name(static_cast<Evidence>(i));
    separator = ", ";
  }
  out << '\n';
}

void show(const ParameterSet& parameters, bool json, std::ostream& out) {
  json ? show_json(parameters, out) : show_table(parameters, out);
}

void show(const Recipe& recipe, bool json, std::ostream& out) {
  json ? show_json(recipe, out) : show_table(recipe, out);
}

}  // namespace marrow::config
