#include "sim/sweep/runner.h"

#include <optional>

#include "sim/fork_pool.h"

namespace marrow::sweep {

namespace {

std::string line_of(const sim::ForkPool::Ended& ended) {
  Outcome outcome;
  if (ended.fault.empty())
    outcome = from_line(ended.said);
  else
    outcome.error = ended.fault;
  return as_line(outcome);
}

}  // namespace

std::vector<Outcome> run_points(const Study& study, const std::vector<Point>& points,
                                Journal& journal, Ranks& ranks, const RunOptions& options) {
  std::vector<std::size_t> todo;
  for (std::size_t p = 0; p < points.size(); ++p)
    if (!journal.lines().count(p)) todo.push_back(p);
  std::size_t next = 0, done = 0, helpers = ranks.size() - 1;
  const auto take = [&]() -> std::optional<std::size_t> {
    if (next == todo.size()) return std::nullopt;
    return todo[next++];
  };
  const auto finish = [&](std::size_t point, const std::string& line) {
    journal.add(point, line);
    ++done;
    if (options.on_done) options.on_done(1);
  };
  sim::ForkPool pool(options.jobs);
  while (done < todo.size() || helpers > 0) {
    while (!pool.full()) {
      const auto point = take();
      if (!point) break;
      pool.start(*point, [&] { return simulate_to_line(study, points[*point]); });
    }
    while (const auto request = ranks.next_request()) {
      if (!request->line.empty()) finish(request->point, request->line);
      const auto point = take();
      ranks.answer(request->rank, point);
      if (!point) --helpers;
    }
    // Requests of other ranks do not wake it: it looks for them often enough.
    constexpr int kLookEveryMs = 1;
    for (const auto& ended : pool.wait(helpers > 0 ? kLookEveryMs : -1))
      finish(ended.job, line_of(ended));
  }
  std::vector<Outcome> outcomes;
  for (std::size_t p = 0; p < points.size(); ++p)
    outcomes.push_back(from_line(journal.lines().at(p)));
  return outcomes;
}

void help(const Study& study, const std::vector<Point>& points, Ranks& ranks) {
  std::string line;
  std::size_t point = 0;
  while (const auto next = ranks.ask(point, line)) {
    point = *next;
    sim::ForkPool pool(1);
    pool.start(point, [&] { return simulate_to_line(study, points[point]); });
    line = line_of(pool.wait().front());
  }
}

}  // namespace marrow::sweep
