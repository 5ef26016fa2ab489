// The measurement file: JSON lines, the first a header, every other a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tools/common/statistics.h"

namespace marrow::tools {

/// The members of one JSON object, in the order in which they are added.
class Object {
 public:
  template <class T>
  Object& add(std::string_view key, const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      put(key, value ? "true" : "false");
    else if constexpr (std::is_integral_v<T>)
      put(key, std::to_string(value));
    else if constexpr (std::is_floating_point_v<T>)
      put(key, number(value));
    else if constexpr (std::is_same_v<T, Object>)
      put(key, value.text());
    else
      put(key, quoted(value));
    return *this;
  }
  /// null where there is no value.
  template <class T>
  Object& add(std::string_view key, const std::optional<T>& value) {
    if (!value) {
      put(key, "null");
      return *this;
    }
    return add(key, *value);
  }
  Object& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  Object& add_list(std::string_view key, const std::vector<double>& values);
  Object& add_list(std::string_view key, const std::vector<std::string>& values);

  std::string text() const { return "{" + members_ + "}"; }

  /// At most four decimals, none that say nothing: "280.82", "48".
  static std::string number(double value);
  static std::string quoted(std::string_view text);

 private:
  void put(std::string_view key, const std::string& json);

  std::string members_;
};

/// A row as the older probe files have it (name, cond, unit, n, min … mean), with the rounds'
/// interval of the median and, where the measurement's own cost is known, that cost in the row's
/// unit and the median without it. min … mean hold the cost.
std::string row_text(std::string_view name, const Object& conditions, std::string_view unit,
                     const Summary& summary, std::optional<double> overhead = std::nullopt);

/// Written whole or not at all: rows stay in memory until `commit`, which writes beside the file
/// and renames. Construction tries whether that will be possible, so that nobody measures for
/// minutes into a folder that cannot be written.
class MeasurementFile {
 public:
  /// Throws InputError if the file cannot be written.
  explicit MeasurementFile(std::string path);
  ~MeasurementFile();
  MeasurementFile(const MeasurementFile&) = delete;
  MeasurementFile& operator=(const MeasurementFile&) = delete;

  void add_line(std::string json) { lines_.push_back(std::move(json)); }
  std::size_t rows() const { return lines_.size(); }
  /// Throws InputError if the disk is full or the file cannot be replaced; then the old one, if
  /// there was one, is untouched.
  void commit(const Object& header);

 private:
  std::string path_, draft_;
  std::vector<std::string> lines_;
  bool done_ = false;
};

}  // namespace marrow::tools
