// What the user asks for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/capture/host/configuration.h"

namespace marrow::capture {

struct Options {
  std::string out;                   ///< the capture; empty only with help or list
  std::optional<Configuration> one;  ///< described on the command line
  std::vector<std::uint32_t> only;   ///< of the default set, by number; empty: all
  std::optional<Consumer> consumer;  ///< only such configurations of the default set
  int device = 0;                    ///< CUDA's number of the GPU that puts
  std::optional<int> peer;           ///< and of the one that consumes
  std::string nic;                   ///< an mlx5 device's name; empty: the first with a link
  std::uint32_t repeats = 2;
  double seconds = 150;  ///< starts nothing after that
  bool quick = false;
  bool help = false;
  bool list = false;
};

/// Throws InputError naming the option and the mend.
Options parse_options(std::span<const char* const> arguments);
std::string help_text();
/// The default set, a line each, numbered as --only counts.
std::string list_text();

}  // namespace marrow::capture
