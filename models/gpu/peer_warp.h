// A warp on a peer GPU that polls announcements in that GPU's memory, stand-in for the NIC in a
// capture: entries and payload are read, completions written, across NVLink.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include "models/common/consumer.h"
#include "models/gpu/l2.h"
#include "models/gpu/spec.h"
#include "models/nvlink/link.h"

namespace marrow::gpu {

class PeerWarp : public Consumer {
 public:
  tlm_utils::simple_initiator_socket<PeerWarp> memory{"memory"};

  /// gpu: the number of the warp's own GPU; lanes_gpu: of the one that holds the queues. l2, link:
  /// of the own one.
  PeerWarp(sc_core::sc_module_name name, const GpuSpec& spec, std::uint32_t gpu,
           std::uint32_t lanes_gpu, L2* l2, nvlink::Link* link);

 private:
  std::uint64_t load(std::uint64_t address, std::uint32_t bytes) const override;
  Ps store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                      Ps issue_ps) override;
  void watch(std::uint64_t begin, std::uint64_t end) override;
  Ps poll_period_ps(std::uint64_t address) const override;
  Ps poll_return_ps(std::uint64_t address) const override;
  Ps entry_read_ps() override;
  Ps completion_fence_ps() const override { return l2_cycles_ps(spec_.fence_gpu_peer_cycles); }
  Ps copy_ps(std::uint64_t bytes) const override;
  Ps cycles_ps(double cycles) const override {
    return static_cast<Ps>(cycles * 1000.0 / spec_.sm_clock_ghz);
  }
  Ps l2_cycles_ps(double cycles) const {
    return static_cast<Ps>(cycles * 1000.0 / spec_.l2_clock_ghz);
  }
  /// A load of up to one round's bytes: there and back.
  Ps read_ps(std::uint64_t bytes) const;

  const GpuSpec spec_;
  const std::uint32_t gpu_, lanes_gpu_;
  L2* l2_;
  nvlink::Link* link_;
  Access access_;  // before the payload, which lets go of it when it dies
  tlm::tlm_generic_payload payload_;
  std::uint64_t bytes_ = 0;
};

}  // namespace marrow::gpu
