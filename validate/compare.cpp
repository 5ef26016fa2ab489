#include "validate/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <ostream>

#include "models/common/error.h"
#include "sim/config/yaml_source.h"
#include "sim/replay.h"
#include "sim/results/metrics.h"

namespace marrow::validate {

namespace {

using results::quantile;

constexpr double kScoredFromCycles = 100;
constexpr double kStableWithin = 0.15;

/// The element at floor(p n) of the sorted sample, as the captures' own programs define it.
Spread spread(const std::vector<double>& sample) {
  return {quantile(sample, 0.5), quantile(sample, 0.1), quantile(sample, 0.9)};
}

double mean(const std::vector<double>& sample) {
  return sample.empty() ? 0
                        : std::accumulate(sample.begin(), sample.end(), 0.0) /
                              static_cast<double>(sample.size());
}

/// Do the first and the second half of the measurement agree?
bool halves_agree(const std::vector<double>& sample, bool means) {
  const auto middle = sample.begin() + static_cast<std::ptrdiff_t>(sample.size() / 2);
  const std::vector<double> first(sample.begin(), middle), second(middle, sample.end());
  const double a = means ? mean(first) : quantile(first, 0.5);
  const double b = means ? mean(second) : quantile(second, 0.5);
  const double larger = std::max(a, b);
  return larger <= 0 || std::abs(a - b) <= kStableWithin * larger;
}

/// Which runs a machine's parameters were fitted to: validate/fit-rows.yaml beside configs/.
std::vector<std::string> fit_runs(const std::string& config_dir, const std::string& machine,
                                  const std::string& protocol) {
  const auto root = config::YamlNode::open(config_dir + "/fit-rows.yaml");
  const auto of_machine = root.find(machine);
  if (!of_machine) return {};
  const auto of_protocol = of_machine->find(protocol);
  if (!of_protocol) return {};
  std::vector<std::string> names;
  for (const auto& item : of_protocol->one_or_more()) names.push_back(item.text());
  return names;
}

std::string baseline_key(const trace::Run& run) {
  const auto it = run.choices.find("doorbell_in");
  return run.protocol + (it == run.choices.end() ? "" : "/" + it->second);
}

struct Samples {
  std::vector<std::vector<double>> measured;  ///< by measured stage
  std::vector<double> measured_put;
  std::vector<std::vector<double>> predicted;
  std::vector<double> predicted_put;
};

class Collector : public Observer {
 public:
  Collector(double cycles_per_ps, Observer* next) : cycles_per_ps_(cycles_per_ps), next_(next) {}

  void begin(const trace::Run& run) {
    run_ = &run;
    samples_ = {};
    samples_.measured.resize(run.measured_stages.size());
    samples_.predicted.resize(run.measured_stages.size());
    stages_.clear();
    for (const std::string& name : run.measured_stages) stages_.push_back(stage_named(name));
  }
  void measured(const trace::Op& op) {
    double put = 0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const double cycles = op.measured->stage_cycles[i];
      samples_.measured[i].push_back(cycles);
      put += cycles;
    }
    samples_.measured_put.push_back(put);
  }
  void on_journey(const Journey& journey) override {
    if (next_) next_->on_journey(journey);
    double put = 0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Ps ps = stages_[i] ? journey.at(*stages_[i]) : journey.waited_ps;
      const double cycles = static_cast<double>(ps) * cycles_per_ps_;
      samples_.predicted[i].push_back(cycles);
      put += cycles;
    }
    samples_.predicted_put.push_back(put);
  }
  void on_activity(const Activity& activity) override { next_->on_activity(activity); }
  bool wants_activity() const override { return next_ && next_->wants_activity(); }
  const Samples& samples() const { return samples_; }

 private:
  double cycles_per_ps_;
  Observer* next_;
  const trace::Run* run_ = nullptr;
  std::vector<std::optional<Stage>> stages_;
  Samples samples_;
};

Group group_of(const std::string& name, const std::vector<Row>& rows,
               const std::function<bool(const Row&)>& takes) {
  std::vector<Missed> some;
  for (const Row& row : rows)
    if (row.scored && row.stable && takes(row)) some.push_back({row.run, row.stage, row.error});
  return group_of(name, some);
}

nlohmann::ordered_json as_json(const Spread& spread) {
  return {{"median", spread.median}, {"p10", spread.p10}, {"p90", spread.p90}};
}

}  // namespace

Group group_of(const std::string& name, const std::vector<Missed>& rows) {
  Group group;
  group.name = name;
  std::vector<double> errors;
  for (const Missed& row : rows) {
    errors.push_back(std::abs(row.error));
    if (std::abs(row.error) >= std::abs(group.worst_error)) {
      group.worst_error = row.error;
      group.worst_run = row.run;
      group.worst_stage = row.stage;
    }
  }
  group.rows = errors.size();
  group.median_abs_error = quantile(errors, 0.5);
  group.p90_abs_error = quantile(errors, 0.9);
  return group;
}

nlohmann::ordered_json as_json(const Group& group) {
  return {
      {"rows", group.rows},
      {"median_abs_error", group.median_abs_error},
      {"p90_abs_error", group.p90_abs_error},
      {"worst",
       {{"case", group.worst_run}, {"stage", group.worst_stage}, {"error", group.worst_error}}}};
}

std::string_view name(Role role) {
  switch (role) {
    case Role::kFit:
      return "fit";
    case Role::kPlacement:
      return "placement";
    case Role::kShown:
      return "shown";
    case Role::kPredicted:
      return "predicted";
  }
  return "";
}

std::vector<Group> Comparison::groups() const {
  const auto predicted = [](const Row& row) { return row.role == Role::kPredicted; };
  return {
      group_of("all rows", rows, [](const Row&) { return true; }),
      group_of("hard rows", rows, [](const Row& row) { return row.hard(); }),
      group_of("put rows", rows, [](const Row& row) { return row.stage == "put"; }),
      group_of("predicted: all rows", rows, predicted),
      group_of("predicted: hard rows", rows,
               [&](const Row& row) { return predicted(row) && row.hard(); }),
      group_of("predicted: put rows", rows,
               [&](const Row& row) { return predicted(row) && row.stage == "put"; }),
  };
}

Comparison compare(sim::Machine& machine, sim::Machine& base, const config::SystemSpec& base_spec,
                   const Options& options) {
  trace::Reader reader(options.trace_file);
  if (reader.header().sm_clock_ghz <= 0)
    throw InputError(options.trace_file, "holds no captured times to compare with",
                     "use `marrow run` for it");
  Comparison comparison;
  comparison.system = options.system;
  comparison.trace = options.trace_file;
  comparison.machine = reader.header().machine;

  KnownPlacement placement;
  if (options.placement_from.empty()) {
    placement = KnownPlacement(reader, base, options.config_dir, options.seed, base_spec);
    comparison.placement_runs = placement.runs();
  } else {
    trace::Reader other(options.placement_from);
    placement = KnownPlacement(other, base, options.config_dir, options.seed, base_spec);
  }

  // Captured cycles are of the clock that they were captured at.
  const double cycles_per_ps = reader.header().sm_clock_ghz / 1000;
  std::map<std::string, std::map<std::string, double>> baselines;  // by kind and stage
  std::vector<std::string> kinds;                                  // of the rows
  Collector collector(cycles_per_ps, options.observer);
  sim::ReplayOptions replay;
  replay.config_dir = options.config_dir;
  replay.seed = options.seed;
  replay.protocol_sets = options.protocol_sets;
  bool any = false;
  // Baselines need the first uncontended run of each kind, also where only others are asked for.
  std::map<std::string, std::string> baseline_run;
  reader.rewind();
  while (const auto run = reader.next_run()) {
    any |= sim::run_selected(options.only, run->name);
    if (run->queues == run->lanes.size()) baseline_run.try_emplace(baseline_key(*run), run->name);
  }
  if (!any)
    throw InputError("--only", "no run of " + options.trace_file + " is named so",
                     "`marrow trace info` lists them; write --only cfg=4");
  replay.selects = [&](const trace::Run& run) {
    const auto it = baseline_run.find(baseline_key(run));
    return !run.measured_stages.empty() && (sim::run_selected(options.only, run.name) ||
                                            (it != baseline_run.end() && it->second == run.name));
  };
  replay.on_run = [&](std::uint32_t, const trace::Run& run, const config::Recipe& recipe) {
    collector.begin(run);
    if (options.on_recipe) options.on_recipe(recipe);
  };
  replay.on_measured = [&](std::uint32_t, const trace::Run&, const trace::Op& op) {
    collector.measured(op);
  };
  replay.place = [&](const trace::Run& run, const config::Recipe& recipe, const QueueLayout& layout,
                     Placement& drawn) { placement.apply(run, recipe, layout, drawn); };
  replay.on_run_end = [&](std::uint32_t, const trace::Run& run) {
    const Samples& samples = collector.samples();
    const std::string kind = baseline_key(run);
    const bool is_baseline = baseline_run[kind] == run.name;
    const auto fits = options.system == reader.header().machine
                          ? fit_runs(options.config_dir, options.system, run.protocol)
                          : std::vector<std::string>();
    const auto has = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), run.name) != names.end();
    };
    Row row;
    row.run = run.name;
    row.role = has(fits)                        ? Role::kFit
               : has(comparison.placement_runs) ? Role::kPlacement
                                                : Role::kPredicted;
    const auto finish = [&](const std::string& stage, const std::vector<double>& measured) {
      row.stage = stage;
      if (is_baseline) baselines[kind][stage] = row.measured.median;
      row.error = row.measured.median > 0 ? row.predicted.median / row.measured.median - 1 : 0;
      row.scored = row.measured.median >= kScoredFromCycles;
      row.stable = halves_agree(measured, stage == "put");
      row.within =
          row.predicted.median >= row.measured.p10 && row.predicted.median <= row.measured.p90;
      if (!row.scored || !sim::run_selected(options.only, run.name)) return;
      if (!row.stable) {
        ++comparison.unstable;
        comparison.unstable_within += row.within;
      }
      comparison.rows.push_back(row);
      kinds.push_back(kind);
    };
    for (std::size_t i = 0; i < run.measured_stages.size(); ++i) {
      row.measured = spread(samples.measured[i]);
      row.predicted = spread(samples.predicted[i]);
      finish(run.measured_stages[i], samples.measured[i]);
    }
    row.measured = spread(samples.measured_put);
    row.predicted = spread(samples.predicted_put);
    row.measured.median = mean(samples.measured_put);
    row.predicted.median = mean(samples.predicted_put);
    finish("put", samples.measured_put);
  };
  reader.rewind();
  sim::replay(reader, machine, replay, &collector);
  // Only now: a file's uncontended run may come after others of its kind.
  for (std::size_t i = 0; i < comparison.rows.size(); ++i) {
    Row& row = comparison.rows[i];
    const auto& baseline = baselines[kinds[i]];
    if (const auto it = baseline.find(row.stage); it != baseline.end())
      row.baseline_error = it->second / row.measured.median - 1;
  }
  return comparison;
}

namespace {
std::string name_of(const Row& row) { return row.run + '\n' + row.stage; }
}  // namespace

std::map<std::string, double> medians(const Comparison& comparison) {
  std::map<std::string, double> all;
  for (const Row& row : comparison.rows) all[name_of(row)] = row.predicted.median;
  return all;
}

void add_intervals(Comparison& comparison, const results::Intervals& intervals,
                   double error_percent) {
  for (Row& row : comparison.rows)
    if (const auto it = intervals.find(name_of(row)); it != intervals.end())
      row.interval = results::widened(it->second, row.predicted.median, error_percent);
}

Coverage Comparison::coverage(bool predicted_alone) const {
  Coverage coverage;
  for (const Row& row : rows) {
    if (!row.interval || !row.scored || !row.stable) continue;
    if (predicted_alone && row.role != Role::kPredicted) continue;
    ++coverage.rows;
    coverage.inside += row.inside();
  }
  return coverage;
}

void write_table(std::ostream& out, const Comparison& comparison) {
  out << fmt::format("{} predicted by {}: SM cycles; medians, of `put` means\n", comparison.trace,
                     comparison.system);
  if (comparison.machine != comparison.system)
    out << fmt::format("note: it was captured on {}, whose parameters may differ\n",
                       comparison.machine);
  out << '\n';
  out << fmt::format("{:<8} {:<18} {:<9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9}  {}\n", "run", "stage",
                     "role", "measured", "p90", "predicted", "p90", "error", "baseline", "");
  std::string last;
  for (const Row& row : comparison.rows) {
    if (!last.empty() && last != row.run) out << '\n';
    last = row.run;
    std::string note;
    if (!row.stable)
      note = row.within ? "unstable, within p10 to p90" : "unstable, outside p10 to p90";
    else if (row.hard())
      note = "hard";
    if (row.interval)
      note = fmt::format("{:.0f} to {:.0f}{}{}{}", row.interval->low, row.interval->high,
                         row.inside() ? "" : " missed", note.empty() ? "" : "; ", note);
    const std::string baseline =
        row.baseline_error ? fmt::format("{:+.1f} %", 100 * *row.baseline_error) : "-";
    out << fmt::format(
        "{:<8} {:<18} {:<9} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>+6.1f} % {:>9}  {}\n", row.run,
        row.stage, name(row.role), row.measured.median, row.measured.p90, row.predicted.median,
        row.predicted.p90, 100 * row.error, baseline, note);
  }
  out << fmt::format("\n{:<22} {:>5} {:>14} {:>9}  {}\n", "", "rows", "median |error|", "p90",
                     "worst");
  for (const Group& group : comparison.groups())
    if (group.rows > 0)
      out << fmt::format("{:<22} {:>5} {:>12.1f} % {:>7.1f} %  {:+.0f} % in {} {}\n", group.name,
                         group.rows, 100 * group.median_abs_error, 100 * group.p90_abs_error,
                         100 * group.worst_error, group.worst_run, group.worst_stage);
  if (comparison.unstable > 0)
    out << fmt::format("{:<22} {:>5} {:>4} of them predicted within the measured p10 to p90\n",
                       "unstable rows", comparison.unstable, comparison.unstable_within);
  const Coverage held_out = comparison.coverage(true), all = comparison.coverage(false);
  if (all.rows > 0)
    out << fmt::format(
        "90 % intervals of the predicted medians hold {:.0f} % of {} measured medians that nothing "
        "was fitted to, {:.0f} % of all {}\n",
        100 * held_out.share(), held_out.rows, 100 * all.share(), all.rows);
  out << "baseline: the error of repeating the first uncontended run of that protocol and doorbell "
         "place; hard: it errs by more than 10 %\n";
  if (!comparison.placement_runs.empty()) {
    std::string runs;
    for (const std::string& run : comparison.placement_runs)
      runs += (runs.empty() ? "" : ", ") + run;
    out << "L2 placement read off: " << runs << '\n';
  }
}

nlohmann::ordered_json as_json(const Comparison& comparison) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : comparison.rows) {
    nlohmann::ordered_json entry = {{"case", row.run},
                                    {"stage", row.stage},
                                    {"role", name(row.role)},
                                    {"unit", row.unit},
                                    {"measured", as_json(row.measured)},
                                    {"predicted", as_json(row.predicted)},
                                    {"error", row.error},
                                    {"baseline_error", nullptr},
                                    {"stable", row.stable},
                                    {"within_p10_p90", row.within},
                                    {"hard", row.hard()}};
    if (row.baseline_error) entry["baseline_error"] = *row.baseline_error;
    if (row.interval) {
      entry["interval"] = {row.interval->low, row.interval->high};
      entry["inside_interval"] = row.inside();
    }
    rows.push_back(std::move(entry));
  }
  const auto groups = comparison.groups();
  // The contract's summary: over predicted rows alone, and over all.
  nlohmann::ordered_json by_group = nlohmann::ordered_json::object();
  for (const Group& group : groups) by_group[group.name] = as_json(group);
  nlohmann::ordered_json summary = as_json(groups[3]);
  summary["all"] = as_json(groups[0]);
  summary["groups"] = by_group;
  if (comparison.coverage(false).rows > 0) {
    const auto told = [](const Coverage& coverage) {
      return nlohmann::ordered_json{
          {"rows", coverage.rows}, {"inside", coverage.inside}, {"share", coverage.share()}};
    };
    summary["intervals"] = {{"stated", 0.9},
                            {"predicted", told(comparison.coverage(true))},
                            {"all", told(comparison.coverage(false))}};
  }
  summary["unstable"] = {{"rows", comparison.unstable}, {"within", comparison.unstable_within}};
  return {{"schema", "marrow.validate/1"},
          {"system", comparison.system},
          {"capture", comparison.trace},
          {"machine", comparison.machine},
          {"placement_runs", comparison.placement_runs},
          {"rows", rows},
          {"summary", summary}};
}

}  // namespace marrow::validate
