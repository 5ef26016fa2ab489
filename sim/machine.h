// The modelled machine: every block of a system, wired.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/common/delay_line.h"
#include "models/common/journey_book.h"
#include "models/common/observer.h"
#include "models/common/placement.h"
#include "models/common/queues.h"
#include "models/gpu/front_end.h"
#include "models/gpu/hbm.h"
#include "models/gpu/l2.h"
#include "models/gpu/polling_warp.h"
#include "models/gpu/sm.h"
#include "models/host/core.h"
#include "models/host/cpu_thread.h"
#include "models/host/memory.h"
#include "models/nic/nic.h"
#include "models/pcie/link.h"
#include "models/pcie/root_complex.h"
#include "models/pcie/switch.h"
#include "models/wire/fabric.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/nvlink.h"
#include "traces/trace.h"

namespace marrow::sim {

/// What one run needs. Everything referred to must outlive run().
struct RunSetup {
  std::uint32_t index = 0;
  const config::Recipe* recipe = nullptr;
  const trace::Run* run = nullptr;  ///< lanes, queues
  std::uint64_t seed = 1;
  std::function<bool(std::uint32_t warp, gpu::Op&)> next_op;
  /// Corrects the drawn placement of the first processing element; may be empty.
  std::function<void(const QueueLayout&, Placement&)> place;
  Observer* observer = nullptr;
  OrderObserver* order = nullptr;  ///< follows orders; may be null
};

/// A processing element: a GPU with its host and, where the system has one, its NIC. GPUs that
/// NVLink joins are one each.
class ProcessingElement {
 public:
  ProcessingElement(const config::SystemSpec& spec, std::uint32_t number, wire::Fabric* fabric);
  void report(CounterSink& sink) const;
  void clear_counters();

  gpu::Hbm hbm;
  gpu::L2 l2;
  pcie::Link link;
  pcie::RootComplex root;
  host::HostMemory host_memory;
  host::CpuThread cpu;
  host::Core core;
  gpu::FrontEnd front_end;
  gpu::PollingWarp warp;
  std::vector<std::unique_ptr<gpu::Sm>> sms;
  // with a NIC
  std::unique_ptr<pcie::Link> nic_link;
  std::unique_ptr<pcie::Switch> pcie_switch;
  std::unique_ptr<nic::Nic> nic;
};

/// Elaborated once in a process; runs follow each other. At most one machine a process lives at a
/// time (the SystemC kernel is global).
class Machine {
 public:
  explicit Machine(const config::SystemSpec& spec);

  /// Runs until every lane is done and everything has completed. Times given to the observer start
  /// at 0. Throws InputError if the program gets stuck, telling where.
  void run(const RunSetup& setup);
  void report(CounterSink& sink) const;
  void clear_counters();

  /// Which SM a block of a grid lands on where a trace does not say.
  std::uint32_t default_sm(std::uint32_t block) const;

 private:
  /// Bytes of background traffic pass, and the next ones follow.
  /// The link that it passes, where that is no wire's port.
  pcie::Duplex& wires_of(const trace::Traffic& traffic);
  /// Would its place never be free again?
  bool overfills(const trace::Traffic& traffic);
  void pass(trace::Traffic& traffic, Ps at_ps);

  const config::SystemSpec spec_;
  std::unique_ptr<wire::Fabric> fabric_;
  std::vector<std::unique_ptr<ProcessingElement>> pes_;
  std::unique_ptr<Nvlink> nvlink_;  ///< null: it reaches no other GPU
  DelayLine<trace::Traffic> traffic_;
  std::uint64_t lanes_left_ = 0;  ///< that have work of their own; background ends with them
  const std::vector<JourneyBook>* books_ = nullptr;  ///< of the run under way
};

}  // namespace marrow::sim
