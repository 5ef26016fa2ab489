#include "validate/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "models/common/error.h"
#include "models/common/random.h"
#include "sim/config/system.h"
#include "sim/fork_pool.h"
#include "sim/machine.h"
#include "sim/sweep/journal.h"
#include "validate/compare.h"

namespace marrow::calibrate {

namespace {

using Json = nlohmann::ordered_json;

// A capture's medians: what its runs do not show (another allocation, another day).
constexpr double kCaptured = 0.03;

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool is_whole(const config::Parameter& parameter) {
  const std::string_view unit = config::unit_of(parameter.key);
  return unit == "count" || unit == "bytes";
}
/// Not fitted unless it is named: a clock, a specification's number, nothing at all, what no
/// prediction moves with.
bool is_fact(const config::Parameter& parameter) {
  return is_whole(parameter) || config::unit_of(parameter.key) == "ghz" || parameter.value == 0 ||
         parameter.key.starts_with("prediction.") ||
         (parameter.evidence == config::Evidence::kPublished && !parameter.interval);
}

Knob knob_of(const config::Parameter& parameter) {
  const config::Declaration& declared = *parameter.declaration;
  Knob knob{parameter.key, parameter.value, parameter.value / 2, parameter.value * 2, 0};
  if (parameter.interval) {
    const auto [low, high] = *parameter.interval;
    knob.known_width = high - low;
    // Another machine may lie outside, unless a specification says what there can be.
    const bool published = parameter.evidence == config::Evidence::kPublished;
    knob.low = published ? low : std::min(knob.low, low - knob.known_width);
    knob.high = published ? high : std::max(knob.high, high + knob.known_width);
  }
  knob.low = std::max(knob.low, declared.min);
  knob.high = std::min(knob.high, declared.max);
  if (knob.known_width <= 0) knob.known_width = (knob.high - knob.low) / 2;
  if (knob.high <= knob.low)
    throw InputError(parameter.key, "has no range to search",
                     "give it another value or an interval in the system's file");
  return knob;
}

/// Captured rows worth fitting to, as JSON: {label, kind, measured, predicted}.
Json captured_rows(const validate::Comparison& comparison) {
  Json rows = Json::array();
  for (const validate::Row& row : comparison.rows)
    if (row.scored && row.stable && row.stage != "put")
      rows.push_back({{"label", row.run + " " + row.stage},
                      {"kind", row.stage},
                      {"measured", row.measured.median},
                      {"predicted", row.predicted.median}});
  return rows;
}

Json capture_at(const Inputs& inputs, const config::ParameterSet& parameters,
                const std::string& file) {
  const config::SystemSpec spec = config::bind(parameters);
  sim::Machine machine(spec);
  validate::Options options;
  options.config_dir = inputs.config_dir;
  options.system = parameters.system();
  options.trace_file = file;
  return captured_rows(validate::compare(machine, machine, spec, options));
}

/// Does it in a process of its own, so that this one elaborates nothing.
Json elsewhere(const std::function<Json()>& work) {
  sim::ForkPool pool(1);
  pool.start(0, [&] {
    try {
      return work().dump();
    } catch (const std::exception& error) {
      return Json({{"error", error.what()}}).dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  });
  const auto ended = pool.wait();
  Json json = Json::parse(ended.front().said, nullptr, false);
  if (json.is_discarded()) throw InputError("calibration", ended.front().fault);
  return json;
}

}  // namespace

Problem::Problem(const Inputs& inputs)
    : inputs_(inputs), parameters_(config::load_system(inputs.system)) {
  choose_knobs();
  read_probes();
  read_captures();
  if (rows_.empty())
    throw InputError(inputs.probes.empty() ? inputs.captures.front() : inputs.probes.front(),
                     "no row of it is predicted by the models",
                     "give the file of a probe with L2, fence and host rows");
  hold_out();
}

void Problem::choose_knobs() {
  if (!inputs_.keys.empty()) {
    for (const std::string& key : inputs_.keys) {
      const config::Parameter& parameter = parameters_.need(key, "--parameters " + key);
      if (is_whole(parameter))
        throw InputError("--parameters " + key, "is a whole number, which no fit finds",
                         "read it off the machine, or compare values with `marrow sweep`");
      if (std::none_of(knobs_.begin(), knobs_.end(), [&](const Knob& k) { return k.key == key; }))
        knobs_.push_back(knob_of(parameter));
    }
    return;
  }
  std::vector<std::string> groups;
  for (const config::Parameter& parameter : parameters_.all()) {
    for (std::size_t dot = parameter.key.find('.'); dot != std::string::npos;
         dot = parameter.key.find('.', dot + 1))
      groups.push_back(parameter.key.substr(0, dot));
    const bool inside = inputs_.group.empty() || parameter.key.starts_with(inputs_.group + ".");
    if (inside && !is_fact(parameter)) knobs_.push_back(knob_of(parameter));
  }
  if (!knobs_.empty()) return;
  const std::vector<std::string_view> known(groups.begin(), groups.end());
  const std::string near = config::nearest(inputs_.group, known);
  throw InputError("--parameters-from " + inputs_.group,
                   "the system has no group of this name with parameters to fit",
                   near.empty() ? "`marrow config show` lists them" : "did you mean " + near + "?");
}

void Problem::read_probes() {
  const config::SystemSpec spec = config::bind(parameters_);
  std::string gpu;
  for (const std::string& path : inputs_.probes) {
    const validate::ProbeFile file = validate::load_probe(path);
    if (!file.date.empty()) dates_.push_back(file.date);
    if (!file.whole && file.marrow_probe)
      throw InputError(path, "ends without the row that is measured last (sm_clock, end)",
                       "take the whole file: this one was cut");
    if (!file.whole)
      warnings_.push_back(path + ": ends without the row 'sm_clock, end': was it cut?");
    if (file.clock_changed)
      warnings_.push_back(path +
                          ": the SM clock moved while it was measured: its cycles do not "
                          "compare; measure again");
    for (const auto& [key, value] : file.facts)
      if (parameters_.has(key) && parameters_.get(key) != value)
        warnings_.push_back(fmt::format(
            "{}: measured on a machine ({}) with {} {}, the system has {}: another GPU or slot?",
            path, file.gpu, key, value, parameters_.get(key)));
    if (!gpu.empty() && gpu != file.gpu)
      warnings_.push_back(path + ": is of a " + file.gpu + ", the probe before it of a " + gpu);
    gpu = file.gpu;
    const validate::ProbeReading reading = validate::read_quantities(file, spec);
    for (const auto& [reason, count] : reading.unpredicted) unpredicted_[reason] += count;
    for (const validate::ProbeQuantity& quantity : reading.quantities) {
      const validate::ProbeRow& row = file.rows[quantity.row];
      rows_.push_back({path,
                       row.place,
                       validate::label_of(row),
                       row.unit,
                       quantity.model,
                       {quantity.measured, quantity.uncertainty, false}});
      if (quantity.statistic != validate::Statistic::kMedian)
        rows_.back().label += std::string(", ") + std::string(validate::name(quantity.statistic));
      models_.push_back(quantity.model);
    }
  }
}

void Problem::read_captures() {
  for (const std::string& path : inputs_.captures) {
    const Json rows = elsewhere([&] { return capture_at(inputs_, parameters_, path); });
    if (rows.is_object()) throw InputError(path, rows["error"].get<std::string>());
    for (const auto& row : rows) {
      const double measured = row["measured"].get<double>();
      rows_.push_back({path,
                       path,
                       row["label"],
                       "cycles",
                       row["kind"],
                       {measured, kCaptured * measured, false}});
    }
  }
}

void Problem::hold_out() {
  // Only rows that are not the only ones of their kind: what they tell is told by others too.
  std::map<std::string, std::vector<std::size_t>> kinds;
  for (std::size_t r = 0; r < rows_.size(); ++r)
    kinds[rows_[r].file + '\n' + rows_[r].kind].push_back(r);
  std::vector<std::size_t> candidates;
  Random random(inputs_.seed + 1);
  for (int i = 0; i < 64; ++i) random.next();
  const auto draw = [&](std::size_t below) {
    return static_cast<std::size_t>(random.unit() * static_cast<double>(below));
  };
  for (auto& [kind, rows] : kinds) {
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(draw(rows.size())));
    candidates.insert(candidates.end(), rows.begin(), rows.end());
  }
  for (std::size_t i = candidates.size(); i > 1; --i)
    std::swap(candidates[i - 1], candidates[draw(i)]);
  const auto count = static_cast<std::size_t>(inputs_.hold_out * static_cast<double>(rows_.size()));
  for (std::size_t i = 0; i < std::min(count, candidates.size()); ++i)
    rows_[candidates[i]].datum.held_out = true;
}

std::string Problem::dates() const {
  const std::set<std::string> all(dates_.begin(), dates_.end());
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string Problem::fingerprint() const {
  std::vector<std::string> texts;
  for (const config::Parameter& parameter : parameters_.all())
    texts.push_back(fmt::format("{}={}", parameter.key, parameter.value));
  for (const Knob& knob : knobs_)
    texts.push_back(fmt::format("{} {} {} {}", knob.key, knob.low, knob.high, knob.known_width));
  for (const auto& list : {inputs_.probes, inputs_.captures})
    for (const std::string& path : list) texts.push_back(text_of(path));
  texts.push_back(fmt::format("{} {}", inputs_.hold_out, inputs_.seed));
  return sweep::fingerprint(texts);
}

std::string Problem::job_text(const std::vector<double>& point) { return Json(point).dump(); }

std::string Problem::work(const sweep::Job& job) const {
  try {
    return Json(predict(Json::parse(job.text).get<std::vector<double>>())).dump();
  } catch (const std::exception& error) {
    return Json({{"error", error.what()}}).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

std::vector<double> Problem::predict(const std::vector<double>& point) const {
  config::ParameterSet parameters = parameters_;
  for (std::size_t k = 0; k < knobs_.size(); ++k)
    parameters.set(fmt::format("{}={}", knobs_[k].key, point[k]));
  std::vector<double> predicted;
  if (!models_.empty()) {
    validate::GpuProbe probe(config::bind(parameters));
    for (const std::string& model : models_) predicted.push_back(probe.predict(model));
  }
  for (const std::string& path : inputs_.captures)
    for (const auto& row : capture_at(inputs_, parameters, path))
      predicted.push_back(row["predicted"].get<double>());
  if (predicted.size() != rows_.size())
    throw InputError("calibration", "a capture's rows changed with the parameters");
  return predicted;
}

Fit solve(const Problem& problem, sweep::JobRunner& runner, sweep::Journal& journal,
          const FitOptions& options, const std::function<void(std::size_t fresh)>& on_done) {
  std::vector<Datum> data;
  for (const Row& row : problem.rows()) data.push_back(row.datum);
  std::size_t asked = 0;  // evaluations have numbers that do not depend on who does them
  const Evaluate evaluate = [&](const std::vector<std::vector<double>>& points) {
    std::vector<sweep::Job> todo;
    for (std::size_t p = 0; p < points.size(); ++p)
      if (!journal.lines().count(asked + p))
        todo.push_back({asked + p, Problem::job_text(points[p])});
    runner.run(todo, [&](std::size_t number, const std::string& line, const std::string& fault) {
      if (!fault.empty()) throw InputError("calibration", fault);
      journal.add(number, line);
      if (on_done) on_done(1);
    });
    std::vector<std::vector<double>> predictions;
    for (std::size_t p = 0; p < points.size(); ++p) {
      const Json line = Json::parse(journal.lines().at(asked + p), nullptr, false);
      if (!line.is_array() || !std::all_of(line.begin(), line.end(),
                                           [](const Json& value) { return value.is_number(); }))
        throw InputError("calibration",
                         line.is_object() && line.contains("error") && line["error"].is_string()
                             ? line["error"].get<std::string>()
                             : "an evaluation ended without a result",
                         "remove the journal beside --out if it was damaged, and start again");
      predictions.push_back(line.get<std::vector<double>>());
    }
    asked += points.size();
    return predictions;
  };
  return fit(problem.knobs(), data, evaluate, options);
}

}  // namespace marrow::calibrate
