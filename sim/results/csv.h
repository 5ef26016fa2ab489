// How a text stands in a CSV file.
#pragma once

#include <string>
#include <string_view>

namespace marrow::results {

/// The text as it is, or quoted (RFC 4180) where it holds a comma, a quote or a line's end.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace marrow::results
