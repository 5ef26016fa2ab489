#include "sim/fork_pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace marrow::sim {

namespace {

int end_of(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ForkPool::~ForkPool() {
  for (const Process& process : running_) {
    kill(process.pid, SIGKILL);
    close(process.pipe);
    end_of(process.pid);
  }
}

void ForkPool::start(std::size_t job, const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error(std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error(std::strerror(errno));
  if (pid == 0) {
    close(ends[0]);
    const std::string said = work();
    for (std::size_t at = 0; at < said.size();) {
      const ssize_t wrote = write(ends[1], said.data() + at, said.size() - at);
      if (wrote <= 0) break;
      at += static_cast<std::size_t>(wrote);
    }
    _exit(0);
  }
  close(ends[1]);
  running_.push_back({job, pid, ends[0], {}});
}

std::vector<ForkPool::Ended> ForkPool::wait(int timeout_ms) {
  std::vector<Ended> ended;
  if (running_.empty() && timeout_ms < 0) return ended;  // nothing will ever end
  do {
    std::vector<pollfd> waits;
    for (const Process& process : running_) waits.push_back({process.pipe, POLLIN, 0});
    if (poll(waits.data(), waits.size(), timeout_ms) < 0) continue;
    for (std::size_t i = waits.size(); i-- > 0;) {
      if (waits[i].revents == 0) continue;
      Process& process = running_[i];
      std::array<char, 4096> block{};
      const ssize_t got = read(process.pipe, block.data(), block.size());
      if (got > 0) process.said.append(block.data(), static_cast<std::size_t>(got));
      if (got > 0 || (got < 0 && errno == EINTR)) continue;
      close(process.pipe);
      const int status = end_of(process.pid);
      ended.push_back({process.job, std::move(process.said), {}});
      if (WIFSIGNALED(status))
        ended.back().fault = fmt::format("its simulation was ended by signal {} ({})",
                                         WTERMSIG(status), strsignal(WTERMSIG(status)));
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  } while (ended.empty() && timeout_ms < 0 && !running_.empty());
  return ended;
}

}  // namespace marrow::sim
