// Parameters with their evidence: values, units, ranges and sources from YAML files.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace marrow::config {

enum class Evidence { kMeasured, kPublished, kDerived, kFitted, kAssumed };

/// What the program knows of a parameter before any file is read. The unit is the key's last word
/// after '_': cycles, ns, us, ghz, gbps, gtps, bytes, count, ratio, percent.
struct Declaration {
  std::string_view key;  ///< dotted, e.g. "gpu.l2.load_cycles"
  double min = 0;        ///< inclusive
  double max = 0;        ///< inclusive
  std::string_view doc;  ///< one line: what it is, of which clock
  /// Needed only by systems that give any parameter of this group; empty: by all.
  std::string_view group = {};
};

struct Parameter {
  std::string key;
  double value = 0;
  Evidence evidence = Evidence::kAssumed;
  std::string source;                                 ///< which capture, paper, reason
  std::optional<std::pair<double, double>> interval;  ///< 90 % interval where known
  std::string place;                                  ///< "file:line" or "--set"
  const Declaration* declaration = nullptr;
};

/// All parameters of a system, complete and checked against the declarations, which must outlive
/// it.
///
/// A system file:
///
///     system: h200-c                    # an included file may say `fragment: name` instead
///     description: one line             # optional
///     include: [../gpus/h200.yaml]      # optional, relative to this file; one name or a list
///     parameters:
///       gpu:
///         sm:
///           clock_ghz: {value: 1.98, measured: "which capture", interval: [1.97, 1.99]}
///       gpu.l2.load_cycles: {value: 273, assumed: "why"}
///
/// Each entry has exactly one source: measured, published, derived, fitted or assumed.
class ParameterSet {
 public:
  /// Reads a system file and what it includes; later values win over included ones.
  /// Throws InputError naming file, line, key and the nearest valid key for: missing or unreadable
  /// file, YAML syntax, unknown key, wrong unit, value not a number or out of range, no source or
  /// two, interval that misses the value or leaves the range, include cycle, duplicate key,
  /// parameter declared but given nowhere. Faults of entries are collected and told together.
  static ParameterSet load(const std::string& path, std::span<const Declaration> declarations);

  /// Applies "key=value", "key+=value", "key-=value" or "key*=value" (one --set).
  /// The parameter is `assumed` from then on and has no interval. Throws InputError.
  void set(std::string_view assignment);

  double get(std::string_view key) const;  ///< throws std::logic_error if not declared
  /// False for a parameter of a group that the system has not.
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Parameter& parameter(std::string_view key) const;
  /// For a key that a user gave at `place`: throws InputError with the nearest one if there is
  /// none.
  const Parameter& need(std::string_view key, const std::string& place) const;
  const std::vector<Parameter>& all() const { return parameters_; }  ///< in declaration order
  const std::string& system() const { return system_; }              ///< the file's `system:` name
  const std::string& description() const { return description_; }
  /// The system's file first, then what it includes.
  const std::vector<std::string>& files() const { return files_; }

 private:
  const Parameter* find(std::string_view key) const;

  std::vector<Parameter> parameters_;
  std::unordered_map<std::string_view, std::size_t> index_;  // views of the declarations' keys
  std::string system_, description_;
  std::vector<std::string> files_;
};

std::string_view name(Evidence evidence);
/// The unit in a key: the known suffix after its last '_'; empty if it has none.
std::string_view unit_of(std::string_view key);
/// The candidate most like `word` (edit distance), or empty if none is near.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace marrow::config
