// Numbered jobs, each in a process of its own, several at once, here or on MPI ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sim/fork_pool.h"
#include "sim/sweep/ranks.h"

namespace marrow::sweep {

/// What a job comes to, as one line of text. It must not throw.
using Work = std::function<std::string(const Job& job)>;

/// Rank 0 alone.
class JobRunner {
 public:
  /// at_once: processes at once on this rank; each other rank does one job at a time.
  JobRunner(Ranks& ranks, std::size_t at_once, Work work)
      : ranks_(ranks), pool_(at_once), work_(std::move(work)), helpers_(ranks.size() - 1) {}
  /// Sends the other ranks home.
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  /// Does them all. on_done gets each job's number and line as they end, in no order; fault says
  /// why there is no line (its process was ended); empty: there is one.
  void run(const std::vector<Job>& jobs,
           const std::function<void(std::size_t number, const std::string& line,
                                    const std::string& fault)>& on_done);

 private:
  Ranks& ranks_;
  sim::ForkPool pool_;
  Work work_;
  std::size_t helpers_;
  std::vector<std::size_t> idle_;  ///< ranks that have asked and wait for a job
};

/// All other ranks: does what rank 0 hands out until it says that nothing is left.
void help(Ranks& ranks, const Work& work);

}  // namespace marrow::sweep
