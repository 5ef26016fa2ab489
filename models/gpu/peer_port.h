// What a GPU's SMs have on the way to its peers: the payloads that blocks copy there, by stores or
// in bulk, how much of them an SM may have in front of the link, and what system fences wait for.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <systemc>
#include <utility>
#include <vector>

#include "models/common/delay_line.h"
#include "models/common/observer.h"
#include "models/common/random.h"
#include "models/gpu/l2.h"
#include "models/gpu/spec.h"
#include "models/nvlink/link.h"
#include "models/nvlink/spec.h"

namespace marrow::gpu {

/// A payload that a block's threads copy from its GPU's memory to a peer's.
struct PeerCopy {
  enum class Form : std::uint8_t {
    kStores,  ///< each thread: a load of 16 B, then its store, again and again
    kBulk     ///< one thread: bulk copies of chunks by way of shared memory
  };
  Form form = Form::kStores;
  std::uint32_t sm = 0, peer = 0, threads = 32;
  std::uint32_t unroll = 1;              ///< kStores: loads of a thread at once
  std::uint64_t source = 0, target = 0;  ///< in the own memory, in the peer's; not host's
  std::uint64_t wrap_bytes = 0;          ///< of either: addresses go round within so much
  std::uint64_t bytes = 0;
  bool joins = true;                       ///< its threads wait for each other behind it
  std::function<void(Ps issued_ps)> done;  ///< the last store has been issued
};

/// A round of a block is one train on the links, in parts of what an SM may have waiting there, so
/// that everybody who wants a link gets it in the order of time.
class PeerPort : public sc_core::sc_module {
 public:
  struct Gpu {
    L2* l2;
    nvlink::Link* link;
  };
  PeerPort(sc_core::sc_module_name name, const GpuSpec& spec, const NvlinkSpec& nvlink,
           std::uint32_t gpu, std::vector<Gpu> gpus);
  void reset(std::uint64_t seed);
  /// Both from at_ps on, not before the simulated time.
  void copy(PeerCopy copy, Ps at_ps);
  /// A system fence of an SM that takes least_ps if nothing is under way.
  void fence(std::uint32_t sm, Ps least_ps, Ps at_ps, std::function<void(Ps end_ps)> done);
  /// A single store of the SM was issued.
  void stored(std::uint32_t sm, Ps issued_ps);
  /// The copy engine copies to that peer, to the run's end.
  void copy_without_end(std::uint32_t peer);
  /// SMs read this GPU's L2 as fast as they can, to the run's end.
  void keep_l2_busy() { l2_busy_ = true; }

  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  enum class What : std::uint8_t { kLoad, kStore, kTrain, kStored, kFence, kFlushed };
  struct Event {
    What what;
    std::uint32_t number;
    Ps ps = 0;
  };
  struct Work : PeerCopy {
    std::uint64_t loaded = 0, stored = 0;  ///< bytes so far
  };
  struct Fence {
    std::uint32_t sm = 0;
    Ps end_ps = 0;  ///< at least
    std::function<void(Ps)> done;
  };
  /// What an SM has issued and the link not taken.
  struct Segment {
    std::uint32_t peer;
    std::uint64_t target, bytes, sent;
    Ps from_ps, until_ps;  ///< in the SM's store port
  };
  struct Out {
    std::deque<Segment> queue;
    std::uint64_t bytes = 0;
    bool sends = false;                  ///< a part is on its way to the link
    std::deque<std::uint32_t> waiting;   ///< copies whose next round has no room
    std::uint64_t stored = 0, sent = 0;  ///< bytes, of the whole run
    std::uint64_t goal = 0;              ///< what the flush under way waits to be sent
    Ps port_free_ps = 0, way_ps = 0;
    std::uint64_t turn_bytes = 0;
  };
  void handle(const Event& event, Ps at_ps);
  /// What a copy issues next; 0: there is no room for it.
  std::uint64_t next_bytes(const Work& work, const Out& out) const;
  void load(Work& work, std::uint32_t number, Ps at_ps);
  void store(Work& work, std::uint32_t number, Ps at_ps);
  /// What goes on the link next, and when it has got there if nothing holds it up.
  std::uint64_t part(const Out& out) const;
  Ps passed_ps(const Out& out) const;
  void send(Out& out, std::uint32_t sm, Ps at_ps);
  /// Begins a flush, if a fence asks for one.
  void flush(Ps at_ps);
  /// All that it waits for has been sent.
  void flush_sent(Ps at_ps);
  void acknowledged(Ps ps) { all_acknowledged_ps_ = std::max(all_acknowledged_ps_, ps); }
  /// From a store's issue until its SM's fence sees it done, over idle links.
  Ps store_ps(std::uint32_t sm) const {
    return l2_ps(spec_.fence_sys_peer_cycles) + outs_[sm].way_ps;
  }
  Ps busy_ps(std::uint64_t lines);
  Ps back_ps() const;  ///< from a flush's end until its fence's SM goes on
  Ps sm_ps(double cycles) const { return static_cast<Ps>(cycles * 1000 / spec_.sm_clock_ghz); }
  Ps l2_ps(double cycles) const { return static_cast<Ps>(cycles * 1000 / spec_.l2_clock_ghz); }

  const GpuSpec spec_;
  const NvlinkSpec nvlink_;
  const std::uint32_t gpu_;
  const std::vector<Gpu> gpus_;
  std::vector<Work> works_;
  std::vector<std::uint32_t> free_works_;
  std::vector<Fence> fences_;
  std::vector<std::uint32_t> free_fences_;
  /// Fences are served by flushes of the way to the peers, one after the other: a flush is over
  /// once all that was stored before it began has been acknowledged.
  std::vector<std::uint32_t> flushing_, waiting_;
  bool flush_runs_ = false;
  std::uint32_t unsent_ = 0;    ///< SMs whose stores it waits for
  Ps flush_end_ps_ = 0;         ///< at least
  Ps all_acknowledged_ps_ = 0;  ///< of what has been stored so far
  std::vector<Out> outs_;       ///< by SM
  bool copies_ = false, l2_busy_ = false;
  DelayLine<Event> events_;
  Random random_;
  struct Counts {
    std::uint64_t copies = 0, bytes = 0, fences = 0;
    Ps held_up_ps = 0;
  } counters_;
};

}  // namespace marrow::gpu
