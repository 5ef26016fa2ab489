// What may happen next in a small program: a machine that takes one memory event at a time, in
// every order that the rules (rules.h) allow. A store stands in its lane's list until it reaches
// the CTA, then its home; the NIC executes a queue's entries behind the doorbell; the far side's
// writes stand in the way to their memory until they are placed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "sim/order/program.h"
#include "sim/order/rules.h"

namespace marrow::order {

constexpr std::size_t kMostLocations = 120, kMostThreads = 6, kMostQueues = 6, kMostPending = 16,
                      kMostItems = 14, kMostMessages = 12, kMostHistories = 10, kMostPast = 7,
                      kMostLate = 4;

/// One moment of a program. Plain data: states are compared by their bytes.
struct State {
  struct ThreadState {
    std::uint16_t pc;
    std::array<Word16, kRegs> regs;
    std::uint8_t synced;  ///< waits at a barrier
    std::uint8_t pad;
  };
  /// A store that is not yet at its home.
  struct Pending {
    std::int8_t thread;
    std::int8_t level;   ///< 0: its lane alone sees it, 1: its CTA, 2: its GPU
    std::int8_t fenced;  ///< widest scope of a fence behind it that did not wait for it
    std::uint8_t seen;   ///< threads of the CTA that saw it
    std::uint16_t location;
    Word16 value;
  };
  /// A posted write on its way into a memory.
  struct Item {
    std::int8_t channel;
    std::int8_t queue;
    std::uint8_t relaxed;
    std::uint8_t kind;  ///< ItemKind
    std::uint16_t location;
    Word16 value;
    Word16 index;  ///< of the entry that it belongs to
  };
  /// An entry that the NIC has taken from its queue.
  struct Message {
    std::int8_t queue;
    std::int8_t delivered;
    std::uint8_t entry;
    std::uint8_t pad;
    Word16 index;
    Word16 value;
  };
  struct QueueState {
    Word16 bell, taken, by, covered;
  };
  /// A load that is done later.
  struct Late {
    std::int8_t thread;
    std::int8_t reg;
    std::uint16_t location;
    std::uint16_t pc;
  };

  std::array<Word16, kMostLocations> memory;
  std::array<ThreadState, kMostThreads> threads;
  std::array<QueueState, kMostQueues> queues;
  std::array<Pending, kMostPending> pending;
  std::array<Item, kMostItems> items;
  std::array<Message, kMostMessages> messages;
  std::array<Late, kMostLate> late;
  std::array<std::array<Word16, kMostPast>, kMostHistories> past;       ///< values, oldest first
  std::array<std::array<std::int8_t, kMostPast>, kMostHistories> from;  ///< domain that wrote it
  std::array<std::int8_t, kMostHistories> past_count;
  std::array<std::array<std::int8_t, kMostHistories>, kMostThreads> floor;
  std::uint8_t pending_count, item_count, message_count, late_count;

  State() { std::memset(static_cast<void*>(this), 0, sizeof *this); }
};

static_assert(std::has_unique_object_representations_v<State>);

enum class Move : std::uint8_t {
  kStep,
  kReach,
  kExecute,
  kDeliver,
  kAnswer,
  kPlace,
  kConsume,
  kLate
};

struct Transition {
  Move move = Move::kStep;
  std::uint8_t which = 0;   ///< thread, queue, or position in a list
  std::uint8_t choice = 0;  ///< of a load: which of the values that it may see
};

/// Two operations whose order somebody took for granted.
struct Finding {
  Hazard hazard = Hazard::kEntry;
  std::string first, second;  ///< operations, in the order that was assumed
  std::string assumed;
  std::string rule;  ///< id of the rule that does not give the order
  std::string mend;
  bool operator==(const Finding&) const = default;
};

struct Log {
  std::vector<Finding> findings;
  std::vector<std::string>* lines = nullptr;  ///< a witness, where asked for
};

class Machine {
 public:
  /// Throws InputError where the program is too large for exhaustive search.
  explicit Machine(const OrderProgram& program);

  State start(Log& log) const;
  /// All that may happen next. Empty: everybody is done, or waits for ever.
  void next(const State& state, std::vector<Transition>& list) const;
  /// False: the state is beyond a hazard from which nothing sensible follows.
  bool take(State& state, const Transition& transition, Log& log) const;
  bool done(const State& state) const;
  /// At an end: what is wrong with it as a whole.
  void at_end(const State& state, Log& log) const;
  std::vector<Word16> outcome(const State& state) const;

 private:
  Word16 value(const State& s, std::uint32_t t, const Operand& operand) const;
  std::uint16_t location(const State& s, std::uint32_t t, const Op& op) const;
  bool same_cta(std::uint32_t a, std::uint32_t b) const;
  bool own_home(std::uint32_t t, std::uint16_t l) const;
  std::int8_t level_for(std::uint32_t t, std::uint16_t l, Scope scope) const;
  Word16 seen(const State& s, std::uint32_t t, std::uint16_t l, bool* in_flight) const;
  void observe(State& s, std::uint32_t t, std::uint16_t l) const;
  void acquire(State& s, std::uint32_t t, Scope scope) const;
  bool fence_may(const State& s, std::uint32_t t, Scope scope) const;
  void fence(State& s, std::uint32_t t, Scope scope) const;
  bool may_atomic(const State& s, std::uint32_t t, std::uint16_t l) const;
  void write_home(State& s, std::uint16_t l, Word16 v, std::int8_t from) const;
  void add_pending(State& s, std::uint32_t t, std::uint16_t l, Word16 v) const;
  void drop_pending(State& s, std::uint32_t i) const;
  void post(State& s, const State::Item& item) const;
  void ring(State& s, std::uint16_t l, Word16 v, std::uint32_t by) const;
  bool local(const State& s, std::uint32_t t) const;
  void settle(State& s, Log& log) const;
  bool step(State& s, std::uint32_t t, std::uint8_t choice, Log& log) const;
  void finish_load(State& s, std::uint32_t t, const Op& op, std::uint16_t l, Word16 v, bool stale,
                   Log& log) const;
  void bind_late(State& s, std::uint32_t i, Log& log) const;
  bool must_wait_for_late(const State& s, std::uint32_t t, const Op& op) const;
  bool execute(State& s, std::uint32_t q, Log& log) const;
  bool may_deliver(const State& s, std::uint32_t q) const;
  void deliver(State& s, std::uint32_t q, Log& log) const;
  bool may_answer(const State& s, std::uint32_t q) const;
  void answer(State& s, std::uint32_t q, Log& log) const;
  bool may_place(const State& s, std::uint32_t i) const;
  void place(State& s, std::uint32_t i, Log& log) const;
  bool may_consume(const State& s, std::uint32_t q) const;
  bool check_entry(State& s, std::uint32_t q, std::uint16_t slot, int index, Log& log) const;
  void reader_hazard(const State& s, std::uint32_t t, const Op& op, std::uint16_t l,
                     Log& log) const;
  void note(Finding finding, Log& log) const;
  void say(Log& log, const std::string& who, const std::string& what) const;
  std::int8_t channel(std::uint8_t node, MemoryKind memory) const {
    return static_cast<std::int8_t>(node * 4 + static_cast<int>(memory));
  }
  std::string thread_name(std::uint32_t t) const { return program_.threads[t].name; }

  const OrderProgram& program_;
  std::array<bool, kMostThreads> has_mate_{}, has_neighbour_{};
};

}  // namespace marrow::order
