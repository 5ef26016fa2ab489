// Tells what a file is that is not what was asked for.
#pragma once

#include <string>
#include <string_view>

namespace marrow::trace {

struct Guess {
  std::string looks;  ///< "looks like a CSV file in the device-consumer-csv layout"
  std::string mend;   ///< "import it: marrow import ..."
};

/// Whether (inflated) bytes start as a trace does: a record that holds a header.
bool starts_like_trace(std::string_view head);

/// From the file's first (inflated) bytes, some 256 of them.
Guess guess(std::string_view head, std::string_view path);

}  // namespace marrow::trace
