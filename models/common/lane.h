// A lane: what executes a protocol's steps one after the other, a GPU's lane or a CPU's thread.
// Here is what both do alike; what an access costs is the SM's or the core's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "models/common/journey_book.h"
#include "models/common/observer.h"
#include "models/common/program.h"
#include "models/common/queues.h"

namespace marrow {

namespace gpu {
class L2;
class PeerPort;
}  // namespace gpu

/// One operation that a lane is to do.
struct Op {
  OpKind kind = OpKind::kPut;
  std::uint64_t bytes = 0;
  bool flush = false;                ///< ring whatever the batch
  bool wait = false;                 ///< wait for its completion
  std::uint64_t compute_cycles = 0;  ///< other work afterwards; of a CPU thread, in ns
  std::uint32_t queue = kOwnQueue;   ///< where it goes, unless to the lane's last one
  Ps from_ps = 0;                    ///< it begins then, at the earliest
  static constexpr std::uint32_t kOwnQueue = 0xffffffff;
};

/// What an entry's bytes are made of.
struct EntryRequest {
  EntryForm form = EntryForm::kNone;
  std::uint32_t lane = 0, queue = 0;
  std::uint64_t index = 0;
  std::uint64_t bytes = 0;    ///< payload
  std::uint64_t version = 0;  ///< the lane's count of messages: stands for the payload's content
  std::uint64_t signals = 0;  ///< the lane's count of signals, this one included
  std::uint32_t peer = 0;     ///< processing element that it goes to
  bool last = true;           ///< of its message: asks for the completion
  bool immediate = false;     ///< a write that tells the receiver
};

/// Everything that the lanes of one processing element share during a run.
struct RunContext {
  const Program* program = nullptr;
  const QueueLayout* layout = nullptr;
  JourneyBook* book = nullptr;
  gpu::L2* l2 = nullptr;
  gpu::PeerPort* port = nullptr;   ///< where the program's lanes reach peers across NVLink
  Observer* observer = nullptr;    ///< gets operations; may be null
  OrderObserver* order = nullptr;  ///< may be null
  std::uint32_t run = 0, pe = 0;
  std::uint32_t lanes = 0, queues = 0, pes = 1;
  std::vector<std::uint32_t> lanes_of_queue;
  std::function<bool(std::uint32_t warp, Op& op)> next_op;
  /// Writes an entry's bytes; returns how many. Needed where the program has entry forms.
  std::function<std::uint32_t(const EntryRequest&, std::span<std::uint8_t>)> encode;
  std::uint64_t seed = 1;

  /// Whether a queue leads to this processing element itself; a loop over all queues skips these.
  bool is_to_self(std::uint32_t queue) const {
    return program->queues_by_peer && queue < queues && queue % pes == pe;
  }
};

/// A lane keeps its own time, ahead of the kernel's.
struct Lane {
  const RunContext* context = nullptr;
  std::uint32_t number = 0, warp = 0, queue = 0, peer = 0;
  std::uint32_t home = 0;       ///< the own queue while it visits all
  std::uint64_t puts = 0;       ///< messages so far
  std::uint64_t waits = 0;      ///< waits and barriers so far, this one included
  std::uint64_t signals = 0;    ///< signals, atomics and barriers so far, this one included
  std::uint64_t submitted = 0;  ///< kernels and copies so far
  std::size_t pc = 0;
  Ps at_ps = 0;  ///< the lane's own time
  Ps stage_from_ps = 0;
  Stage stage = Stage::kLookup;
  Op op;
  Ps op_from_ps = 0;
  std::uint64_t own_index = 0;                                  ///< StepOp::kOwnIndex
  std::unordered_map<std::uint32_t, std::uint64_t> left_index;  ///< the same of queues it has left
  std::uint64_t index = 0;
  std::uint32_t entries = 1;  ///< blocks of one message
  std::uint32_t lanes = 1;    ///< that post together, a message each
  bool in_op = false;
  bool posts = false;  ///< the operation makes a journey
  bool rang = false;
  std::uint32_t rounds = 0;
  Ps seen_ps = -1, issued_ps = -1;
  Ps launched_ps = -1;  ///< start of the kernel that the operation launched
  Journey journey;
  std::array<std::uint64_t, kRegisterCount> value{};
  std::array<Ps, kRegisterCount> ready_ps{};
  std::array<std::uint8_t, 256> bytes{};  ///< of an entry; at most four blocks
  // Of a proxy thread, which speaks for the lane whose request it has at hand.
  std::uint32_t unrung = 0;      ///< entries written since it last rang
  std::uint64_t unanswered = 0;  ///< CQEs that it asked for and has not seen
  std::uint64_t completed = 0;   ///< Value::kCompleted
  bool more = false;             ///< another entry follows, which asks for the CQE
  bool asks = false;             ///< the entry written last asks for a CQE

  const Program& program() const { return *context->program; }
  /// Takes the next operation; false: there is none. sm: where it runs.
  bool begin_op(std::uint32_t sm);
  void end_op();
  void enter(Stage next);
  /// Does what touches no memory and costs nothing; false: the step is not of that kind.
  bool control(const Step& step);
  std::uint64_t operand(const Step& step, Value which) const;
  std::uint64_t address(const Step& step, std::uint64_t at_index) const {
    return address_of(step.word, at_index, step.at_peer);
  }
  std::uint64_t address_of(std::uint32_t word, std::uint64_t at_index, bool at_peer) const {
    if (!program().nvlink.present)
      return context->layout->address(program(), word, queue, at_index, number);
    // A part is the storing GPU's: this one's on the peer, the peer's here.
    const std::uint64_t here = context->layout->address(program(), word, queue, at_index, number,
                                                        at_peer ? context->pe : peer);
    return at_peer ? peer_address(peer, here) : here;
  }
  /// The queue's index behind all that the operation posts.
  std::uint64_t next_index() const { return index + std::uint64_t{entries} * lanes; }
  /// kPoll: the count that ends it.
  std::uint64_t wanted(const Step& step) const;
  /// kStore: puts a plain store's value into `bytes`, so many times; returns their length.
  std::uint32_t fill(const Step& step, std::uint64_t stored, std::uint32_t count);
  /// kStore of an entry: where the one of this lane of a warp goes, and its bytes into `bytes`.
  std::uint64_t entry_index(const Step& step, std::uint32_t of = 0) const;
  std::uint32_t encode(const Step& step, std::uint32_t of = 0);  // sets `asks`
  /// The answer of a load, an atomic, a spin or a poll is there.
  void answer(const Step& step, std::uint64_t answered, Ps back_ps, std::uint32_t looks);

 private:
  LaneMoment moment(Ps when_ps) const;
  bool holds(const Step& step) const;
  void take_index(std::uint64_t taken);
};

/// What a lane waits for, since when.
struct Wait {
  const Lane* lane = nullptr;
  const Step* step = nullptr;
  Ps since_ps = 0;
};

}  // namespace marrow
