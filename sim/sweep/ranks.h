// The processes that `mpirun -n N` (or srun) started, where marrow was built with MPI; else one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace marrow::sweep {

struct Job {
  std::size_t number = 0;
  std::string text;  ///< what it is, where the number does not say it
};

class Ranks {
 public:
  /// Starts MPI if the program was started by mpirun or srun. Throws InputError if it was and
  /// marrow was built without MPI: every process would do the whole study.
  Ranks();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::size_t rank() const;
  std::size_t size() const;

  struct Request {
    std::size_t rank = 0, number = 0;
    std::string line;  ///< the last job's result; empty: it has done none yet
  };
  /// Rank 0: a request that has come, if any.
  std::optional<Request> next_request();
  /// Rank 0: the job to do next, or nothing: none is left.
  void answer(std::size_t rank, const std::optional<Job>& job);
  /// The others: hands over the last job's result and waits for the next one.
  std::optional<Job> ask(std::size_t number, const std::string& line);

 private:
  struct Mpi;
  std::unique_ptr<Mpi> mpi_;
};

}  // namespace marrow::sweep
