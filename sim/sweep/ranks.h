// The processes that `mpirun -n N` (or srun) started, where marrow was built with MPI; else one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace marrow::sweep {

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
    std::size_t rank = 0, point = 0;
    std::string line;  ///< the last point's result; empty: it has done none yet
  };
  /// Rank 0: a request that has come, if any.
  std::optional<Request> next_request();
  /// Rank 0: the point to do next, or nothing: none is left.
  void answer(std::size_t rank, std::optional<std::size_t> point);
  /// The others: hands over the last result and waits for the next point.
  std::optional<std::size_t> ask(std::size_t point, const std::string& line);

 private:
  struct Mpi;
  std::unique_ptr<Mpi> mpi_;
};

}  // namespace marrow::sweep
