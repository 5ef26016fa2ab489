// Puts, step by step as the recipes configs/protocols/capture-*.yaml have them, and the warps that
// consume them. The statements are kept close to those of the programs that took the older
// captures: the recipes' costs of a lane's own instructions are those of this code.
//
// kStamps false: the same steps without a clock read and without a record, to tell what these cost.
#pragma once

#include "tools/capture/host/configuration.h"
#include "tools/capture/host/layout.h"
#include "tools/common/gpu/device.cuh"

namespace marrow::capture {

using tools::cycles_now;
using tools::nanoseconds_now;
using tools::sm_now;
using u32 = std::uint32_t;
using u64 = unsigned long long;

/// A wait ends after so many looks: 0.5 s at 330 cycles each, 4 s across PCIe.
constexpr u64 kLooks = 3'000'000;

/// When a warp began and ended all its puts, stamped or not.
struct Span {
  u64 begin_cycles, end_cycles;
};

struct PutsArguments {
  DeviceQueue* queues;
  char* rings;
  u64* doorbells;  ///< kDoorbellStrideWords apart; in GPU, host or peer memory
  int queue_count, warps, puts, batch, wait_every, gap_cycles;
  u64 bytes;
  Record* records;  ///< [warp][put]
  Span* spans;      ///< [warp]
  u32* gave_up;
  u64* sink;  ///< never written; keeps loads alive
};

struct ConsumerArguments {
  DeviceQueue* queues;
  const char* rings;
  u64* doorbells;
  int queue_count;
  u64 total, looks, bytes;
  const char* from;  ///< payload, where it is moved
  char* to;
  Consumed* consumed;  ///< [queue][entry]
  u32* sm;             ///< where the consumer runs
};

template <bool kStamps>
__device__ __forceinline__ u64 stamp() {
  return kStamps ? cycles_now() : 0;
}
template <Fence kFence>
__device__ __forceinline__ void fence() {
  if (kFence == Fence::kGpu) __threadfence();
  if (kFence == Fence::kSys) __threadfence_system();
}
__device__ __forceinline__ void store_doorbell(u64* doorbell, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0],%1;" ::"l"(doorbell), "l"(value) : "memory");
}

/// An entry's first 48 bytes; its content means nothing to the consumers here.
template <int kStoreBytes>
__device__ __forceinline__ void store_entry(char* entry, u64 index, u64 bytes) {
  if constexpr (kStoreBytes == 4)
    for (int k = 0; k < 12; k++)
      asm volatile("st.volatile.global.u32 [%0],%1;" ::"l"(entry + 4 * k), "r"((u32)(index + k))
                   : "memory");
  if constexpr (kStoreBytes == 8)
    for (int k = 0; k < 6; k++)
      asm volatile("st.volatile.global.u64 [%0],%1;" ::"l"(entry + 8 * k), "l"(index + k)
                   : "memory");
  if constexpr (kStoreBytes == 16)
    for (int k = 0; k < 3; k++)
      asm volatile("st.weak.global.cs.v2.b64 [%0],{%1,%2};" ::"l"(entry + 16 * k), "l"(index + k),
                   "l"(bytes)
                   : "memory");
}

/// capture-ibgda and capture-gdaki: queues in GPU memory. kStoreBytes 0: the protocol's own width.
template <bool kStamps, int kStoreBytes, Fence kWqeFence>
__device__ __forceinline__ void put_all(bool ibgda, const PutsArguments& a, int warp) {
  const int queue = warp % a.queue_count;
  DeviceQueue* Q = a.queues + queue;
  volatile DeviceQueue* V = Q;
  u64* reserved = reinterpret_cast<u64*>(&Q->resv);
  u64* ready = reinterpret_cast<u64*>(&Q->ready);
  u64* producer = reinterpret_cast<u64*>(&Q->prod);
  u64* doorbell = a.doorbells + queue * kDoorbellStrideWords;
  u64 mine = 0, sink = 0;
  const u64 begin = cycles_now();
  for (int i = 0; i < a.puts; i++) {
    Record r;
    r.flags = 0;
    if (kStamps) {
      r.sm = sm_now();
      r.warp = warp;
      r.queue = queue;
      r.start_ns = nanoseconds_now();
    }
    const u64 c0 = stamp<kStamps>();
    if (ibgda) {
      const unsigned char x = *(volatile unsigned char*)&Q->rr;
      *(volatile unsigned char*)&Q->rr = x + 1;
      sink += V->keys[x & 3];
      sink += V->keys[8 + (sink & 1)];
      sink += V->keys[16 + (sink & 1)];
    } else {
      sink += __ldg(&Q->keys[0]);
      sink += V->keys[8 + (sink & 1)];
      sink += V->keys[16];
    }
    const u64 c1 = stamp<kStamps>() + (sink == 0x7777777 ? 1 : 0);
    const u64 index = atomicAdd(reserved, 1ULL);
    r.index = (u32)index;
    u64 looks = 0;
    if (index >= kDepth)
      while (((u32)V->cqe[15]) + kDepth <= index && ++looks < kLooks) {
      }
    const u64 c2 = stamp<kStamps>() + (index == ~0ull);
    char* entry = a.rings + ((std::size_t)queue * kDepth + index % kDepth) * kEntryBytes;
    if constexpr (kStoreBytes != 0)
      store_entry<kStoreBytes>(entry, index, a.bytes);
    else if (ibgda)
      store_entry<4>(entry, index, a.bytes);
    else
      store_entry<16>(entry, index, a.bytes);
    const u64 c3 = stamp<kStamps>();
    fence<kWqeFence>();
    const u64 c4 = stamp<kStamps>();
    looks = 0;
    while (atomicCAS(ready, index, index + 1) != index && ++looks < kLooks) {
    }
    bool stuck = looks >= kLooks;
    if (ibgda)
      __threadfence_block();
    else
      __threadfence();
    const u64 c5 = stamp<kStamps>();
    u64 c6 = c5, c7 = c5, c8 = c5;
    mine++;
    bool ring;
    if (ibgda) {
      const u64 newest = V->resv;
      ring = (newest == index + 1) || ((index + 1) % 32 == 0);
    } else {
      ring = (mine % a.batch) == 0 || i == a.puts - 1;
    }
    if (ring) {
      looks = 0;
      while (atomicCAS(&Q->lock, 0u, 1u) != 0u && ++looks < kLooks) {
      }
      stuck |= looks >= kLooks;
      __threadfence_block();
      const u64 old = atomicMax(producer, index + 1);
      c6 = stamp<kStamps>() + (old == ~0ull);
      c7 = c8 = c6;
      if (old < index + 1) {
        r.flags |= kRang;
        __threadfence();
        if (ibgda) {
          *(volatile u32*)&Q->dbrec = (u32)(index + 1);
          c7 = stamp<kStamps>();
          __threadfence();
          asm volatile("st.volatile.global.u64 [%0],%1;" ::"l"(doorbell), "l"(index + 1)
                       : "memory");
          c8 = stamp<kStamps>();
        } else {
          store_doorbell(doorbell, index + 1);
          c7 = stamp<kStamps>();
          asm volatile("st.relaxed.sys.global.u32 [%0],%1;" ::"l"(&Q->dbrec), "r"((u32)(index + 1))
                       : "memory");
          __threadfence();
          store_doorbell(doorbell, index + 1);
          c8 = stamp<kStamps>();
        }
      }
      __threadfence_block();
      *(volatile u32*)&Q->lock = 0;
    }
    u64 c9 = c8;
    u32 polls = 0;
    if ((a.wait_every && ((i + 1) % a.wait_every) == 0) || i == a.puts - 1) {
      looks = 0;
      u32 seen;
      do {
        asm volatile("ld.volatile.global.u32 %0,[%1];" : "=r"(seen) : "l"(&Q->cqe[15]) : "memory");
        polls++;
      } while ((int)(seen - (u32)(index + 1)) < 0 && ++looks < kLooks);
      c9 = stamp<kStamps>();
      r.flags |= kWaited;
      stuck |= looks >= kLooks;
    }
    if (kStamps) {
      if (stuck) r.flags |= kTimedOut;
      r.cycles[kStageLookup] = c1 - c0;
      r.cycles[kStageSlot] = c2 - c1;
      r.cycles[kStageWqe] = c3 - c2;
      r.cycles[kStageFence] = c4 - c3;
      r.cycles[kStageOrder] = c5 - c4;
      r.cycles[kStageLock] = c6 - c5;
      r.cycles[kStageRecord] = c7 - c6;
      r.cycles[kStageRegister] = c8 - c7;
      r.cycles[kStageCompletion] = c9 - c8;
      r.polls = polls;
      a.records[(std::size_t)warp * a.puts + i] = r;
    }
    if (stuck) {
      *a.gave_up = 1;
      break;
    }
    if (a.gap_cycles) {
      const u64 from = cycles_now();
      while (cycles_now() - from < (u64)a.gap_cycles) {
      }
    }
  }
  a.spans[warp] = {begin, cycles_now()};
  if (sink == 0x1234567) a.sink[1] = 1;
}

/// A warp on another SM: reads entries, writes completions.
__device__ __forceinline__ void consume_beside(const ConsumerArguments& a) {
  const int lane = threadIdx.x;
  u64 head[kMaxQueues];
  for (int q = 0; q < a.queue_count; q++) head[q] = 0;
  if (lane == 0) *a.sm = sm_now();
  u64 done = 0, look = 0;
  while (done < a.total && ++look < a.looks) {
    for (int q = 0; q < a.queue_count; q++) {
      u64 announced = 0;
      if (lane == 0)
        asm volatile("ld.relaxed.sys.global.u64 %0,[%1];"
                     : "=l"(announced)
                     : "l"(a.doorbells + q * kDoorbellStrideWords)
                     : "memory");
      announced = __shfl_sync(~0u, announced, 0);
      if (announced <= head[q]) continue;
      const u64 seen_ns = nanoseconds_now();
      const u64 c0 = cycles_now();
      while (head[q] < announced) {
        const uint4* entry =
            (const uint4*)(a.rings + ((std::size_t)q * kDepth + head[q] % kDepth) * kEntryBytes);
        uint4 v = make_uint4(0, 0, 0, 0);
        if (lane < 4)
          asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3},[%4];"
                       : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                       : "l"(entry + lane)
                       : "memory");
        const u32 ok = __shfl_sync(~0u, v.x, 0);
        const u64 c1 = cycles_now();
        __syncwarp();
        head[q]++;
        if (lane == 0) {
          __threadfence();
          *(volatile u32*)&a.queues[q].cqe[15] = (u32)head[q];
          const u64 c2 = cycles_now();
          Consumed k;
          k.seen_ns = seen_ns;
          k.read_cycles = (u32)c1 - (u32)c0;
          k.done_cycles = (u32)c2 - (u32)c1;
          a.consumed[(std::size_t)q * (a.total / a.queue_count) + head[q] - 1] = k;
        }
        done++;
        (void)ok;
      }
    }
  }
}

/// A warp on another GPU: the doorbell is in its memory; entries, payload and completion cross the
/// link.
__device__ __forceinline__ void consume_across(const ConsumerArguments& a) {
  const int lane = threadIdx.x;
  u64 head[kMaxQueues];
  for (int q = 0; q < a.queue_count; q++) head[q] = 0;
  u64 done = 0, look = 0;
  while (done < a.total && ++look < a.looks)
    for (int q = 0; q < a.queue_count; q++) {
      u64 announced = 0;
      if (lane == 0)
        asm volatile("ld.relaxed.sys.global.u64 %0,[%1];"
                     : "=l"(announced)
                     : "l"(a.doorbells + q * kDoorbellStrideWords)
                     : "memory");
      announced = __shfl_sync(~0u, announced, 0);
      if (announced <= head[q]) continue;
      const u64 seen_ns = nanoseconds_now();
      const u64 c0 = cycles_now();
      while (head[q] < announced) {
        const uint4* entry =
            (const uint4*)(a.rings + ((std::size_t)q * kDepth + head[q] % kDepth) * kEntryBytes);
        uint4 v = make_uint4(0, 0, 0, 0);
        if (lane < 4)
          asm volatile("ld.relaxed.sys.global.v4.b32 {%0,%1,%2,%3},[%4];"
                       : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                       : "l"(entry + lane)
                       : "memory");
        const u32 ok = __shfl_sync(~0u, v.x, 0);
        const u64 c1 = cycles_now() + (ok == 0x7fffffff);
        for (u64 at = lane * 16; at < a.bytes; at += 512) {
          uint4 t;
          asm volatile("ld.relaxed.sys.global.v4.b32 {%0,%1,%2,%3},[%4];"
                       : "=r"(t.x), "=r"(t.y), "=r"(t.z), "=r"(t.w)
                       : "l"(a.from + at)
                       : "memory");
          *(uint4*)(a.to + at) = t;
        }
        __syncwarp();
        head[q]++;
        if (lane == 0) {
          __threadfence();
          asm volatile("st.relaxed.sys.global.u32 [%0],%1;" ::"l"(&a.queues[q].cqe[15]),
                       "r"((u32)head[q])
                       : "memory");
          const u64 c2 = cycles_now();
          Consumed k;
          k.seen_ns = seen_ns;
          k.read_cycles = (u32)(c1 - c0);
          k.done_cycles = (u32)(c2 - c1);
          a.consumed[(std::size_t)q * (a.total / a.queue_count) + head[q] - 1] = k;
        }
        done++;
      }
    }
}

/// Blocks 0 to warps - 1 put, the last one consumes.
template <bool kStamps, int kStoreBytes, Fence kWqeFence>
__global__ void puts_and_consumer_kernel(bool ibgda, PutsArguments puts,
                                         ConsumerArguments consumer) {
  const int block = blockIdx.x;
  if (block == (int)gridDim.x - 1) return consume_beside(consumer);
  if (threadIdx.x == 0) put_all<kStamps, kStoreBytes, kWqeFence>(ibgda, puts, block);
}

template <bool kStamps, int kStoreBytes, Fence kWqeFence>
__global__ void puts_kernel(bool ibgda, PutsArguments puts) {
  if (threadIdx.x == 0) put_all<kStamps, kStoreBytes, kWqeFence>(ibgda, puts, blockIdx.x);
}

// ------------------------------------------------------------------------ queues in host memory

struct HostPutsArguments {
  HostQueue* queues;
  Counters* counters;
  Entry* rings;
  int queue_count, puts, batch, wait_every, gap_cycles;
  u64 bytes;
  Record* records;
  Span* spans;
  u32* gave_up;
};

__device__ __forceinline__ void store_host_entry(Entry* entry, u64 first, u64 bytes, u64 last) {
  char* at = (char*)entry;
  asm volatile("st.volatile.global.v2.u64 [%0],{%1,%2};" ::"l"(at), "l"(first), "l"(bytes)
               : "memory");
  asm volatile("st.volatile.global.v2.u64 [%0],{%1,%2};" ::"l"(at + 16), "l"(first), "l"(bytes)
               : "memory");
  asm volatile("st.volatile.global.v2.u64 [%0],{%1,%2};" ::"l"(at + 32), "l"(first), "l"(bytes)
               : "memory");
  asm volatile("st.volatile.global.v2.u64 [%0],{%1,%2};" ::"l"(at + 48), "l"(first), "l"(last)
               : "memory");
}

/// Polls the completion counter across PCIe; false if the limit was reached.
__device__ __forceinline__ bool wait_done(HostQueue* queue, u64 index, u32& polls) {
  u64 looks = 0, done;
  do {
    asm volatile("ld.relaxed.sys.global.u64 %0,[%1];" : "=l"(done) : "l"(&queue->done) : "memory");
    polls++;
  } while (done <= index && ++looks < kLooks);
  return looks < kLooks;
}

template <bool kStamps>
__device__ __forceinline__ bool finish_put(const HostPutsArguments& a, int warp, int i,
                                           const Record& r, bool stuck) {
  if (kStamps) a.records[(std::size_t)warp * a.puts + i] = r;
  if (stuck) {
    *a.gave_up = 1;
    return false;
  }
  if (a.gap_cycles) {
    const u64 from = cycles_now();
    while (cycles_now() - from < (u64)a.gap_cycles) {
    }
  }
  return true;
}

/// capture-host-gdaki.
template <bool kStamps, Fence kWqeFence, Fence kDoorbellFence>
__global__ void host_gdaki_kernel(HostPutsArguments a) {
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (threadIdx.x % 32) return;
  const int queue = warp % a.queue_count;
  volatile HostQueue* H = a.queues + queue;
  Counters* D = a.counters + queue;
  Entry* ring = a.rings + (std::size_t)queue * kDepth;
  u64 mine = 0;
  const u64 begin = cycles_now();
  for (int i = 0; i < a.puts; i++) {
    Record r;
    r.flags = 0;
    if (kStamps) {
      r.sm = sm_now();
      r.warp = warp;
      r.queue = queue;
      r.start_ns = nanoseconds_now();
    }
    const u64 c0 = stamp<kStamps>();
    const u64 index = atomicAdd(&D->resv, 1ULL);
    u64 looks = 0;
    r.index = (u32)index;
    if (index >= kDepth)
      while (H->done + kDepth <= index && ++looks < kLooks) {
      }
    bool stuck = looks >= kLooks;
    const u64 c1 = stamp<kStamps>();
    store_host_entry(ring + index % kDepth, index | (8ULL << 56), a.bytes, index + 1);
    const u64 c2 = stamp<kStamps>();
    fence<kWqeFence>();
    const u64 c3 = stamp<kStamps>();
    looks = 0;
    while (atomicCAS(&D->ready, index, index + 1) != index && ++looks < kLooks) {
    }
    stuck |= looks >= kLooks;
    const u64 c4 = stamp<kStamps>();
    u64 c5 = c4, c6 = c4;
    mine++;
    const bool ring_now = (mine % a.batch) == 0 || i == a.puts - 1;
    if (ring_now) {
      looks = 0;
      while (atomicCAS(&D->lock, 0u, 1u) != 0u && ++looks < kLooks) {
      }
      stuck |= looks >= kLooks;
      const u64 old = atomicMax(&D->prod, index + 1);
      if (old < index + 1) {
        fence<kWqeFence>();
        H->record = index + 1;
        c5 = stamp<kStamps>();
        fence<kDoorbellFence>();
        H->doorbell = index + 1;
        c6 = stamp<kStamps>();
        r.flags |= kRang;
      } else {
        c5 = c6 = stamp<kStamps>();
      }
      __threadfence();
      atomicExch(&D->lock, 0u);
    }
    u64 c7 = c6;
    u32 polls = 0;
    if ((a.wait_every && ((i + 1) % a.wait_every) == 0) || i == a.puts - 1) {
      stuck |= !wait_done(a.queues + queue, index, polls);
      c7 = stamp<kStamps>();
      r.flags |= kWaited;
      __threadfence_block();
    }
    if (stuck) r.flags |= kTimedOut;
    r.cycles[kStageLookup] = r.cycles[kStageLock] = 0;
    r.cycles[kStageSlot] = c1 - c0;
    r.cycles[kStageWqe] = c2 - c1;
    r.cycles[kStageFence] = c3 - c2;
    r.cycles[kStageOrder] = c4 - c3;
    r.cycles[kStageRecord] = c5 - c4;
    r.cycles[kStageRegister] = c6 - c5;
    r.cycles[kStageCompletion] = c7 - c6;
    r.polls = polls;
    if (!finish_put<kStamps>(a, warp, i, r, stuck)) break;
  }
  a.spans[warp] = {begin, cycles_now()};
}

/// capture-host-proxy: one 64 B descriptor, its tag in the last word, no doorbell.
template <bool kStamps, Fence kWqeFence>
__global__ void host_proxy_kernel(HostPutsArguments a) {
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (threadIdx.x % 32) return;
  const int queue = warp % a.queue_count;
  volatile HostQueue* H = a.queues + queue;
  Counters* D = a.counters + queue;
  Entry* ring = a.rings + (std::size_t)queue * kDepth;
  const u64 begin = cycles_now();
  for (int i = 0; i < a.puts; i++) {
    Record r;
    r.flags = kRang;
    if (kStamps) {
      r.sm = sm_now();
      r.warp = warp;
      r.queue = queue;
      r.start_ns = nanoseconds_now();
    }
    const u64 c0 = stamp<kStamps>();
    const u64 index = atomicAdd(&D->resv, 1ULL);
    u64 looks = 0;
    r.index = (u32)index;
    if (index >= kDepth)
      while (H->done + kDepth <= index && ++looks < kLooks) {
      }
    bool stuck = looks >= kLooks;
    const u64 c1 = stamp<kStamps>();
    fence<kWqeFence>();
    const u64 c2 = stamp<kStamps>();
    store_host_entry(ring + index % kDepth, index | (8ULL << 56), a.bytes, index + 1);
    const u64 c3 = stamp<kStamps>();
    u64 c7 = c3;
    u32 polls = 0;
    if ((a.wait_every && ((i + 1) % a.wait_every) == 0) || i == a.puts - 1) {
      stuck |= !wait_done(a.queues + queue, index, polls);
      c7 = stamp<kStamps>();
      r.flags |= kWaited;
    }
    if (stuck) r.flags |= kTimedOut;
    for (std::size_t s = 0; s < kStages; s++) r.cycles[s] = 0;
    r.cycles[kStageSlot] = c1 - c0;
    r.cycles[kStageFence] = c2 - c1;
    r.cycles[kStageWqe] = c3 - c2;
    r.cycles[kStageCompletion] = c7 - c3;
    r.polls = polls;
    if (!finish_put<kStamps>(a, warp, i, r, stuck)) break;
  }
  a.spans[warp] = {begin, cycles_now()};
}

}  // namespace marrow::capture
