// What the user asks for.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace marrow::probe {

struct Options {
  std::string out;                ///< the measurement file; empty only with help or list
  std::vector<std::string> only;  ///< measurements by name; empty: all
  int device = 0;                 ///< CUDA's number of the GPU
  bool quick = false;
  bool help = false;
  bool list = false;
};

/// One kind of measurement that can be asked for.
struct Topic {
  const char* name;
  const char* what;
};

/// Throws InputError naming the option and the mend.
Options parse_options(std::span<const char* const> arguments, std::span<const Topic> topics);
std::string help_text(std::span<const Topic> topics);
std::string list_text(std::span<const Topic> topics);

}  // namespace marrow::probe
