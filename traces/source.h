// The bytes of a plain or gzipped file.
#pragma once

#include <boost/iostreams/filtering_streambuf.hpp>
#include <fstream>
#include <string>
#include <string_view>

#include "traces/rules.h"

namespace marrow::trace {

/// Reads a file that may be gzipped, told apart by its first byte, so that pipes work too.
class Source {
 public:
  /// Throws InputError if the file is missing, a directory, unreadable or empty.
  explicit Source(const std::string& path);

  bool gzipped() const { return gzipped_; }
  /// Up to n bytes; fewer only at the end. Throws Fault if the file is cut short or corrupt.
  std::size_t read(char* to, std::size_t n);

 private:
  std::ifstream file_;
  bool gzipped_ = false;
  boost::iostreams::filtering_streambuf<boost::iostreams::input> inflated_;
};

/// Reads a Source line by line, "\n" or "\r\n".
class Lines {
 public:
  explicit Lines(const std::string& path) : source_(path), path_(path) {}

  /// The next line, valid until the next call; false at the end. Throws InputError.
  bool next(std::string_view& line);
  /// The file's first bytes, as far as they are known after the first next().
  const std::string& head() const { return head_; }
  std::size_t number() const { return number_; }  ///< of the line that next() gave, from 1
  /// False if the file ended in the middle of the last line.
  bool ended_by_newline() const { return ended_by_newline_; }

 private:
  Source source_;
  std::string path_;
  std::string buffer_, head_;
  std::size_t begin_ = 0;
  std::size_t number_ = 0;
  bool ended_by_newline_ = true;
  bool at_end_ = false;
};

}  // namespace marrow::trace
