// The modelled machine: every block of a system, wired.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/common/journey_book.h"
#include "models/common/observer.h"
#include "models/common/placement.h"
#include "models/common/queues.h"
#include "models/gpu/hbm.h"
#include "models/gpu/l2.h"
#include "models/gpu/polling_warp.h"
#include "models/gpu/sm.h"
#include "models/host/cpu_thread.h"
#include "models/host/memory.h"
#include "models/pcie/link.h"
#include "models/pcie/root_complex.h"
#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/peer_side.h"
#include "traces/trace.h"

namespace marrow::sim {

/// What one run needs. Everything referred to must outlive run().
struct RunSetup {
  std::uint32_t index = 0;
  const config::Recipe* recipe = nullptr;
  const trace::Run* run = nullptr;  ///< lanes, queues
  std::uint64_t seed = 1;
  std::function<bool(std::uint32_t warp, gpu::Put&)> next_put;
  /// Corrects the drawn placement; may be empty.
  std::function<void(const QueueLayout&, Placement&)> place;
  Observer* observer = nullptr;
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
  const config::SystemSpec spec_;
  gpu::Hbm hbm_;
  gpu::L2 l2_;
  pcie::Link link_;
  pcie::RootComplex root_;
  host::HostMemory host_memory_;
  host::CpuThread cpu_;
  gpu::PollingWarp warp_;
  std::vector<std::unique_ptr<gpu::Sm>> sms_;
  std::unique_ptr<PeerSide> peer_;  ///< null: one GPU
};

}  // namespace marrow::sim
