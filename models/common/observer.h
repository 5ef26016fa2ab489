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

struct Flight;

/// A lane at the begin or the end of an operation.
struct LaneMoment {
  std::uint32_t pe = 0, lane = 0, peer = 0;
  OpKind kind = OpKind::kPut;
  bool waits = false;          ///< the trace says that the operation waits for its completion
  std::uint32_t messages = 0;  ///< that the operation makes
  std::uint64_t version = 0;   ///< the lane's count of messages, these included
  std::uint64_t signals = 0;   ///< the lane's count of signals, atomics and barriers
  std::uint64_t awaited = 0;   ///< and of waits and barriers
  Ps at_ps = 0;                ///< the lane's own time, ahead of the simulation's
};

/// Follows who stored and read which version when; for checkers of orders. Not told to: no cost.
class OrderObserver {
 public:
  virtual ~OrderObserver() = default;
  virtual void on_run_begin(Ps begin_ps) = 0;
  virtual void on_operation_begin(const LaneMoment& moment) = 0;
  virtual void on_operation_end(const LaneMoment& moment) = 0;
  /// A message has completed. over: the entry that took its place in the ring, or null.
  virtual void on_message(std::uint32_t pe, const Flight& flight, const Flight* over) = 0;
  /// The run broke off before this message was complete.
  virtual void on_unfinished(std::uint32_t pe, std::uint32_t queue, std::uint64_t index,
                             const Flight& flight, const Flight* over) = 0;
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
