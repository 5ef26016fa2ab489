// The GPU's front end: takes what CPU threads submit, kernels and copies, and tells the host's
// memory when each is through.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <cstdint>
#include <functional>
#include <systemc>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/program.h"
#include "models/gpu/spec.h"
#include "models/pcie/duplex.h"

namespace marrow::gpu {

/// A word in host memory that the GPU writes once a command is through.
struct DoneWord {
  std::uint64_t address = 0;
  std::uint64_t value = 0;
};

/// A kernel as a stream sees it: work, then a few steps of one lane at its end.
struct Kernel {
  Ps work_ps = 0;
  /// Fences, stores and the lane's own cycles; null: none.
  const std::vector<Step>* tail = nullptr;
  /// Where a store of the tail goes; a GPU's or a host's address.
  std::function<std::uint64_t(const Step&)> address;
  DoneWord done;
};

/// A stream's commands follow each other; streams do not wait for one another. A kernel's work
/// takes as long as it says, whatever else runs; a copy shares the PCIe link with everybody on it.
class FrontEnd : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<FrontEnd> memory{"memory"};

  /// read_round_trip_ps: of a read of host memory. reaches_peer: NVLink joins the GPU to another.
  FrontEnd(sc_core::sc_module_name name, const GpuSpec& spec, pcie::Duplex& link,
           Ps read_round_trip_ps, bool reaches_peer);
  /// Before each run.
  void reset() { streams_.clear(); }

  struct Times {
    Ps started_ps;  ///< first instruction
    Ps worked_ps;   ///< its work is done, the tail follows
    Ps ended_ps;    ///< last instruction is done
  };
  /// submitted_ps: when the GPU's doorbell has been rung, not before the simulated time.
  Times launch(std::uint32_t stream, const Kernel& kernel, Ps submitted_ps);
  /// The same of a kernel that starts at that time.
  Times start(std::uint32_t stream, const Kernel& kernel, Ps started_ps);
  /// Copies between this GPU's memory and the host's; returns when the last byte is there.
  Ps copy(std::uint32_t stream, bool to_host, std::uint64_t bytes, const DoneWord& done,
          Ps submitted_ps);
  /// Is a command of the stream not through at that time?
  bool busy(std::uint32_t stream, Ps at_ps) const {
    return stream < streams_.size() && at_ps < streams_[stream];
  }

  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  struct Store {
    std::uint64_t address, value;
    std::uint32_t bytes;
  };
  Ps& free_ps(std::uint32_t stream);
  Ps fence_ps(Scope scope, bool stored_to_host) const;
  void store(Store& store);

  const GpuSpec spec_;
  pcie::Duplex& link_;
  const Ps read_round_trip_ps_;
  const bool reaches_peer_;
  std::vector<Ps> streams_;  ///< when each is free
  DelayLine<Store> stores_;
  struct Counts {
    std::uint64_t kernels = 0, copies = 0, copied_bytes = 0;
    Ps worked_ps = 0;
  } counters_;
};

}  // namespace marrow::gpu
