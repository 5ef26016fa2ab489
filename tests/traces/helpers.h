// What the tests of traces share: files in a directory of their own, and what an error says.
#pragma once

#include <gtest/gtest.h>

#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "models/common/error.h"
#include "traces/trace.h"

namespace marrow::trace {

inline std::string source_file(const std::string& path) {
  return std::string(MARROW_SOURCE_DIR) + "/" + path;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string gzipped(const std::string& text) {
  std::stringstream out;
  boost::iostreams::filtering_ostream gz;
  gz.push(boost::iostreams::gzip_compressor());
  gz.push(out);
  gz << text;
  gz.reset();
  return out.str();
}

/// `text` with the first `from` replaced by `to`; fails the test if there is none.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no '" << from << "' to replace";
    return text;
  }
  return text.replace(at, from.size(), to);
}

/// What the InputError says that `act` must throw.
template <class Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const InputError& e) {
    return e.what();
  }
  ADD_FAILURE() << "no InputError";
  return "";
}

inline std::uint64_t count_ops(const std::string& path) {
  Reader reader(path);
  std::uint64_t ops = 0;
  Op op;
  while (reader.next_run())
    while (reader.next_op(op)) ++ops;
  return ops;
}

/// A test with a directory that goes with it.
class Files : public testing::Test {
 protected:
  Files() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(testing::TempDir()) /
                 (std::string("marrow-") + info->test_suite_name() + "-" + info->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~Files() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string make(const std::string& name, const std::string& text) const {
    write_file(path(name), text);
    return path(name);
  }
  std::size_t files() const {
    const std::filesystem::directory_iterator all(directory_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  std::filesystem::path directory_;
};

/// A whole trace in memory.
struct Loaded {
  Header header;
  std::vector<Run> runs;
  std::vector<std::vector<Op>> ops;

  const Run& run(const std::string& name) const {
    for (const Run& run : runs)
      if (run.name == name) return run;
    ADD_FAILURE() << "no run '" << name << "'";
    return runs.front();
  }
};

inline Loaded load(const std::string& path) {
  Reader reader(path);
  Loaded all;
  all.header = reader.header();
  while (const auto run = reader.next_run()) {
    all.runs.push_back(*run);
    all.ops.emplace_back();
    Op op;
    while (reader.next_op(op)) all.ops.back().push_back(op);
  }
  return all;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace marrow::trace
