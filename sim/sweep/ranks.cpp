#include "sim/sweep/ranks.h"

#include <cstdlib>
#ifdef MARROW_MPI
#include <boost/mpi.hpp>
#endif

#include "models/common/error.h"

namespace marrow::sweep {

namespace {

/// How many processes the launcher says it started; 1: there is none.
std::size_t launched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* value = std::getenv(variable)) {
      const auto count = std::strtoul(value, nullptr, 10);
      if (count > 1) return count;
    }
  return 1;
}

}  // namespace

#ifdef MARROW_MPI

namespace {
constexpr int kAskTag = 1, kLineTag = 2, kAnswerTag = 3, kTextTag = 4;
constexpr long kNone = -1;
}  // namespace

struct Ranks::Mpi {
  boost::mpi::environment environment;
  boost::mpi::communicator world;
};

Ranks::Ranks() {
  if (launched() > 1) mpi_ = std::make_unique<Mpi>();
}
Ranks::~Ranks() = default;

std::size_t Ranks::rank() const { return mpi_ ? static_cast<std::size_t>(mpi_->world.rank()) : 0; }
std::size_t Ranks::size() const { return mpi_ ? static_cast<std::size_t>(mpi_->world.size()) : 1; }

std::optional<Ranks::Request> Ranks::next_request() {
  if (!mpi_) return std::nullopt;
  const auto status = mpi_->world.iprobe(boost::mpi::any_source, kAskTag);
  if (!status) return std::nullopt;
  long number = 0;
  Request request;
  mpi_->world.recv(status->source(), kAskTag, number);
  mpi_->world.recv(status->source(), kLineTag, request.line);
  request.rank = static_cast<std::size_t>(status->source());
  request.number = static_cast<std::size_t>(number);
  return request;
}

void Ranks::answer(std::size_t rank, const std::optional<Job>& job) {
  const auto to = static_cast<int>(rank);
  mpi_->world.send(to, kAnswerTag, job ? static_cast<long>(job->number) : kNone);
  if (job) mpi_->world.send(to, kTextTag, job->text);
}

std::optional<Job> Ranks::ask(std::size_t number, const std::string& line) {
  mpi_->world.send(0, kAskTag, static_cast<long>(number));
  mpi_->world.send(0, kLineTag, line);
  long next = kNone;
  mpi_->world.recv(0, kAnswerTag, next);
  if (next == kNone) return std::nullopt;
  Job job{static_cast<std::size_t>(next), {}};
  mpi_->world.recv(0, kTextTag, job.text);
  return job;
}

#else

struct Ranks::Mpi {};

Ranks::Ranks() {
  if (launched() > 1)
    throw InputError("mpirun", "this marrow was built without MPI",
                     "install libboost-mpi1.81-dev and libopenmpi-dev and build again, or use -j");
}
Ranks::~Ranks() = default;
std::size_t Ranks::rank() const { return 0; }
std::size_t Ranks::size() const { return 1; }
std::optional<Ranks::Request> Ranks::next_request() { return std::nullopt; }
void Ranks::answer(std::size_t, const std::optional<Job>&) {}
std::optional<Job> Ranks::ask(std::size_t, const std::string&) { return std::nullopt; }

#endif

}  // namespace marrow::sweep
