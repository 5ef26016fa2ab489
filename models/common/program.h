// What a library's code does to send, complete and wait, as the models execute it: an ordered list
// of memory operations. It is read from a protocol recipe (configs/protocols/*.yaml); nothing here
// knows files.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/common/stage.h"
#include "models/common/time.h"

namespace marrow {

/// Where bytes live. The address decides which way an access takes.
enum class MemoryKind : std::uint8_t { kGpu, kHost, kPeer, kNic };

/// Who has a part of a region of his own.
enum class Owner : std::uint8_t { kQueue, kLane, kAll };

/// A block of memory of which every queue (or lane) has a part; part k starts at k * stride_bytes.
struct Region {
  std::string name;
  MemoryKind memory = MemoryKind::kGpu;
  std::uint64_t stride_bytes = 0;
  Owner owner = Owner::kQueue;
  /// To a CPU, where it is a device's: uncached, else write-combining. Serves sim/order alone.
  bool uncached = false;
};

/// How a polled word holds a count.
enum class Encoding : std::uint8_t {
  kPlain,       ///< little endian, as it is
  kWqeCounter,  ///< CQE: index of the last completed entry, 16 bits, big endian
  kOwner        ///< CQE's op_own: the owner bit flips with every pass over the ring
};

/// A word, or a ring of entries, in a region.
struct Word {
  std::string name;
  std::uint32_t region = 0;
  std::uint64_t offset_bytes = 0;  ///< from the queue's part of the region
  std::uint32_t bytes = 8;        ///< access size; for a ring, the size of an entry's accessed part
  std::uint32_t entry_bytes = 0;  ///< ring: distance of its entries; 0: not a ring
  std::uint32_t entries = 0;      ///< ring: number of entries
  bool consumer_reads = false;    ///< derived: touched by consumer or NIC, so never a lane's own
  Encoding encoding = Encoding::kPlain;
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
  kOwnIndex,    ///< the put's index, kept in a register: the lane alone uses its queue
  kPick,        ///< the register's value chooses the lane's queue to its peer
  kVisit,       ///< begins a loop over all queues, or jumps to `target` after the last
  kNext,        ///< end of that loop: jump to `target`
  // of a proxy thread
  kLook,      ///< one look at a word: goes on if there is something, else jumps
  kAgain,     ///< end of what a look found: back to it, `count` times at most
  kJump,      ///< to `target`
  kPost,      ///< the steps that post the request at hand
  kLaunch,    ///< a CPU thread launches a kernel with the work gathered since the last
  kCopy,      ///< a CPU thread copies the operation's payload, as `copy` says
  kPeerCopy,  ///< a block's threads copy it to the peer GPU
  kEnd
};

enum class AtomicOp : std::uint8_t { kAdd, kCas, kMax, kExchange };
enum class Scope : std::uint8_t { kNone, kCta, kGpu, kSys };

/// Operand of a store, an atomic or a comparison. index is the queue position that the put got.
enum class Value : std::uint8_t {
  kZero,
  kOne,
  kIndex,
  kNext,       ///< index + the operation's entries
  kEntries,    ///< the operation's entries
  kDoorbell,   ///< mlx5 doorbell: next index and queue pair number, big endian
  kRecord,     ///< mlx5 doorbell record: next index, 16 bits, big endian
  kVersion,    ///< the lane's count of messages: stands for the payload's content
  kCompleted,  ///< of a proxy: the index behind the last entry that has completed
  kSubmitted,  ///< the lane's count of kernels and copies
  kWaits,      ///< the lane's count of waits
  kSignals,    ///< and of signals
  kRegister,   ///< a register's value
  kRegisterNext
};

/// A work queue entry that a store writes, in mlx5's layout.
enum class EntryForm : std::uint8_t {
  kNone,
  kWrite,
  kWriteInline,
  kRead,
  kFetchAdd,         ///< fetch-and-add of 8 B on the peer's signal word
  kMaskedFetchAdd,   ///< the same as masked (extended) atomic
  kMaskedFetchAdd4,  ///< the same on 4 B
  kMaskedSwap,       ///< 8 B compare-and-swap with masks that sets the word
  kNop,
  kDump
};

/// Length of such an entry: control segment, address vector (dc), remote address, operands, data.
/// bytes: payload, which counts where it stands in the entry.
constexpr std::uint32_t entry_length_bytes(EntryForm form, bool dc, std::uint64_t bytes) {
  const std::uint32_t head = dc ? 48 : 32;
  switch (form) {
    case EntryForm::kNone:
      return 0;
    case EntryForm::kNop:
      return 16;
    case EntryForm::kDump:
      return 32;
    case EntryForm::kWrite:
    case EntryForm::kRead:
      return head + 16;
    case EntryForm::kWriteInline:
      return head + 4 + static_cast<std::uint32_t>(bytes);
    case EntryForm::kFetchAdd:
    case EntryForm::kMaskedFetchAdd:
    case EntryForm::kMaskedFetchAdd4:
      return head + 32;
    case EntryForm::kMaskedSwap:
      return head + 48;
  }
  return 0;
}
/// The 64 B blocks of the queue that it takes.
constexpr std::uint32_t entry_blocks(EntryForm form, bool dc, std::uint64_t bytes) {
  return (entry_length_bytes(form, dc, bytes) + 63) / 64;
}
constexpr std::uint64_t kMaxInlineBytes = 204;  ///< of four blocks: what is modelled, DC or not

/// What a lane is asked to do.
enum class OpKind : std::uint8_t {
  kPut,
  kPutSignal,
  kGet,
  kAtomic,
  kFence,
  kQuiet,
  kWait,
  kBarrier,
  kCount
};
constexpr std::size_t kOpKindCount = static_cast<std::size_t>(OpKind::kCount);
constexpr std::array<std::string_view, kOpKindCount> kOpKindNames = {
    "put", "put_signal", "get", "atomic", "fence", "quiet", "wait", "barrier"};
/// Operations whose purpose is a message. A barrier may post one too.
constexpr bool is_message(OpKind kind) { return kind <= OpKind::kAtomic; }

enum class Condition : std::uint8_t {
  kAlways,
  kRingWrapped,       ///< index + entries > depth: the slots must have been freed first
  kBatchBoundary,     ///< every so many of the lane's puts, and its last
  kMultiple,          ///< a multiple of n lies above index, up to the next index; or the last put
  kNewestOrMultiple,  ///< nobody reserved behind this put, or its next index is a multiple of n
  kAdvanced,          ///< the producer index was below this put's next index
  kWaits,             ///< the trace says that the lane waits for this put
  kWaitsNot,
  kRangNot,  ///< this put did not ring
  kBehind,   ///< the register's value is below another's
  // of a proxy thread
  kSingle,       ///< one entry has been written since it last rang
  kSeveral,      ///< more than one
  kOutstanding,  ///< at least `modulus` CQEs that it asked for have not been seen
};

enum class Until : std::uint8_t {
  kSlotFree,   ///< word + depth > index
  kCompleted,  ///< word > index
  kReached,    ///< word >= the register's value
  kSignalled,  ///< word >= the number of waits so far
  kAnswered,   ///< word >= the lane's number of messages: of a CQ, one CQE for each. Of a proxy
               ///< thread: its next CQE is there
  kPresent,    ///< word > index: the descriptor at that place of the ring
  kAdvanced,   ///< word > the register's value
  kReplied,    ///< word >= the lane's number of signals
  kEnded,      ///< word >= the lane's number of kernels and copies: all are through
};

/// Registers that a recipe may name: results of loads and atomics.
constexpr std::size_t kRegisterCount = 12;
constexpr std::uint8_t kNoRegister = 0xff;

constexpr std::uint32_t kNoWord = 0xffffffff;

/// Between which memories a payload is copied, and by whom.
enum class CopyWay : std::uint8_t {
  kToHost,    ///< GPU's copy engine, GPU to host memory
  kFromHost,  ///< the same, host to GPU memory
  kInHost     ///< the CPU thread, between two buffers
};

struct Step {
  StepOp op = StepOp::kEnd;
  Stage stage = Stage::kLookup;     ///< kStage
  double cycles = 0;                ///< kCompute; kSpin, kPoll: own cost of a round
  std::uint32_t per_bytes = 0;      ///< kCompute: once for so many bytes of payload; 0: once
  CopyWay copy = CopyWay::kToHost;  ///< kCopy
  std::uint32_t word = 0;           ///< index into Program::words
  std::uint32_t bytes = 0;          ///< kLoad, kStore: bytes of one access
  std::uint32_t count =
      1;  ///< kStore: number of consecutive stores; 0: as the entry's length has it
  AtomicOp atomic = AtomicOp::kAdd;
  Value value = Value::kZero;      ///< stored, added, maximum or swapped in
  Value expected = Value::kZero;   ///< kSpin
  std::uint8_t reg = kNoRegister;  ///< result's register
  bool wait = true;                ///< kLoad, kAtomic: the next step needs the result
  bool is_index = false;           ///< kAtomic: its old value is the put's index
  Scope scope = Scope::kNone;
  bool acquires = false;  ///< kFence: only orders what comes; waits for nothing of its own
  /// kLoad, kPoll, kSpin, kAtomic: it acquires in that scope. Costs nothing by itself; what it
  /// means for orders is sim/order's business.
  Scope acquire = Scope::kNone;
  Condition condition = Condition::kAlways;
  std::uint32_t modulus = 0;  ///< kMultiple, kNewestOrMultiple, kRingWrapped (0: at every index)
  Until until = Until::kCompleted;
  std::uint32_t target = 0;  ///< kSkipUnless, kVisit, kNext, kLook, kAgain, kJump: index of the
                             ///< step to go on with
  std::uint32_t then = 0;    ///< kLook: where to go on if it found something before, but not now
  EntryForm form = EntryForm::kNone;  ///< kStore: the entry whose bytes are stored
  bool immediate = false;             ///< kStore of a write's entry: it tells the receiver
  bool at_peer = false;               ///< the word is the peer GPU's, across NVLink
  bool bulk = false;                  ///< kPeerCopy: chunks by way of shared memory
  std::uint32_t unroll = 1;           ///< kPeerCopy by stores: loads of a thread at once
  bool joins = true;                  ///< kPeerCopy: its threads wait for each other behind it
  std::uint32_t block = 0;  ///< kStore, kSlotFree: blocks beyond index; kAnswered: messages less
  std::uint8_t operand = kNoRegister;  ///< Value::kRegister, Until::kReached: which
  std::string id{};                    ///< name by which --set reaches it; may be empty
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

/// What the queues are to the NIC: which words are its work queue, register and completion queue.
struct NicProgram {
  enum class Completion : std::uint8_t {
    kPlain,     ///< one CQE an entry that asks for it, in turn
    kCollapsed  ///< all CQEs on the queue's first entry
  };
  bool present = false;
  std::uint32_t entry = 0;       ///< ring word: the work queue
  std::uint32_t doorbell = 0;    ///< the register
  std::uint32_t completion = 0;  ///< word that is polled, inside the CQE
  Completion kind = Completion::kPlain;
  bool dc = false;                   ///< queues are DC initiators
  bool every = false;                ///< every entry asks for a CQE, not just a message's last
  std::uint32_t inline_bytes = 0;    ///< kWriteInline of more is a kWrite; 0: as the step says
  std::uint32_t receives = kNoWord;  ///< inside the CQE that tells the receiver of a write
  // Words that entries speak of, kNoWord where the protocol has none. A lane's partner on the peer
  // has the same number, so both use the same addresses.
  std::uint32_t source = kNoWord;  ///< own memory that a put reads
  std::uint32_t target = kNoWord;  ///< the peer's memory that it writes, and a get reads
  std::uint32_t signal = kNoWord;  ///< the peer's word that a signal raises
  std::uint32_t sink = kNoWord;    ///< own memory for an atomic's old value or a get's data
  // What the library says of orders (sim/order); costs nothing.
  bool relaxed_target = false;        ///< registers what it writes to with PCIe relaxed ordering
  bool relaxed_signal = false;        ///< and the signals
  bool claims_ack_placed = false;     ///< takes a completion for placed in the far memory
  bool claims_atomic_placed = false;  ///< takes an atomic to come behind placed writes
};

/// GPUs that reach each other's memory across NVLink: every GPU has the same words, and of each a
/// part for every GPU that stores to it.
struct NvlinkProgram {
  bool present = false;
  std::uint32_t source = 0;  ///< where a copied payload lies
  std::uint32_t target = 0;  ///< the peer's word where it goes
};

/// CPU threads beside the lanes, on the same processing element: each looks at its share of the
/// queues in turn and does what it finds to be done.
struct ProxyProgram {
  bool present = false;
  std::uint32_t workers = 1;     ///< threads; queue q is served by thread q mod workers
  bool cold = false;             ///< they run at the host's cold clock
  std::uint32_t ring_depth = 0;  ///< descriptors of a queue; 0: as many as the queue has entries
  std::vector<Step> visit;       ///< to one queue; beside its looks it only computes and fences
  double pass_cycles = 0;        ///< of a pass over all its queues, beyond the visits
  std::array<std::vector<Step>, kOpKindCount> posts;  ///< by what is asked for
  std::uint32_t announcement = kNoWord;               ///< word that its first such look finds
  std::uint32_t completes = kNoWord;  ///< word that passes a completion on; none: lanes poll CQEs
  bool asks_once = false;             ///< of entries posted together the last asks for a CQE
};

/// What the kernels that CPU threads launch do at their end.
struct KernelProgram {
  bool present = false;
  std::uint32_t done = kNoWord;  ///< word that counts the stream's kernels and copies that ended
  std::vector<Step> tail;        ///< fences, stores and own cycles behind a kernel's work
};

struct Program {
  std::string protocol;
  std::vector<Region> regions;
  std::vector<Word> words;
  /// By operation: what a lane executes; ends with kEnd. Empty: the protocol cannot do it.
  std::array<std::vector<Step>, kOpKindCount> steps;
  /// By operation: 64 B blocks that it takes, an inline payload counted as one; 0: it posts
  /// nothing.
  std::array<std::uint32_t, kOpKindCount> entries{};
  /// By operation: its payload stands in its first entry.
  std::array<bool, kOpKindCount> inlines{};
  /// By operation: lanes of a warp that do it together, each with a message of its own.
  std::array<std::uint32_t, kOpKindCount> lanes{};
  ConsumerProgram consumer;
  NicProgram nic;
  NvlinkProgram nvlink;
  ProxyProgram proxy;
  KernelProgram kernel;
  /// Hazards that the check of orders finds and that rest on a reading of a library's source:
  /// "reader ptx-acquire" and where it is read.
  std::map<std::string, std::string> readings;
  bool on_cpu = false;          ///< lanes are CPU threads; costs are in ns
  bool queues_by_peer = false;  ///< queue id * PEs + peer, as NVSHMEM lays them out
  bool one_queue = false;       ///< to each peer, whatever the trace says
  std::uint32_t announcement() const {
    if (proxy.present) return proxy.announcement;
    return nic.present ? nic.doorbell : consumer.announcement;
  }
  /// Places of the ring that a lane takes one of.
  std::uint32_t lane_depth() const { return proxy.ring_depth > 0 ? proxy.ring_depth : depth; }
  const std::vector<Step>& of(OpKind kind) const { return steps[static_cast<std::size_t>(kind)]; }
  std::vector<Step>& of(OpKind kind) { return steps[static_cast<std::size_t>(kind)]; }
  /// Does a lane use other queues than its own?
  bool picks_queue() const {
    for (const auto& list : steps)
      for (const Step& step : list)
        if (step.op == StepOp::kPick || step.op == StepOp::kVisit) return true;
    return false;
  }
  /// Blocks of one message with that payload.
  std::uint32_t blocks(OpKind kind, std::uint64_t bytes) const {
    const auto k = static_cast<std::size_t>(kind);
    const bool in_it = inlines[k] && (nic.inline_bytes == 0 || bytes <= nic.inline_bytes);
    return entries[k] + (in_it ? entry_blocks(EntryForm::kWriteInline, nic.dc, bytes) - 1 : 0);
  }
  std::uint32_t depth = 1024;  ///< entries of a queue
  std::uint32_t batch = 1;     ///< kBatchBoundary
};

}  // namespace marrow
