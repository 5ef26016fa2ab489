#include "sim/config/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <unordered_set>

#include "models/common/error.h"
#include "sim/config/yaml_source.h"

namespace marrow::config {
namespace {

constexpr std::array kEvidence = {Evidence::kMeasured, Evidence::kPublished, Evidence::kDerived,
                                  Evidence::kFitted, Evidence::kAssumed};
constexpr std::string_view kSources = "measured, published, derived, fitted or assumed";

constexpr auto kUnits = std::to_array<std::string_view>(
    {"cycles", "ns", "us", "ghz", "gbps", "gtps", "bytes", "count", "ratio", "percent"});
// Not used by any key, but what a user may write for one of the above.
constexpr auto kForeignUnits = std::to_array<std::string_view>(
    {"cycle", "ps",   "ms",  "s",      "sec",   "hz",  "khz", "mhz",    "bps",      "kbps",
     "mbps",  "tbps", "gbs", "gbytes", "gbyte", "gib", "gts", "mtps",   "b",        "byte",
     "bit",   "bits", "kb",  "kib",    "mb",    "mib", "gb",  "counts", "fraction", "pct"});

// An include tree may name a file on many branches; without a bound a few files could be read
// exponentially often.
constexpr int kMaxIncludes = 256;
constexpr std::size_t kMaxFaultsTold = 20;

std::string_view last_word(std::string_view key) {
  const std::size_t underscore = key.rfind('_');
  return underscore == std::string_view::npos ? "" : key.substr(underscore + 1);
}

template <typename Words>
bool contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string with_unit(double value, std::string_view key) {
  const std::string_view unit = unit_of(key);
  return unit.empty() ? fmt::format("{}", value) : fmt::format("{} {}", value, unit);
}

/// Declared keys that end in this one: what a key without its groups may stand for.
std::vector<std::string_view> with_tail(std::string_view key,
                                        std::span<const std::string_view> declared) {
  std::vector<std::string_view> found;
  const std::string tail = "." + std::string(key);
  for (const std::string_view candidate : declared) {
    if (candidate.ends_with(tail)) found.push_back(candidate);
  }
  return found;
}

/// The keys that may be meant by one that is not declared.
std::vector<std::string_view> meant(std::string_view key,
                                    std::span<const std::string_view> declared) {
  if (const auto found = with_tail(key, declared); !found.empty()) return found;
  // As it stands, or with its first groups left out.
  std::vector<std::string_view> spellings(declared.begin(), declared.end());
  for (const std::string_view candidate : declared) {
    for (std::size_t dot = candidate.find('.'); dot != std::string_view::npos;
         dot = candidate.find('.', dot + 1)) {
      spellings.push_back(candidate.substr(dot + 1));
    }
  }
  const std::string near = nearest(key, spellings);
  if (near.empty()) return with_tail(key.substr(key.rfind('.') + 1), declared);  // another group
  if (contains(declared, near)) return {*std::find(declared.begin(), declared.end(), near)};
  return with_tail(near, declared);
}

[[noreturn]] void refuse_unknown(const std::string& place, std::string_view key,
                                 std::span<const std::string_view> declared) {
  const std::string_view unit = last_word(key);
  if ((contains(kUnits, unit) || contains(kForeignUnits, unit)) &&
      with_tail(key, declared).empty()) {
    const std::string stem(key.substr(0, key.size() - unit.size()));
    for (const std::string_view candidate : declared) {
      const std::string_view rest =
          candidate.substr(0, candidate.size() - unit_of(candidate).size());
      if (!unit_of(candidate).empty() && unit_of(candidate) != unit &&
          (rest == stem || rest.ends_with("." + stem))) {
        throw InputError(place, fmt::format("wrong unit: {}", key),
                         fmt::format("this parameter is {}: convert the value", candidate));
      }
    }
  }
  const auto near = meant(key, declared);
  throw InputError(place, fmt::format("unknown parameter {}", key),
                   near.empty() ? "`marrow config show` lists the known ones"
                                : fmt::format("did you mean {}?", fmt::join(near, " or ")));
}

void check_range(const std::string& place, const Declaration& declaration, double value) {
  if (value >= declaration.min && value <= declaration.max) return;
  const std::string_view unit = unit_of(declaration.key);
  throw InputError(
      place,
      fmt::format("{}: {} is out of range", declaration.key, with_unit(value, declaration.key)),
      fmt::format("write {}{}{} ({})", range_text(declaration.min, declaration.max),
                  unit.empty() ? "" : " ", unit, declaration.doc));
}

// Reads a system file and its includes into the entries of one set.
class Loader {
 public:
  explicit Loader(std::span<const Declaration> declarations) : declarations_(declarations) {
    for (const Declaration& declaration : declarations) {
      if (!index_.emplace(declaration.key, keys_.size()).second) {
        throw std::logic_error("parameter declared twice: " + std::string(declaration.key));
      }
      keys_.push_back(declaration.key);
    }
    parameters_.resize(keys_.size());
  }

  void read(const YamlNode& file, bool is_root) {
    const std::filesystem::path path(file.file());
    files_.push_back(file.file());
    if (is_root && !file.has("system")) refuse_other_kinds(file);
    file.only({"system", "fragment", "description", "include", "parameters"});
    const auto system = file.find("system");
    const auto fragment = file.find("fragment");
    if (system && fragment) fragment->fail("beside `system`", "keep one of them");
    if (!system && !fragment) {
      file.fail("no key \"system\"",
                is_root ? "add \"system: name\"" : "add \"system: name\" or \"fragment: name\"");
    }
    const std::string name = system ? system->text() : fragment->text();
    const auto description = file.find("description");
    const std::string line = description ? description->text() : "";
    if (is_root) {
      system_ = name;
      description_ = line;
    }
    if (const auto include = file.find("include")) {
      open_files_.push_back(path);
      for (const YamlNode& item : include->one_or_more()) read_include(item);
      open_files_.pop_back();
    }
    seen_.clear();  // an entry may override an included one, not one of its own file
    const auto parameters = file.find("parameters");
    if (parameters && !parameters->is_null()) read_group(*parameters, "");
  }

  void finish(const std::string& path) {
    std::unordered_set<std::string_view> groups = {""};
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].declaration || faulty_.contains(keys_[i]))
        groups.insert(declarations_[i].group);
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].declaration && !faulty_.contains(keys_[i]) &&
          groups.contains(declarations_[i].group)) {
        missing.push_back(fmt::format("{} ({})", keys_[i], declarations_[i].doc));
      }
    }
    if (!missing.empty()) {
      const std::size_t told = std::min(missing.size(), kMaxFaultsTold);
      const std::string more =
          told < missing.size() ? fmt::format(" and {} more", missing.size() - told) : "";
      faults_.push_back(InputError(
          path,
          fmt::format("{} given nowhere: {}{}", missing.size() == 1 ? "parameter" : "parameters",
                      fmt::join(missing.begin(), missing.begin() + told, ", "), more),
          "add {value: ..., measured: ...} entries, or include a file that has them"));
    }
    if (faults_.empty()) return;
    if (faults_.size() == 1) throw faults_.front();
    std::string list;
    for (std::size_t i = 0; i < std::min(faults_.size(), kMaxFaultsTold); ++i) {
      list += fmt::format("\n  {}", faults_[i].what());
    }
    if (faults_.size() > kMaxFaultsTold) {
      list += fmt::format("\n  and {} more", faults_.size() - kMaxFaultsTold);
    }
    throw InputError(path, fmt::format("{} faults:{}", faults_.size(), list));
  }

  std::vector<Parameter> parameters_;
  std::unordered_map<std::string_view, std::size_t> index_;
  std::string system_, description_;
  std::vector<std::string> files_;

 private:
  /// Files that have their use, but are no systems.
  static void refuse_other_kinds(const YamlNode& file) {
    if (const auto fragment = file.find("fragment")) {
      fragment->fail("is a part that systems include, no system itself",
                     "name a system that includes it, e.g. one of configs/systems/");
    }
    if (const auto protocol = file.find("protocol")) {
      protocol->fail("is a protocol recipe, no system",
                     fmt::format("`marrow config show {}` lists it, `marrow run --protocol {}` "
                                 "uses it; name a system, e.g. one of configs/systems/",
                                 file.file(), file.file()));
    }
  }

  void read_include(const YamlNode& item) {
    namespace fs = std::filesystem;
    const fs::path target = (fs::path(item.file()).parent_path() / item.text()).lexically_normal();
    std::error_code error;
    if (!fs::exists(target, error)) {
      item.fail(fmt::format("no file {}", target.string()),
                "write a path relative to the including file");
    }
    for (auto open = open_files_.begin(); open != open_files_.end(); ++open) {
      if (!fs::equivalent(*open, target, error)) continue;
      std::string chain;
      for (; open != open_files_.end(); ++open) chain += open->string() + " -> ";
      item.fail("include cycle: " + chain + target.string(), "remove one of these includes");
    }
    if (++includes_ > kMaxIncludes) {
      item.fail(fmt::format("more than {} files included", kMaxIncludes), "include each file once");
    }
    read(YamlNode::open(target.string()), false);
  }

  bool is_group(std::string_view key) const {
    return std::any_of(keys_.begin(), keys_.end(), [&](std::string_view candidate) {
      return candidate.size() > key.size() && candidate.starts_with(key) &&
             candidate[key.size()] == '.';
    });
  }

  [[noreturn]] void refuse_group(const std::string& place, const std::string& key) const {
    std::vector<std::string_view> groups;
    for (const std::string_view known : keys_) {
      for (std::size_t dot = known.find('.'); dot != known.npos; dot = known.find('.', dot + 1)) {
        groups.push_back(known.substr(0, dot));
      }
    }
    const std::string near = nearest(key, groups);
    throw InputError(place, fmt::format("unknown group {}", key),
                     near.empty() ? "`marrow config show` lists the known parameters"
                                  : fmt::format("did you mean {}?", near));
  }

  static bool looks_like_entry(const YamlNode& node) {
    return node.has("value") || std::any_of(kEvidence.begin(), kEvidence.end(),
                                            [&](Evidence e) { return node.has(name(e)); });
  }

  void read_group(const YamlNode& group, const std::string& prefix) {
    for (const auto& [word, node] : group.entries()) {
      const std::string key = prefix.empty() ? word : prefix + "." + word;
      const auto known = index_.find(key);
      if (known == index_.end() && is_group(key) &&
          (node.is_null() || (node.is_map() && !looks_like_entry(node)))) {
        if (node.is_map()) read_group(node, key);
        continue;
      }
      try {  // one fault must not hide the others
        if (known == index_.end()) {
          if (node.is_map() && !looks_like_entry(node)) refuse_group(node.place(), key);
          refuse_unknown(node.place(), key, keys_);
        }
        read_entry(node, known->second);
      } catch (const InputError& fault) {
        faults_.push_back(fault);
        if (known != index_.end()) faulty_.insert(known->first);
      }
    }
  }

  void read_entry(const YamlNode& node, std::size_t i) {
    const Declaration& declaration = declarations_[i];
    const std::string key(declaration.key);
    if (node.is_scalar()) {
      throw InputError(node.place(), fmt::format("{}: a value without a source", key),
                       fmt::format("write {{value: {}, measured: \"which capture\"}}, or one of {}",
                                   node.text(), kSources));
    }
    node.only({"value", "interval", "measured", "published", "derived", "fitted", "assumed"});
    const auto [first, is_new] = seen_.emplace(declaration.key, node.line());
    if (!is_new) {
      throw InputError(node.place(),
                       fmt::format("{}: duplicate key, first given on line {}", key, first->second),
                       "keep one of them");
    }

    Parameter parameter;
    parameter.key = key;
    parameter.declaration = &declaration;
    parameter.place = node.place();
    const YamlNode value = node.at("value");
    parameter.value = value.number();
    check_range(value.place(), declaration, parameter.value);

    std::vector<std::string_view> sources;
    for (const Evidence evidence : kEvidence) {
      if (const auto source = node.find(name(evidence))) {
        sources.push_back(name(evidence));
        parameter.evidence = evidence;
        parameter.source = source->text();
        if (parameter.source.find_first_not_of(" \t\r\n") == std::string::npos) {
          source->fail("is empty", "write a text");
        }
      }
    }
    if (sources.empty()) {
      throw InputError(node.place(), fmt::format("{}: no source", key),
                       fmt::format("add one of {}", kSources));
    }
    if (sources.size() > 1) {
      throw InputError(
          node.place(),
          fmt::format("{}: {} sources: {}", key, sources.size(), fmt::join(sources, ", ")),
          "keep the one that the value rests on");
    }
    if (const auto interval = node.find("interval")) {
      read_interval(*interval, declaration, parameter);
    }
    parameters_[i] = std::move(parameter);
  }

  static void read_interval(const YamlNode& node, const Declaration& declaration,
                            Parameter& parameter) {
    const std::vector<YamlNode> bounds = node.items();
    if (bounds.size() != 2) {
      node.fail(fmt::format("{} numbers", bounds.size()), "write [low, high]");
    }
    const double low = bounds[0].number();
    const double high = bounds[1].number();
    check_range(bounds[0].place(), declaration, low);
    check_range(bounds[1].place(), declaration, high);
    if (low > parameter.value || high < parameter.value) {
      node.fail(fmt::format("[{}, {}] does not contain the value {}", low, high, parameter.value),
                "write [low, high] around the value");
    }
    parameter.interval.emplace(low, high);
  }

  std::span<const Declaration> declarations_;
  std::vector<std::string_view> keys_;
  std::vector<std::filesystem::path> open_files_;
  int includes_ = 0;
  std::unordered_map<std::string_view, int> seen_;  // lines of this file's entries so far
  std::unordered_set<std::string_view> faulty_;     // given, so not also missing
  std::vector<InputError> faults_;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

ParameterSet ParameterSet::load(const std::string& path,
                                std::span<const Declaration> declarations) {
  Loader loader(declarations);
  loader.read(YamlNode::open(path), true);
  loader.finish(path);
  ParameterSet set;
  for (Parameter& parameter : loader.parameters_) {
    if (!parameter.declaration) continue;  // of a group that this system has not
    set.index_[parameter.declaration->key] = set.parameters_.size();
    set.parameters_.push_back(std::move(parameter));
  }
  set.system_ = std::move(loader.system_);
  set.description_ = std::move(loader.description_);
  set.files_ = std::move(loader.files_);
  return set;
}

const Parameter& ParameterSet::need(std::string_view key, const std::string& place) const {
  if (const Parameter* const known = find(key)) return *known;
  std::vector<std::string_view> keys;
  for (const Parameter& parameter : parameters_) keys.push_back(parameter.key);
  refuse_unknown(place, key, keys);
}

void ParameterSet::set(std::string_view assignment) {
  const std::string place = fmt::format("--set {}", assignment);
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InputError(place, "not an assignment",
                     "write key=value, key+=value, key-=value or key*=value");
  }
  const char before = assignment[equals - 1];
  const char operation = before == '+' || before == '-' || before == '*' ? before : '=';
  const std::string key(trimmed(assignment.substr(0, operation == '=' ? equals : equals - 1)));
  if (key.empty()) {
    throw InputError(place, "no key before the operator", "write key=value");
  }
  need(key, place);
  const double operand = parse_number(trimmed(assignment.substr(equals + 1)), place, key);

  Parameter& parameter = parameters_[index_.at(key)];
  double value = operand;
  if (operation == '+') value = parameter.value + operand;
  if (operation == '-') value = parameter.value - operand;
  if (operation == '*') value = parameter.value * operand;
  check_range(place, *parameter.declaration, value);
  parameter.value = value;
  parameter.evidence = Evidence::kAssumed;
  parameter.source = parameter.place = "--set";
  parameter.interval.reset();
}

const Parameter* ParameterSet::find(std::string_view key) const {
  const auto known = index_.find(key);
  return known == index_.end() ? nullptr : &parameters_[known->second];
}

const Parameter& ParameterSet::parameter(std::string_view key) const {
  if (const Parameter* parameter = find(key)) return *parameter;
  throw std::logic_error("parameter not declared: " + std::string(key));
}

double ParameterSet::get(std::string_view key) const { return parameter(key).value; }

std::string_view name(Evidence evidence) {
  switch (evidence) {
    case Evidence::kMeasured:
      return "measured";
    case Evidence::kPublished:
      return "published";
    case Evidence::kDerived:
      return "derived";
    case Evidence::kFitted:
      return "fitted";
    case Evidence::kAssumed:
      return "assumed";
  }
  throw std::logic_error("no such evidence class");
}

std::string_view unit_of(std::string_view key) {
  const std::string_view word = last_word(key);
  return contains(kUnits, word) ? word : "";
}

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord = 200;  // nothing longer is a misspelt key
  if (word.size() > kLongestWord) return "";
  // Nearer than this, or it is another word rather than a misspelt one.
  std::size_t best_distance = std::max<std::size_t>(1, (word.size() + 1) / 3) + 1;
  std::string best;
  for (const std::string_view candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t changed = diagonal + (word[i] == candidate[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace marrow::config
