#include "sim/sweep/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace marrow::sweep {

std::vector<std::string> metric_columns(const Results& results) {
  std::set<std::string> present;
  for (const Outcome& outcome : results.outcomes)
    for (const auto& [name, value] : outcome.metrics) present.insert(name);
  std::vector<std::string> columns = possible_columns(*results.study);
  std::erase_if(columns, [&](const std::string& column) { return !present.count(column); });
  return columns;
}

std::vector<std::string> tied_keys(const Study& study) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& key) {
    const bool axis = std::any_of(study.axes.begin(), study.axes.end(),
                                  [&](const Axis& a) { return a.name == key; });
    if (!axis && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  };
  for (const Axis& axis : study.axes) {
    for (const std::string& key : axis.keys) add(key);
    for (const Value& value : axis.values)
      for (const auto& [key, text] : value.settings) add(key);
  }
  return keys;
}

std::string setting(const Point& point, const std::string& key) {
  for (const Value& value : point)
    for (const auto& [own, text] : value.settings)
      if (own == key) return text;
  return "";
}

bool more_is_better(const std::string& column) {
  return column.starts_with("rate_") || column.starts_with("goodput_");
}

std::string decimals(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

void write_aligned(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                   std::size_t texts) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i < texts ? fmt::format("{:<{}}  ", row[i], widths[i])
                        : fmt::format("{:>{}}  ", row[i], widths[i]);
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  }
}

}  // namespace marrow::sweep
