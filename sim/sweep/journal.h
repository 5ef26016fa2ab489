// The finished points of a study, kept as they come, so that a study that was ended goes on where
// it was.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "sim/sweep/points.h"

namespace marrow::sweep {

/// What a study's points depend on, as 16 hexadecimal digits: its file, the parameters of the
/// systems, the recipes, the trace. Not the program.
std::string fingerprint(const Study& study, const std::vector<Point>& points);

/// DIR/points.jsonl. One process at a time may hold it.
class Journal {
 public:
  /// Makes the folder and the file where they are missing; drops a last line that was not written
  /// to its end. Throws InputError if the file is of another study, or another process writes it.
  Journal(const std::string& folder, const std::string& study, const std::string& fingerprint,
          std::size_t points);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// By number; what add() has been given, now or earlier.
  const std::map<std::size_t, std::string>& lines() const { return lines_; }
  /// Appends one whole line. Throws InputError if it cannot be written.
  void add(std::size_t point, const std::string& line);

 private:
  void append(const std::string& line);

  std::string path_;
  int file_ = -1;
  std::map<std::size_t, std::string> lines_;
};

}  // namespace marrow::sweep
