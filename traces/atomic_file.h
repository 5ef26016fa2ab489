// Output files appear whole or not at all.
#pragma once

#include <fstream>
#include <ostream>
#include <string>

namespace marrow {

/// Writes to a temporary file beside `path`; commit() renames it to `path`.
/// Without commit() the destructor removes it. Throws InputError if the place cannot be written.
/// What is no regular file (/dev/stdout, a pipe) is written to directly; a link's target is
/// replaced, not the link.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  std::ostream& stream() { return out_; }
  /// Flushes, checks for write errors and renames. Throws InputError on failure.
  void commit();

 private:
  std::string path_, temporary_;
  std::ofstream out_;
  bool committed_ = false;
};

}  // namespace marrow
