#include "traces/atomic_file.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "models/common/error.h"

namespace marrow {

namespace fs = std::filesystem;

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

/// None of the signals comes while this lives.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t some;
    sigemptyset(&some);
    for (const int signal : kSignals) sigaddset(&some, signal);
    sigprocmask(SIG_BLOCK, &some, &before_);
  }
  ~WithoutSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Temporary* Temporary::first_ = nullptr;

Temporary::Temporary(std::string path) : path_(std::move(path)), process_(::getpid()) {
  const WithoutSignals now;
  next_ = first_;
  if (next_) next_->before_ = this;
  first_ = this;
}

Temporary::~Temporary() {
  const WithoutSignals now;
  ::unlink(path_.c_str());
  (before_ ? before_->next_ : first_) = next_;
  if (next_) next_->before_ = before_;
}

// Only what a signal's handler may call.
void Temporary::at_signal(int signal) {
  for (const Temporary* t = first_; t; t = t->next_)
    if (t->process_ == ::getpid()) ::unlink(t->path_.c_str());
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void remove_temporaries_at_signals() {
  for (const int signal : kSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = Temporary::at_signal;
    sigemptyset(&action.sa_mask);
    for (const int other : kSignals) sigaddset(&action.sa_mask, other);
    sigaction(signal, &action, nullptr);
  }
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  static std::atomic<unsigned> files{0};
  std::error_code ignored;
  if (path.empty()) throw InputError("output file", "has no name", "name the file to write");
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status))
    throw InputError(path, "is a directory", "name the file to write inside it");
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    if (fs::is_symlink(fs::symlink_status(path, ignored))) {
      const fs::path target = fs::weakly_canonical(path, ignored);
      if (!ignored) path_ = target.string();
    }
    temporary_.emplace(fmt::format("{}.{}-{}.tmp", path_, ::getpid(), files++));
  }
  out_.open(temporary_ ? temporary_->path() : path_, std::ios::binary | std::ios::trunc);
  if (!out_)
    throw InputError(path, fmt::format("cannot be written ({})", std::strerror(errno)),
                     "check that its directory exists and may be written to");
}

void AtomicFile::check(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  // Whoever reads a pipe would see it end.
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status) &&
      ::access(path.c_str(), W_OK) == 0)
    return;
  AtomicFile file(path);
}

void AtomicFile::commit() {
  errno = 0;
  out_.close();  // sets failbit if the last bytes cannot be written
  if (!out_)
    throw InputError(
        path_,
        fmt::format("writing failed{}", errno ? fmt::format(" ({})", std::strerror(errno)) : ""),
        "check the space left on the disk");
  if (!temporary_) return;
  std::error_code error;
  fs::rename(temporary_->path(), path_, error);
  if (error)
    throw InputError(path_, fmt::format("cannot be put in place ({})", error.message()),
                     "check that it may be replaced");
}

}  // namespace marrow
