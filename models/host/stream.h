// A CPU thread's stream: the kernels and copies that it submits to its GPU, and what it knows of
// their end.
#pragma once

#include <array>
#include <cstdint>

#include "models/common/lane.h"
#include "models/gpu/front_end.h"
#include "models/host/spec.h"

namespace marrow::host {

/// A run begins where a kernel has just ended: its end is the first message's cause.
class Stream {
 public:
  Stream(const HostSpec& spec, const GpuSpec& gpu, gpu::FrontEnd* front_end, Lane* lane)
      : spec_(spec), gpu_(gpu), front_end_(front_end), lane_(lane) {}

  /// The kernel before the run ends now.
  void begin();
  /// The lane's own work since the last launch, which the next kernel does. SM cycles.
  void add_work(std::uint64_t cycles) { work_cycles_ += cycles; }
  /// Launches the kernel of that work: the thread's call, then the GPU's part.
  void launch();
  void copy(bool to_host, std::uint64_t bytes);
  /// Has it submitted what that word has not told it to be through?
  bool awaits(std::uint64_t address) const;
  /// A device has written that address.
  void written(std::uint64_t address, Ps at_ps);
  /// The thread's poll of that word, which tells the end of what it submitted, is over.
  void ended(std::uint64_t address);

 private:
  gpu::DoneWord done() const;
  gpu::Kernel kernel(double cycles) const;

  const HostSpec& spec_;
  const GpuSpec& gpu_;
  gpu::FrontEnd* front_end_;
  Lane* lane_;
  std::uint64_t work_cycles_ = 0;
  gpu::FrontEnd::Times kernel_{};  ///< the last one
  bool runs_ = false;              ///< as far as the thread knows
  Ps noticed_ps_ = 0;
  struct Landed {
    std::uint64_t line = 0;
    Ps at_ps = -1;
    std::uint64_t known = 0;  ///< of what it submitted: through, as far as the thread saw there
  };
  std::array<Landed, 2> landed_{};  ///< the lines that tell an end
};

}  // namespace marrow::host
