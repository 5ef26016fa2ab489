// The line with which a person waits.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <string_view>

namespace marrow::tools {

/// "[3/12] what"; nothing where stderr is no terminal.
class Progress {
 public:
  Progress() = default;
  ~Progress() { clear(); }  // before an error's message
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t number, std::size_t total, std::string_view what) {
    if (on_) std::cerr << "\r\033[K[" << number << '/' << total << "] " << what << std::flush;
  }
  void clear() {
    if (on_) std::cerr << "\r\033[K" << std::flush;
  }

 private:
  bool on_ = isatty(STDERR_FILENO) != 0;
};

}  // namespace marrow::tools
