#include "traces/counters.h"

#include <utility>

namespace marrow::trace {

void Requests::add(const Op& op) {
  const auto count = static_cast<double>(op.count);
  if (op.kind == OpKind::kPut || op.kind == OpKind::kPutSignal) writes += count;
  if (op.kind == OpKind::kAtomic || op.kind == OpKind::kPutSignal) atomics += count;
  if (op.kind == OpKind::kGet) reads += count;
}

std::vector<CounterCheck> check_counters(const Header& header, const Requests& requests) {
  std::vector<CounterCheck> checks;
  if (requests.writes + requests.reads + requests.atomics == 0) return checks;
  for (const auto& [name, expected] : {std::pair("rx_write_requests", requests.writes),
                                       std::pair("rx_read_requests", requests.reads),
                                       std::pair("rx_atomic_requests", requests.atomics)}) {
    CounterCheck check{name, 0, expected};
    bool found = false;
    for (const Counter& counter : header.counters)
      if (counter.name == name) {
        check.counted += counter.value;
        found = true;
      }
    if (found) checks.push_back(check);
  }
  return checks;
}

}  // namespace marrow::trace
