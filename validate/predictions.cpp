// Predictions of published tables: simulations, each in a process of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/fork_pool.h"
#include "sim/machine.h"
#include "validate/measurements.h"

namespace marrow::validate {

namespace {

using results::quantile;
using sim::work_number;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// With one setting of a sweep.
Scenario varied(Scenario run, const std::string& key, const std::pair<std::string, double>& value) {
  const std::string work = "work.", choices = "choices.";
  if (key.starts_with(work))
    run.work.*work_number(key.substr(work.size()))->field = static_cast<std::int64_t>(value.second);
  else if (key.starts_with(choices))
    run.choices[key.substr(choices.size())] = value.first;
  else
    run.sets.push_back(key + "=" + value.first);
  return run;
}

/// Of a process's own work: by metric, or by cell.
using Results = std::map<std::string, Spread>;

/// The metrics of one run, their samples pooled over seeds.
Results simulate(const Scenario& scenario, const std::set<Metric>& metrics,
                 const MeasurementOptions& options) {
  std::vector<std::string> system_sets, protocol_sets;
  const std::string prefix = "protocol.";
  for (const std::string& set : scenario.sets)
    if (set.starts_with(prefix))
      protocol_sets.push_back(set.substr(prefix.size()));
    else
      system_sets.push_back(set);
  system_sets.insert(system_sets.end(), options.system_sets.begin(), options.system_sets.end());
  protocol_sets.insert(protocol_sets.end(), options.protocol_sets.begin(),
                       options.protocol_sets.end());
  sim::Machine machine(config::bind(
      config::load_system(system_file(scenario.system, options.config_dir), system_sets)));
  const config::Recipe recipe = config::load_recipe(
      config::recipe_path(scenario.protocol, options.config_dir), scenario.choices, protocol_sets);

  std::map<Metric, std::vector<double>> pooled;
  for (std::uint32_t draw = 0; draw < (scenario.draws > 0 ? scenario.draws : options.seeds);
       ++draw) {
    Observed observed;
    results::Keeper keeper(observed);
    sim::run_work(machine, recipe, scenario.work,
                  {scenario.name, options.seed + draw, &keeper, {}});
    for (const Metric metric : metrics) {
      const std::vector<double> values = samples(metric, observed);
      pooled[metric].insert(pooled[metric].end(), values.begin(), values.end());
    }
  }
  Results results;
  for (const auto& [metric, values] : pooled)
    if (!values.empty())
      results[std::string(name(metric))] = {quantile(values, 0.5), quantile(values, 0.1),
                                            quantile(values, 0.9), quantile(values, 0.99)};
  return results;
}

Results bench(const Table& table, const MeasurementOptions& options) {
  std::map<std::string, config::SystemSpec> systems;
  Results results;
  for (const Cell& cell : table.cells) {
    if (!cell.not_covered.empty()) continue;
    if (!systems.contains(cell.system))
      systems[cell.system] = config::bind(
          config::load_system(system_file(cell.system, options.config_dir), options.system_sets));
    results[cell.id] = {predict_pcie_bench(systems[cell.system], cell.pcie), kNone, kNone};
  }
  return results;
}

Results probe(const Table& table, const MeasurementOptions& options) {
  PeerProbe peer(config::bind(config::load_system(
                     system_file(table.peer.system, options.config_dir), options.system_sets)),
                 table.peer.costs);
  Results results;
  for (std::size_t i = 0; i < table.cells.size(); ++i)
    results[table.cells[i].id] = {peer.predict(table.peer.rows[i]), kNone, kNone};
  return results;
}

/// The table's rows of one system.
Results launches(const Table& table, const std::string& system, const MeasurementOptions& options) {
  LaunchProbe launch(config::bind(config::load_system(system_file(system, options.config_dir),
                                                      options.system_sets)),
                     options.config_dir);
  Results results;
  for (const Cell& cell : table.cells)
    if (cell.not_covered.empty() && cell.system == system)
      results[cell.id] = {launch.predict(cell.launch), kNone, kNone};
  return results;
}

/// A simulation, or a table of another kind, in a process of its own.
struct Job {
  const Table* table = nullptr;
  std::string system;  ///< kLaunchProbe
  Scenario scenario;
  std::set<Metric> metrics;
  Results results;
  std::string fault;
};

/// What the child says through its pipe: {"issue": [median, p10, p90], ...} or {"fault": "..."}.
/// Where there is no p10 it is null.
std::string report_of(const Job& job, const MeasurementOptions& options) {
  nlohmann::json report = nlohmann::json::object();
  try {
    const Results results = job.table->kind == Kind::kPcieBench   ? bench(*job.table, options)
                            : job.table->kind == Kind::kPeerProbe ? probe(*job.table, options)
                            : job.table->kind == Kind::kLaunchProbe
                                ? launches(*job.table, job.system, options)
                                : simulate(job.scenario, job.metrics, options);
    for (const auto& [key, spread] : results)
      report[key] = {spread.median, spread.p10, spread.p90, spread.p99};
  } catch (const std::exception& error) {
    report = {{"fault", error.what()}};
  }
  return report.dump();
}

void take_up(Job& job, const sim::ForkPool::Ended& ended) {
  job.fault = ended.fault;
  if (!job.fault.empty()) return;
  const nlohmann::json report = nlohmann::json::parse(ended.said, nullptr, false);
  if (report.is_discarded() || report.contains("fault")) {
    job.fault = report.is_discarded() ? "its simulation ended without a result"
                                      : report["fault"].get<std::string>();
    return;
  }
  const auto number = [](const nlohmann::json& value) {
    return value.is_null() ? kNone : value.get<double>();
  };
  for (const auto& [key, spread] : report.items())
    job.results[key] = {number(spread[0]), number(spread[1]), number(spread[2]), number(spread[3])};
}

void run_all(std::vector<Job>& jobs, const MeasurementOptions& options) {
  sim::ForkPool pool(std::thread::hardware_concurrency());
  std::size_t started = 0, done = 0;
  while (done < jobs.size()) {
    while (!pool.full() && started < jobs.size()) {
      const Job& job = jobs[started];
      pool.start(started++, [&] { return report_of(job, options); });
    }
    if (options.on_progress) options.on_progress(done, jobs.size());
    for (const sim::ForkPool::Ended& ended : pool.wait()) {
      take_up(jobs[ended.job], ended);
      ++done;
    }
  }
  if (options.on_progress) options.on_progress(done, jobs.size());
}

const Scenario& scenario_named(const Table& table, const std::string& name) {
  return *std::find_if(table.runs.begin(), table.runs.end(),
                       [&](const Scenario& run) { return run.name == name; });
}

}  // namespace

Line fit_line(const std::vector<std::pair<double, double>>& points) {
  double x_mean = 0, y_mean = 0;
  for (const auto& [x, y] : points) {
    x_mean += x / static_cast<double>(points.size());
    y_mean += y / static_cast<double>(points.size());
  }
  double xy = 0, xx = 0;
  for (const auto& [x, y] : points) {
    xy += (x - x_mean) * (y - y_mean);
    xx += (x - x_mean) * (x - x_mean);
  }
  const double slope = xy / xx;
  return {slope, y_mean - slope * x_mean};
}

Spread predict(const Cell& cell, const Sweep& sweep, const std::vector<Spread>& metrics) {
  const auto scaled = [&](double value) {
    return Spread{value * cell.per_unit, kNone, kNone, kNone};
  };
  if (cell.take == Take::kValue) {
    const Spread& own = metrics.front();
    if (!cell.less.empty()) return scaled(own.median - metrics.at(1).median);
    return {own.median * cell.per_unit, own.p10 * cell.per_unit, own.p90 * cell.per_unit, kNone};
  }
  if (cell.take == Take::kP99) return scaled(metrics.front().p99);
  if (cell.take == Take::kReach) {
    for (std::size_t i = 0; i < metrics.size(); ++i)
      if (metrics[i].median >= cell.at_least) return scaled(sweep.values[i].second);
    throw InputError(cell.id, fmt::format("no {} up to {} reaches {}", sweep.vary,
                                          sweep.values.back().first, cell.at_least));
  }
  const bool clock = cell.take != Take::kSlope;
  std::vector<std::pair<double, double>> points;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const double x = sweep.values[i].second;
    points.emplace_back(clock ? 1 / x : x, metrics[i].median);
  }
  const Line line = fit_line(points);
  return scaled(cell.take == Take::kClockConstant ? line.constant : line.slope);
}

std::vector<Prediction> predict(const std::vector<Table>& tables,
                                const MeasurementOptions& options) {
  std::vector<Prediction> predictions;
  std::vector<std::vector<std::size_t>> needed;  // by prediction: its jobs
  std::vector<Job> jobs;
  std::map<std::string, std::size_t> job_of;
  const auto job = [&](const std::string& key, const Table& table) -> Job& {
    const auto [it, fresh] = job_of.try_emplace(key, jobs.size());
    if (fresh) jobs.emplace_back();
    needed.back().push_back(it->second);
    jobs[it->second].table = &table;
    return jobs[it->second];
  };
  for (const Table& table : tables)
    for (const Cell& cell : table.cells) {
      if (!cell.not_covered.empty()) continue;
      predictions.push_back({&table, &cell, {}, 0, {}});
      needed.emplace_back();
      if (table.kind != Kind::kSimulation) {
        const bool by_system = table.kind == Kind::kLaunchProbe;
        job(by_system ? table.file + "\n" + cell.system : table.file, table).system = cell.system;
        continue;
      }
      const auto simulation = [&](const std::string& key, const Scenario& scenario) {
        Job& of = job(table.file + "\n" + key, table);
        of.scenario = scenario;
        of.metrics.insert(cell.metric);
      };
      if (cell.sweep.empty()) {
        for (const std::string& run : {cell.run, cell.less})
          if (!run.empty()) simulation(run, scenario_named(table, run));
        continue;
      }
      const Sweep& sweep = table.sweeps.at(cell.sweep);
      for (const auto& value : sweep.values)
        simulation(cell.sweep + "\n" + value.first,
                   varied(scenario_named(table, sweep.run), sweep.vary, value));
    }
  run_all(jobs, options);
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    Prediction& prediction = predictions[i];
    const Cell& cell = *prediction.cell;
    std::vector<Spread> metrics;
    for (const std::size_t number : needed[i]) {
      const Job& of = jobs[number];
      const std::string& key = prediction.table->kind == Kind::kSimulation ? cell.stage : cell.id;
      if (const auto it = of.results.find(key); it != of.results.end())
        metrics.push_back(it->second);
      else if (prediction.fault.empty())
        prediction.fault = of.fault.empty() ? fmt::format("{}: its work shows no {}",
                                                          of.scenario.place, cell.stage)
                                            : of.fault;
    }
    if (!prediction.fault.empty()) continue;
    try {
      static const Sweep kNoSweep;
      prediction.predicted = predict(
          cell, cell.sweep.empty() ? kNoSweep : prediction.table->sweeps.at(cell.sweep), metrics);
      prediction.error = prediction.predicted.median / cell.value - 1;
    } catch (const InputError& error) {
      prediction.fault = error.what();
    }
  }
  return predictions;
}

}  // namespace marrow::validate
