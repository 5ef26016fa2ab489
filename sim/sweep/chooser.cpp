#include "sim/sweep/chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/results/csv.h"
#include "sim/sweep/columns.h"

namespace marrow::sweep {

namespace {

bool is_situation(const Study& study, const std::string& axis) {
  return std::find(study.choose_for.begin(), study.choose_for.end(), axis) !=
         study.choose_for.end();
}

/// The point's values of the axes that are given, or of those that are to be chosen.
std::vector<std::string> labels(const Study& study, const Point& point, bool given) {
  std::vector<std::string> found;
  for (std::size_t a = 0; a < study.axes.size(); ++a)
    if (is_situation(study, study.axes[a].name) == given) found.push_back(point[a].label);
  return found;
}

std::vector<std::string> names(const Study& study, bool given) {
  std::vector<std::string> found;
  for (const Axis& axis : study.axes)
    if (is_situation(study, axis.name) == given) found.push_back(axis.name);
  return found;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Choice> choices(const Results& results) {
  const Study& study = *results.study;
  std::vector<Choice> found;
  if (study.choose_for.empty()) return found;
  const std::string target = target_column(study, results.outcomes);
  std::vector<std::vector<std::string>> situations;
  for (std::size_t p = 0; p < results.points->size(); ++p) {
    const auto situation = labels(study, (*results.points)[p], true);
    const auto it = std::find(situations.begin(), situations.end(), situation);
    const auto at = static_cast<std::size_t>(it - situations.begin());
    if (it == situations.end()) {
      situations.push_back(situation);
      found.push_back({situation, {}, 0});
    }
    if (value_of(results.outcomes[p], target)) found[at].point.push_back(p);
  }
  const auto target_of = [&](std::size_t p) { return *value_of(results.outcomes[p], target); };
  const bool more = more_is_better(target);
  for (Choice& choice : found) {
    std::stable_sort(choice.point.begin(), choice.point.end(), [&](std::size_t a, std::size_t b) {
      return more ? target_of(a) > target_of(b) : target_of(a) < target_of(b);
    });
    if (choice.point.size() < 2) continue;
    // Among equals the study's first: it lists what is preferred first.
    constexpr double kEqual = 0.005;
    const auto worse = [&](std::size_t p) {
      return std::abs(target_of(p) / target_of(choice.point[0]) - 1) > kEqual;
    };
    const auto end = std::find_if(choice.point.begin(), choice.point.end(), worse);
    const auto first = std::min_element(choice.point.begin(), end);
    std::rotate(choice.point.begin(), first, first + 1);
    const double best = target_of(choice.point[0]), second = target_of(choice.point[1]);
    choice.margin = more ? (best - second) / best : (second - best) / best;
  }
  return found;
}

void write_chooser_csv(std::ostream& out, const Results& results) {
  const Study& study = *results.study;
  const std::string target = target_column(study, results.outcomes);
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      out << (i > 0 ? "," : "") << results::csv_field(cells[i]);
    out << '\n';
  };
  const auto keys = tied_keys(study);
  std::vector<std::string> cells = names(study, true);
  append(cells, names(study, false));
  append(cells, keys);
  append(cells, {target, "second", "margin_percent"});
  line(cells);
  for (const Choice& choice : choices(results)) {
    if (choice.point.empty()) {
      cells = choice.situation;
      cells.resize(study.axes.size() + keys.size() + 3);
      line(cells);
      continue;
    }
    const Point& best = (*results.points)[choice.point[0]];
    cells = labels(study, best, true);
    append(cells, labels(study, best, false));
    for (const std::string& key : keys) cells.push_back(setting(best, key));
    cells.push_back(fmt::format("{}", *value_of(results.outcomes[choice.point[0]], target)));
    const bool alone = choice.point.size() < 2;
    cells.push_back(
        alone
            ? ""
            : fmt::format(
                  "{}", fmt::join(labels(study, (*results.points)[choice.point[1]], false), " ")));
    cells.push_back(alone ? "" : fmt::format("{:.2f}", 100 * choice.margin));
    line(cells);
  }
}

void write_chooser(std::ostream& out, const Results& results) {
  const Study& study = *results.study;
  const auto found = choices(results);
  if (found.empty()) return;
  const std::string target = target_column(study, results.outcomes);
  std::vector<std::vector<std::string>> rows(1);
  append(rows[0], names(study, true));
  append(rows[0], names(study, false));
  const std::size_t texts = rows[0].size();
  append(rows[0], {target, "ahead of", "by"});
  for (const Choice& choice : found) {
    if (choice.point.empty()) {
      std::vector<std::string>& row = rows.emplace_back(choice.situation);
      row.resize(rows[0].size(), "-");
      row[texts] = "every way failed";
      continue;
    }
    const Point& best = (*results.points)[choice.point[0]];
    std::vector<std::string>& row = rows.emplace_back(labels(study, best, true));
    append(row, labels(study, best, false));
    row.push_back(decimals(*value_of(results.outcomes[choice.point[0]], target)));
    const bool alone = choice.point.size() < 2;
    row.push_back(
        alone
            ? "-"
            : fmt::format(
                  "{}", fmt::join(labels(study, (*results.points)[choice.point[1]], false), " ")));
    row.push_back(alone ? "-" : fmt::format("{:.1f} %", 100 * choice.margin));
  }
  out << "What to choose\n";
  write_aligned(out, rows, texts);
  out << '\n';
}

}  // namespace marrow::sweep
