// One put into an mlx5 send queue, in the order of steps that NVSHMEM IBGDA (recipe nvshmem-ibgda)
// or DOCA GPUNetIO (recipe gdaki) has. Written once for every machine that can execute it: a lane
// of a GPU before a real NIC, and a test before the NIC model.
//
// A Machine has: stamp(); load32, load64, store32, store64 and store_unit (16 bytes) at an address;
// add64, max64 (both give the old value), cas32, cas64 (give what they found); fence_cta,
// fence_gpu; and spins(), how often a wait looks before it gives up.
#pragma once

#include "models/nic/mlx5_bytes.h"
#include "tools/capture/host/layout.h"

namespace marrow::capture {

/// A queue pair as its lanes know it; addresses are the Machine's.
struct NicQueue {
  std::uint64_t resv, ready, prod, lock;  ///< counters of the lanes
  std::uint64_t ring;                     ///< kDepth entries
  std::uint64_t dbrec;                    ///< the send counter's word of the doorbell record
  std::uint64_t doorbell;                 ///< the register
  std::uint64_t cqe_tail;                 ///< the last 4 bytes of the collapsed CQ's only entry
  std::uint32_t qpn, lkey, rkey, bytes;
  std::uint64_t local, remote;  ///< payload
};

struct NicPut {
  std::uint64_t at[kStages + 1];  ///< stamps: where each stage begins, and the end
  std::uint64_t index;
  std::uint32_t polls;
  bool rang, stuck, failed;  ///< failed: the NIC completed it with an error
};

constexpr std::uint8_t kAskCompletion = 0x08;
constexpr std::uint8_t kCqeInvalid = 15, kCqeRequesterError = 13;

/// Has the entry been completed? Indices are compared as 16 bits: at most kDepth are under way.
MARROW_HOST_DEVICE constexpr bool nic_completed(const nic::CqeTail& tail, std::uint64_t index) {
  return tail.opcode() != kCqeInvalid &&
         static_cast<std::int16_t>(tail.wqe_counter - static_cast<std::uint16_t>(index)) >= 0;
}

/// Waits until the entry is completed, or failed, or for too long.
template <class Machine>
MARROW_HOST_DEVICE void nic_wait(Machine& m, const NicQueue& q, std::uint64_t index, NicPut& put) {
  for (std::uint64_t look = 0; look < m.spins(); ++look) {
    const nic::CqeTail tail = nic::cqe_tail(m.load32(q.cqe_tail));
    ++put.polls;
    if (tail.opcode() == kCqeRequesterError) {
      put.failed = true;
      return;
    }
    if (nic_completed(tail, index)) return;
  }
  put.stuck = true;
}

/// ibgda: rings where it is the newest or a multiple of 32 has come; else where `may_ring`.
template <class Machine>
MARROW_HOST_DEVICE void nic_put(Machine& m, const NicQueue& q, bool ibgda, bool may_ring,
                                bool waits, NicPut& put) {
  put.polls = 0;
  put.rang = put.stuck = put.failed = false;
  put.at[kStageLookup] = put.at[kStageSlot] = m.stamp();  // the queue is at hand
  const std::uint64_t index = put.index = m.add64(q.resv, 1);
  if (index >= kDepth) nic_wait(m, q, index - kDepth, put);
  put.polls = 0;

  put.at[kStageWqe] = m.stamp();
  const auto low = static_cast<std::uint16_t>(index);
  const nic::WriteEntry entry =
      nic::write_entry(low, q.qpn, kAskCompletion, q.remote, q.rkey, q.local, q.lkey, q.bytes);
  const std::uint64_t at = q.ring + index % kDepth * kEntryBytes;
  for (std::uint32_t unit = 0; unit < 3; ++unit) {
    if (unit == entry.ds) break;
    if (!ibgda) {
      m.store_unit(at + 16 * unit, entry.units[unit]);
      continue;
    }
    for (std::uint32_t word = 0; word < 4; ++word)
      m.store32(at + 16 * unit + 4 * word, entry.units[unit].words[word]);
  }

  put.at[kStageFence] = m.stamp();
  m.fence_gpu();
  put.at[kStageOrder] = m.stamp();
  std::uint64_t looks = 0;
  while (m.cas64(q.ready, index, index + 1) != index && ++looks < m.spins()) {
  }
  if (looks >= m.spins()) put.stuck = true;
  m.fence_cta();

  put.at[kStageLock] = m.stamp();
  put.at[kStageRecord] = put.at[kStageRegister] = put.at[kStageLock];
  bool ring = may_ring;
  if (ibgda) ring = m.load64(q.resv) == index + 1 || (index + 1) % 32 == 0;
  if (ring) {
    looks = 0;
    while (m.cas32(q.lock, 0, 1) != 0 && ++looks < m.spins()) {
    }
    if (looks >= m.spins()) put.stuck = true;
    m.fence_cta();
    const std::uint64_t old = m.max64(q.prod, index + 1);
    put.at[kStageRecord] = put.at[kStageRegister] = m.stamp();
    if (old < index + 1) {
      put.rang = true;
      const auto next = static_cast<std::uint16_t>(index + 1);
      m.fence_gpu();
      if (!ibgda) m.store64(q.doorbell, nic::doorbell_word(next, q.qpn));
      if (!ibgda) put.at[kStageRegister] = m.stamp();
      m.store32(q.dbrec, nic::doorbell_record_word(next));
      if (ibgda) put.at[kStageRegister] = m.stamp();
      m.fence_gpu();
      m.store64(q.doorbell, nic::doorbell_word(next, q.qpn));
    }
    m.fence_cta();
  }
  put.at[kStageCompletion] = m.stamp();
  if (ring) m.store32(q.lock, 0);
  if (waits) nic_wait(m, q, index, put);
  put.at[kStages] = m.stamp();
}

}  // namespace marrow::capture
