// CPU cores that execute a protocol's steps: a thread of the trace has a core of its own.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/lane.h"
#include "models/common/random.h"
#include "models/host/memory.h"
#include "models/host/spec.h"
#include "models/host/stream.h"

namespace marrow::host {

/// Costs of steps are in ns. Host memory is cached: an access costs a look (poll_ns), or a line's
/// way to the core (notice_ns) where a device wrote it last. Stores retire at once; a store to a
/// device's register is posted and leaves the machine's cores mmio_ns later. Fences of system scope
/// are store fences; narrower ones only keep the compiler from moving code and are free.
class Core : public sc_core::sc_module {
 public:
  /// Stores to devices' registers. May stay unbound where there is no device.
  tlm_utils::simple_initiator_socket_optional<Core> to_device{"to_device"};

  Core(sc_core::sc_module_name name, const HostSpec& spec, HostMemory* memory);

  /// The GPU to which threads submit kernels and copies. Must outlive this.
  void attach(const GpuSpec& spec, gpu::FrontEnd* front_end) {
    gpu_ = spec;
    front_end_ = front_end;
  }
  /// lane: its number among the run's lanes. peer: the processing element it talks to.
  void add_lane(const RunContext* context, std::uint32_t warp, std::uint32_t queue,
                std::uint32_t lane = 0, std::uint32_t peer = 0);
  /// Before each run, after the memory's reset: no threads, noise from this seed.
  void reset(std::uint64_t seed);
  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  struct Thread : Lane {
    const Step* pending = nullptr;   ///< an access that meets the kernel's time
    bool spins = false;              ///< it polls and has not found what it wants
    Ps looks_from_ps = 0;            ///< since then
    std::unique_ptr<Stream> stream;  ///< where the program has kernels
  };
  struct Store {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    std::array<std::uint8_t, 256> data{};
  };

  void run(Thread& thread);
  void turn(Thread& thread, Ps at_ps);
  void store(Thread& thread, const Step& step);
  void access(Thread& thread, const Step& step, Ps at_ps);
  void take_effect(Store& store, Ps at_ps);
  void written(std::uint64_t address, Ps at_ps);
  void copy(Thread& thread, const Step& step);
  std::uint64_t place(const Thread& thread, const Step& step) const;
  Ps look_ps(std::uint64_t address);

  const HostSpec spec_;
  HostMemory* memory_;
  GpuSpec gpu_;
  gpu::FrontEnd* front_end_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  DelayLine<Thread*> turns_;
  DelayLine<Store> stores_;
  Random random_;
  struct Counts {
    std::uint64_t messages = 0, stores = 0, register_stores = 0, fences = 0, polls = 0;
  } counters_;
};

}  // namespace marrow::host
