// What a calibration says: the overlay, a table for people, JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include "sim/config/provenance.h"
#include "sim/results/metrics.h"
#include "validate/calibrate/calibrate.h"

namespace marrow::calibrate {

namespace {

using Json = nlohmann::ordered_json;

std::string digits(double value) { return fmt::format("{:.4g}", value); }

/// Within what the parameter may be, and around the value as it is written.
std::pair<double, double> interval_of(const Problem& problem, const Estimate& estimate) {
  const config::Declaration& declared = *problem.parameters().parameter(estimate.key).declaration;
  const double value = std::stod(digits(estimate.value));
  return {std::min(value, std::stod(digits(std::max(estimate.low, declared.min)))),
          std::max(value, std::stod(digits(std::min(estimate.high, declared.max))))};
}

/// "h200-i-probe.jsonl, 2026-11-29, 12 rows: op fence.sys, gpu and 11 more".
std::string source_of(const Problem& problem, const Estimate& estimate) {
  if (estimate.told_by.empty()) return "rows that move with several parameters";
  std::string files;
  std::set<std::string> seen;
  for (const std::size_t d : estimate.told_by) {
    const std::string& path = problem.rows()[d].file;
    if (seen.insert(path).second)
      files += (files.empty() ? "" : ", ") + path.substr(path.rfind('/') + 1);
  }
  const std::size_t count = estimate.told_by.size();
  const std::string dates = problem.dates();
  return fmt::format("{}{}{}, {} row{}: {}{}", files, dates.empty() ? "" : ", ", dates, count,
                     count == 1 ? "" : "s", problem.rows()[estimate.told_by.front()].label,
                     count == 1 ? "" : fmt::format(" and {} more", count - 1));
}

/// Told, but not to within a tenth.
bool is_loose(const Estimate& estimate) {
  constexpr double kLoose = 0.1;
  return estimate.high - estimate.low > 2 * kLoose * estimate.value;
}

struct Errors {
  std::size_t rows = 0;
  double median = 0, p90 = 0;
};

Errors errors_of(const Problem& problem, const std::vector<double>& predicted, bool held_out) {
  std::vector<double> errors;
  for (std::size_t d = 0; d < predicted.size(); ++d) {
    const Datum& datum = problem.rows()[d].datum;
    if (datum.held_out == held_out) errors.push_back(std::abs(predicted[d] / datum.measured - 1));
  }
  return {errors.size(), results::quantile(errors, 0.5), results::quantile(errors, 0.9)};
}

std::string reason_of(const Fit& fit, const Estimate& estimate) {
  if (estimate.verdict == Verdict::kUnmoved) return "no measured row moves with it";
  std::string with;
  for (const Correlation& pair : fit.correlations)
    if (pair.a == estimate.key || pair.b == estimate.key)
      with += (with.empty() ? "" : ", ") + (pair.a == estimate.key ? pair.b : pair.a);
  return with.empty() ? "the rows tell less of it than is known already"
                      : "the rows do not tell it apart from " + with;
}

}  // namespace

void write_overlay(std::ostream& out, const Problem& problem, const Fit& fit,
                   const std::string& name) {
  const Inputs& inputs = problem.inputs();
  std::string files;
  for (const auto& list : {inputs.probes, inputs.captures})
    for (const std::string& path : list)
      files += fmt::format(" {}", path.substr(path.rfind('/') + 1));
  out << "# Written by `marrow calibrate`, from" << files << ".\n"
      << "# Started from " << inputs.system.substr(inputs.system.rfind('/') + 1)
      << "; what is not here was not told by these files.\n"
      << "# A system takes it with `include:`, behind the chip and the host.\n"
      << "fragment: " << name << "\nparameters:\n";
  bool any = false;
  for (const Estimate& estimate : fit.estimates) {
    if (estimate.verdict != Verdict::kFitted) continue;
    any = true;
    const auto [low, high] = interval_of(problem, estimate);
    out << fmt::format("  {}: {{value: {}, fitted: \"{}\", interval: [{}, {}]}}\n", estimate.key,
                       digits(estimate.value), source_of(problem, estimate), digits(low),
                       digits(high));
  }
  if (!any) out << "  {}\n";
}

void write_table(std::ostream& out, const Problem& problem, const Fit& fit) {
  std::size_t fitted = 0;
  for (const Estimate& estimate : fit.estimates) fitted += estimate.verdict == Verdict::kFitted;
  out << fmt::format("{} of {} parameters are told by {} rows\n\n", fitted, fit.estimates.size(),
                     problem.rows().size());
  out << fmt::format("{:<38} {:>10} {:>10}   {:<22} {}\n", "parameter", "before", "fitted",
                     "90 % interval", "told by");
  for (const Estimate& estimate : fit.estimates) {
    if (estimate.verdict != Verdict::kFitted) continue;
    const auto [low, high] = interval_of(problem, estimate);
    out << fmt::format("{:<38} {:>10} {:>10}   {:<22} {}{}{}\n", estimate.key,
                       digits(estimate.before), digits(estimate.value),
                       digits(low) + " to " + digits(high), is_loose(estimate) ? "loosely, " : "",
                       source_of(problem, estimate),
                       estimate.at_bound ? "; AT THE END of the searched range" : "");
  }
  bool any = false;
  for (const Estimate& estimate : fit.estimates) {
    if (estimate.verdict != Verdict::kUndetermined) continue;
    if (!any) out << "\nNot identifiable, left as they were:\n";
    any = true;
    out << fmt::format("  {:<38} {:>10}   {}\n", estimate.key, digits(estimate.before),
                       reason_of(fit, estimate));
  }
  std::string unmoved;
  for (const Estimate& estimate : fit.estimates)
    if (estimate.verdict == Verdict::kUnmoved)
      unmoved += (unmoved.empty() ? "" : ", ") + estimate.key;
  if (!unmoved.empty()) out << "\nNo row moves with: " << unmoved << '\n';
  if (!fit.correlations.empty()) {
    out << "\nPairs that the rows hardly separate (correlation):\n";
    for (const Correlation& pair : fit.correlations)
      out << fmt::format("  {:+.3f} {} and {}\n", pair.rho, pair.a, pair.b);
  }
  out << fmt::format("\n{:<16} {:>5}   {:>22}   {:>22}\n", "|error|", "rows", "before: median, p90",
                     "after: median, p90");
  for (const bool held_out : {false, true}) {
    const Errors before = errors_of(problem, fit.before, held_out);
    const Errors after = errors_of(problem, fit.after, held_out);
    if (before.rows == 0) continue;
    out << fmt::format("{:<16} {:>5}   {:>11.1f} % {:>6.1f} %   {:>11.1f} % {:>6.1f} %\n",
                       held_out ? "held-out rows" : "fitted rows", before.rows, 100 * before.median,
                       100 * before.p90, 100 * after.median, 100 * after.p90);
  }
  if (!fit.costs.empty()) {
    out << "starts: ";
    for (std::size_t s = 0; s < fit.costs.size(); ++s)
      out << (s ? ", " : "") << digits(fit.costs[s]);
    out << " (half the weighted squares); the smallest was taken\n";
  }
  std::size_t unpredicted = 0;
  for (const auto& [reason, count] : problem.unpredicted()) unpredicted += count;
  if (unpredicted > 0) {
    out << fmt::format("\n{} rows of the probe are predicted by nothing:\n", unpredicted);
    for (const auto& [reason, count] : problem.unpredicted())
      out << fmt::format("  {:>3} {}\n", count, reason);
  }
}

nlohmann::ordered_json as_json(const Problem& problem, const Fit& fit) {
  const Inputs& inputs = problem.inputs();
  Json parameters = Json::array();
  for (const Estimate& estimate : fit.estimates) {
    const bool fitted = estimate.verdict == Verdict::kFitted;
    Json entry = {{"key", estimate.key},
                  {"verdict", fitted ? (is_loose(estimate) ? "loosely fitted" : "fitted")
                              : estimate.verdict == Verdict::kUnmoved ? "unmoved"
                                                                      : "not identifiable"},
                  {"before", estimate.before},
                  {"value", estimate.value},
                  {"interval", nullptr},
                  {"at_bound", estimate.at_bound}};
    if (fitted) {
      const auto [low, high] = interval_of(problem, estimate);
      entry["interval"] = {low, high};
      entry["source"] = source_of(problem, estimate);
    } else {
      entry["reason"] = reason_of(fit, estimate);
    }
    parameters.push_back(std::move(entry));
  }
  Json correlations = Json::array();
  for (const Correlation& pair : fit.correlations)
    correlations.push_back({{"a", pair.a}, {"b", pair.b}, {"rho", pair.rho}});
  Json rows = Json::array();
  for (std::size_t d = 0; d < problem.rows().size(); ++d) {
    const Row& row = problem.rows()[d];
    rows.push_back({{"place", row.place},
                    {"row", row.label},
                    {"unit", row.unit},
                    {"kind", row.kind},
                    {"measured", row.datum.measured},
                    {"uncertainty", row.datum.uncertainty},
                    {"held_out", row.datum.held_out},
                    {"before", fit.before[d]},
                    {"after", fit.after[d]}});
  }
  const auto summary = [&](bool held_out) {
    const Errors before = errors_of(problem, fit.before, held_out);
    const Errors after = errors_of(problem, fit.after, held_out);
    return Json{{"rows", before.rows},
                {"before", {{"median_abs_error", before.median}, {"p90_abs_error", before.p90}}},
                {"after", {{"median_abs_error", after.median}, {"p90_abs_error", after.p90}}}};
  };
  config::Provenance provenance;
  provenance.add(problem.parameters());
  for (const std::string& probe : inputs.probes) provenance.add_file(probe);
  Json unpredicted = Json::object();
  for (const auto& [reason, count] : problem.unpredicted()) unpredicted[reason] = count;
  return {{"schema", "marrow.calibrate/1"},
          {"system", problem.parameters().system()},
          {"probes", inputs.probes},
          {"captures", inputs.captures},
          {"date", problem.dates()},
          {"warnings", problem.warnings()},
          {"parameters", parameters},
          {"correlations", correlations},
          {"summary",
           {{"fitted_rows", summary(false)},
            {"held_out_rows", summary(true)},
            {"starts", fit.costs},
            {"scatter", fit.scatter}}},
          {"unpredicted", unpredicted},
          {"rows", rows},
          {"provenance", provenance.as_json()}};
}

}  // namespace marrow::calibrate
