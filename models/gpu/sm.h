// A streaming multiprocessor, as far as communication needs it: lanes that issue memory operations
// in order, a scoreboard for loads and atomics, and what a fence has to wait for.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <cstdint>
#include <memory>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/lane.h"
#include "models/common/random.h"
#include "models/gpu/l2.h"
#include "models/gpu/spec.h"
#include "models/pcie/lane.h"

namespace marrow::gpu {

using marrow::EntryRequest;
using marrow::Op;
using marrow::RunContext;

/// A lane keeps its own time, ahead of the kernel's: only accesses that others can see meet the
/// kernel's time. Accesses to words of a queue that it alone uses are annotated.
class Sm : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<Sm> memory{"memory"};

  /// reaches_peer: NVLink joins the GPU to another, which system fences wait for too.
  Sm(sc_core::sc_module_name name, std::uint32_t id, const GpuSpec& spec,
     bool reaches_peer = false);

  /// lane: its number among the run's lanes. peer: the processing element it talks to.
  void add_lane(const RunContext* context, std::uint32_t warp, std::uint32_t queue,
                std::uint32_t lane = 0, std::uint32_t peer = 0);
  /// Before each run: no lanes, noise from this seed.
  /// in_step: lanes begin no operation before its time, as some end with others.
  void reset(std::uint64_t seed, bool in_step = false);
  /// What its lanes wait for while nothing moves.
  void waits(std::vector<Wait>& all) const;
  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  struct Lane : marrow::Lane {
    bool alone = false;        ///< no other lane uses the queue
    bool alone_on_pe = false;  ///< there is no other lane
    // What a fence must wait for: where stores and atomics went since the last one.
    double fence_cycles = 0;
    double last_fence_cycles = 0;  ///< of the fence before
    bool host_stores = false;      ///< beyond PCIe: memory or registers
    bool host_memory_stores = false, host_entry = false;
    std::uint64_t last_host_store = 0;
    Ps host_acknowledged_ps = 0;  ///< when the last host store has been acknowledged
    bool stored_to_peer = false;  ///< ever: its fences flush the way to the peer from then on
    Ps peer_acknowledged_ps = 0;  ///< when the last store to a peer has been acknowledged
    Access access;                // before the payload, which lets go of it when it dies
    tlm::tlm_generic_payload payload;
    const Step* pending = nullptr;  ///< the step that waits for an answer
  };

  void run(Lane& lane);
  bool step(Lane& lane, const Step& step);
  bool is_private(const Lane& lane, const Word& word, std::uint64_t address) const;
  bool memory_step(Lane& lane, const Step& step);
  void finish_access(Lane& lane, const Step& step, Ps back_ps);
  /// False: the SM's port holds the lane up; it goes on when its stores have left.
  bool store_step(Lane& lane, const Step& step);
  void store(Lane& lane, const Word& word, std::uint64_t address, std::uint32_t from,
             std::uint32_t bytes);
  bool fence_step(Lane& lane, const Step& step);
  void touched(Lane& lane, std::uint64_t address);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  Ps cycles_ps(double cycles) const { return static_cast<Ps>(cycles * sm_cycle_ps_); }
  Ps l2_cycles_ps(double cycles) const { return static_cast<Ps>(cycles * l2_cycle_ps_); }

  const std::uint32_t id_;
  const GpuSpec spec_;
  const bool reaches_peer_;
  const double sm_cycle_ps_, l2_cycle_ps_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  bool in_step_ = false;
  pcie::Lane port_;  ///< what stores of several lanes share: the SM's way to the L2
  Random random_;
  DelayLine<std::uint32_t> resume_;
  struct Counts {
    std::uint64_t messages = 0, stores = 0, fences_cta = 0, fences_gpu = 0, fences_sys = 0,
                  polls = 0;
  } counters_;
};

}  // namespace marrow::gpu
