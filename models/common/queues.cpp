#include "models/common/queues.h"

namespace marrow {

QueueLayout::QueueLayout(const Program& program, std::uint32_t queues) {
  constexpr std::uint64_t kAlign = 65536;
  for (const Region& region : program.regions) {
    std::uint64_t& used = region.memory == MemoryKind::kGpu ? gpu_bytes_ : host_bytes_;
    const std::uint64_t base = (region.memory == MemoryKind::kHost ? kHostBase : 0) + used;
    bases_.push_back(base);
    ends_.push_back(base + region.stride_bytes * queues);
    used += (region.stride_bytes * queues + kAlign - 1) / kAlign * kAlign;
  }
}

}  // namespace marrow
