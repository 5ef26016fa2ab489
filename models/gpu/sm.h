// A streaming multiprocessor, as far as communication needs it: lanes that issue memory operations
// in order, a scoreboard for loads and atomics, and what a fence has to wait for.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/journey_book.h"
#include "models/common/program.h"
#include "models/common/queues.h"
#include "models/common/random.h"
#include "models/gpu/l2.h"
#include "models/gpu/spec.h"

namespace marrow::gpu {

/// One operation that a lane is to do.
struct Op {
  OpKind kind = OpKind::kPut;
  std::uint64_t bytes = 0;
  bool flush = false;                ///< ring whatever the batch
  bool wait = false;                 ///< wait for its completion
  std::uint64_t compute_cycles = 0;  ///< other work afterwards
};

/// What an entry's bytes are made of.
struct EntryRequest {
  EntryForm form = EntryForm::kNone;
  std::uint32_t lane = 0, queue = 0;
  std::uint64_t index = 0;
  std::uint64_t bytes = 0;    ///< payload
  std::uint64_t version = 0;  ///< the lane's count of messages: stands for the payload's content
  bool last = true;           ///< of its message: asks for the completion
};

/// Everything that the lanes of one processing element share during a run.
struct RunContext {
  const Program* program = nullptr;
  const QueueLayout* layout = nullptr;
  JourneyBook* book = nullptr;
  L2* l2 = nullptr;
  Observer* observer = nullptr;  ///< gets operations; may be null
  std::uint32_t run = 0, pe = 0;
  std::uint32_t lanes = 0, queues = 0, pes = 1;
  std::vector<std::uint32_t> lanes_of_queue;
  std::function<bool(std::uint32_t warp, Op& op)> next_op;
  std::function<void(std::uint32_t queue, std::uint64_t index, std::uint64_t bytes)> on_index;
  /// Writes an entry's bytes; returns how many. Needed where the program has entry forms.
  std::function<std::uint32_t(const EntryRequest&, std::span<std::uint8_t>)> encode;
  std::uint64_t seed = 1;
};

/// A lane keeps its own time, ahead of the kernel's: only accesses that others can see meet the
/// kernel's time. Accesses to words of a queue that it alone uses are annotated.
class Sm : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<Sm> memory{"memory"};

  Sm(sc_core::sc_module_name name, std::uint32_t id, const GpuSpec& spec);

  /// lane: its number among the run's lanes. peer: the processing element it talks to.
  void add_lane(const RunContext* context, std::uint32_t warp, std::uint32_t queue,
                std::uint32_t lane = 0, std::uint32_t peer = 0);
  /// Before each run: no lanes, noise from this seed.
  void reset(std::uint64_t seed);
  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  struct Lane {
    const RunContext* context = nullptr;
    std::uint32_t number = 0, warp = 0, queue = 0, peer = 0;
    bool alone = false;          ///< no other lane uses the queue
    bool alone_on_pe = false;    ///< there is no other lane
    std::uint32_t home = 0;      ///< the own queue while it visits all
    std::uint64_t puts = 0;      ///< messages so far
    std::uint64_t waits = 0;     ///< wait operations so far, this one included
    std::size_t pc = 0;
    Ps at_ps = 0;  ///< the lane's own time
    Ps stage_from_ps = 0;
    Stage stage = Stage::kLookup;
    Op op;
    Ps op_from_ps = 0;
    std::uint64_t own_index = 0;  ///< StepOp::kOwnIndex
    std::uint64_t index = 0;
    std::uint32_t entries = 1;  ///< of the last message
    bool in_op = false;
    bool rang = false;
    std::uint32_t rounds = 0;
    Ps seen_ps = -1, issued_ps = -1;
    Journey journey;
    std::array<std::uint64_t, kRegisterCount> value{};
    std::array<Ps, kRegisterCount> ready_ps{};
    // What a fence must wait for: where stores and atomics went since the last one.
    double fence_cycles = 0;
    double last_fence_cycles = 0;  ///< of the fence before
    bool host_stores = false;  ///< beyond PCIe: memory or registers
    bool host_memory_stores = false, host_entry = false;
    std::uint64_t last_host_store = 0;
    Ps host_acknowledged_ps = 0;  ///< when the last host store has been acknowledged
    bool stored_to_peer = false;  ///< ever: its fences flush the way to the peer from then on
    Ps peer_acknowledged_ps = 0;  ///< when the last store to a peer has been acknowledged
    Access access;  // before the payload, which lets go of it when it dies
    tlm::tlm_generic_payload payload;
    std::array<std::uint8_t, 256> bytes{};
    const Step* pending = nullptr;  ///< the step that waits for an answer
  };

  void run(Lane& lane);
  bool step(Lane& lane, const Step& step);
  bool begin_op(Lane& lane);
  void end_op(Lane& lane);
  void enter(Lane& lane, Stage stage);
  bool holds(const Lane& lane, const Step& step) const;
  std::uint64_t operand(const Lane& lane, const Step& step, Value value) const;
  std::uint64_t address_of(const Lane& lane, const Step& step, std::uint64_t index) const;
  std::uint64_t wanted(const Lane& lane, const Step& step) const;
  bool is_private(const Lane& lane, const Word& word, std::uint64_t address) const;
  bool memory_step(Lane& lane, const Step& step);
  void take_index(Lane& lane, std::uint64_t index);
  void finish_access(Lane& lane, const Step& step, Ps back_ps);
  void store_step(Lane& lane, const Step& step);
  bool fence_step(Lane& lane, const Step& step);
  void touched(Lane& lane, std::uint64_t address);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  Ps cycles_ps(double cycles) const { return static_cast<Ps>(cycles * sm_cycle_ps_); }
  Ps l2_cycles_ps(double cycles) const { return static_cast<Ps>(cycles * l2_cycle_ps_); }

  const std::uint32_t id_;
  const GpuSpec spec_;
  const double sm_cycle_ps_, l2_cycle_ps_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Random random_;
  DelayLine<std::uint32_t> resume_;
  struct Counts {
    std::uint64_t messages = 0, stores = 0, fences_cta = 0, fences_gpu = 0, fences_sys = 0, polls = 0;
  } counters_;
};

}  // namespace marrow::gpu
