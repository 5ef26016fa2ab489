// Runs marrow as a user does: the built program, in a directory of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace marrow::cli {

inline std::string source_file(const std::string& path) {
  return std::string(MARROW_SOURCE_DIR) + "/" + path;
}

const std::string kSystem = source_file("configs/systems/h200-c.yaml");
const std::string kCapture = source_file("traces/h200-c-device-consumer.trace");

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
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

struct Result {
  int code = -1;
  std::string out, err;
};

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

class Command : public testing::Test {
 protected:
  Command() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(testing::TempDir()) /
            (std::string("marrow-cli-") + info->test_suite_name() + "-" + info->name());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "work");
  }
  ~Command() override { std::filesystem::remove_all(root_); }

  std::string path(const std::string& name) const { return (root_ / "work" / name).string(); }
  void make(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string text(const std::string& name) const { return read_file(path(name)); }
  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(text(name)); }

  Result marrow(const Arguments& arguments) const {
    std::string line = quoted(MARROW_BINARY);
    for (const std::string& argument : arguments) line += " " + quoted(argument);
    return shell(line);
  }
  /// A line as one would type it, with the built program on the path.
  Result shell(const std::string& command) const {
    const std::string out = (root_ / "out").string(), err = (root_ / "err").string();
    const std::string folder = std::filesystem::path(MARROW_BINARY).parent_path().string();
    const std::string line = "cd " + quoted(path("")) + " && PATH=" + quoted(folder) +
                             ":$PATH && { " + command + "; } >" + quoted(out) + " 2>" +
                             quoted(err) + " </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }

  /// Every command there is, the whole program first, as the help texts list them.
  std::vector<Arguments> all_commands() const {
    std::vector<Arguments> all = {{}};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string help = marrow(all[i] + Arguments{"--help"}).out;
      for (const auto& [name, text] : entries(help, "Subcommands:"))
        all.push_back(Arguments(all[i]) + Arguments{name});
    }
    return all;
  }
  /// Long names of a command's options.
  std::vector<std::string> options_of(const Arguments& command) const {
    std::vector<std::string> options;
    for (const auto& [name, text] : entries(marrow(command + Arguments{"--help"}).out, "Options:"))
      if (const auto at = name.find("--"); at != std::string::npos)
        options.push_back(name.substr(at));
    return options;
  }
  /// A help text's section: first word and description of each entry. The description starts in
  /// column 34 or, behind a long name, on the next line.
  static std::vector<std::pair<std::string, std::string>> entries(const std::string& help,
                                                                  const std::string& title) {
    constexpr std::size_t kColumn = 34;
    std::vector<std::pair<std::string, std::string>> found;
    std::istringstream lines(help);
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
      if (line == title)
        inside = true;
      else if (line.empty())
        inside = false;
      else if (inside && line.size() > 2 && line[2] != ' ')
        found.emplace_back(
            line.substr(2, line.find(' ', 2) - 2),
            line.size() > kColumn && line[kColumn - 1] == ' ' ? line.substr(kColumn) : "");
      else if (inside && !found.empty())
        found.back().second += line;
    }
    return found;
  }

  void expect_done(const Arguments& arguments) const {
    const Result result = marrow(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
  }

  /// Exit code 2, one message that holds every part, and nothing new in the directory, neither the
  /// outputs nor what they are written to before they get their names.
  void expect_refused(const Arguments& arguments, const std::vector<std::string>& parts) const {
    std::string shown;
    for (const std::string& argument : arguments) shown += " " + argument;
    SCOPED_TRACE("marrow" + shown);
    const std::set<std::string> before = names();
    const Result result = marrow(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_TRUE(result.err.starts_with("marrow: ")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos)
          << "no '" << part << "' in " << result.err;
    EXPECT_EQ(names(), before);
  }

  /// The same for a command line that cannot be parsed: there the mend names the help.
  void expect_bad_usage(const Arguments& arguments, std::vector<std::string> parts) const {
    parts.emplace_back("--help` shows how");
    expect_refused(arguments, parts);
  }

 private:
  static std::string quoted(const std::string& argument) {
    std::string text = "'";
    for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(root_ / "work"))
      all.insert(entry.path().filename().string());
    return all;
  }

  std::filesystem::path root_;
};

/// Every output that a run can write.
const Arguments kAllOutputs = {"--json",         "out.json",         "--csv",      "out.csv",
                               "--messages-csv", "out-messages.csv", "--perfetto", "out.perfetto"};

inline Arguments run_of(const std::string& trace) {
  return {"run", "--system", kSystem, "--trace", trace};
}

/// One run of the bundled capture: enough where the trace does not matter.
inline Arguments run_cfg4() { return run_of(kCapture) + Arguments{"--only", "cfg=4"}; }

const char* const kWorkload =
    "machine: made-up\n"
    "runs:\n"
    "  - name: small puts\n"
    "    protocol: capture-ibgda\n"
    "    warps: 8\n"
    "    queues: 2\n"
    "    puts_per_warp: 20\n"
    "    bytes: 64\n"
    "    wait_every: 4\n";

}  // namespace marrow::cli
