// A checked reader over yaml-cpp: every YAML file of marrow is read through it, so that every
// complaint names file, line, key, what is wrong and how to mend it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace marrow::config {

/// One value of a YAML file. Cheap to copy; keeps the file's tree alive. Every accessor throws
/// InputError when the file holds something else than what is asked for.
class YamlNode {
 public:
  /// Reads a file of one YAML document. Refuses what is missing, a directory, unreadable or larger
  /// than 4 MiB, syntax errors, duplicate keys, nesting deeper than 64 and aliases that blow up.
  static YamlNode open(const std::string& file);
  /// The same for a text; `name` stands for the file in messages.
  static YamlNode parse(const std::string& text, const std::string& name);

  std::string place() const;                         ///< "file:line", of the key where there is one
  const std::string& file() const;                   ///< as it was opened
  int line() const { return line_; }                 ///< from 1
  const std::string& path() const { return path_; }  ///< "steps[2].size"; empty for the file itself

  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;
  bool is_null() const;  ///< nothing written, `~` or `null`

  bool has(std::string_view key) const;
  YamlNode at(std::string_view key) const;                   ///< the key must be there
  std::optional<YamlNode> find(std::string_view key) const;  ///< the key may be missing

  std::string text() const;  ///< a non-empty scalar
  std::string one_of(std::initializer_list<std::string_view> allowed) const;
  double number(double min = -std::numeric_limits<double>::infinity(),
                double max = std::numeric_limits<double>::infinity()) const;
  /// Decimal, or hexadecimal after 0x.
  std::int64_t integer(std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  bool boolean() const;  ///< `true` or `false`, no other spelling

  std::vector<YamlNode> items() const;                            ///< of a list
  std::vector<YamlNode> one_or_more() const;                      ///< of a list, or the value alone
  std::vector<std::pair<std::string, YamlNode>> entries() const;  ///< of a map, as written

  /// Refuses keys of this map that are not allowed, naming the nearest one that is.
  void only(std::initializer_list<std::string_view> allowed) const;

  /// Throws InputError about this value.
  [[noreturn]] void fail(const std::string& problem, const std::string& mend = "") const;

 private:
  struct Raw;
  struct Document;
  class Builder;

  YamlNode(std::shared_ptr<const Document> document, const Raw* raw, int line, std::string path);
  std::string scalar(std::string_view wanted) const;
  void expect_map() const;

  std::shared_ptr<const Document> document_;
  const Raw* raw_;
  int line_;
  std::string path_;
};

/// A number as files and --set write it: all of `text`, finite. `where` says how to complain.
double parse_number(std::string_view text, const std::string& place, const std::string& key);

/// "0.1 to 3", "at least 0", "at most 1" or "any": the range as a message says it.
std::string range_text(double min, double max);

}  // namespace marrow::config
