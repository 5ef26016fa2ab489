// What does a command leave that is ended by a signal while it writes?
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/cli/command.h"

namespace marrow::cli {
namespace {

class Ended : public Command {
 protected:
  std::set<std::string> files() const {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path("")))
      all.insert(entry.path().filename().string());
    return all;
  }

  /// Starts marrow in the folder, sends the signal once so many temporary files are there, and
  /// returns what ended it (as waitpid has it).
  int ended_by(int signal, const Arguments& arguments, std::size_t temporaries) const {
    const pid_t child = fork();
    if (child == 0) {
      ::signal(signal, SIG_DFL);
      const int nothing = open("/dev/null", O_WRONLY);
      dup2(nothing, 1), dup2(nothing, 2);
      if (chdir(path("").c_str()) != 0) _exit(9);
      setenv("TMPDIR", path("").c_str(), 1);
      std::vector<std::string> words = {MARROW_BINARY};
      words.insert(words.end(), arguments.begin(), arguments.end());
      std::vector<char*> pointers;
      for (std::string& word : words) pointers.push_back(word.data());
      pointers.push_back(nullptr);
      execv(MARROW_BINARY, pointers.data());
      _exit(9);
    }
    const auto temporary = [](const std::string& name) {
      return name.ends_with(".tmp") || name.starts_with("marrow-");
    };
    int status = 0;
    while (true) {
      const auto now = files();
      if (static_cast<std::size_t>(std::count_if(now.begin(), now.end(), temporary)) >= temporaries)
        break;
      if (waitpid(child, &status, WNOHANG) == child) return status;  // by itself, too early
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    kill(child, signal);
    waitpid(child, &status, 0);
    return status;
  }
};

// A workload that takes hours.
const std::string kEndless =
    replaced(replaced(kWorkload, "puts_per_warp: 20", "puts_per_warp: 1000000000"),
             "    wait_every: 4\n", "");

TEST_F(Ended, ASignalLeavesNothingHalfWritten) {
  make("w.yaml", kEndless);
  make("old.csv", "what was there");
  const std::set<std::string> before = files();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // Two outputs, and the workload as a trace.
    const int status = ended_by(
        signal,
        run_of("w.yaml") + Arguments{"--messages-csv", "old.csv", "--perfetto", "new.perfetto"}, 3);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_EQ(files(), before) << "after " << strsignal(signal);
    EXPECT_EQ(text("old.csv"), "what was there");
  }
}

TEST_F(Ended, AnIgnoredSignalIsNotTaken) {
  make("w.yaml", kWorkload);
  const Result result =
      shell("trap '' HUP; marrow run --system " + kSystem +
            " --trace w.yaml --json out.json & pid=$!; kill -HUP $pid; wait $pid");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(path("out.json")));
}

TEST_F(Ended, WhatAKillLeavesIsNoOutputOfTheNextRun) {
  make("w.yaml", kEndless);
  const int status = ended_by(SIGKILL, run_of("w.yaml") + Arguments{"--messages-csv", "m.csv"}, 2);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(path("m.csv")));
  const Result result = marrow({"report", path(""), "--out", "r.html"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("nothing that a report shows"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace marrow::cli
