#include "sim/sweep/jobs.h"

#include <utility>

namespace marrow::sweep {

namespace {
// Requests of other ranks do not wake this one: it looks for them often enough.
constexpr int kLookEveryMs = 1;
}  // namespace

JobRunner::~JobRunner() {
  for (const std::size_t rank : idle_) ranks_.answer(rank, std::nullopt);
  helpers_ -= idle_.size();
  while (helpers_ > 0) {
    if (const auto request = ranks_.next_request()) {
      ranks_.answer(request->rank, std::nullopt);
      --helpers_;
    } else {
      pool_.wait(kLookEveryMs);
    }
  }
}

void JobRunner::run(
    const std::vector<Job>& jobs,
    const std::function<void(std::size_t, const std::string&, const std::string&)>& on_done) {
  std::size_t next = 0, done = 0;
  const auto finish = [&](std::size_t number, const std::string& line, const std::string& fault) {
    ++done;
    on_done(number, line, fault);
  };
  while (done < jobs.size()) {
    while (!pool_.full() && next < jobs.size()) {
      const Job& job = jobs[next++];
      pool_.start(job.number, [&] { return work_(job); });
    }
    while (!idle_.empty() && next < jobs.size()) {
      ranks_.answer(idle_.back(), jobs[next++]);
      idle_.pop_back();
    }
    while (const auto request = ranks_.next_request()) {
      if (!request->line.empty()) finish(request->number, request->line, "");
      if (next < jobs.size())
        ranks_.answer(request->rank, jobs[next++]);
      else
        idle_.push_back(request->rank);
    }
    for (const auto& ended : pool_.wait(helpers_ > 0 ? kLookEveryMs : -1))
      finish(ended.job, ended.said, ended.fault);
  }
}

void help(Ranks& ranks, const Work& work) {
  std::string line;
  std::size_t number = 0;
  while (const auto job = ranks.ask(number, line)) {
    number = job->number;
    sim::ForkPool pool(1);
    pool.start(number, [&] { return work(*job); });
    auto ended = pool.wait();
    line = ended.front().fault.empty() ? std::move(ended.front().said)
                                       : std::move(ended.front().fault);
  }
}

}  // namespace marrow::sweep
