// A CPU thread that polls announcements in host memory, reads entries, copies payload and writes
// completions: stand-in for the NIC, or a proxy.
#pragma once

#include "models/common/consumer.h"
#include "models/common/random.h"
#include "models/host/memory.h"
#include "models/host/spec.h"

namespace marrow::host {

class CpuThread : public Consumer {
 public:
  CpuThread(sc_core::sc_module_name name, const HostSpec& spec, HostMemory* memory);
  void seed(std::uint64_t seed) { random_ = Random(seed); }

 private:
  struct Store {
    std::uint64_t address, value;
    std::uint32_t bytes;
  };
  std::uint64_t load(std::uint64_t address, std::uint32_t bytes) const override {
    return memory_->load(address, bytes);
  }
  Ps store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                      Ps issue_ps) override;
  void watch(std::uint64_t begin, std::uint64_t end) override;
  Ps poll_period_ps(std::uint64_t) const override { return ps_from_ns(spec_.poll_ns); }
  Ps poll_return_ps(std::uint64_t) const override { return 0; }
  Ps notice_ps() override {
    return ps_from_ns(spec_.notice_ns + random_.around(spec_.notice_spread_ns));
  }
  /// Recipes give a CPU's costs in nanoseconds (its clock is the host's own business).
  Ps cycles_ps(double ns) const override { return ps_from_ns(ns); }
  Ps copy_ps(std::uint64_t bytes) const override { return memcpy_ps(spec_, bytes); }

  const HostSpec spec_;
  HostMemory* memory_;
  DelayLine<Store> stores_;
  Random random_;
};

}  // namespace marrow::host
