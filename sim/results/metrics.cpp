#include "sim/results/metrics.h"

#include <algorithm>
#include <map>

namespace marrow::results {

void Keeper::on_journey(const Journey& journey) {
  if (journey.pe == 0)
    observed_.messages.emplace_back(journey.start_ps, journey.start_ps + journey.end_to_end_ps());
}

void Keeper::on_operation(const Operation& operation) {
  if (operation.pe != 0) return;
  observed_.operations.push_back(operation);
  if (!is_message(operation.kind)) return;
  ++issued_;
  observed_.bytes +=
      (static_cast<double>(operation.bytes) - observed_.bytes) / static_cast<double>(issued_);
}

std::vector<double> samples(Metric metric, const Observed& observed) {
  std::vector<double> values;
  if (!is_time(metric)) {
    if (observed.messages.empty()) return values;
    Ps first_ps = observed.messages.front().first, last_ps = 0;
    for (const auto& [begin_ps, end_ps] : observed.messages) {
      first_ps = std::min(first_ps, begin_ps);
      last_ps = std::max(last_ps, end_ps);
    }
    const Ps tenth_ps = (last_ps - first_ps) / 10;
    const Ps from_ps = first_ps + tenth_ps, to_ps = last_ps - tenth_ps;
    const auto count = static_cast<double>(std::count_if(
        observed.messages.begin(), observed.messages.end(),
        [&](const auto& message) { return message.second > from_ps && message.second <= to_ps; }));
    if (count == 0) return values;
    const double per_ns =
        count * static_cast<double>(kPsPerNs) / static_cast<double>(to_ps - from_ps);
    values.push_back(metric == Metric::kRate ? 1000 * per_ns : per_ns * observed.bytes);
    return values;
  }
  std::map<std::uint32_t, std::vector<const Operation*>> by_warp;
  for (const Operation& operation : observed.operations)
    by_warp[operation.warp].push_back(&operation);
  const bool issue = metric == Metric::kIssue;
  const OpKind closes =
      metric == Metric::kRoundTrip || metric == Metric::kOneWay ? OpKind::kWait : OpKind::kQuiet;
  for (const auto& [warp, operations] : by_warp) {
    std::vector<double> of_warp;
    std::vector<Ps> open;
    for (const Operation* operation : operations) {
      if (is_message(operation->kind)) {
        if (issue)
          of_warp.push_back(static_cast<double>(operation->end_ps - operation->begin_ps));
        else
          open.push_back(metric == Metric::kDoorbellToCompletion ? operation->end_ps
                                                                 : operation->begin_ps);
      } else if (!issue && operation->kind == closes) {
        for (const Ps from_ps : open)
          of_warp.push_back(static_cast<double>(operation->end_ps - from_ps));
        open.clear();
      }
    }
    const std::size_t cold = of_warp.size() / 10;
    const double per_ns = (metric == Metric::kOneWay ? 2.0 : 1.0) * static_cast<double>(kPsPerNs);
    for (std::size_t i = cold; i < of_warp.size(); ++i) values.push_back(of_warp[i] / per_ns);
  }
  return values;
}

double quantile(std::vector<double> sample, double p) {
  if (sample.empty()) return 0;
  const auto at =
      std::min(sample.size() - 1, static_cast<std::size_t>(p * static_cast<double>(sample.size())));
  std::nth_element(sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(at), sample.end());
  return sample[at];
}

}  // namespace marrow::results
