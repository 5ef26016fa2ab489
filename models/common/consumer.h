// The stand-in for a NIC: an agent that polls each queue's announcement in turn, reads the entries
// and writes completions. What a poll, a read and a completion cost is the derived agent's.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <systemc>
#include <vector>

#include "models/common/delay_line.h"
#include "models/common/journey_book.h"
#include "models/common/observer.h"
#include "models/common/program.h"
#include "models/common/queues.h"

namespace marrow {

/// Idle polling costs no events: the agent's next look at a word is computed from its phase when
/// the word changes.
class Consumer : public sc_core::sc_module {
 public:
  explicit Consumer(sc_core::sc_module_name name);

  /// Before each run. payload_bytes(queue, index): how much an entry carries.
  void start(const Program* program, const QueueLayout* layout, std::uint32_t queues,
             JourneyBook* book,
             std::function<std::uint64_t(std::uint32_t, std::uint64_t)> payload_bytes);
  virtual void report(CounterSink& sink) const;
  void clear_counters() {
    completed_ = notices_ = looks_ = 0;
    busy_ps_ = 0;
  }
  void set_observer(Observer* observer) { observer_ = observer; }
  std::uint64_t completed() const { return completed_; }

 protected:
  virtual std::uint64_t load(std::uint64_t address, std::uint32_t bytes) const = 0;
  /// Stores a completion issued at issue_ps; returns when it is visible where it is polled.
  virtual Ps store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                              Ps issue_ps) = 0;
  /// Watches [begin, end) and calls announced() for each store in it.
  virtual void watch(std::uint64_t begin, std::uint64_t end) = 0;
  virtual Ps poll_period_ps(std::uint64_t address) const = 0;  ///< from one poll to the next
  virtual Ps poll_return_ps(std::uint64_t address) const = 0;  ///< from the look to knowing
  virtual Ps notice_ps() { return 0; }                         ///< visible until a look finds it
  virtual Ps cycles_ps(double cycles) const = 0;
  virtual Ps copy_ps(std::uint64_t bytes) const { return bytes ? 0 : 0; }
  /// Where reading an entry is not a recipe's cost alone: the way there and back.
  virtual Ps entry_read_ps() { return 0; }
  /// The same of the fence before a completion's store.
  virtual Ps completion_fence_ps() const { return 0; }

  void announced(std::uint64_t address, Ps at_ps);
  /// When the look is due that is under way at at_ps, each starting ahead_ps before it is due; -1
  /// while it handles entries, or if it is not at this word (0: any).
  Ps look_under_way_ps(Ps at_ps, Ps ahead_ps, std::uint64_t address) const;
  const Program& program() const { return *program_; }
  std::uint64_t looks() const { return looks_; }

 private:
  struct Wake {
    enum class Kind : std::uint8_t { kLook, kIdle, kComplete } kind;
    std::uint32_t queue = 0;
    std::uint64_t generation = 0;
    std::uint64_t value = 0;
    Ps visible_ps = 0;
  };
  void on_wake(Wake& wake, Ps at_ps);
  void serve(std::uint32_t queue, std::uint64_t next, Ps from_ps);
  bool pending(std::uint32_t queue, std::uint64_t& next) const;
  void idle_from(Ps look_ps, std::uint32_t queue);
  Ps look_at(std::uint32_t queue, Ps not_before_ps) const;
  void look_for(std::uint32_t queue, Ps not_before_ps);

  const Program* program_ = nullptr;
  const QueueLayout* layout_ = nullptr;
  JourneyBook* book_ = nullptr;
  std::function<std::uint64_t(std::uint32_t, std::uint64_t)> payload_bytes_;
  std::uint32_t queues_ = 0;
  std::vector<std::uint64_t> head_;
  std::set<std::uint32_t> waiting_;  ///< queues with something announced and not yet taken
  DelayLine<Wake> wakes_;
  bool busy_ = false;
  std::uint64_t generation_ = 0;
  Ps anchor_ps_ = 0;  ///< a moment at which it looks, or would look, at anchor_queue_
  std::uint32_t anchor_queue_ = 0;
  Ps period_ps_ = 1;
  std::uint64_t completed_ = 0, notices_ = 0;
  std::uint64_t looks_ = 0;  ///< polls of announcements
  Ps busy_ps_ = 0;
  Observer* observer_ = nullptr;
};

}  // namespace marrow
