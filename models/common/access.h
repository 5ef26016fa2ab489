// The extension that marrow's memory accesses carry on a TLM-2.0 generic payload.
#pragma once

#include <cstdint>
#include <tlm>

#include "models/common/program.h"
#include "models/common/time.h"

namespace marrow {

/// GPU memory starts at 0, host memory and the NIC's registers here. The address decides which way
/// an access takes.
constexpr std::uint64_t kHostBase = std::uint64_t{1} << 40;
constexpr std::uint64_t kNicBase = std::uint64_t{1} << 41;
constexpr bool is_nic(std::uint64_t address) { return address >= kNicBase; }
/// Not in GPU memory: the access crosses PCIe.
constexpr bool is_host(std::uint64_t address) { return address >= kHostBase; }

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
  std::uint32_t sm = 0;         ///< requesting SM
  int port = 0;                 ///< the L2's own: where the answer goes
  std::uint64_t value = 0;      ///< operand; answer: the old value
  std::uint64_t expected = 0;   ///< kSpin
  std::uint64_t threshold = 0;  ///< kPoll: done once the word is at least this
  Encoding encoding = Encoding::kPlain;  ///< kPoll: how the word holds the count
  std::uint32_t entries = 0;             ///< kPoll, Encoding::kOwner: the ring's length
  Ps retry_ps = 0;              ///< kSpin, kPoll: requester's own cost of a round
  std::uint32_t rounds = 0;     ///< answer: loads or attempts made
  Scope scope = Scope::kNone;   ///< kFence
  Ps least_ps = 0;              ///< kFence: what it takes if it meets no host read
  bool host_stores = false;     ///< kFence: own writes to the host are pending
  /// From a device: the bytes are in the payload's data, and a store is answered once it took
  /// effect.
  bool device = false;

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
