#include "sim/results/kernel_table.h"

#include <fmt/format.h>

namespace marrow::results {

std::vector<KernelRow> KernelTable::Run::rows() const {
  const auto sum = [](const Distribution& d) { return d.mean() * static_cast<double>(d.count()); };
  const double whole = sum(round);
  std::vector<KernelRow> rows = {{"kernel", &kernel},
                                 {"communication", &communication},
                                 {"CPU waiting", &waiting},
                                 {"round", &round}};
  for (KernelRow& row : rows) row.share = whole > 0 ? sum(*row.times) / whole : 0;
  return rows;
}

void KernelTable::on_kernel(const KernelRound& round) {
  Run& run = runs_[round.run];
  if (run.name.empty()) run.name = names_[round.run];
  run.kernel.add(round.ended_ps - round.started_ps);
  run.communication.add(round.called_ps - round.noticed_ps);
  run.waiting.add(round.noticed_ps - round.begin_ps + round.started_ps - round.called_ps);
  run.round.add(round.ended_ps - round.begin_ps);
}

void write_table(std::ostream& out, const KernelTable& table) {
  if (table.runs().empty()) return;
  out << fmt::format("{:<40} {:>10} {:>11} {:>11} {:>11} {:>7}\n",
                     "kernels, one's end to the next one's", "count", "median ns", "p90 ns",
                     "p99 ns", "share");
  for (const auto& [index, run] : table.runs())
    for (const KernelRow& row : run.rows()) {
      const auto ns = [&](double p) {
        return static_cast<double>(row.times->quantile(p)) / static_cast<double>(kPsPerNs);
      };
      out << fmt::format("{:<40} {:>10} {:>11.0f} {:>11.0f} {:>11.0f} {:>5.1f} %\n",
                         fmt::format("{}: {}", run.name, row.what), row.times->count(), ns(0.5),
                         ns(0.9), ns(0.99), 100 * row.share);
    }
  out << '\n';
}

}  // namespace marrow::results
