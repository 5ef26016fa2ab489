// What producer and consumer share in memory, as the recipes configs/protocols/capture-*.yaml lay
// it out. Plain data: the GPU's code and the processor's read the same structures.
#pragma once

#include <cstddef>
#include <cstdint>

namespace marrow::capture {

constexpr std::uint32_t kDepth = 1024;  ///< entries of a ring
constexpr std::uint32_t kEntryBytes = 64;
constexpr std::uint32_t kMaxQueues = 64;
constexpr std::uint32_t kMaxWarps = 64;

/// A queue in GPU memory: each word on a line of its own.
struct alignas(128) DeviceQueue {
  std::uint64_t resv, pad0[15];
  std::uint64_t ready, pad1[15];
  std::uint64_t prod, pad2[15];
  std::uint64_t cons, pad3[15];
  std::uint32_t lock, pad4[31];
  std::uint32_t dbrec, pad5[31];
  std::uint32_t cqe[32];  ///< the counter is cqe[15], where an mlx5 CQE has it
  std::uint8_t rr;
  std::uint32_t pad6[31];
  std::uint64_t keys[32];
};
static_assert(sizeof(DeviceQueue) == 1280 && offsetof(DeviceQueue, cqe) + 60 == 828 &&
              offsetof(DeviceQueue, keys) == 1024);

/// A queue in host memory, and its counters, which stay in GPU memory.
struct alignas(128) HostQueue {
  std::uint64_t doorbell, pad0[15];
  std::uint64_t record, pad1[15];
  std::uint64_t done, pad2[15];
};
static_assert(sizeof(HostQueue) == 384);
struct alignas(128) Counters {
  unsigned long long resv, ready, prod;
  unsigned int lock, pad[25];
};
static_assert(sizeof(Counters) == 128);

struct alignas(kEntryBytes) Entry {
  std::uint64_t words[8];
};
constexpr std::uint32_t kDoorbellStrideWords = 16;

constexpr std::size_t kStages = 9;
enum Stage : std::size_t {
  kStageLookup,
  kStageSlot,
  kStageWqe,
  kStageFence,
  kStageOrder,
  kStageLock,
  kStageRecord,
  kStageRegister,
  kStageCompletion
};
constexpr const char* kStageNames[kStages] = {"lookup",
                                              "slot",
                                              "wqe",
                                              "order.fence",
                                              "order.publish",
                                              "order.lock",
                                              "doorbell.record",
                                              "doorbell.register",
                                              "completion"};

constexpr std::uint32_t kRang = 1, kWaited = 2, kTimedOut = 128;  ///< Record::flags

/// What a warp notes of one put; one slot a put in GPU memory, written by plain stores.
struct Record {
  std::uint64_t start_ns;  ///< globaltimer
  std::uint32_t cycles[kStages];
  std::uint32_t polls, sm, warp, queue, index, flags;
};

/// What a consumer notes of one entry.
struct Consumed {
  std::uint64_t seen_ns = 0;  ///< the doorbell that announced it: globaltimer
  std::uint32_t read_cycles = 0, done_cycles = 0;
};

}  // namespace marrow::capture
