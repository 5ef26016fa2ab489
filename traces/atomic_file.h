// Output files appear whole or not at all.
#pragma once

#include <fstream>
#include <optional>
#include <ostream>
#include <string>

namespace marrow {

/// The name of a file that is removed with this object, or by the signal that ends the program.
class Temporary {
 public:
  explicit Temporary(std::string path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::string& path() const { return path_; }

 private:
  friend void remove_temporaries_at_signals();
  static void at_signal(int signal);

  static Temporary* first_;
  std::string path_;
  int process_;  ///< a child of a fork removes nothing of its parent's
  Temporary *before_ = nullptr, *next_;
};

/// From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE remove what is temporary before they end the
/// program as usual. Those that are ignored stay so.
void remove_temporaries_at_signals();

/// Writes to a temporary file beside `path`; commit() renames it to `path`.
/// Without commit() the destructor removes it. Throws InputError if the place cannot be written.
/// What is no regular file (/dev/stdout, a pipe) is written to directly; a link's target is
/// replaced, not the link.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  /// Throws as the constructor does where that could not write, and leaves everything as it is:
  /// for commands that have something to write only in the end.
  static void check(const std::string& path);

  std::ostream& stream() { return out_; }
  /// Flushes, checks for write errors and renames. Throws InputError on failure.
  void commit();

 private:
  std::string path_;
  std::optional<Temporary> temporary_;  ///< none: written to directly
  std::ofstream out_;
};

}  // namespace marrow
