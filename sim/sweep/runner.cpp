#include "sim/sweep/runner.h"

namespace marrow::sweep {

namespace {

Work work_of(const Study& study, const std::vector<Point>& points) {
  return [&](const Job& job) { return simulate_to_line(study, points[job.number]); };
}

}  // namespace

std::vector<Outcome> run_points(const Study& study, const std::vector<Point>& points,
                                Journal& journal, Ranks& ranks, const RunOptions& options) {
  std::vector<Job> todo;
  for (std::size_t p = 0; p < points.size(); ++p)
    if (!journal.lines().count(p)) todo.push_back({p, {}});
  JobRunner(ranks, options.jobs, work_of(study, points))
      .run(todo, [&](std::size_t point, const std::string& line, const std::string& fault) {
        Outcome outcome;
        if (fault.empty())
          outcome = from_line(line);
        else
          outcome.error = fault;
        journal.add(point, as_line(outcome));
        if (options.on_done) options.on_done(1);
      });
  std::vector<Outcome> outcomes;
  for (std::size_t p = 0; p < points.size(); ++p)
    outcomes.push_back(from_line(journal.lines().at(p)));
  return outcomes;
}

void help(const Study& study, const std::vector<Point>& points, Ranks& ranks) {
  help(ranks, work_of(study, points));
}

}  // namespace marrow::sweep
