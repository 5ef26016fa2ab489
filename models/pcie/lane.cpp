#include "models/pcie/lane.h"

#include <algorithm>
#include <iterator>

namespace marrow::pcie {

Lane::Slot Lane::reserve(Ps at_ps, Ps length_ps) {
  if (length_ps <= 0) return {at_ps, at_ps};
  Slot slot, merged;
  merged.begin_ps = slot.begin_ps = std::max(at_ps, floor_ps_);
  // What comes is nearly always due near the end: look there first.
  constexpr int kNear = 16;
  auto first = busy_.end();
  for (int i = 0; i < kNear && first != busy_.begin(); ++i) {
    if (std::prev(first)->end_ps < slot.begin_ps) break;
    --first;
  }
  if (first != busy_.begin() && std::prev(first)->end_ps >= slot.begin_ps)
    first = std::lower_bound(busy_.begin(), first, slot.begin_ps,
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
