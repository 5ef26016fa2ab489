// The finished points of a study, kept as they come, so that a study that was ended goes on where
// it was.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "sim/sweep/points.h"

namespace marrow::sweep {

/// What a study's points depend on, as 16 hexadecimal digits: its file, the parameters of the
/// systems, the recipes, the trace. Not the program.
std::string fingerprint(const Study& study, const std::vector<Point>& points);

/// 16 hexadecimal digits of some texts in their order.
std::string fingerprint(const std::vector<std::string>& texts);

/// What a journal tells in its messages.
struct JournalOf {
  std::string command;  ///< "marrow sweep"
  std::string other;    ///< why its lines may not be used: "holds points of another study, ..."
  std::string place;    ///< what to remove or to replace: a folder or the file
  std::string option;   ///< by which to choose another place: "folder with --out"
};

/// A file of results by number, a line each. One process at a time may hold it.
class Journal {
 public:
  /// A study's: DIR/points.jsonl. Makes the folder and the file where they are missing; drops a
  /// last line that was not written to its end. Throws InputError if the file is of another study,
  /// or another process writes it.
  Journal(const std::string& folder, const std::string& study, const std::string& fingerprint,
          std::size_t points);
  /// The same for any file, whose first line is `head`.
  Journal(const std::string& path, const std::string& head, const JournalOf& of);
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
