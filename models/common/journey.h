// One message's way through the machine.
#pragma once

#include <array>
#include <cstdint>

#include "models/common/stage.h"
#include "models/common/time.h"

namespace marrow {

struct Journey {
  std::uint32_t run = 0;                   ///< which run of the trace, from 0
  std::uint32_t pe = 0;                    ///< processing element that issued it
  std::uint32_t warp = 0;                  ///< issuing warp (one active lane each)
  std::uint32_t sm = 0;                    ///< SM the warp runs on
  std::uint32_t queue = 0;                 ///< queue pair
  std::uint64_t index = 0;                 ///< position in the queue, from 0
  std::uint64_t op = 0;                    ///< position in the warp's own stream, from 0
  std::uint64_t bytes = 0;                 ///< payload
  Ps start_ps = 0;                         ///< simulated time at which the issuing lane began
  std::array<Ps, kStageCount> stage_ps{};  ///< time spent in each stage; 0 where there is none
  Ps waited_ps = 0;         ///< what the lane itself waited for completion; 0 if it did not wait
  std::uint32_t polls = 0;  ///< loads it spent on that
  bool rang = false;        ///< this message's lane rang the doorbell
  bool waited = false;      ///< the lane waited for completion

  Ps& at(Stage s) { return stage_ps[static_cast<std::size_t>(s)]; }
  Ps at(Stage s) const { return stage_ps[static_cast<std::size_t>(s)]; }

  /// What the issuing lane spent up to its last doorbell store.
  Ps issue_ps() const {
    Ps sum = 0;
    for (std::size_t i = 0; i <= static_cast<std::size_t>(Stage::kDoorbellRegister); ++i)
      sum += stage_ps[i];
    return sum;
  }
  /// The lane's view: issue and its own wait for completion.
  Ps put_ps() const { return issue_ps() + waited_ps; }
  /// The message's view: all stages, which tile.
  Ps end_to_end_ps() const {
    Ps sum = 0;
    for (Ps s : stage_ps) sum += s;
    return sum;
  }
};

}  // namespace marrow
