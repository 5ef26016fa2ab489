#include "traces/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/common/stage.h"
#include "traces/text.h"

namespace marrow::trace {

RunRules::RunRules(const Run& run) : measured_stages_(run.measured_stages.size()) {
  if (run.protocol.empty() && run.not_replayable.empty())
    throw Fault{"the run names no protocol", "name its recipe"};
  if (run.queues == 0) throw Fault{"the run has 0 queues", "a run needs at least 1"};
  if (run.lanes.empty()) throw Fault{"the run has no lanes", "list its issuing warps"};
  warps_.reserve(run.lanes.size());
  for (const Lane& lane : run.lanes) {
    if (lane.queue >= run.queues)
      throw Fault{fmt::format("warp {}: queue index out of range ({} of {} queues)", lane.warp,
                              lane.queue, run.queues),
                  fmt::format("use 0 to {}", run.queues - 1)};
    if (!(lane.period_ns >= 0) || (lane.visits > 0 && lane.puts_per_visit == 0))
      throw Fault{fmt::format("warp {}: a period below 0, or visits of no messages", lane.warp),
                  "write a period of 0 or more, and at least one message a visit"};
    warps_.push_back(lane.warp);
  }
  if (std::all_of(run.lanes.begin(), run.lanes.end(),
                  [](const Lane& lane) { return lane.background; }))
    throw Fault{"all of the run's lanes are background",
                "the run ends with its other lanes: list one"};
  for (const Traffic& traffic : run.traffic)
    if (static_cast<std::size_t>(traffic.place) >= kTrafficPlaces.size() || !(traffic.gbps > 0) ||
        !std::isfinite(traffic.gbps) || traffic.bytes == 0)
      throw Fault{"traffic at an unknown place, of no rate or no bytes",
                  fmt::format("places: {}; a rate and bytes above 0", listed(kTrafficPlaces))};
  std::sort(warps_.begin(), warps_.end());
  const auto twice = std::adjacent_find(warps_.begin(), warps_.end());
  if (twice != warps_.end())
    throw Fault{fmt::format("warp {} is listed twice among the lanes", *twice),
                "give every lane its own number"};
  dense_ = warps_.back() == warps_.size() - 1;
  for (const PlacedWord& word : run.words) {
    if (word.queue >= run.queues)
      throw Fault{fmt::format("word '{}' of queue {}: the run has {} queues", shown(word.word),
                              word.queue, run.queues),
                  "make or fetch it again"};
    for (const Sight& sight : word.seen)
      if (!has_lane(sight.warp))
        throw Fault{fmt::format("word '{}' is seen from warp {}, which is not among the lanes",
                                shown(word.word), sight.warp),
                    "make or fetch it again"};
  }

  for (const Summary& s : run.summaries)
    if (s.metric.empty() || s.statistic.empty() || !std::isfinite(s.value))
      throw Fault{fmt::format("a summary without metric, statistic or number ('{}' '{}')",
                              shown(s.metric), shown(s.statistic)),
                  "leave out what was not measured"};

  std::vector<std::string_view> known(kStageNames.begin(), kStageNames.end());
  known.push_back("completion");
  for (auto stage = run.measured_stages.begin(); stage != run.measured_stages.end(); ++stage) {
    if (std::find(known.begin(), known.end(), *stage) == known.end())
      throw Fault{fmt::format("unknown measured stage '{}'", shown(*stage)),
                  choose_from(*stage, known)};
    if (std::find(run.measured_stages.begin(), stage, *stage) != stage)
      throw Fault{fmt::format("measured stage '{}' is listed twice", *stage), "list it once"};
  }
}

bool RunRules::has_lane(std::uint32_t warp) const {
  return dense_ ? warp < warps_.size() : std::binary_search(warps_.begin(), warps_.end(), warp);
}

void RunRules::check(const Op& op) const {
  if (name(op.kind).empty())
    throw Fault{fmt::format("unknown operation kind {}", static_cast<int>(op.kind)),
                "known are 1 (put) to 9 (compute)"};
  if (!has_lane(op.warp))
    throw Fault{fmt::format("warp {} is not among the run's {} lanes", op.warp, warps_.size()),
                "list it as a lane"};
  if (op.bytes > kMaxOpBytes)
    throw Fault{fmt::format("payload of {} bytes is out of range", op.bytes), "at most 2^40 bytes"};
  if (!op.measured) return;
  const Measured& m = *op.measured;
  if (m.stage_cycles.size() != measured_stages_)
    throw Fault{fmt::format("{} measured stage times, but the run names {} measured stages",
                            m.stage_cycles.size(), measured_stages_),
                "one time for each stage"};
  if (!std::isfinite(m.consumer_seen_ns) ||
      !(m.consumer_read_ns >= 0 && std::isfinite(m.consumer_read_ns)) ||
      !(m.consumer_done_ns >= 0 && std::isfinite(m.consumer_done_ns)))
    throw Fault{"a consumer time is negative or no number", "write 0 where it is unknown"};
}

}  // namespace marrow::trace
