#include "traces/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/iostreams/filter/gzip.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "models/common/error.h"
#include "traces/guess.h"

namespace marrow::trace {

namespace bio = boost::iostreams;

namespace {
constexpr int kGzipMagic = 0x1f;  // no text starts with it
constexpr std::size_t kBufferBytes = 1 << 16;
constexpr std::size_t kMaxLineBytes = 1 << 16;
}  // namespace

Source::Source(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw InputError(path, "is a directory", "name a file inside it");
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_)
    throw InputError(path, errno == ENOENT ? "no such file" : "cannot be read",
                     errno == ENOENT ? "check the path" : std::strerror(errno));
  const int first = file_.peek();
  if (first == std::ifstream::traits_type::eof())
    throw InputError(path, "the file is empty", "make or fetch it again");
  gzipped_ = first == kGzipMagic;
  if (gzipped_)
    inflated_.push(bio::gzip_decompressor(bio::zlib::default_window_bits, kBufferBytes));
  inflated_.push(file_, kBufferBytes);
}

std::size_t Source::read(char* to, std::size_t n) {
  const char* const again = "make or fetch it again";
  try {
    std::size_t got = 0;
    while (got < n) {
      const std::streamsize more = inflated_.sgetn(to + got, static_cast<std::streamsize>(n - got));
      if (more <= 0) break;
      got += static_cast<std::size_t>(more);
    }
    if (file_.bad()) throw Fault{"reading failed", "check the disk"};
    return got;
  } catch (const bio::gzip_error& e) {
    if (e.error() == bio::gzip::bad_footer ||
        (e.error() == bio::gzip::zlib_error && e.zlib_error_code() == bio::zlib::buf_error))
      throw Fault{"the file is truncated: its gzip stream ends early", again};
    if (e.error() == bio::gzip::bad_header)
      throw Fault{"the file is truncated or corrupt: no whole gzip header where one should be",
                  again};
    throw Fault{fmt::format("the file is corrupt: {}", e.error() == bio::gzip::bad_crc
                                                           ? "gzip checksum mismatch"
                                                           : "its gzip stream is broken"),
                again};
  } catch (const std::ios_base::failure&) {
    throw Fault{"the file is corrupt: its gzip stream is broken", again};
  }
}

bool Lines::next(std::string_view& line) {
  const auto fail = [this](const Fault& f) {
    throw InputError(fmt::format("{}:{}", path_, number_ + 1), f.problem, f.mend);
  };
  std::size_t newline;
  while ((newline = buffer_.find('\n', begin_)) == std::string::npos) {
    if (buffer_.size() - begin_ > kMaxLineBytes)
      fail({"the line is longer than 64 KiB", "this does not look like a text file"});
    if (at_end_) break;
    buffer_.erase(0, begin_);
    begin_ = 0;
    const std::size_t kept = buffer_.size();
    buffer_.resize(kept + kBufferBytes);
    std::size_t got = 0;
    try {
      got = source_.read(buffer_.data() + kept, kBufferBytes);
    } catch (const Fault& f) {
      fail(f);
    }
    buffer_.resize(kept + got);
    if (head_.empty()) head_ = buffer_.substr(0, kGuessBytes);
    at_end_ = got == 0;
  }
  if (newline == std::string::npos) {
    if (begin_ == buffer_.size()) return false;
    ended_by_newline_ = false;
    newline = buffer_.size();
  }
  line = std::string_view(buffer_).substr(begin_, newline - begin_);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  begin_ = std::min(newline + 1, buffer_.size());
  if (++number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  return true;
}

}  // namespace marrow::trace
