#include "models/pcie/lane.h"

#include <algorithm>

namespace marrow::pcie {

Lane::Slot Lane::reserve(Ps at_ps, Ps length_ps) {
  if (length_ps <= 0) return {at_ps, at_ps};
  Slot slot, merged;
  merged.begin_ps = slot.begin_ps = std::max(at_ps, floor_ps_);
  const auto first = std::lower_bound(busy_.begin(), busy_.end(), slot.begin_ps,
                                      [](const Slot& taken, Ps ps) { return taken.end_ps < ps; });
  auto next = first;
  if (next != busy_.end() && next->begin_ps <= slot.begin_ps) {
    merged.begin_ps = next->begin_ps;
    slot.begin_ps = (next++)->end_ps;
  }
  // Fill gaps; whatever they separated becomes one interval.
  Ps cursor_ps = slot.begin_ps;
  for (; next != busy_.end() && next->begin_ps - cursor_ps <= length_ps; ++next) {
    length_ps -= next->begin_ps - cursor_ps;
    slot.end_ps = next->begin_ps;
    cursor_ps = next->end_ps;
  }
  merged.end_ps = cursor_ps + length_ps;
  if (length_ps > 0) slot.end_ps = merged.end_ps;
  if (next == first) {
    busy_.insert(next, merged);
  } else {
    *first = merged;
    busy_.erase(first + 1, next);
  }
  if (busy_.size() > kIntervals) {
    floor_ps_ = busy_.front().end_ps;
    busy_.pop_front();
  }
  return slot;
}

}  // namespace marrow::pcie
