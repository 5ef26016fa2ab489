#include "sim/results/measured_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

namespace marrow::results {

namespace {

/// How many of a metric's own units (ns, Mmsg/s, GB/s) the unit is.
std::optional<double> own_units(std::string_view metric, std::string_view unit) {
  static const std::map<std::string_view, double> kTimes = {
      {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  static const std::map<std::string_view, double> kBandwidths = {{"GB/s", 1},
                                                                 {"MB/s", 1e-3},
                                                                 {"Gb/s", 0.125},
                                                                 {"MiB/s", 1048576e-9},
                                                                 {"GiB/s", 1073741824e-9}};
  static const std::map<std::string_view, double> kRates = {{"Mmsg/s", 1}};
  const auto& units = metric == name(Metric::kGoodput) ? kBandwidths
                      : metric == name(Metric::kRate)  ? kRates
                                                       : kTimes;
  const auto at = units.find(unit);
  return at == units.end() ? std::nullopt : std::optional(at->second);
}

std::optional<double> statistic_of(std::vector<double> sample, std::string_view statistic) {
  static const std::map<std::string_view, double> kQuantiles = {
      {"min", 0},    {"p10", 0.1},  {"median", 0.5},  {"p90", 0.9},
      {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
  if (sample.empty()) return {};
  const double mean =
      std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
  if (statistic == "mean") return mean;
  if (statistic == "stdev") {
    double squares = 0;
    for (const double value : sample) squares += (value - mean) * (value - mean);
    return std::sqrt(squares / static_cast<double>(sample.size()));
  }
  const auto at = kQuantiles.find(statistic);
  if (at == kQuantiles.end()) return {};
  return quantile(std::move(sample), at->second);
}

/// A round's time: of all lanes together, from the first call to the last return.
std::vector<double> iteration(const Observed& observed, std::uint64_t rounds) {
  if (observed.operations.empty() || rounds == 0) return {};
  Ps begin_ps = observed.operations.front().begin_ps, end_ps = 0;
  for (const Operation& operation : observed.operations) {
    begin_ps = std::min(begin_ps, operation.begin_ps);
    end_ps = std::max(end_ps, operation.end_ps);
  }
  return {static_cast<double>(end_ps - begin_ps) / static_cast<double>(kPsPerNs) /
          static_cast<double>(rounds)};
}

}  // namespace

void MeasuredTable::expect(const trace::Run& run) {
  finish();
  run_ = run.name;
  summaries_ = run.summaries;
  rounds_ = run.puts_per_lane;
  if (!summaries_.empty()) keeper_.emplace(observed_);
}

void MeasuredTable::on_journey(const Journey& journey) {
  if (!keeper_) return;
  keeper_->on_journey(journey);
  if (journey.pe != 0 || journey.at(Stage::kProxyPost) == 0) return;
  Ps after_ps = journey.at(Stage::kProxyComplete);
  for (auto s = static_cast<std::size_t>(Stage::kMmio);
       s <= static_cast<std::size_t>(Stage::kCqeWrite); ++s)
    after_ps += journey.stage_ps[s];
  const auto per_ns = static_cast<double>(kPsPerNs);
  posts_.push_back(static_cast<double>(journey.at(Stage::kProxyPost)) / per_ns);
  completions_.push_back(static_cast<double>(after_ps) / per_ns);
}

void MeasuredTable::on_operation(const Operation& operation) {
  if (keeper_) keeper_->on_operation(operation);
}

void MeasuredTable::finish() {
  std::map<std::string, std::vector<double>> kept;  // by metric
  for (const trace::Summary& summary : summaries_) {
    const std::string& metric = summary.metric;
    const auto [at, fresh] = kept.try_emplace(metric);
    if (fresh) at->second = sample_of(metric);
    // One value for the whole run has no quantiles.
    if (metric == "iteration" && summary.statistic != "mean") continue;
    const auto unit = own_units(metric, summary.unit);
    const auto value = statistic_of(at->second, summary.statistic);
    if (unit && value && summary.value != 0) rows_.push_back({run_, summary, *value / *unit});
  }
  summaries_.clear();
  observed_ = {};
  posts_.clear();
  completions_.clear();
  keeper_.reset();
}

std::vector<double> MeasuredTable::sample_of(std::string_view metric) const {
  if (metric == "iteration") return iteration(observed_, rounds_);
  if (metric == "proxy_post") return posts_;
  if (metric == "post_to_completion") return completions_;
  const auto known = std::find(kMetricNames.begin(), kMetricNames.end(), metric);
  if (known == kMetricNames.end()) return {};
  return samples(static_cast<Metric>(known - kMetricNames.begin()), observed_);
}

void write_table(std::ostream& out, const MeasuredTable& table) {
  bool head = true;
  for (const MeasuredRow& row : table.rows()) {
    const std::string& statistic = row.measured.statistic;
    if (statistic != "median" && statistic != "mean" && statistic != "p99") continue;
    if (head)
      out << fmt::format("{:<34} {:<22} {:>10} {:>10}  {:<7} {:>8}\n",
                         "as measured, of a whole run", "what", "measured", "predicted", "unit",
                         "error");
    head = false;
    out << fmt::format("{:<34} {:<22} {:>10.4g} {:>10.4g}  {:<7} {:>+7.1f} %\n", row.run,
                       row.measured.metric + " " + statistic, row.measured.value, row.predicted,
                       row.measured.unit, 100 * row.error());
  }
  if (!head) out << '\n';
}

}  // namespace marrow::results
