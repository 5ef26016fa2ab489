// The GPU's L2: two partitions, slices that serialise atomics on a word, and the way to the host.
#pragma once

#include <tlm_utils/multi_passthrough_target_socket.h>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <systemc>
#include <tlm>
#include <unordered_map>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/memory.h"
#include "models/common/observer.h"
#include "models/common/placement.h"
#include "models/common/random.h"
#include "models/gpu/spec.h"

namespace marrow::gpu {

/// A load of a line that it does not hold goes to the HBM first; stores and atomics allocate.
///
/// Two ways in. b_transport: for words that one agent alone touches; done at once, the round trip
/// is annotated. nb_transport_fw: for everything that others can see; the access takes effect at
/// its arrival, in order of arrival, and is answered on the backward path with the way back
/// annotated.
class L2 : public sc_core::sc_module {
 public:
  tlm_utils::multi_passthrough_target_socket<L2> from_sms{"from_sms"};
  tlm_utils::simple_initiator_socket_optional<L2> to_host{"to_host"};
  tlm_utils::simple_initiator_socket<L2> to_hbm{"to_hbm"};
  /// Devices on the same PCIe tree: stores into their registers leave here, their reads and writes
  /// of this memory arrive here. Both are answered when they take effect.
  tlm_utils::simple_initiator_socket_optional<L2> to_device{"to_device"};
  tlm_utils::simple_target_socket_optional<L2> from_device{"from_device"};
  tlm_utils::simple_initiator_socket_optional<L2> to_peers{"to_peers"};

  /// host_round_trip_ps: from here to a host line that a device wrote, and back: what a posted
  /// write takes to be acknowledged.
  /// memory: the HBM's bytes, of which the L2 holds lines.
  L2(sc_core::sc_module_name name, const GpuSpec& spec, Ps host_round_trip_ps, Memory& memory);

  /// Empties the memory and takes a new placement; before each run.
  void reset(std::uint64_t bytes, const Placement* placement, std::uint64_t seed);
  /// Called for every SM's store or atomic that takes effect in [begin, end) of the GPU's memory.
  void watch(std::uint64_t begin, std::uint64_t end,
             std::function<void(std::uint64_t address, std::uint64_t value, Ps at_ps)> callback);

  Memory& memory() { return memory_; }
  /// A block's load of so many bytes in a row: the slowest line's round trip.
  Ps block_load_ps(std::uint32_t sm, std::uint64_t address, std::uint64_t bytes);
  /// A peer's stores to lines in a row are on their way.
  void written_from_peer(std::uint64_t address, std::uint64_t bytes);
  /// Round trip between an SM and a line's home, in ps, without variation.
  Ps home_round_trip_ps(std::uint32_t sm, std::uint64_t address) const;
  bool is_far(std::uint32_t sm, std::uint64_t address) const {
    return placement_->is_far(sm, address);
  }
  double distance_cycles(std::uint32_t sm, std::uint64_t address) const {
    return placement_->distance_cycles(sm, address);
  }
  /// When a posted write to the host that is issued at issue_ps has been acknowledged.
  Ps host_write_acknowledged_ps(Ps issue_ps) const { return issue_ps + host_round_trip_ps_; }
  /// An SM polls host memory without end; read_back tells when its read of this word (0: of any)
  /// that is under way at that time is back here; 0 if there is none.
  void set_host_poller(std::function<Ps(Ps at_ps, std::uint64_t address)> read_back) {
    host_poller_ = std::move(read_back);
  }
  bool host_poller() const { return host_poller_ != nullptr; }

  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  struct Request {
    tlm::tlm_generic_payload* payload = nullptr;  ///< null: posted store, copied below
    int port = 0;
    std::uint64_t address = 0;
    std::uint64_t value = 0;
    std::uint32_t bytes = 0;
    Ps issue_ps = 0;
    std::uint32_t sm = 0;
    bool past_copy = false;  ///< a store that leaves its own partition's copy up to date
  };
  struct Parked {
    Request request;
    Ps sample_ps;  ///< a moment at which it looked
    Ps period_ps;
  };
  /// Where a waiter stands among those of a word: what it waits for, then how often and when it
  /// looks, so that the one who looks next is found without looking at all.
  struct Look {
    std::uint64_t value;
    Ps period_ps, phase_ps;
    auto operator<=>(const Look&) const = default;
  };
  struct WordState {
    Ps busy_until_ps = 0;
    std::multimap<Look, Parked> exact;               ///< by the value waited for
    std::multimap<std::uint64_t, Parked> threshold;  ///< by the least value that ends the wait
  };

  void b_transport(int port, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  tlm::tlm_sync_enum nb_transport_fw(int port, tlm::tlm_generic_payload& payload,
                                     tlm::tlm_phase& phase, sc_core::sc_time& delay);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  tlm::tlm_sync_enum from_device_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                    sc_core::sc_time& delay);
  void device_access(tlm::tlm_generic_payload& payload, Ps at_ps);
  void wrote(std::uint64_t address, std::uint32_t bytes, Ps at_ps);
  tlm::tlm_sync_enum answer_from_peer(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                      sc_core::sc_time& delay);
  unsigned transport_dbg(int port, tlm::tlm_generic_payload& payload);
  void take_effect(Request& request, Ps at_ps);
  void to_host_memory(Request& request, Ps at_ps);
  void to_peer_memory(Request& request);
  void answer(Request& request, Ps back_ps);
  Parked parked(Request& request, Ps at_ps) const;
  void changed(std::uint64_t address, WordState& word, Ps at_ps);
  void resume(Parked& parked, Ps at_ps);
  using Waiter = std::multimap<Look, Parked>::iterator;
  /// Of those that wait for this value the one that looks first; the map's end if there is none.
  static Waiter first_to_look(std::multimap<Look, Parked>& waiters, std::uint64_t value, Ps at_ps);
  static Ps next_sample(const Parked& parked, Ps at_ps);
  std::uint64_t apply(Access& access, std::uint64_t address, std::uint32_t bytes, bool& wrote);
  /// Within this GPU: what came over NVLink brings the time of its own way.
  Ps load_round_trip_ps(const Access& access, std::uint64_t address);
  Ps round_trip_ps(const Access& access, std::uint64_t address) const;
  Ps jitter() { return static_cast<Ps>(random_.around(jitter_ps_)); }
  Ps host_read_back_ps(Ps at_ps);
  bool other_writes_pending(std::uint32_t sm, Ps at_ps) const;
  std::size_t touched_lines_ = 0;
  bool holds(std::uint64_t address);  ///< and holds it from now on
  void mark_written(std::uint64_t address, bool past_copy = false);
  /// A store from the far partition goes to the line's home by way of that partition's copy;
  /// atomics are done at home, and the copy knows nothing of them.
  bool passes_copy(const Access& access, std::uint64_t address) const;

  const GpuSpec spec_;
  const double cycle_ps_;
  const double jitter_ps_;
  Memory& memory_;
  std::vector<std::uint64_t> held_;  ///< by place: which line, plus 1; direct mapped
  const Placement* placement_ = nullptr;
  std::vector<std::uint8_t> stale_;  ///< by line: the copy in the far partition is out of date
  std::unordered_map<std::uint64_t, WordState> words_;
  std::unordered_map<std::uint64_t, Ps> host_line_free_ps_;
  struct HostRead {
    Ps start_ps, back_ps;
    std::uint32_t sm;
  };
  std::deque<HostRead> host_reads_;       ///< in flight, by start
  std::vector<Ps> host_acknowledged_ps_;  ///< by SM: its last write to the host is acknowledged
  const Ps host_round_trip_ps_;
  std::function<Ps(Ps, std::uint64_t)> host_poller_;
  Access posted_access_;             // before the payload, which lets go of it when it dies
  tlm::tlm_generic_payload posted_;  ///< carries posted writes on their way out
  std::uint64_t watch_begin_ = 0, watch_end_ = 0;
  std::function<void(std::uint64_t, std::uint64_t, Ps)> watch_;
  DelayLine<Request> arrivals_;
  DelayLine<tlm::tlm_generic_payload*> device_arrivals_;
  std::map<std::uint64_t, WordState*> polled_;  ///< words with parked polls, by address
  /// Bodies of wide stores on their way across PCIe, by ticket.
  std::unordered_map<std::uint64_t, std::array<std::uint8_t, 64>> pushed_;
  std::uint64_t pushes_ = 0;
  Random random_;
  Observer* observer_ = nullptr;

  struct Counts {
    std::uint64_t loads = 0, stores = 0, atomics = 0, far = 0, polls = 0, spins = 0;
    std::uint64_t host_loads = 0, host_stores = 0, misses = 0;
    std::uint64_t device_reads = 0, device_writes = 0;
    std::uint64_t peer_loads = 0, peer_stores = 0;
  } counters_;
};

}  // namespace marrow::gpu
