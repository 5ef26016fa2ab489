// Timed entries of one block: one event, one method, entries handled in time order.
#pragma once

#include <algorithm>
#include <functional>
#include <systemc>
#include <utility>
#include <vector>

#include "models/common/time.h"

namespace marrow {

inline Ps now_ps() { return static_cast<Ps>(sc_core::sc_time_stamp().value()); }

/// A block's pending work. Entries may be pushed in any order; each is handed to the handler at its
/// time, ties in the order of pushing. O(log n) an entry.
template <class Entry>
class DelayLine : public sc_core::sc_module {
 public:
  DelayLine(sc_core::sc_module_name name, std::function<void(Entry&, Ps)> handler)
      : sc_module(name), handler_(std::move(handler)) {
    SC_HAS_PROCESS(DelayLine);
    SC_METHOD(drain);
    sensitive << wake_;
    dont_initialize();
  }

  /// at_ps: not before the current simulated time.
  void push(Ps at_ps, Entry entry) {
    const bool first = heap_.empty() || at_ps < heap_.front().at_ps;
    heap_.push_back({at_ps, sequence_++, std::move(entry)});
    std::push_heap(heap_.begin(), heap_.end(), later);
    if (first && !draining_) arm();
  }
  std::size_t size() const { return heap_.size(); }

 private:
  struct Slot {
    Ps at_ps;
    std::uint64_t sequence;
    Entry entry;
  };
  static bool later(const Slot& a, const Slot& b) {
    return a.at_ps != b.at_ps ? a.at_ps > b.at_ps : a.sequence > b.sequence;
  }
  void arm() {
    const Ps wait = heap_.front().at_ps - now_ps();
    wake_.notify(sc_core::sc_time::from_value(static_cast<std::uint64_t>(std::max<Ps>(wait, 0))));
  }
  void drain() {
    const Ps now = now_ps();
    draining_ = true;
    while (!heap_.empty() && heap_.front().at_ps <= now) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      Slot slot = std::move(heap_.back());
      heap_.pop_back();
      handler_(slot.entry, slot.at_ps);
    }
    draining_ = false;
    if (!heap_.empty()) arm();
  }

  std::function<void(Entry&, Ps)> handler_;
  sc_core::sc_event wake_;
  std::vector<Slot> heap_;
  std::uint64_t sequence_ = 0;
  bool draining_ = false;
};

}  // namespace marrow
