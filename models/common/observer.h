// What the models tell to whoever listens: recorders, timelines and checkers stand outside the
// models and cost nothing when absent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/common/journey.h"
#include "models/common/program.h"

namespace marrow {

/// A block or link was busy for [begin_ps, end_ps).
struct Activity {
  std::string_view block;  ///< for example "gpu0.l2" or "gpu0.pcie.up"
  std::string_view what;   ///< for example "atomic", "MemWr"
  Ps begin_ps = 0;
  Ps end_ps = 0;
};

/// A lane's operation from its first instruction to its return.
struct Operation {
  std::uint32_t run = 0, pe = 0, warp = 0;
  OpKind kind = OpKind::kPut;
  std::uint64_t bytes = 0;
  Ps begin_ps = 0;
  Ps end_ps = 0;
};

/// From a kernel's end to the end of the next one, which a CPU thread launched. The times follow
/// each other: notice, communication, launch, the next kernel's work.
struct KernelRound {
  std::uint32_t run = 0, pe = 0, warp = 0;
  Ps begin_ps = 0;    ///< the kernel's work was done
  Ps noticed_ps = 0;  ///< the thread knew
  Ps called_ps = 0;   ///< the thread called for the next one, its messages complete
  Ps started_ps = 0;  ///< which began
  Ps ended_ps = 0;    ///< and its work was done
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// A message's journey is complete. Called in completion order.
  virtual void on_journey(const Journey& journey) = 0;
  /// A lane has done an operation. Called where the lane's own time is ahead of the simulation's.
  virtual void on_operation(const Operation&) {}
  /// A CPU thread has launched a kernel. Called ahead of the simulation's time, as above.
  virtual void on_kernel(const KernelRound&) {}
  /// Called only where wants_activity() is true.
  virtual void on_activity(const Activity&) {}
  virtual bool wants_activity() const { return false; }
};

/// Where a block reports its counters once a run has ended, for example
/// add("gpu0.l2", "atomics", 1200, "count").
class CounterSink {
 public:
  virtual ~CounterSink() = default;
  virtual void add(std::string_view block, std::string_view counter, double value,
                   std::string_view unit) = 0;
};

}  // namespace marrow
