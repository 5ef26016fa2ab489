// Runs a study's points: each in a process of its own, several at once, here or on MPI ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "sim/sweep/jobs.h"
#include "sim/sweep/journal.h"
#include "sim/sweep/simulate.h"

namespace marrow::sweep {

struct RunOptions {
  std::size_t jobs = 1;                            ///< processes at once, of each rank
  std::function<void(std::size_t fresh)> on_done;  ///< so many more points are done; may be empty
};

/// The points that the journal does not hold yet are simulated and added to it; the result has all,
/// in their order. Rank 0 alone.
std::vector<Outcome> run_points(const Study& study, const std::vector<Point>& points,
                                Journal& journal, Ranks& ranks, const RunOptions& options);

/// All other ranks: simulates what rank 0 hands out until it says that nothing is left.
void help(const Study& study, const std::vector<Point>& points, Ranks& ranks);

}  // namespace marrow::sweep
