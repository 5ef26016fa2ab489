// A streaming multiprocessor, as far as communication needs it: lanes that issue memory operations
// in order, a scoreboard for loads and atomics, and what a fence has to wait for.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
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

/// One put that a lane is to do.
struct Put {
  std::uint64_t bytes = 0;
  bool flush = false;                ///< ring whatever the batch
  bool wait = false;                 ///< wait for its completion
  std::uint64_t compute_cycles = 0;  ///< other work afterwards
};

/// Everything that the lanes of one run share.
struct RunContext {
  const Program* program = nullptr;
  const QueueLayout* layout = nullptr;
  JourneyBook* book = nullptr;
  L2* l2 = nullptr;
  std::uint32_t run = 0;
  std::uint32_t lanes = 0;
  std::vector<std::uint32_t> lanes_of_queue;
  std::function<bool(std::uint32_t warp, Put& put)> next_put;
  std::function<void(std::uint32_t queue, std::uint64_t index, std::uint64_t bytes)> on_index;
  std::uint64_t seed = 1;
};

/// A lane keeps its own time, ahead of the kernel's: only accesses that others can see meet the
/// kernel's time. Accesses to words of a queue that it alone uses are annotated.
class Sm : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<Sm> memory{"memory"};

  Sm(sc_core::sc_module_name name, std::uint32_t id, const GpuSpec& spec);

  void add_lane(const RunContext* context, std::uint32_t warp, std::uint32_t queue);
  /// Before each run: no lanes, noise from this seed.
  void reset(std::uint64_t seed);
  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  struct Lane {
    const RunContext* context = nullptr;
    std::uint32_t warp = 0, queue = 0;
    bool alone = false;  ///< no other lane uses the queue
    std::size_t pc = 0;
    Ps at_ps = 0;  ///< the lane's own time
    Ps stage_from_ps = 0;
    Stage stage = Stage::kLookup;
    Put put;
    std::uint64_t puts = 0;
    std::uint64_t index = 0;
    bool in_put = false;
    bool rang = false;
    std::uint32_t rounds = 0;
    Ps seen_ps = -1, issued_ps = -1;
    Journey journey;
    std::array<std::uint64_t, kRegisterCount> value{};
    std::array<Ps, kRegisterCount> ready_ps{};
    // What a fence must wait for: where stores and atomics went since the last one.
    double fence_cycles = 0;
    bool host_stores = false, host_entry = false;
    std::uint64_t last_host_store = 0;
    Ps host_acknowledged_ps = 0;  ///< when the last host store has been acknowledged
    bool stored_to_peer = false;  ///< ever: its fences flush the way to the peer from then on
    Ps peer_acknowledged_ps = 0;  ///< when the last store to a peer has been acknowledged
    tlm::tlm_generic_payload payload;
    Access access;
    std::array<std::uint8_t, 64> bytes{};
    const Step* pending = nullptr;  ///< the step that waits for an answer
  };

  void run(Lane& lane);
  bool step(Lane& lane, const Step& step);
  bool begin_put(Lane& lane);
  void end_put(Lane& lane);
  void enter(Lane& lane, Stage stage);
  bool holds(const Lane& lane, const Step& step) const;
  std::uint64_t operand(const Lane& lane, Value value) const;
  bool memory_step(Lane& lane, const Step& step);
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
    std::uint64_t puts = 0, stores = 0, fences_cta = 0, fences_gpu = 0, fences_sys = 0, polls = 0;
  } counters_;
};

}  // namespace marrow::gpu
