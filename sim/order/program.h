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
  bool relaxed = false;  ///< registered with PCIe relaxed ordering
  bool bell = false;     ///< a NIC's register
  // Derived by finish():
  bool shared = false;  ///< read by somebody else than its only writer, or written by two
  int history = -1;     ///< where a lane may read an older value: number of its history
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
  kEnd
};

enum class Test : std::uint8_t { kAlways, kNever, kAtLeast, kBelow, kEqualOrCrosses, kCrosses };

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
  std::uint8_t entry = 0;  ///< kPost
  std::string text;        ///< as a witness tells it
};

struct Thread {
  std::string name;
  std::uint8_t node = 0;
  MemoryKind on = MemoryKind::kGpu;  ///< kHost: a CPU's thread
  std::uint8_t cta = 0;
  std::uint8_t queue = 0;
  bool waits = false;  ///< derived: polls something
  std::vector<Op> ops;
};

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
