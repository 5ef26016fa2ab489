#include "sim/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/config/provenance.h"
#include "sim/config/system.h"
#include "sim/results/csv.h"
#include "sim/sweep/chooser.h"
#include "sim/sweep/columns.h"

namespace marrow::sweep {

namespace {

constexpr std::size_t kMostRows = 100, kMostChanges = 12;
constexpr double kLeastElasticity = 0.001;  // of those that tables show

std::string bar(double share) {
  constexpr double kCells = 30;
  const auto cells = std::lround(std::clamp(share, 0.0, 1.0) * kCells);
  std::string line = cells > 0 ? "  " : "";
  for (long i = 0; i < cells; ++i) line += "━";
  return line;
}

void write_points(std::ostream& out, const Results& results) {
  const Study& study = *results.study;
  std::vector<std::string> columns = metric_columns(results);
  std::erase_if(columns, [](const std::string& c) {
    return c.starts_with("stage.") || c.ends_with("_p90_ns") || c.ends_with("_p99_ns");
  });
  std::vector<std::vector<std::string>> rows(1);
  for (const Axis& axis : study.axes) rows[0].push_back(axis.name);
  rows[0].insert(rows[0].end(), columns.begin(), columns.end());
  for (std::size_t p = 0; p < results.points->size() && p < kMostRows; ++p) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const Value& value : (*results.points)[p]) row.push_back(value.label);
    for (const std::string& column : columns) {
      const auto value = value_of(results.outcomes[p], column);
      row.push_back(value ? decimals(*value) : "failed");
    }
  }
  write_aligned(out, rows, study.axes.size());
  if (results.points->size() > kMostRows)
    out << fmt::format("... {} more in results.csv\n", results.points->size() - kMostRows);
  out << '\n';
}

void write_stages(std::ostream& out, const Results& results) {
  std::vector<const Sensitivity*> stages;
  for (const Sensitivity& s : results.sensitivities)
    if (s.what == "stage_share") stages.push_back(&s);
  if (stages.empty()) return;
  std::stable_sort(stages.begin(), stages.end(), [](const Sensitivity* a, const Sensitivity* b) {
    return a->result > b->result;
  });
  out << fmt::format(
      "Which stage binds: share of end_to_end {}, saved if the stage were free and "
      "nothing overlapped it\n",
      results.study->mode == Mode::kOneAtATime ? "at the base point" : "(mean over the points)");
  for (const Sensitivity* stage : stages)
    out << fmt::format("  {:<17} {:>5.1f} %{}\n", stage->metric, 100 * stage->result,
                       bar(stage->result));
  out << '\n';
}

void write_one_at_a_time(std::ostream& out, const Results& results, const std::string& target) {
  std::vector<std::vector<std::string>> rows = {{"axis", "base", "elasticity"}};
  std::vector<const Sensitivity*> slopes, changes;
  for (const Sensitivity& s : results.sensitivities) {
    if (s.metric != target) continue;
    if (s.what == "elasticity") slopes.push_back(&s);
    if (s.what == "change") changes.push_back(&s);
  }
  std::stable_sort(slopes.begin(), slopes.end(), [](const Sensitivity* a, const Sensitivity* b) {
    return std::abs(a->result) > std::abs(b->result);
  });
  for (const Sensitivity* slope : slopes)
    if (std::abs(slope->result) >= kLeastElasticity)
      rows.push_back({slope->axis, slope->value, fmt::format("{:+.3f}", slope->result)});
  if (!slopes.empty()) {
    out << fmt::format("Percent of {} for each percent of a parameter\n", target);
    write_aligned(out, rows, 1);
    if (const std::size_t others = slopes.size() + 1 - rows.size(); others > 0)
      out << fmt::format("{} others: below {}\n", others, kLeastElasticity);
    out << '\n';
  }
  const double sign = more_is_better(target) ? -1 : 1;
  std::stable_sort(changes.begin(), changes.end(), [&](const Sensitivity* a, const Sensitivity* b) {
    return sign * a->result < sign * b->result;
  });
  rows = {{"axis", "value", "change"}};
  for (const Sensitivity* change : changes)
    if (rows.size() <= kMostChanges && sign * change->result < 0)
      rows.push_back({change->axis, change->value, fmt::format("{:+.2f} %", 100 * change->result)});
  if (rows.size() > 1) {
    out << fmt::format("Which change pays most: {} against the base point\n", target);
    write_aligned(out, rows, 2);
    out << '\n';
  }
}

void write_shares(std::ostream& out, const Results& results, const std::string& target) {
  std::vector<const Sensitivity*> shares;
  double fit = -1;
  for (const Sensitivity& s : results.sensitivities) {
    if (s.metric != target) continue;
    if (s.what == "variance_share") shares.push_back(&s);
    if (s.what == "fit") fit = s.result;
  }
  if (shares.empty()) return;
  std::stable_sort(shares.begin(), shares.end(), [](const Sensitivity* a, const Sensitivity* b) {
    return a->result > b->result;
  });
  out << fmt::format("Share of the variance of {}{}\n", target,
                     fit >= 0 ? fmt::format(" (ranks; {:.0f} % explained)", 100 * fit) : "");
  std::size_t width = 0;
  for (const Sensitivity* share : shares) width = std::max(width, share->axis.size());
  for (const Sensitivity* share : shares)
    out << fmt::format("  {:<{}} {:>5.1f} %{}\n", share->axis, width, 100 * share->result,
                       bar(share->result));
  out << '\n';
}

}  // namespace

void write_csv(std::ostream& out, const Results& results) {
  const Study& study = *results.study;
  const auto tied = tied_keys(study);
  const auto columns = metric_columns(results);
  out << "point";
  for (const Axis& axis : study.axes) out << ',' << results::csv_field(axis.name);
  for (const std::string& key : tied) out << ',' << results::csv_field(key);
  for (const std::string& column : columns) out << ',' << column;
  out << ",error\n";
  for (std::size_t p = 0; p < results.points->size(); ++p) {
    const Point& point = (*results.points)[p];
    out << p;
    for (const Value& value : point) out << ',' << results::csv_field(value.label);
    for (const std::string& key : tied) out << ',' << results::csv_field(setting(point, key));
    for (const std::string& column : columns) {
      const auto value = value_of(results.outcomes[p], column);
      out << ',' << (value ? fmt::format("{}", *value) : "");
    }
    out << ',' << results::csv_field(results.outcomes[p].error) << '\n';
  }
}

void write_sensitivity_csv(std::ostream& out, const Results& results) {
  out << "what,axis,value,metric,result\n";
  for (const Sensitivity& s : results.sensitivities)
    out << fmt::format("{},{},{},{},{}\n", s.what, results::csv_field(s.axis),
                       results::csv_field(s.value), s.metric, s.result);
}

void write_json(std::ostream& out, const Results& results) {
  using Json = nlohmann::ordered_json;
  const Study& study = *results.study;
  const auto as_value = [](const Value& value) -> Json {
    if (value.number) return *value.number;
    return value.label;
  };
  Json axes = Json::array();
  for (const Axis& axis : study.axes) {
    Json values = Json::array();
    for (const Value& value : axis.values) values.push_back(as_value(value));
    Json one = {{"name", axis.name}, {"base", as_value(axis.base)}, {"values", values}};
    if (axis.values.empty()) one["range"] = {axis.from, axis.to};
    if (!axis.evidence.empty()) one["evidence"] = axis.evidence;
    axes.push_back(one);
  }
  Json points = Json::array();
  for (std::size_t p = 0; p < results.points->size(); ++p) {
    const Point& point = (*results.points)[p];
    Json parameters = Json::object(), metrics = Json::object(), settings = Json::object();
    for (std::size_t a = 0; a < study.axes.size(); ++a) {
      parameters[study.axes[a].name] = as_value(point[a]);
      for (const auto& [key, text] : point[a].settings) settings[key] = text;
    }
    for (const auto& [name, value] : results.outcomes[p].metrics) metrics[name] = value;
    Json one = {{"point", p},
                {"parameters", parameters},
                {"settings", settings},
                {"metrics", metrics},
                {"error", nullptr}};
    if (!results.outcomes[p].error.empty()) one["error"] = results.outcomes[p].error;
    points.push_back(one);
  }
  Json sensitivity = Json::array();
  for (const Sensitivity& s : results.sensitivities)
    sensitivity.push_back({{"what", s.what},
                           {"axis", s.axis},
                           {"value", s.value},
                           {"metric", s.metric},
                           {"result", s.result}});
  const auto parameters = config::load_system(study.base.system, study.base.system_sets);
  config::Provenance provenance;
  provenance.add(parameters);
  provenance.add_file(study.file);
  if (!study.base.protocol.empty())
    provenance.add(config::load_recipe(study.base.protocol, {}, study.base.protocol_sets));
  Json json = {{"schema", "marrow.sweep/1"},
               {"study", study.name},
               {"question", study.question},
               {"mode", name(study.mode)},
               {"target", target_column(study, results.outcomes)},
               {"draws", study.draws},
               {"system", parameters.system()},
               {"protocol", std::filesystem::path(study.base.protocol).stem().string()},
               {"provenance", provenance.as_json()},
               {"axes", axes},
               {"metrics", metric_columns(results)},
               {"points", points},
               {"sensitivity", sensitivity}};
  if (!study.choose_for.empty()) {
    json["choose_for"] = study.choose_for;
    json["choices"] = Json::array();
    for (const Choice& choice : choices(results))
      json["choices"].push_back(
          {{"situation", choice.situation}, {"points", choice.point}, {"margin", choice.margin}});
  }
  out << json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

void write_table(std::ostream& out, const Results& results) {
  const Study& study = *results.study;
  out << study.name << ": " << (study.question.empty() ? "" : study.question + " ")
      << fmt::format("({} points, {})\n\n", results.points->size(), name(study.mode));
  const std::string target = target_column(study, results.outcomes);
  if (study.mode == Mode::kGrid) write_points(out, results);
  if (study.mode == Mode::kOneAtATime) {
    for (const std::string& metric : study.metrics)
      if (const auto value = value_of(results.outcomes.front(), main_column(metric)))
        out << fmt::format("base point: {} {}\n", main_column(metric), decimals(*value));
    out << '\n';
  }
  write_chooser(out, results);
  write_stages(out, results);
  if (study.mode == Mode::kOneAtATime)
    write_one_at_a_time(out, results, target);
  else
    write_shares(out, results, target);
}

}  // namespace marrow::sweep
