// The GPU's memory behind the L2: its bytes, and what a line costs that is not in the L2 yet.
#pragma once

#include <tlm_utils/simple_target_socket.h>

#include <cstdint>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/memory.h"
#include "models/common/observer.h"
#include "models/gpu/spec.h"

namespace marrow::gpu {

/// b_transport annotates the time from the L2 to the data and back. Channels are interleaved by
/// line and hand out one line after the other.
class Hbm : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Hbm> from_l2{"from_l2"};

  Hbm(sc_core::sc_module_name name, const GpuSpec& spec);
  void reset(std::uint64_t bytes);
  Memory& memory() { return memory_; }
  void report(CounterSink& sink) const;
  void clear_counters() { lines_ = 0; }

 private:
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);

  const GpuSpec spec_;
  Memory memory_;
  std::vector<Ps> channel_free_ps_;
  std::uint64_t lines_ = 0;
};

}  // namespace marrow::gpu
