// Predictions of published tables as people and programs read them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <set>

#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "validate/measurements.h"

namespace marrow::validate {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kMissFrom = 0.15;

/// "dissect-t3-001, -002": ids with their common beginning once.
std::string short_ids(const std::string& table, const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids) {
    const bool same = id.starts_with(table + "-");
    text += (text.empty() ? "" : " ") + (same ? id.substr(table.size() + 1) : id);
  }
  return text;
}

std::vector<Group> groups_of(const std::vector<Prediction>& predictions) {
  const auto has = [](Role role) {
    return [role](const Prediction& p) { return p.cell->role == role; };
  };
  return {group_of("all rows", predictions, [](const Prediction&) { return true; }),
          group_of("fit", predictions, has(Role::kFit)),
          group_of("predicted", predictions, has(Role::kPredicted))};
}

void write_summary(std::ostream& out, const std::vector<Prediction>& predictions) {
  out << fmt::format("{:<10} {:>5} {:>14} {:>9} {:>12}  {}\n", "", "rows", "median |error|", "p90",
                     "within 15 %", "worst");
  for (const Group& group : groups_of(predictions)) {
    if (group.rows == 0) continue;
    std::size_t within = 0;
    for (const Prediction& p : predictions)
      within += p.fault.empty() && p.cell->role != Role::kShown && std::abs(p.error) <= kMissFrom &&
                (group.name == "all rows" || group.name == name(p.cell->role));
    out << fmt::format("{:<10} {:>5} {:>12.1f} % {:>7.1f} % {:>5} of {:<3}  {:+.0f} % in {}\n",
                       group.name, group.rows, 100 * group.median_abs_error,
                       100 * group.p90_abs_error, within, group.rows, 100 * group.worst_error,
                       group.worst_run);
  }
}

}  // namespace

Group group_of(const std::string& name, const std::vector<Prediction>& predictions,
               const std::function<bool(const Prediction&)>& takes) {
  std::vector<Missed> some;
  for (const Prediction& p : predictions)
    if (p.fault.empty() && p.cell->role != Role::kShown && takes(p))
      some.push_back({p.cell->id, p.cell->stage, p.error});
  return group_of(name, some);
}

void write_table(std::ostream& out, const std::vector<Table>& tables,
                 const std::vector<Prediction>& predictions, std::uint32_t seeds) {
  std::size_t not_covered = 0;
  for (const Table& table : tables) {
    std::vector<Prediction> own;
    for (const Prediction& p : predictions)
      if (p.table == &table) own.push_back(p);
    out << fmt::format("{}: {}\n{}\n\n", table.id, table.title, table.source);
    if (!own.empty()) {
      std::size_t id = 2, what = 4, unit = 4;
      for (const Prediction& p : own) {
        id = std::max(id, p.cell->id.size());
        what = std::max(what, p.cell->what.size());
        unit = std::max(unit, p.cell->unit.size());
      }
      out << fmt::format("{:<{}}  {:<{}}  {:<{}} {:>9} {:>9} {:>9}  {}\n", "id", id, "what", what,
                         "unit", unit, "measured", "predicted", "error", "role");
      for (const Prediction& p : own) {
        out << fmt::format("{:<{}}  {:<{}}  {:<{}} {:>9.4g} ", p.cell->id, id, p.cell->what, what,
                           p.cell->unit, unit, p.cell->value);
        if (p.fault.empty())
          out << fmt::format("{:>9.4g} {:>+7.1f} %", p.predicted.median, 100 * p.error);
        else
          out << fmt::format("{:>9} {:>9}", "failed", "-");
        out << fmt::format("  {}\n", name(p.cell->role));
      }
      out << '\n';
      write_summary(out, own);
      std::string misses;
      for (const Prediction& p : own)
        if (p.fault.empty() && p.cell->role != Role::kShown && std::abs(p.error) > kMissFrom)
          misses += fmt::format("  {:<{}}  {:<{}}  {:+.0f} %\n", p.cell->id, id, p.cell->what, what,
                                100 * p.error);
      if (!misses.empty()) out << "misses over 15 %:\n" << misses;
      std::map<std::string, std::vector<std::string>> faults;
      for (const Prediction& p : own)
        if (!p.fault.empty()) faults[p.fault].push_back(p.cell->id);
      for (const auto& [fault, ids] : faults)
        out << fmt::format("failed: {}\n  rows {}\n", fault, short_ids(table.id, ids));
    }
    std::map<std::string, std::vector<std::string>> reasons;
    for (const Cell& cell : table.cells)
      if (!cell.not_covered.empty()) {
        reasons[cell.not_covered].push_back(cell.id);
        ++not_covered;
      }
    for (const auto& [reason, ids] : reasons)
      out << fmt::format("not covered: {}\n  rows {}\n", reason, short_ids(table.id, ids));
    out << '\n';
  }
  if (tables.size() > 1) {
    out << "all tables\n";
    write_summary(out, predictions);
    out << fmt::format("{:<10} {:>5}\n", "not covered", not_covered);
  }
  out << fmt::format(
      "Times are medians, pooled over {} draws of the L2 placement (a published median is over "
      "placements that nobody knows), without the first tenth of the rounds; rates are over the "
      "middle 80 % of a run.\n",
      seeds);
}

config::Provenance provenance(const std::vector<Table>& tables, const MeasurementOptions& options) {
  config::Provenance all;
  std::set<std::string> systems, protocols;
  for (const Table& table : tables) {
    all.add_file(table.file);
    if (table.kind == Kind::kPeerProbe) systems.insert(table.peer.system);
    for (const Scenario& run : table.runs) {
      if (!run.not_covered.empty()) continue;
      systems.insert(run.system);
      protocols.insert(run.protocol);
    }
    for (const Cell& cell : table.cells)
      if (!cell.system.empty()) systems.insert(cell.system);
  }
  for (const std::string& system : systems)
    all.add(config::load_system(system_file(system, options.config_dir)));
  for (const std::string& protocol : protocols)
    all.add(config::load_recipe(config::recipe_path(protocol, options.config_dir), {}));
  return all;
}

nlohmann::ordered_json as_json(const std::vector<Table>& tables,
                               const std::vector<Prediction>& predictions) {
  const auto to_spread = [](double median, double p10, double p90) {
    return nlohmann::ordered_json{{"median", median}, {"p10", p10}, {"p90", p90}};
  };
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  nlohmann::ordered_json failed = nlohmann::ordered_json::array();
  nlohmann::ordered_json not_covered = nlohmann::ordered_json::array();
  for (const Prediction& p : predictions) {
    if (!p.fault.empty()) {
      failed.push_back({{"case", p.cell->id}, {"table", p.table->id}, {"fault", p.fault}});
      continue;
    }
    rows.push_back({{"case", p.cell->id},
                    {"table", p.table->id},
                    {"what", p.cell->what},
                    {"stage", p.cell->stage},
                    {"role", name(p.cell->role)},
                    {"unit", p.cell->unit},
                    {"measured", to_spread(p.cell->value, kNone, kNone)},
                    {"predicted", to_spread(p.predicted.median, p.predicted.p10, p.predicted.p90)},
                    {"error", p.error},
                    {"baseline_error", nullptr},
                    {"stable", true}});
  }
  for (const Table& table : tables)
    for (const Cell& cell : table.cells)
      if (!cell.not_covered.empty())
        not_covered.push_back(
            {{"case", cell.id}, {"table", table.id}, {"reason", cell.not_covered}});
  const std::vector<Group> groups = groups_of(predictions);
  nlohmann::ordered_json summary = as_json(groups[2]);
  summary["all"] = as_json(groups[0]);
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (const Table& table : tables)
    sources.push_back({{"table", table.id}, {"title", table.title}, {"source", table.source}});
  return {{"schema", "marrow.validate/1"}, {"tables", sources}, {"rows", rows}, {"failed", failed},
          {"not_covered", not_covered},    {"summary", summary}};
}

}  // namespace marrow::validate
