// Logs as programs wrote them, whatever a launcher or a terminal has put around their lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/source.h"

namespace marrow::trace {

/// A text file line by line, without colours and without launchers' prefixes: "[1,0]<stdout>:"
/// (Open MPI), "[rank0]:" (torchrun), "3: " (srun), "node7: " (pdsh), a container's time stamp.
class Log {
 public:
  explicit Log(const std::string& path) : path_(path), lines_(path) {}

  /// False at the end. Throws InputError like Lines.
  bool next();
  /// The line without prefix; valid until the next call, as all views into it.
  std::string_view line() const { return line_; }
  /// The line with its prefix: for what is found in the middle of a line anyway.
  std::string_view whole() const { return whole_; }
  const std::string& head() const { return lines_.head(); }
  std::size_t number() const { return lines_.number(); }
  /// The file ended in the middle of this line.
  bool cut() const { return !lines_.ended_by_newline(); }

  const std::string& path() const { return path_; }
  std::string place() const { return place(number()); }
  std::string place(std::size_t line) const;
  [[noreturn]] void fail(const std::string& problem, const std::string& mend) const;
  /// Of a line that must not be the half of one.
  void must_be_whole() const;

 private:
  std::string path_;
  Lines lines_;
  std::string plain_;  ///< the line where colours had to be taken out
  std::string_view whole_, line_;
};

/// The line without what a launcher put before it.
std::string_view without_prefix(std::string_view line);

/// Split at blanks and tabs.
std::vector<std::string_view> words(std::string_view line);

/// The first word stands in a column of its own: at least two blanks follow. So do tables begin
/// their rows; a sentence that begins with a number does not.
bool begins_with_column(std::string_view text);

/// Without blanks at both ends.
std::string_view trimmed(std::string_view text);

/// The whole text as a number (finite) or a whole number from 0 on; nothing if it is none.
std::optional<double> to_number(std::string_view text);
std::optional<std::uint64_t> to_whole(std::string_view text);

/// The text is written as a number, whatever its sign, fraction or size. In a table's first column
/// it begins a row, also where no message can be of that size.
bool numeric(std::string_view text);

/// "Name : value" somewhere in a line: the word behind the colon; empty if there is none.
std::string_view value_of(std::string_view line, std::string_view name);

/// Makes names that come twice different: "x", "x #2".
class Names {
 public:
  std::string unique(const std::string& name);

 private:
  std::map<std::string, int> seen_;
};

/// The name of the machine, unless the user gives one: the file's name up to its first dot.
std::string machine_of(const std::string& path, const std::optional<std::string>& given);

/// The file's name without its folders.
std::string file_name(const std::string& path);

}  // namespace marrow::trace
