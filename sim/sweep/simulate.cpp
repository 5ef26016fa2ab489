#include "sim/sweep/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/replay.h"
#include "sim/results/stage_table.h"

namespace marrow::sweep {

namespace {

using results::Metric;

const std::vector<std::string> kQuantiles = {"median_ns", "p90_ns", "p99_ns"};

std::optional<Metric> metric_named(const std::string& name) {
  const auto it = std::find(results::kMetricNames.begin(), results::kMetricNames.end(), name);
  if (it == results::kMetricNames.end()) return std::nullopt;
  return static_cast<Metric>(it - results::kMetricNames.begin());
}

/// Keeps one run's operations and messages, and over all runs the stages of what is not cold.
class Watcher : public results::Keeper {
 public:
  Watcher(results::Observed& observed, results::StageTimes& stages)
      : Keeper(observed), stages_(stages) {}
  /// cold: so many messages of each lane are left out.
  void begin(std::uint64_t cold) { cold_ = cold; }
  void on_journey(const Journey& journey) override {
    Keeper::on_journey(journey);
    if (journey.pe == 0 && journey.op >= cold_) stages_.add(journey);
  }

 private:
  results::StageTimes& stages_;
  std::uint64_t cold_ = 0;
};

class Simulation {
 public:
  Simulation(const Study& study, const Setup& setup)
      : study_(study),
        setup_(setup),
        machine_(config::bind(config::load_system(setup.system, setup.system_sets))) {
    for (const std::string& name : study.metrics)
      if (const auto metric = metric_named(name)) samples_[*metric];
  }

  void draw(std::uint64_t seed) {
    if (study_.trace.empty())
      do_work(seed);
    else
      replay(seed);
  }

  Outcome outcome() const {
    Outcome outcome;
    const auto quantiles = [&](const std::string& name, const auto& at) {
      const double p[] = {0.5, 0.9, 0.99};
      for (std::size_t i = 0; i < kQuantiles.size(); ++i)
        outcome.metrics.emplace_back(name + "_" + kQuantiles[i], at(p[i]));
    };
    const auto of_stage = [&](const results::StageRow& row, const std::string& name) {
      quantiles(name, [&](double p) {
        return static_cast<double>(row.times->quantile(p)) / static_cast<double>(kPsPerNs);
      });
    };
    const std::vector<results::StageRow> rows = stages_.rows();
    for (const std::string& name : study_.metrics) {
      if (const auto metric = metric_named(name)) {
        const std::vector<double>& values = samples_.at(*metric);
        if (values.empty()) continue;
        if (is_time(*metric))
          quantiles(name, [&](double p) { return results::quantile(values, p); });
        else
          outcome.metrics.emplace_back(main_column(name), results::quantile(values, 0.5));
      } else if (name == "end_to_end") {
        for (const results::StageRow& row : rows)
          if (row.stage == name) of_stage(row, name);
      } else {
        for (const results::StageRow& row : rows) {
          if (!row.tiles) continue;
          of_stage(row, fmt::format("stage.{}", row.stage));
          outcome.metrics.emplace_back(fmt::format("stage.{}_share", row.stage), row.share);
        }
      }
    }
    return outcome;
  }

 private:
  void pool(const results::Observed& observed) {
    for (auto& [metric, values] : samples_) {
      const std::vector<double> of_run = samples(metric, observed);
      values.insert(values.end(), of_run.begin(), of_run.end());
    }
  }

  std::function<void(Placement&)> placing() const {
    if (setup_.placement == PlacementKind::kDrawn) return {};
    return
        [far = setup_.placement == PlacementKind::kFar](Placement& drawn) { drawn.put_all(far); };
  }

  void do_work(std::uint64_t seed) {
    const config::Recipe recipe = config::load_recipe(setup_.protocol, {}, setup_.protocol_sets);
    results::Observed observed;
    Watcher watcher(observed, stages_);
    const auto& does = setup_.work.does;
    const auto messages = std::count_if(does.begin(), does.end(), is_message);
    watcher.begin(static_cast<std::uint64_t>(messages * setup_.work.rounds / 10));
    sim::WorkSetup work{study_.name, seed, &watcher, {}};
    if (const auto place = placing())
      work.place = [place](const QueueLayout&, Placement& drawn) { place(drawn); };
    run_work(machine_, recipe, setup_.work, work);
    pool(observed);
  }

  void replay(std::uint64_t seed) {
    trace::Reader reader(study_.trace);
    results::Observed observed;
    std::optional<Watcher> watcher;
    /// A fresh watcher for every run: their times all start at 0.
    class Forward : public Observer {
     public:
      explicit Forward(std::optional<Watcher>& to) : to_(to) {}
      void on_journey(const Journey& journey) override { to_->on_journey(journey); }
      void on_operation(const Operation& operation) override { to_->on_operation(operation); }

     private:
      std::optional<Watcher>& to_;
    } forward(watcher);
    sim::ReplayOptions options;
    options.config_dir = study_.config_dir;
    if (!setup_.protocol.empty()) options.protocol = setup_.protocol;
    options.protocol_sets = setup_.protocol_sets;
    options.seed = seed;
    options.selects = [&](const trace::Run& run) {
      return sim::run_selected(study_.only, run.name);
    };
    options.on_run = [&](std::uint32_t, const trace::Run& run, const config::Recipe&) {
      observed = {};
      watcher.emplace(observed, stages_);
      watcher->begin(run.puts_per_lane / 10);
    };
    options.on_run_end = [&](std::uint32_t, const trace::Run&) { pool(observed); };
    if (const auto place = placing())
      options.place = [place](const trace::Run&, const config::Recipe&, const QueueLayout&,
                              Placement& drawn) { place(drawn); };
    if (sim::replay(reader, machine_, options, &forward) == 0)
      throw InputError(study_.file, "only: no run of " + study_.trace + " is named so",
                       "`marrow trace info` lists them");
  }

  const Study& study_;
  const Setup& setup_;
  sim::Machine machine_;
  std::map<Metric, std::vector<double>> samples_;
  results::StageTimes stages_;
};

}  // namespace

Outcome simulate(const Study& study, const Point& point) {
  const Setup setup = setup_of(study, point);
  Simulation simulation(study, setup);
  for (std::uint64_t seed = 1; seed <= study.draws; ++seed) simulation.draw(seed);
  return simulation.outcome();
}

std::string as_line(const Outcome& outcome) {
  nlohmann::ordered_json json;
  if (!outcome.error.empty()) {
    json["error"] = outcome.error;
  } else {
    json["metrics"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : outcome.metrics) json["metrics"][name] = value;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Outcome from_line(const std::string& line) {
  const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
  Outcome outcome;
  const bool failed = json.is_object() && json.contains("error") && json["error"].is_string();
  if (!failed && !(json.is_object() && json.contains("metrics") && json["metrics"].is_object())) {
    outcome.error = "its simulation ended without a result";
    return outcome;
  }
  if (failed) outcome.error = json["error"].get<std::string>();
  if (json.contains("metrics"))
    for (const auto& [name, value] : json["metrics"].items())
      if (value.is_number()) outcome.metrics.emplace_back(name, value.get<double>());
  return outcome;
}

std::string simulate_to_line(const Study& study, const Point& point) {
  Outcome outcome;
  try {
    outcome = simulate(study, point);
    if (outcome.metrics.empty()) outcome.error = "its work shows none of the study's metrics";
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return as_line(outcome);
}

std::string main_column(const std::string& metric) {
  if (metric == "rate") return "rate_mmsg_per_s";
  if (metric == "goodput") return "goodput_gb_per_s";
  return metric + "_median_ns";
}

std::vector<std::string> possible_columns(const Study& study) {
  std::vector<std::string> columns;
  const auto times = [&](const std::string& name) {
    for (const std::string& quantile : kQuantiles) columns.push_back(name + "_" + quantile);
  };
  for (const std::string& metric : study.metrics) {
    if (metric == "rate" || metric == "goodput") {
      columns.push_back(main_column(metric));
    } else if (metric == "stages") {
      for (const std::string_view stage : kStageNames) {
        times(fmt::format("stage.{}", stage));
        columns.push_back(fmt::format("stage.{}_share", stage));
      }
    } else {
      times(metric);
    }
  }
  return columns;
}

}  // namespace marrow::sweep
