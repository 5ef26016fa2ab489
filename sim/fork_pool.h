// Simulations in processes of their own: the SystemC kernel is global, and a fork costs less than a
// millisecond.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace marrow::sim {

class ForkPool {
 public:
  struct Ended {
    std::size_t job = 0;
    std::string said;   ///< what its work returned
    std::string fault;  ///< why it returned nothing (ended by a signal); empty: it did
  };

  explicit ForkPool(std::size_t at_once) : most_(at_once == 0 ? 1 : at_once) {}
  ~ForkPool();  ///< ends what still runs
  ForkPool(const ForkPool&) = delete;
  ForkPool& operator=(const ForkPool&) = delete;

  bool full() const { return running_.size() >= most_; }
  bool empty() const { return running_.empty(); }
  /// Does `work` in a process of its own. It must not throw, nor touch what it shares with the
  /// parent: files, locks. Throws std::runtime_error if no process can be made.
  void start(std::size_t job, const std::function<std::string()>& work);
  /// Those that have ended, once one has or the time is over (-1: never over). None where nothing
  /// runs.
  std::vector<Ended> wait(int timeout_ms = -1);

 private:
  struct Process {
    std::size_t job = 0;
    pid_t pid = -1;
    int pipe = -1;
    std::string said;
  };
  std::size_t most_;
  std::vector<Process> running_;
};

}  // namespace marrow::sim
