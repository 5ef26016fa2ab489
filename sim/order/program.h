// A small concurrent program as the machine of orders executes it: words with a home, threads of
// memory operations, queues to a NIC. Built by build.h from a recipe's steps and from steps written
// by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/common/program.h"

namespace marrow::order {

using Word16 = std::int16_t;

struct Home {
  std::uint8_t node = 0;
  MemoryKind memory = MemoryKind::kGpu;
  bool operator==(const Home&) const = default;
};

struct Location {
  std::string name;
  Home home;
  Word16 initial = 0;
  bool relaxed = false;   ///< registered with PCIe relaxed ordering
  bool bell = false;      ///< a NIC's register
  bool uncached = false;  ///< a CPU's stores there stay behind its earlier ones
  // Derived by finish():
  bool shared = false;   ///< read by somebody else than its only writer, or written by two
  bool request = false;  ///< of a proxy's request: no other lane looks at it, nor answers for it
  int history = -1;      ///< where a lane may read an older value: number of its history
};

/// scale * register + add; without a register just add.
struct Operand {
  std::int8_t reg = -1;
  Word16 scale = 1;
  Word16 add = 0;
};

/// Words by queue and slot: locations[queue * depth + slot % depth].
struct Table {
  std::uint32_t depth = 1;
  bool by_queue = false;
  std::vector<std::uint16_t> locations;
};

enum class OpCode : std::uint8_t {
  kStore,
  kLoad,
  kAtomic,
  kFence,
  kPoll,  ///< waits until word >= value
  kSpin,  ///< waits until word == expected, then value
  kSkipUnless,
  kPick,
  kMove,  ///< result = value
  kSync,  ///< CTA barrier number value.add
  kPost,  ///< hands an entry to the NIC, everything before it visible
  kLook,  ///< a proxy's thread: goes on at whichever look finds something
  kTake,  ///< it has a request at hand: are all its words there?
  kEnd
};

enum class Test : std::uint8_t { kAlways, kNever, kAtLeast, kBelow, kEqualOrCrosses, kCrosses };

/// One look of a proxy's thread: finds a word of at least `above` + 1, no more than `most` says.
struct Look {
  std::uint16_t table = 0;
  Operand slot, above, most;
  bool has_most = false;
  std::int8_t into = -1;     ///< the word's value
  std::uint32_t target = 0;  ///< operation to go on with
};

struct Op {
  OpCode code = OpCode::kEnd;
  std::uint16_t table = 0;
  Operand slot;
  Operand value, expected;
  AtomicOp atomic = AtomicOp::kAdd;
  std::int8_t result = -1;
  Scope scope = Scope::kNone;    ///< kFence
  Scope acquire = Scope::kNone;  ///< of a load, poll, spin, atomic
  Test test = Test::kAlways;     ///< kSkipUnless: value against expected
  std::uint32_t modulus = 0;
  std::uint32_t target = 0;
  Word16 expects = 0;     ///< kLoad: an older value is a hazard; 0: any will do
  bool may_wait = false;  ///< kLoad: may be done later, up to its first use or a fence
  bool entry_store = false;
  bool rings = false;
  std::uint8_t entry = 0;             ///< kPost
  std::vector<Look> looks;            ///< kLook
  std::vector<std::uint16_t> tables;  ///< kTake: the request's words, that must be above index
  bool may_miss = false;              ///< kLook: goes on where nothing is found
  bool drains = false;       ///< kFence: waits for what devices have on their way to this GPU, too
  std::uint8_t request = 0;  ///< kStore: it announces this request of a proxy's, plus 1
  std::uint16_t requests = 0;  ///< kStore: table in which that is noted
  std::string text;            ///< as a witness tells it
};

struct Thread {
  std::string name;
  std::uint8_t node = 0;
  MemoryKind on = MemoryKind::kGpu;  ///< kHost: a CPU's thread
  std::uint8_t cta = 0;
  std::uint8_t queue = 0;
  bool waits = false;  ///< derived: polls something
  bool proxy = false;  ///< it looks without end
  std::vector<Op> ops;
};

/// Registers of a proxy's thread, where a lane has others: what it has completed, CQEs seen and
/// asked for, entries not rung for, the request at hand.
constexpr std::int8_t kRequestReg = 16, kCompletedReg = 17, kAnsweredReg = 18, kAskedReg = 19,
                      kUnrungReg = 20, kFoundReg = 21;
/// Registers of a thread: a recipe's results, then these, then what a program wants to be told.
constexpr std::int8_t kIndexReg = 12, kRangReg = 13, kQueueReg = 14, kOwnReg = 15, kHomeReg = 16,
                      kUserReg = 17;
constexpr std::size_t kRegs = 22;

/// What an entry asks the NIC for. Entry 0 is none.
struct Entry {
  EntryForm form = EntryForm::kNone;
  std::uint8_t thread = 0;
  std::uint32_t blocks = 1;
  bool completes = true;
  bool has_immediate = false;
  std::uint16_t source = 0xffff, target = 0xffff, signal = 0xffff, sink = 0xffff, receives = 0xffff;
  Word16 expects = 0;  ///< version of the source; 0: any
  bool strict_source = true;
  std::string text;
};

/// What takes a queue's entries.
struct Queue {
  std::uint8_t node = 0, peer = 1;
  bool consumer = false;  ///< a thread that stands for the NIC
  bool per_entry = false;
  bool pushed = false;          ///< entries are stored into the NIC, which takes them in order
  std::uint16_t bell = 0xffff;  ///< location of the register or announcement
  std::vector<std::uint16_t> announcements;  ///< per_entry: by slot
  std::vector<std::uint16_t> ring;
  std::uint16_t completed = 0xffff, answered = 0xffff, record = 0xffff;
  MemoryKind completes_from = MemoryKind::kNic;
};

struct OrderProgram {
  std::vector<Location> locations;
  std::vector<Table> tables;
  std::vector<Thread> threads;
  std::vector<Entry> entries = {Entry{}};
  std::vector<Queue> queues;
  bool ack_placed = false, atomic_placed = false;  ///< the library's claims
  bool gdr_unordered = false;
  bool uses_record = false;
  struct Result {
    std::string name;
    std::uint8_t thread;
    std::int8_t reg;
  };
  std::vector<Result> results;
  std::vector<std::uint8_t> synced;  ///< by barrier: how many threads meet
};

/// An entry as a slot holds it: which, and at which index.
constexpr Word16 entry_word(std::uint8_t entry, int index) {
  return static_cast<Word16>(entry + 64 * index);
}

}  // namespace marrow::order
