// Reading; predictions.cpp simulates, prediction_table.cpp tells.
#include "validate/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/config/yaml_source.h"

namespace marrow::validate {

namespace {

using config::YamlNode;
using results::is_time;
using results::kMetricNames;
using sim::read_work;
using sim::work_number;

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

}  // namespace

std::string system_file(const std::string& name, const std::string& config_dir) {
  return config_dir + "/systems/" + name + ".yaml";
}

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

}  // namespace marrow::validate
