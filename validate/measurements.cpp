#include "validate/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <ostream>
#include <set>
#include <thread>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/config/yaml_source.h"
#include "sim/fork_pool.h"
#include "sim/machine.h"

namespace marrow::validate {

namespace {

using config::YamlNode;
using results::is_time;
using results::kMetricNames;
using results::quantile;
using sim::read_work;
using sim::work_number;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kMissFrom = 0.15;

// ---- reading ----

Metric metric_named(const YamlNode& node) {
  const std::string word = node.one_of({"issue", "put_completion", "doorbell_to_completion",
                                        "round_trip", "one_way", "rate", "goodput"});
  const auto at = std::find(kMetricNames.begin(), kMetricNames.end(), word);
  return static_cast<Metric>(at - kMetricNames.begin());
}

Take take_named(const YamlNode& node) {
  const std::string word = node.one_of({"slope", "clock_cycles", "clock_constant", "reach"});
  if (word == "slope") return Take::kSlope;
  if (word == "clock_cycles") return Take::kClockCycles;
  return word == "clock_constant" ? Take::kClockConstant : Take::kReach;
}

Role role_named(const YamlNode& node) {
  const std::string word = node.one_of({"fit", "predicted", "shown"});
  if (word == "shown") return Role::kShown;
  return word == "fit" ? Role::kFit : Role::kPredicted;
}

std::string system_file(const std::string& name, const std::string& config_dir) {
  return config_dir + "/systems/" + name + ".yaml";
}

void check_system(const YamlNode& node, const std::string& system, const std::string& config_dir) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(system_file(system, config_dir))) return;
  std::vector<std::string> known;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(config_dir + "/systems", error))
    if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem().string());
  std::sort(known.begin(), known.end());
  node.fail(fmt::format("there is no system \"{}\"", system),
            fmt::format("known: {}", fmt::join(known, ", ")));
}

Scenario read_run(const std::string& name, const YamlNode& node, const Table& table,
                  const std::string& config_dir) {
  node.only({"like", "system", "protocol", "set", "choices", "work", "draws", "not_covered"});
  Scenario run;
  if (const auto like = node.find("like")) {
    const auto it = std::find_if(table.runs.begin(), table.runs.end(),
                                 [&](const Scenario& r) { return r.name == like->text(); });
    if (it == table.runs.end())
      like->fail(fmt::format("no run \"{}\" stands above", like->text()), "name an earlier run");
    run = *it;
    run.not_covered.clear();
  }
  run.name = name;
  run.place = node.place();
  if (const auto value = node.find("system")) run.system = value->text();
  if (const auto value = node.find("protocol")) run.protocol = value->text();
  if (const auto value = node.find("set"))
    for (const YamlNode& item : value->one_or_more()) run.sets.push_back(item.text());
  if (const auto value = node.find("choices"))
    for (const auto& [key, child] : value->entries()) run.choices[key] = child.text();
  if (const auto value = node.find("work")) read_work(*value, run.work);
  if (const auto value = node.find("draws"))
    run.draws = static_cast<std::uint32_t>(value->integer(1, 1000));
  if (const auto value = node.find("not_covered")) run.not_covered = value->text();
  if (run.system.empty()) node.fail("no key \"system\"", "add \"system: p-ib\"");
  if (run.protocol.empty()) node.fail("no key \"protocol\"", "add \"protocol: mini-gda\"");
  if (run.work.does.empty())
    node.fail("no key \"work.does\"", "add \"work: {does: [put, quiet]}\"");
  if (!run.not_covered.empty()) return run;
  check_system(node, run.system, config_dir);
  try {
    config::recipe_path(run.protocol, config_dir);
  } catch (const InputError& error) {
    node.fail(error.what());
  }
  return run;
}

Sweep read_sweep(const YamlNode& node) {
  node.only({"run", "vary", "values"});
  Sweep sweep;
  sweep.run = node.at("run").text();
  sweep.vary = node.at("vary").text();
  const std::string prefix = "work.";
  const bool of_work = sweep.vary.starts_with(prefix);
  const sim::WorkNumber* number = of_work ? work_number(sweep.vary.substr(prefix.size())) : nullptr;
  if (of_work && number == nullptr)
    node.at("vary").fail("the work has no such number",
                         "known: work.warps, work.queues, work.sms, work.rounds, work.bytes, "
                         "work.gap_cycles, work.wait_every, work.visits, "
                         "work.puts_per_visit, work.peers");
  const auto& values = node.at("values");
  for (const YamlNode& item : values.items()) {
    if (number != nullptr) item.integer(number->least, number->most);
    sweep.values.emplace_back(item.text(), item.number());
  }
  std::set<double> different;
  for (const auto& value : sweep.values) different.insert(value.second);
  if (different.size() < 2) values.fail("holds no two different values", "write two or more");
  return sweep;
}

/// What a prediction of this metric is multiplied with to be in this unit.
double unit_factor(Metric metric, std::string_view unit, const YamlNode& node) {
  if (is_time(metric)) {
    if (unit == "us") return 1e-3;
    if (unit == "ns") return 1;
    node.fail(fmt::format("\"{}\" does not fit {}, a time", unit, name(metric)), "write us or ns");
  }
  const std::string_view fits = metric == Metric::kRate ? "Mmsg/s" : "GB/s";
  if (unit != fits)
    node.fail(fmt::format("\"{}\" does not fit {}", unit, name(metric)),
              fmt::format("write {}", fits));
  return 1;
}

double factor_of(const Cell& cell, const Table& table, const YamlNode& node) {
  switch (cell.take) {
    case Take::kValue:
      return unit_factor(cell.metric, cell.unit, node);
    case Take::kSlope: {
      // "us per 16 B"
      const std::string per = " per ";
      const auto at = cell.unit.find(per);
      if (at == std::string::npos)
        node.fail(fmt::format("\"{}\" does not fit a slope", cell.unit), "write \"us per 16 B\"");
      double step = 1;
      const std::string rest = cell.unit.substr(at + per.size());
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), step);
      if (error != std::errc()) step = 1;
      return step * unit_factor(cell.metric, cell.unit.substr(0, at), node);
    }
    case Take::kClockCycles:
      if (cell.unit != "cycles")
        node.fail(fmt::format("\"{}\" does not fit clock_cycles", cell.unit), "write cycles");
      return 1;
    case Take::kClockConstant:
      return unit_factor(cell.metric, cell.unit, node);
    case Take::kP99:
      return unit_factor(cell.metric, cell.unit, node);
    case Take::kReach:
      if ((table.sweeps.at(cell.sweep).vary == "work.bytes") != (cell.unit == "B"))
        node.fail(fmt::format("\"{}\" is not the unit of what the sweep varies", cell.unit),
                  "write B for work.bytes");
      return 1;
  }
  return 1;
}

/// The run that a row names, which must stand in the table.
const Scenario& run_of(const Table& table, const YamlNode& node) {
  for (const Scenario& run : table.runs)
    if (run.name == node.text()) return run;
  std::vector<std::string> known;
  for (const Scenario& run : table.runs) known.push_back(run.name);
  node.fail(fmt::format("the table has no run \"{}\"", node.text()),
            fmt::format("known: {}", fmt::join(known, ", ")));
}

Cell read_cell(const YamlNode& node, const Table& table) {
  node.only({"id", "what", "run", "less", "sweep", "metric", "take", "at_least", "value", "unit",
             "role", "not_covered"});
  Cell cell;
  cell.id = node.at("id").text();
  cell.value = node.at("value").number();
  cell.unit = node.at("unit").text();
  if (const auto value = node.find("what")) cell.what = value->text();
  if (const auto value = node.find("role")) cell.role = role_named(*value);
  if (const auto value = node.find("not_covered")) cell.not_covered = value->text();
  const auto run = node.find("run"), sweep = node.find("sweep"), less = node.find("less");
  if (!run && !sweep) {
    if (cell.not_covered.empty())
      node.fail("has neither run nor sweep", "name one, or add \"not_covered: why\"");
    return cell;
  }
  if (run && sweep) sweep->fail("stands beside run", "name one of them");
  if (cell.value == 0 && cell.not_covered.empty())
    node.at("value").fail("is 0, which has no relative error", "add \"not_covered: why\"");
  cell.metric = metric_named(node.at("metric"));
  cell.stage = name(cell.metric);
  const auto needs = [&](const Scenario& scenario) {
    if (cell.metric == Metric::kIssue && scenario.work.wait_every > 0)
      node.at("metric").fail("is of messages that the lane does not wait for",
                             "take \"wait_every\" out of the run's work");
    if (cell.not_covered.empty()) cell.not_covered = scenario.not_covered;
  };
  if (run) {
    cell.run = run->text();
    needs(run_of(table, *run));
    if (less) {
      cell.less = less->text();
      needs(run_of(table, *less));
    }
    if (const auto take = node.find("take")) {
      if (take->text() != "p99") take->fail("needs a sweep", "remove it, or write p99");
      if (less) less->fail("stands beside a p99", "remove it");
      cell.take = Take::kP99;
    }
  } else {
    cell.sweep = sweep->text();
    const auto it = table.sweeps.find(cell.sweep);
    if (it == table.sweeps.end())
      sweep->fail(fmt::format("the table has no sweep \"{}\"", cell.sweep), "add it to sweeps");
    for (const Scenario& scenario : table.runs)
      if (scenario.name == it->second.run) needs(scenario);
    if (less) less->fail("needs a run", "remove it");
    cell.take = take_named(node.at("take"));
  }
  if (const auto value = node.find("at_least")) {
    if (cell.take != Take::kReach) value->fail("is for \"take: reach\" alone", "remove it");
    cell.at_least = value->number();
  } else if (cell.take == Take::kReach) {
    node.at("at_least");
  }
  if ((cell.take == Take::kClockCycles || cell.take == Take::kClockConstant) &&
      !is_time(cell.metric))
    node.at("metric").fail("is no time, so that no clock can be fitted", "take a time");
  cell.per_unit = factor_of(cell, table, node.at("unit"));
  if (cell.what.empty())
    cell.what = fmt::format("{}{}: {}", run ? cell.run : cell.sweep,
                            less ? " less " + cell.less : "", name(cell.metric));
  return cell;
}

/// A cell of pcie-bench's tables.
Cell read_pcie_cell(const YamlNode& node, const std::string& config_dir) {
  node.only({"id", "system", "test", "size_bytes", "window_bytes", "iommu", "memory", "value",
             "unit", "avg", "role", "note"});
  Cell cell;
  cell.id = node.at("id").text();
  cell.value = node.at("value").number(0);
  cell.unit = node.at("unit").one_of({"ns", "Gb/s"});
  cell.stage = node.at("test").text();
  const auto test = pcie_test(cell.stage);
  if (!test) node.at("test").fail("pcie-bench has no such test", "write e.g. LAT_DMA_RD");
  constexpr std::int64_t kMostBytes = 4096;
  cell.pcie = {*test, static_cast<std::uint64_t>(node.at("size_bytes").integer(1, kMostBytes)),
               static_cast<std::uint64_t>(node.at("window_bytes").integer(64)), false};
  if (const auto memory = node.find("memory"))
    cell.pcie.remote = memory->one_of({"local", "remote"}) == "remote";
  const std::string role = node.at("role").one_of({"fit", "predicted", "none"});
  cell.role = role == "fit" ? Role::kFit : Role::kPredicted;
  if (role == "none") cell.not_covered = node.at("note").text();
  if (role != "none") {
    cell.system = node.at("system").text();
    check_system(node.at("system"), cell.system, config_dir);
  }
  cell.what = fmt::format("{} {} B{}", cell.stage, cell.pcie.size_bytes,
                          cell.pcie.remote ? ", remote" : "");
  return cell;
}

/// A cell of the probe's launch and copy rows.
Cell read_launch_cell(const YamlNode& node, const std::string& config_dir) {
  node.only({"id", "system", "test", "bytes", "to", "value", "unit", "role", "not_covered"});
  Cell cell;
  cell.id = node.at("id").text();
  cell.value = node.at("value").number(0);
  cell.unit = node.at("unit").one_of({"ns", "us"});
  cell.per_unit = cell.unit == "us" ? 1e-3 : 1;
  if (const auto value = node.find("role"))
    cell.role = value->one_of({"fit", "predicted"}) == "fit" ? Role::kFit : Role::kPredicted;
  cell.stage = node.at("test").text();
  const auto test = std::find(kLaunchTestNames.begin(), kLaunchTestNames.end(), cell.stage);
  if (test == kLaunchTestNames.end())
    node.at("test").fail("the probe has no such test",
                         fmt::format("known: {}", fmt::join(kLaunchTestNames, ", ")));
  cell.launch.test = static_cast<LaunchTest>(test - kLaunchTestNames.begin());
  cell.system = node.at("system").text();
  check_system(node.at("system"), cell.system, config_dir);
  cell.what = fmt::format("{}: {}", cell.system, cell.stage);
  if (cell.launch.test == LaunchTest::kCopy || cell.launch.test == LaunchTest::kCopyToSeen) {
    cell.launch.bytes = static_cast<std::uint64_t>(node.at("bytes").integer(1, 1 << 30));
    cell.launch.to_host = node.at("to").one_of({"host", "gpu"}) == "host";
    cell.what += fmt::format(" {} B to {}", cell.launch.bytes, node.at("to").text());
  } else if (const auto bytes = node.find("bytes")) {
    bytes->fail("is of copies", "remove it");
  }
  if (const auto value = node.find("not_covered")) cell.not_covered = value->text();
  return cell;
}

Cell cell_of(const PeerRow& row, const std::string& table, std::size_t number) {
  Cell cell;
  cell.id = fmt::format("{}-{:03}", table, number);
  cell.stage = cell.what = row.name;
  for (const auto& [name, value] : row.conditions) cell.what += fmt::format(" {}={}", name, value);
  cell.value = row.measured;
  cell.unit = row.unit;
  cell.role = row.fit ? Role::kFit : Role::kPredicted;
  return cell;
}

Table read_table(const std::string& file, const std::string& config_dir) {
  const YamlNode root = YamlNode::open(file);
  Table table;
  table.file = file;
  std::string kind = "simulation";
  if (const auto value = root.find("kind"))
    kind = value->one_of({"simulation", "pcie_bench", "peer_probe", "launch_probe"});
  if (kind == "simulation")
    root.only({"kind", "table", "title", "source", "runs", "sweeps", "rows"});
  if (kind == "pcie_bench" || kind == "launch_probe")
    root.only({"kind", "table", "title", "source", "rows"});
  table.id = root.at("table").text();
  table.title = root.at("title").text();
  const YamlNode source = root.at("source");
  source.only({"title", "url", "year"});
  table.source = fmt::format("{} ({}), {}", source.at("title").text(), source.at("year").integer(),
                             source.at("url").text());
  if (kind == "peer_probe") {
    table.kind = Kind::kPeerProbe;
    table.peer = load_peer_table(file);
    check_system(root.at("system"), table.peer.system, config_dir);
    for (const PeerRow& row : table.peer.rows)
      table.cells.push_back(cell_of(row, table.id, table.cells.size() + 1));
    return table;
  }
  if (kind == "pcie_bench") table.kind = Kind::kPcieBench;
  if (kind == "launch_probe") table.kind = Kind::kLaunchProbe;
  if (const auto runs = root.find("runs"))
    for (const auto& [name, node] : runs->entries())
      table.runs.push_back(read_run(name, node, table, config_dir));
  if (const auto sweeps = root.find("sweeps"))
    for (const auto& [name, node] : sweeps->entries()) {
      table.sweeps[name] = read_sweep(node);
      run_of(table, node.at("run"));
    }
  std::set<std::string> ids;
  for (const YamlNode& node : root.at("rows").items()) {
    table.cells.push_back(table.kind == Kind::kPcieBench     ? read_pcie_cell(node, config_dir)
                          : table.kind == Kind::kLaunchProbe ? read_launch_cell(node, config_dir)
                                                             : read_cell(node, table));
    if (!ids.insert(table.cells.back().id).second)
      node.at("id").fail("stands twice in this table", "remove one of them");
  }
  return table;
}

// ---- simulating ----

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

// ---- telling ----

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

std::vector<Table> load_measurements(const std::string& path, const std::string& config_dir) {
  namespace fs = std::filesystem;
  std::vector<std::string> files = {path};
  if (fs::is_directory(path)) {
    files.clear();
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    if (files.empty())
      throw InputError(path, "holds no *.yaml", "name a file or folder of measurements");
  }
  std::vector<Table> tables;
  for (const std::string& file : files) tables.push_back(read_table(file, config_dir));
  return tables;
}

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

Group group_of(const std::string& name, const std::vector<Prediction>& predictions,
               const std::function<bool(const Prediction&)>& takes) {
  Group group;
  group.name = name;
  std::vector<double> errors;
  for (const Prediction& p : predictions) {
    if (!p.fault.empty() || p.cell->role == Role::kShown || !takes(p)) continue;
    errors.push_back(std::abs(p.error));
    if (std::abs(p.error) >= std::abs(group.worst_error)) {
      group.worst_error = p.error;
      group.worst_run = p.cell->id;
      group.worst_stage = p.cell->stage;
    }
  }
  group.rows = errors.size();
  group.median_abs_error = quantile(errors, 0.5);
  group.p90_abs_error = quantile(errors, 0.9);
  return group;
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
