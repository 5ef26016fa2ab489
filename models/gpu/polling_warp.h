// A warp on an SM of its own that polls announcements, stand-in for the NIC in a capture.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include "models/common/consumer.h"
#include "models/gpu/l2.h"
#include "models/host/memory.h"
#include "models/host/spec.h"
#include "models/pcie/spec.h"

namespace marrow::gpu {

class PollingWarp : public Consumer {
 public:
  tlm_utils::simple_initiator_socket<PollingWarp> memory{"memory"};

  PollingWarp(sc_core::sc_module_name name, const GpuSpec& gpu, const PcieSpec& pcie,
              const HostSpec& host_spec, L2* l2, host::HostMemory* host);
  void place(std::uint32_t sm) { sm_ = sm; }
  /// Its polls across PCIe cost no events, so they are added to the link's counters here.
  void report(CounterSink& sink) const override;

 private:
  std::uint64_t load(std::uint64_t address, std::uint32_t bytes) const override;
  Ps store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                      Ps issue_ps) override;
  void watch(std::uint64_t begin, std::uint64_t end) override;
  Ps poll_period_ps(std::uint64_t address) const override;
  Ps poll_return_ps(std::uint64_t address) const override;
  /// When the read of this host word (0: any) that is under way at at_ps is back at the L2; 0:
  /// none.
  Ps read_back_ps(Ps at_ps, std::uint64_t address) const;
  Ps cycles_ps(double cycles) const override {
    return static_cast<Ps>(cycles * 1000.0 / gpu_.sm_clock_ghz);
  }

  const GpuSpec gpu_;
  const PcieSpec pcie_;
  const HostSpec host_spec_;
  L2* l2_;
  host::HostMemory* host_;
  std::uint32_t sm_ = 0;
  bool polls_host_ = false;
  Access access_;  // before the payload, which lets go of it when it dies
  tlm::tlm_generic_payload payload_;
  std::uint64_t bytes_ = 0;
};

}  // namespace marrow::gpu
