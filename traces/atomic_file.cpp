#include "traces/atomic_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "models/common/error.h"

namespace marrow {

namespace fs = std::filesystem;

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  static std::atomic<unsigned> files{0};
  std::error_code ignored;
  if (path.empty()) throw InputError("output file", "has no name", "name the file to write");
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status))
    throw InputError(path, "is a directory", "name the file to write inside it");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    temporary_ = path_;
  } else {
    if (fs::is_symlink(fs::symlink_status(path, ignored))) {
      const fs::path target = fs::weakly_canonical(path, ignored);
      if (!ignored) path_ = target.string();
    }
    temporary_ = fmt::format("{}.{}-{}.tmp", path_, ::getpid(), files++);
  }
  out_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!out_)
    throw InputError(path, fmt::format("cannot be written ({})", std::strerror(errno)),
                     "check that its directory exists and may be written to");
}

AtomicFile::~AtomicFile() {
  if (committed_ || temporary_ == path_) return;
  out_.close();
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void AtomicFile::commit() {
  errno = 0;
  out_.close();  // sets failbit if the last bytes cannot be written
  if (!out_)
    throw InputError(
        path_,
        fmt::format("writing failed{}", errno ? fmt::format(" ({})", std::strerror(errno)) : ""),
        "check the space left on the disk");
  if (temporary_ != path_) {
    std::error_code error;
    fs::rename(temporary_, path_, error);
    if (error)
      throw InputError(path_, fmt::format("cannot be put in place ({})", error.message()),
                       "check that it may be replaced");
  }
  committed_ = true;
}

}  // namespace marrow
