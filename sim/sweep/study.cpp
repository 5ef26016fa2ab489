#include "sim/sweep/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/config/yaml_source.h"

namespace marrow::sweep {

namespace {

using config::YamlNode;
namespace fs = std::filesystem;

const std::string kProtocolPrefix = "protocol.", kWorkPrefix = "work.";
constexpr std::size_t kMostPoints = 1'000'000;

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    return std::nullopt;
  return number;
}

/// A name is looked up in `folder`; a path is one from the study's own folder on.
std::string file_of(const std::string& name, const std::string& folder, const Study& study) {
  if (name.find('/') == std::string::npos && !name.ends_with(".yaml"))
    return study.config_dir + "/" + folder + "/" + name + ".yaml";
  const fs::path path(name);
  return path.is_absolute() ? name : (fs::path(study.file).parent_path() / path).string();
}

std::string known_in(const std::string& folder, const Study& study) {
  std::vector<std::string> known;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(study.config_dir + "/" + folder, ignored))
    if (entry.path().extension() == ".yaml") known.push_back(entry.path().stem().string());
  std::sort(known.begin(), known.end());
  return fmt::format("known: {}", fmt::join(known, ", "));
}

std::string existing(const std::string& name, const std::string& folder, const std::string& what,
                     const std::string& place, const Study& study) {
  const std::string file = file_of(name, folder, study);
  if (!fs::is_regular_file(file))
    throw InputError(place, fmt::format("there is no {} \"{}\" ({})", what, name, file),
                     known_in(folder, study));
  return file;
}

PlacementKind placement_named(const std::string& text, const std::string& place) {
  if (text == "drawn") return PlacementKind::kDrawn;
  if (text == "near") return PlacementKind::kNear;
  if (text == "far") return PlacementKind::kFar;
  throw InputError(place, fmt::format("\"{}\" is no placement", text), "write drawn, near or far");
}

void apply_set(Setup& setup, const std::string& assignment) {
  if (assignment.starts_with(kProtocolPrefix))
    setup.protocol_sets.push_back(assignment.substr(kProtocolPrefix.size()));
  else
    setup.system_sets.push_back(assignment);
}

/// A list's entries (or a value alone), none of which may stand twice.
std::vector<YamlNode> distinct(const YamlNode& list) {
  std::set<std::string> seen;
  std::vector<YamlNode> items = list.one_or_more();
  for (const YamlNode& item : items)
    if (!seen.insert(item.text()).second) item.fail("stands twice", "remove one of them");
  return items;
}

/// What the base has of a key. Its label is "base" where only the model knows.
class BaseValues {
 public:
  explicit BaseValues(const Study& study)
      : study_(study), parameters_(config::load_system(study.base.system, study.base.system_sets)) {
    if (!study.base.protocol.empty())
      recipe_ = config::load_recipe(study.base.protocol, {}, study.base.protocol_sets);
  }

  Value of(const std::string& key) const {
    if (key == "system") return text(fs::path(study_.base.system).stem().string());
    if (key == "protocol" && recipe_) return text(fs::path(study_.base.protocol).stem().string());
    if (key == "placement")
      return text(study_.base.placement == PlacementKind::kDrawn  ? "drawn"
                  : study_.base.placement == PlacementKind::kNear ? "near"
                                                                  : "far");
    if (key.starts_with(kWorkPrefix)) {
      const auto* of_work = sim::work_number(key.substr(kWorkPrefix.size()));
      return of_work ? number(static_cast<double>(study_.base.work.*of_work->field)) : text("base");
    }
    if (key.starts_with(kProtocolPrefix) && recipe_) {
      const std::string own = key.substr(kProtocolPrefix.size());
      for (const config::RecipeCost& cost : recipe_->costs)
        if (cost.key == own) return number(cost.value);
      if (const auto it = recipe_->choices.find(own); it != recipe_->choices.end())
        return text(it->second);
      return text("base");
    }
    if (parameters_.has(key)) return number(parameters_.get(key));
    return text("base");
  }

  /// What the base's value rests on: the class of its source; empty for a choice or a load.
  std::string evidence(const std::string& key) const {
    if (key.starts_with(kProtocolPrefix) && recipe_)
      for (const config::RecipeCost& cost : recipe_->costs)
        if (cost.key == key.substr(kProtocolPrefix.size()))
          return std::string(config::name(cost.evidence));
    if (parameters_.has(key)) return std::string(config::name(parameters_.parameter(key).evidence));
    return "";
  }

  /// Keys that "nic.*" or "protocol.*" stands for: what can be scaled by a few percent.
  std::vector<std::string> matching(const std::string& prefix) const {
    std::vector<std::string> keys;
    if (prefix == kProtocolPrefix && recipe_)
      for (const config::RecipeCost& cost : recipe_->costs)
        if (cost.value > 0) keys.push_back(kProtocolPrefix + cost.key);
    for (const config::Parameter& parameter : parameters_.all())
      if (parameter.key.starts_with(prefix) && parameter.value > 0 && !is_whole(parameter.key))
        keys.push_back(parameter.key);
    return keys;
  }

  static bool is_whole(const std::string& key) {
    const std::string_view unit = config::unit_of(key);
    return key.starts_with(kWorkPrefix) || unit == "count" || unit == "bytes";
  }

 private:
  static Value text(const std::string& text) { return {text, number_of(text), {}}; }
  static Value number(double number) { return {number_text(number), number, {}}; }

  const Study& study_;
  config::ParameterSet parameters_;
  std::optional<config::Recipe> recipe_;
};

void add_value(Axis& axis, const std::string& label) {
  Value value{label, number_of(label), {}};
  for (const std::string& key : axis.keys) value.settings.emplace_back(key, label);
  for (const Value& other : axis.values)
    if (other.label == value.label) return;  // rounding to whole numbers may repeat one
  axis.values.push_back(std::move(value));
}

void add_number(Axis& axis, double number) {
  add_value(axis, number_text(axis.whole ? std::round(number) : number));
}

/// {from, to, step | factor}; in a Latin hypercube {from, to, scale}.
void read_range(Axis& axis, const YamlNode& node, Mode mode) {
  axis.from = node.at("from").number();
  axis.to = node.at("to").number();
  if (axis.to <= axis.from)
    node.at("to").fail("is not above \"from\"", "write the smaller number first");
  const auto step = node.find("step"), factor = node.find("factor");
  if (step && factor) factor->fail("stands beside \"step\"", "keep one of them");
  const double slack = 1 + 1e-9;
  if (step) {
    const double by = step->number();
    if (by <= 0) step->fail("is not above 0", "write a positive step");
    const double count = (axis.to - axis.from) / by * slack;
    if (count > kMostPoints) step->fail("makes too many values", "write a larger step");
    for (std::size_t i = 0; i <= static_cast<std::size_t>(count); ++i)
      add_number(axis, axis.from + static_cast<double>(i) * by);
  } else if (factor) {
    const double by = factor->number();
    if (by <= 1) factor->fail("is not above 1", "write \"factor: 2\"");
    if (axis.from <= 0)
      node.at("from").fail("is not above 0, from where no factor leads on", "use \"step\"");
    if (std::log(axis.to / axis.from) / std::log(by) > kMostPoints)
      factor->fail("makes too many values", "write a larger factor");
    for (double at = axis.from; at <= axis.to * slack; at *= by) add_number(axis, at);
  } else if (mode != Mode::kLatinHypercube) {
    node.fail("has neither \"step\" nor \"factor\"", "add \"step: 1\" or \"factor: 2\"");
  }
  if (const auto scale = node.find("scale")) {
    if (step || factor || mode != Mode::kLatinHypercube)
      scale->fail("is for a whole range in a Latin hypercube",
                  "remove it; \"factor\" makes logarithmic steps");
    axis.logarithmic = scale->one_of({"linear", "log"}) == "log";
    if (axis.logarithmic && axis.from <= 0)
      node.at("from").fail("is not above 0, which has no logarithm", "use \"scale: linear\"");
  }
}

void read_percent(Axis& axis, const YamlNode& node, Mode mode) {
  const double percent = node.number(0, 100);
  if (!axis.base.number || *axis.base.number == 0)
    node.fail(fmt::format("{} has no number at the base to take percent of",
                          axis.keys.empty() ? axis.name : axis.keys.front()),
              "list its values");
  axis.from = *axis.base.number * (1 - percent / 100);
  axis.to = *axis.base.number * (1 + percent / 100);
  if (mode == Mode::kLatinHypercube) return;
  add_number(axis, axis.from);
  add_number(axis, axis.to);
}

void read_cases(Axis& axis, const YamlNode& node) {
  for (const auto& [label, settings] : node.entries()) {
    Value value{label, std::nullopt, {}};
    for (const auto& [key, child] : settings.entries())
      value.settings.emplace_back(key, child.text());
    axis.values.push_back(std::move(value));
  }
  axis.base = {"base", std::nullopt, {}};
}

Axis read_axis(const std::string& name, const YamlNode& node, const BaseValues& base, Mode mode) {
  Axis axis;
  axis.name = name;
  axis.place = node.place();
  axis.keys = {name};
  if (!node.is_list()) {
    if (node.has("cases")) {
      node.only({"cases"});
      axis.keys.clear();
      read_cases(axis, node.at("cases"));
      return axis;
    }
    node.only({"keys", "values", "from", "to", "step", "factor", "scale", "percent"});
    if (const auto keys = node.find("keys")) {
      axis.keys.clear();
      for (const YamlNode& key : distinct(*keys)) axis.keys.push_back(key.text());
      if (axis.keys.empty()) keys->fail("is empty", "name the keys that change together");
    }
  }
  axis.base = base.of(axis.keys.front());
  axis.evidence = base.evidence(axis.keys.front());
  axis.whole = BaseValues::is_whole(axis.keys.front());
  const auto list = node.is_list() ? std::optional(node) : node.find("values");
  if (list) {
    if (!node.is_list() && (node.has("from") || node.has("percent")))
      list->fail("stands beside a range", "keep one of them");
    for (const YamlNode& item : distinct(*list)) add_value(axis, item.text());
    if (axis.values.empty()) list->fail("is empty", "list the values to try");
  } else if (const auto percent = node.find("percent")) {
    if (node.has("from")) percent->fail("stands beside a range", "keep one of them");
    read_percent(axis, *percent, mode);
  } else {
    read_range(axis, node, mode);
  }
  return axis;
}

/// What the simulation would load; throws InputError where a setup cannot be.
void check(const Setup& setup) {
  config::load_system(setup.system, setup.system_sets);
  if (!setup.protocol.empty()) config::load_recipe(setup.protocol, {}, setup.protocol_sets);
}

/// An axis none of whose values can be is a mistake in the study, not a point that fails.
void check_axis(const Study& study, const Axis& axis) {
  std::vector<Value> values = axis.values;
  if (values.empty())
    for (const double end : {axis.from, axis.to}) {
      Value value{number_text(axis.whole ? std::round(end) : end), end, {}};
      for (const std::string& key : axis.keys) value.settings.emplace_back(key, value.label);
      values.push_back(std::move(value));
    }
  // A name that leads nowhere is a mistake even beside others that do.
  for (const Value& value : values)
    for (const auto& [key, text] : value.settings)
      if (key == "system" || key == "protocol") existing(text, key + "s", key, axis.place, study);
  std::string first;
  for (const Value& value : values) {
    try {
      Setup setup = study.base;
      apply(setup, value, study);
      check(setup);
      return;
    } catch (const InputError& error) {
      if (first.empty()) first = error.what();
    }
  }
  throw InputError(axis.place, fmt::format("axes.{}: no value of it can be: {}", axis.name, first));
}

void read_metrics(Study& study, const YamlNode& root) {
  study.metrics = {"put_completion", "round_trip", "issue", "end_to_end",
                   "rate",           "goodput",    "stages"};
  if (const auto node = root.find("metrics")) {
    study.metrics.clear();
    for (const YamlNode& item : distinct(*node))
      study.metrics.push_back(
          item.one_of({"issue", "put_completion", "doorbell_to_completion", "round_trip", "one_way",
                       "rate", "goodput", "end_to_end", "stages"}));
    if (study.metrics.empty()) node->fail("is empty", "write [put_completion, stages]");
  }
  if (const auto node = root.find("target")) {
    study.target = node->text();
    if (study.target == "stages" ||
        std::find(study.metrics.begin(), study.metrics.end(), study.target) == study.metrics.end())
      node->fail(fmt::format("\"{}\" is none of the study's metrics", study.target),
                 fmt::format("one of {}", fmt::join(study.metrics, ", ")));
  }
}

void read_choose_for(Study& study, const YamlNode& node) {
  if (study.mode != Mode::kGrid) node.fail("is for \"mode: grid\" alone", "remove it");
  if (study.metrics == std::vector<std::string>{"stages"})
    node.fail("has nothing to rank by: stages are no metric of a point",
              "add one to metrics, as put_completion");
  std::vector<std::string> axes;
  for (const Axis& axis : study.axes) axes.push_back(axis.name);
  for (const YamlNode& item : distinct(node)) {
    study.choose_for.push_back(item.text());
    if (std::find(axes.begin(), axes.end(), item.text()) == axes.end())
      item.fail(fmt::format("\"{}\" is none of the study's axes", item.text()),
                fmt::format("one of {}", fmt::join(axes, ", ")));
  }
  if (study.choose_for.size() >= axes.size())
    node.fail("leaves nothing to choose", "name the axes that a program finds given");
}

}  // namespace

std::string_view name(Mode mode) {
  return mode == Mode::kGrid         ? "grid"
         : mode == Mode::kOneAtATime ? "one_at_a_time"
                                     : "latin_hypercube";
}

std::string number_text(double number) { return fmt::format("{:.12g}", number); }

void apply(Setup& setup, const Value& value, const Study& study) {
  for (const auto& [key, text] : value.settings) {
    const std::string place = key + "=" + text;
    if (key == "system") {
      setup.system = existing(text, "systems", "system", place, study);
    } else if (key == "protocol") {
      setup.protocol = existing(text, "protocols", "protocol", place, study);
    } else if (key == "placement") {
      setup.placement = placement_named(text, place);
    } else if (key.starts_with(kWorkPrefix)) {
      const auto* number = sim::work_number(key.substr(kWorkPrefix.size()));
      if (number == nullptr)
        throw InputError(place, "the work has no such number",
                         "known: work.warps, work.queues, work.sms, work.rounds, work.bytes, "
                         "work.gap_cycles, work.wait_every");
      if (!study.trace.empty())
        throw InputError(place, "the study replays a trace, which says itself what is done",
                         "write \"work\" instead of \"trace\"");
      const double wanted = config::parse_number(text, place, key);
      if (wanted != std::floor(wanted) || wanted < static_cast<double>(number->least) ||
          wanted > static_cast<double>(number->most))
        throw InputError(
            place, "is out of range",
            fmt::format("write a whole number, {} to {}", number->least, number->most));
      setup.work.*number->field = static_cast<std::int64_t>(wanted);
    } else {
      apply_set(setup, place);
    }
  }
}

Study load_study(const std::string& file, const std::string& config_dir) {
  const YamlNode root = YamlNode::open(file);
  root.only({"study", "question", "system", "protocol", "set", "work", "trace", "only", "placement",
             "mode", "points", "seed", "draws", "axes", "metrics", "target", "choose_for"});
  Study study;
  study.file = file;
  study.config_dir = config_dir;
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  study.text = text.str();
  study.name = root.at("study").text();
  if (study.name.find('/') != std::string::npos)
    root.at("study").fail("holds a slash", "write a name, as pcie-generation");
  if (const auto node = root.find("question")) study.question = node->text();

  const YamlNode system = root.at("system");
  study.base.system = existing(system.text(), "systems", "system", system.place(), study);
  const auto work = root.find("work"), trace = root.find("trace"), protocol = root.find("protocol");
  if (!work == !trace)
    root.fail(work ? "has both \"work\" and \"trace\"" : "has neither \"work\" nor \"trace\"",
              "write one: work: {does: [put, quiet], rounds: 200, bytes: 8}");
  if (protocol)
    study.base.protocol =
        existing(protocol->text(), "protocols", "protocol", protocol->place(), study);
  if (work) {
    sim::read_work(*work, study.base.work);
    if (study.base.work.does.empty()) work->fail("has no \"does\"", "add \"does: [put, quiet]\"");
    if (!protocol) root.fail("no key \"protocol\"", "add \"protocol: mini-gda\"");
  }
  if (trace) {
    study.trace = trace->text();
    if (!fs::path(study.trace).is_absolute())
      study.trace = (fs::path(file).parent_path() / study.trace).lexically_normal().string();
    if (!fs::is_regular_file(study.trace))
      trace->fail(fmt::format("there is no file {}", study.trace),
                  "the path counts from the study's folder");
  }
  if (const auto only = root.find("only")) {
    if (!trace) only->fail("is for a trace's runs", "remove it");
    for (const YamlNode& item : only->one_or_more()) study.only.push_back(item.text());
  }
  if (const auto node = root.find("placement"))
    study.base.placement = placement_named(node->text(), node->place());
  if (const auto sets = root.find("set"))
    for (const YamlNode& item : sets->one_or_more()) apply_set(study.base, item.text());
  try {
    check(study.base);
  } catch (const InputError& error) {
    (root.has("set") ? root.at("set") : system).fail(error.what());
  }

  const std::string mode = root.at("mode").one_of({"grid", "one_at_a_time", "latin_hypercube"});
  study.mode = mode == "grid"            ? Mode::kGrid
               : mode == "one_at_a_time" ? Mode::kOneAtATime
                                         : Mode::kLatinHypercube;
  if (study.mode == Mode::kLatinHypercube)
    study.points = static_cast<std::size_t>(root.at("points").integer(2, kMostPoints));
  for (const char* key : {"points", "seed"})
    if (root.has(key) && study.mode != Mode::kLatinHypercube)
      root.at(key).fail("is for \"mode: latin_hypercube\" alone", "remove it");
  if (const auto node = root.find("seed"))
    study.seed = static_cast<std::uint64_t>(node->integer(0));
  if (const auto node = root.find("draws"))
    study.draws = static_cast<std::uint64_t>(node->integer(1, 1000));
  read_metrics(study, root);

  const BaseValues base(study);
  const YamlNode axes = root.at("axes");
  for (const auto& [name, node] : axes.entries()) {
    std::vector<std::string> names = {name};
    if (name.ends_with(".*")) {
      names = base.matching(name.substr(0, name.size() - 1));
      if (names.empty())
        node.fail("no parameter or cost above 0 begins so", "`marrow config show` lists the keys");
      node.only({"percent"});
      node.at("percent");
    }
    for (const std::string& one : names) {
      for (const Axis& other : study.axes)
        if (other.name == one) node.fail(one + " is an axis already", "remove one of them");
      study.axes.push_back(read_axis(one, node, base, study.mode));
      check_axis(study, study.axes.back());
    }
  }
  if (study.axes.empty()) axes.fail("is empty", "name what to vary: pcie.lanes_count: [8, 16]");
  double product = 1;
  if (study.mode == Mode::kGrid)
    for (const Axis& axis : study.axes) product *= static_cast<double>(axis.values.size());
  if (product > kMostPoints)
    axes.fail(fmt::format("make a grid of {:.3g} points", product),
              "list fewer values, or use \"mode: latin_hypercube\"");
  if (const auto node = root.find("choose_for")) read_choose_for(study, *node);
  return study;
}

}  // namespace marrow::sweep
