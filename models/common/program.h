// What a library's code does to send, complete and wait, as the models execute it: an ordered list
// of memory operations. It is read from a protocol recipe (configs/protocols/*.yaml); nothing here
// knows files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/common/stage.h"
#include "models/common/time.h"

namespace marrow {

/// Where bytes live. The address decides which way an access takes.
enum class MemoryKind : std::uint8_t { kGpu, kHost, kPeer };

/// A block of memory that every queue has: queue q's part starts at q * stride_bytes.
struct Region {
  std::string name;
  MemoryKind memory = MemoryKind::kGpu;
  std::uint64_t stride_bytes = 0;
};

/// A word, or a ring of entries, in a region.
struct Word {
  std::string name;
  std::uint32_t region = 0;
  std::uint64_t offset_bytes = 0;  ///< from the queue's part of the region
  std::uint32_t bytes = 8;        ///< access size; for a ring, the size of an entry's accessed part
  std::uint32_t entry_bytes = 0;  ///< ring: distance of its entries; 0: not a ring
  std::uint32_t entries = 0;      ///< ring: number of entries
  bool consumer_reads = false;    ///< derived: touched by the consumer, so never private to a lane
};

enum class StepOp : std::uint8_t {
  kStage,    ///< what follows belongs to another stage
  kCompute,  ///< cycles of the own clock
  kLoad,
  kStore,
  kAtomic,
  kUse,         ///< wait for the result of an earlier load or atomic
  kFence,       ///< by scope
  kSpin,        ///< compare-and-swap until it succeeds
  kPoll,        ///< load until the condition holds
  kSkipUnless,  ///< jump to `target` unless the condition holds
  kEnd
};

enum class AtomicOp : std::uint8_t { kAdd, kCas, kMax, kExchange };
enum class Scope : std::uint8_t { kNone, kCta, kGpu, kSys };

/// Operand of a store, an atomic or a comparison. index is the queue position that the put got.
enum class Value : std::uint8_t { kZero, kOne, kIndex, kNext };

enum class Condition : std::uint8_t {
  kAlways,
  kRingWrapped,       ///< index >= depth: the slot must have been freed first
  kBatchBoundary,     ///< every so many of the lane's puts, and its last
  kNewestOrMultiple,  ///< nobody reserved behind this put, or its next index is a multiple of n
  kAdvanced,          ///< the producer index was below this put's next index
  kWaits,             ///< the trace says that the lane waits for this put
  kWaitsNot,
  kRangNot,  ///< this put did not ring
};

enum class Until : std::uint8_t {
  kSlotFree,   ///< word + depth > index
  kCompleted,  ///< word > index
};

/// Registers that a recipe may name: results of loads and atomics.
constexpr std::size_t kRegisterCount = 8;
constexpr std::uint8_t kNoRegister = 0xff;

struct Step {
  StepOp op = StepOp::kEnd;
  Stage stage = Stage::kLookup;  ///< kStage
  double cycles = 0;             ///< kCompute; kSpin, kPoll: own cost of a round
  std::uint32_t word = 0;        ///< index into Program::words
  std::uint32_t bytes = 0;       ///< kLoad, kStore: bytes of one access
  std::uint32_t count = 1;       ///< kStore: number of consecutive stores
  AtomicOp atomic = AtomicOp::kAdd;
  Value value = Value::kZero;      ///< stored, added, maximum or swapped in
  Value expected = Value::kZero;   ///< kSpin
  std::uint8_t reg = kNoRegister;  ///< result's register
  bool wait = true;                ///< kLoad, kAtomic: the next step needs the result
  bool is_index = false;           ///< kAtomic: its old value is the put's index
  Scope scope = Scope::kNone;
  Condition condition = Condition::kAlways;
  std::uint32_t modulus = 0;  ///< kNewestOrMultiple
  Until until = Until::kCompleted;
  std::uint32_t target = 0;  ///< kSkipUnless: index of the step to go on with
  std::string id;            ///< name by which --set reaches it; may be empty
};

/// What stands where the NIC (or a proxy thread) would stand in a capture: it polls the
/// announcement of each queue in turn, reads the announced entries and writes a completion for
/// each.
struct ConsumerProgram {
  enum class Where : std::uint8_t { kSm, kCpu, kPeer };
  Where where = Where::kSm;
  std::uint32_t announcement = 0;  ///< word polled: doorbell, or the tag inside the next entry
  bool per_entry = false;          ///< the announcement is a tag in the entry: one entry a notice
  std::uint32_t entry = 0;         ///< ring word that holds the entries
  std::uint32_t completion = 0;    ///< word that receives the count of completed entries
  double poll_cycles = 0;          ///< own cost of a poll beyond the load
  double notice_cycles = 0;        ///< from a look that finds something until its first entry
  /// Entries are handled in groups of at most `read.size()`; read[k] and done[k] are the cycles
  /// from the previous entry's end (or the notice) until entry k of a group has been read, and from
  /// there until its completion store is issued. The last row that fits the group's length is used.
  struct Group {
    std::vector<double> read_cycles;
    std::vector<double> done_cycles;
    bool and_more = false;  ///< its last costs hold for every further entry of the notice
  };
  std::vector<Group> groups;  ///< by group length; the longest first
  double after_cycles = 0;    ///< from the last completion of a notice until the next poll
  bool copies_payload = false;
  double round_cycles = 0;  ///< kPeer: own cost of a round of payload loads
};

struct Program {
  std::string protocol;
  std::vector<Region> regions;
  std::vector<Word> words;
  std::vector<Step> put;  ///< a lane executes this for every put; ends with kEnd
  ConsumerProgram consumer;
  std::uint32_t depth = 1024;  ///< entries of a queue
  std::uint32_t batch = 1;     ///< kBatchBoundary
};

}  // namespace marrow
