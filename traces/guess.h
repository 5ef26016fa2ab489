// Tells what a file is that is not what was asked for.
#pragma once

#include <string>
#include <string_view>

namespace marrow::trace {

struct Guess {
  std::string looks;        ///< "looks like a CSV file in the device-consumer-csv layout"
  std::string mend;         ///< "import it: marrow import ..."
  std::string format = {};  ///< that reads it; empty: none does
};

/// Whether (inflated) bytes start as a trace does: a record that holds a header.
bool starts_like_trace(std::string_view head);

/// How many of a file's first bytes a guess takes.
constexpr std::size_t kGuessBytes = 4096;

/// From the file's first (inflated) bytes.
Guess guess(std::string_view head, std::string_view path);

/// Throws the InputError for a file in which an importer has found nothing of its format: what was
/// looked for, what the file is instead, and either its format or `mend`.
[[noreturn]] void found_nothing(const std::string& path, std::string_view head,
                                std::string_view format, const std::string& what,
                                const std::string& mend);

}  // namespace marrow::trace
