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

void show_table(const ParameterSet& parameters, std::ostream& out) {
  std::array<std::size_t, 5> widths = {3, 5, 4, 8, 8};  // of the headings
  const auto cells = [](const Parameter& p) {
    return std::array<std::string, 5>{p.key, fmt::format("{}", p.value),
                                      std::string(unit_of(p.key)), interval_text(p),
                                      std::string(name(p.evidence))};
  };
  std::size_t source_width = 6;
  std::vector<std::string_view> groups;  // in order of appearance
  for (const Parameter& parameter : parameters.all()) {
    const auto row = cells(parameter);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
    for (const std::string& line : wrapped(parameter.source)) {
      source_width = std::max(source_width, width(line));
    }
    if (std::find(groups.begin(), groups.end(), component(parameter.key)) == groups.end()) {
      groups.push_back(component(parameter.key));
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

  out << "system " << parameters.system();
  if (!parameters.description().empty()) out << ": " << parameters.description();
  out << "\n\n";
  print({"key", "value", "unit", "interval", "evidence"}, "source", "place");
  for (const std::string_view group : groups) {
    out << '\n' << group << '\n';
    for (const Parameter& parameter : parameters.all()) {
      if (component(parameter.key) != group) continue;
      const std::vector<std::string> source = wrapped(parameter.source);
      print(cells(parameter), source.front(), parameter.place);
      for (std::size_t i = 1; i < source.size(); ++i) print({}, source[i], "");
    }
  }
  out << '\n';
  evidence_summary(parameters, out);
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

}  // namespace marrow::config
