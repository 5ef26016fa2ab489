#include "traces/importers/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "models/common/error.h"

namespace marrow::trace {

namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Without terminal control sequences, and without what a carriage return has overwritten.
void remove_controls(std::string_view from, std::string& to) {
  to.clear();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == '\r') {
      to.clear();
    } else if (from[i] != '\x1b') {
      to += from[i];
    } else if (i + 1 < from.size() && from[i + 1] == '[') {  // up to a letter
      for (i += 2; i < from.size() && !is_letter(from[i]); ++i) {
      }
    } else if (i + 1 < from.size() && from[i + 1] == ']') {  // up to a bell
      for (i += 2; i < from.size() && from[i] != '\a'; ++i) {
      }
    } else {
      ++i;
    }
  }
}

/// How long the launcher's prefix at the line's beginning is; 0: there is none.
std::size_t prefix_length(std::string_view line) {
  if (line.empty()) return 0;
  if (line.front() == '[') {
    const std::size_t close = line.find(']');
    if (close == std::string_view::npos) return 0;
    for (const std::string_view tail : {"<stdout>:", "<stderr>:", ":"})
      if (line.substr(close + 1).starts_with(tail)) return close + 1 + tail.size();
    return 0;
  }
  // "2026-11-29T12:00:00.5Z "
  if (line.size() > 20 && line[4] == '-' && line[7] == '-' && line[10] == 'T' && line[13] == ':') {
    const std::size_t end = line.find(' ');
    return end == std::string_view::npos ? 0 : end + 1;
  }
  // "3: ", "node7.cluster: "
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos || colon == 0) return 0;
  const std::string_view name = line.substr(0, colon);
  const bool word = std::all_of(name.begin(), name.end(), [](char c) {
    return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.';
  });
  return word ? colon + 2 : 0;
}

}  // namespace

bool Log::next() {
  if (!lines_.next(whole_)) return false;
  if (whole_.find_first_of("\x1b\r") != std::string_view::npos) {
    remove_controls(whole_, plain_);
    whole_ = plain_;
  }
  line_ = without_prefix(whole_);
  return true;
}

std::string Log::place(std::size_t line) const { return fmt::format("{}:{}", path_, line); }

void Log::fail(const std::string& problem, const std::string& mend) const {
  throw InputError(place(), problem, mend);
}

void Log::must_be_whole() const {
  if (cut())
    fail("the file ends in the middle of this line",
         "take the whole log, or end a complete last line with a newline");
}

std::string_view without_prefix(std::string_view line) {
  constexpr int kMostPrefixes = 4;
  for (int i = 0; i < kMostPrefixes; ++i) {
    const std::size_t length = prefix_length(line);
    if (length == 0) break;
    line.remove_prefix(length);
  }
  return line;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  for (std::size_t begin = 0;
       (begin = line.find_first_not_of(kBlanks, begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    found.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return found;
}

bool begins_with_column(std::string_view text) {
  const std::size_t gap = text.find_first_of(kBlanks);
  return gap != std::string_view::npos && gap + 1 < text.size() &&
         kBlanks.find(text[gap + 1]) != std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::optional<std::uint64_t> to_whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool numeric(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size() &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

std::string_view value_of(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + name.size());
  line = trimmed(line);
  if (!line.starts_with(':')) return {};
  const std::vector<std::string_view> rest = words(line.substr(1));
  return rest.empty() ? std::string_view() : rest.front();
}

std::string Names::unique(const std::string& name) {
  const int count = ++seen_[name];
  return count == 1 ? name : fmt::format("{} #{}", name, count);
}

std::string machine_of(const std::string& path, const std::optional<std::string>& given) {
  if (given) return *given;
  const std::string file = file_name(path);
  return file.substr(0, file.find('.'));
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace marrow::trace
