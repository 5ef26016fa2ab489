// What a user did that cannot be carried out, told so that it can be mended.
#pragma once

#include <stdexcept>
#include <string>

namespace marrow {

/// Bad usage or bad input: the command line prints `what()` and exits with 2.
class InputError : public std::runtime_error {
 public:
  /// place: "file:line" or "file" or an option's name; problem: what is wrong there;
  /// mend: what to write instead (may be empty).
  InputError(const std::string& place, const std::string& problem, const std::string& mend = "")
      : std::runtime_error(place + ": " + problem + (mend.empty() ? "" : "; " + mend)) {}
};

}  // namespace marrow
