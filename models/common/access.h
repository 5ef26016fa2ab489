// The extension that marrow's memory accesses carry on a TLM-2.0 generic payload.
#pragma once

#include <cstdint>
#include <tlm>

#include "models/common/program.h"
#include "models/common/time.h"

namespace marrow {

/// What a GPU sees: its own memory at 0, host memory, a window for the memory of each GPU that
/// NVLink reaches, and the NIC's registers. The address decides which way an access takes.
constexpr std::uint64_t kHostBase = std::uint64_t{1} << 40;
constexpr std::uint64_t kPeerBase = std::uint64_t{1} << 41;
constexpr std::uint64_t kNicBase = std::uint64_t{1} << 45;
constexpr std::uint64_t kPeerWindowBytes = std::uint64_t{1} << 38;
constexpr bool is_own(std::uint64_t address) { return address < kHostBase; }
constexpr bool is_host(std::uint64_t address) { return !is_own(address) && address < kPeerBase; }
constexpr bool is_nic(std::uint64_t address) { return address >= kNicBase; }
constexpr bool is_peer(std::uint64_t address) { return address >= kPeerBase && !is_nic(address); }
constexpr bool crosses_pcie(std::uint64_t address) { return is_host(address) || is_nic(address); }
constexpr std::uint64_t peer_address(std::uint32_t gpu, std::uint64_t offset) {
  return kPeerBase + gpu * kPeerWindowBytes + offset;
}
constexpr std::uint32_t peer_gpu(std::uint64_t address) {
  return static_cast<std::uint32_t>((address - kPeerBase) / kPeerWindowBytes);
}
constexpr std::uint64_t peer_offset(std::uint64_t address) {
  return (address - kPeerBase) % kPeerWindowBytes;
}

enum class AccessKind : std::uint8_t {
  kLoad,
  kStore,  ///< posted: no answer
  kAtomic,
  kSpin,  ///< compare-and-swap, repeated by the requester until it succeeds
  kPoll,  ///< load, repeated by the requester until the value is above `threshold`
  kFence  ///< asks when all that it must wait for is done
};

/// Loads, atomics, spins and polls are answered on the backward path; the payload belongs to the
/// requester and lives until then. Values travel in `value`, their bytes in the payload's data.
struct Access : tlm::tlm_extension<Access> {
  AccessKind kind = AccessKind::kLoad;
  AtomicOp atomic = AtomicOp::kAdd;
  std::uint32_t sm = 0;    ///< requesting SM
  std::uint32_t lane = 0;  ///< the requester's own: which of its lanes
  /// When it was issued, where that may be before the kernel's time (a lane that did not wait for
  /// an earlier answer); -1: now and the annotated delay.
  Ps issue_ps = -1;
  int port = 0;                          ///< the L2's own: where the answer goes
  std::uint32_t gpu = 0;                 ///< the NVLink switch's own: the GPU that asked
  Ps way_ps = 0;                         ///< across NVLink and back; 0: asked from this GPU
  std::uint64_t value = 0;               ///< operand; answer: the old value
  std::uint64_t expected = 0;            ///< kSpin
  std::uint64_t threshold = 0;           ///< kPoll: done once the word is at least this
  Encoding encoding = Encoding::kPlain;  ///< kPoll: how the word holds the count
  std::uint32_t entries = 0;             ///< kPoll, Encoding::kOwner: the ring's length
  Ps retry_ps = 0;                       ///< kSpin, kPoll: requester's own cost of a round
  std::uint32_t rounds = 0;              ///< answer: loads or attempts made
  Scope scope = Scope::kNone;            ///< kFence
  Ps least_ps = 0;                       ///< kFence: what it takes if it meets no host read
  bool host_stores = false;              ///< kFence: own writes to the host are pending
  /// From a device: the bytes are in the payload's data, and a store is answered once it took
  /// effect.
  bool device = false;
  bool core = false;  ///< a device access that a CPU core made, through the BAR

  /// kPoll: what the word's bytes mean as a count: at least `threshold` once the wait is over.
  std::uint64_t counted(std::uint64_t raw) const {
    if (threshold == 0) return raw;
    switch (encoding) {
      case Encoding::kPlain:
        return raw;
      case Encoding::kWqeCounter: {
        // Big endian, 16 bits, the index of the last completed entry: compared around the wrap.
        const auto counter = static_cast<std::uint16_t>((raw & 0xff) << 8 | (raw >> 8 & 0xff));
        const auto ahead = static_cast<std::int16_t>(counter + 1 - threshold);
        return threshold + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
      }
      case Encoding::kOwner: {
        // The owner bit of the pass in which entry threshold - 1 lies; opcode 15 is never written.
        const bool pass = (threshold - 1) / entries & 1;
        const bool done = (raw & 0xf0) != 0xf0 && (raw & 1) == pass;
        return done ? threshold : threshold - 1;
      }
    }
    return raw;
  }

  /// Lives in its requester, beside the payload; the payload does not own it.
  void free() override {}
  tlm_extension_base* clone() const override { return new Access(*this); }
  void copy_from(const tlm_extension_base& other) override {
    *this = static_cast<const Access&>(other);
  }
};

}  // namespace marrow
