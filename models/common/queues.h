// Where each queue's words lie: a program's regions laid out in the machine's memories.
#pragma once

#include <cstdint>
#include <vector>

#include "models/common/access.h"
#include "models/common/program.h"

namespace marrow {

/// Regions follow each other in their memory, each at a 64 KiB boundary.
class QueueLayout {
 public:
  QueueLayout() = default;
  /// gpus: of which each has a part of every region of an NVLink program.
  QueueLayout(const Program& program, std::uint32_t queues, std::uint32_t lanes = 1,
              std::uint32_t gpus = 1);

  /// lane: whose part, where the word's region is the lanes'. gpu: the one that stores there.
  std::uint64_t address(const Program& program, std::uint32_t word, std::uint32_t queue,
                        std::uint64_t index, std::uint32_t lane = 0, std::uint32_t gpu = 0) const {
    const Word& w = program.words[word];
    const Region& region = program.regions[w.region];
    const std::uint64_t part = (region.owner == Owner::kQueue  ? queue
                                : region.owner == Owner::kLane ? lane
                                                               : 0) *
                                   gpus_ +
                               gpu;
    const std::uint64_t base = bases_[w.region] + part * region.stride_bytes + w.offset_bytes;
    return w.entry_bytes ? base + index % w.entries * w.entry_bytes : base;
  }
  std::uint64_t region_begin(std::uint32_t region) const { return bases_[region]; }
  std::uint64_t region_end(std::uint32_t region) const { return ends_[region]; }
  std::uint64_t gpu_bytes() const { return gpu_bytes_; }
  std::uint64_t host_bytes() const { return host_bytes_; }
  std::uint64_t peer_bytes() const { return peer_bytes_; }

 private:
  std::uint32_t gpus_ = 1;
  std::vector<std::uint64_t> bases_, ends_;
  std::uint64_t gpu_bytes_ = 0, host_bytes_ = 0, peer_bytes_ = 0;
};

}  // namespace marrow
