#include "models/common/queues.h"

namespace marrow {

QueueLayout::QueueLayout(const Program& program, std::uint32_t queues, std::uint32_t lanes,
                         std::uint32_t gpus)
    : gpus_(gpus) {
  constexpr std::uint64_t kAlign = 65536;
  std::uint64_t nic_bytes = 0;
  for (const Region& region : program.regions) {
    const std::uint64_t parts = (region.owner == Owner::kQueue  ? queues
                                 : region.owner == Owner::kLane ? lanes
                                                                : 1) *
                                std::uint64_t{gpus};
    const auto [start, used] = [&]() -> std::pair<std::uint64_t, std::uint64_t*> {
      switch (region.memory) {
        case MemoryKind::kGpu:
          return {0, &gpu_bytes_};
        case MemoryKind::kHost:
          return {kHostBase, &host_bytes_};
        case MemoryKind::kPeer:
          // The lanes run on GPU 0; its peer is GPU 1.
          return {peer_address(1, 0), &peer_bytes_};
        case MemoryKind::kNic:
          break;
      }
      return {kNicBase, &nic_bytes};
    }();
    const std::uint64_t base = start + *used;
    bases_.push_back(base);
    ends_.push_back(base + region.stride_bytes * parts);
    *used += (region.stride_bytes * parts + kAlign - 1) / kAlign * kAlign;
  }
}

}  // namespace marrow
