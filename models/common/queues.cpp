#include "models/common/queues.h"

namespace marrow {

QueueLayout::QueueLayout(const Program& program, std::uint32_t queues) {
  constexpr std::uint64_t kAlign = 65536;
  for (const Region& region : program.regions) {
    const bool own = region.memory == MemoryKind::kGpu, host = region.memory == MemoryKind::kHost;
    std::uint64_t& used = own ? gpu_bytes_ : host ? host_bytes_ : peer_bytes_;
    // The lanes run on GPU 0; its peer is GPU 1.
    const std::uint64_t base = (own ? 0 : host ? kHostBase : peer_address(1, 0)) + used;
    bases_.push_back(base);
    ends_.push_back(base + region.stride_bytes * queues);
    used += (region.stride_bytes * queues + kAlign - 1) / kAlign * kAlign;
  }
}

}  // namespace marrow
