// What travels between NICs: a request, a response or an acknowledgement, as one train of packets.
#pragma once

#include <cstdint>

#include "models/common/journey_book.h"
#include "models/common/time.h"

namespace marrow::wire {

struct Message {
  enum class Kind : std::uint8_t {
    kWrite,
    kRead,
    kAtomic,
    kAck,
    kNak,      ///< a request before `psn` is missing
    kRefused,  ///< remote access error
    kReadResponse,
    kAtomicResponse
  };
  enum class Atomic : std::uint8_t { kAdd, kSwap, kCompareSwap };
  Kind kind = Kind::kWrite;
  Atomic atomic = Atomic::kAdd;
  bool immediate = false;          ///< kWrite: the responder's software gets a completion
  std::uint32_t from = 0, to = 0;  ///< ports
  std::uint32_t queue = 0;         ///< the requester's
  std::uint64_t psn = 0;           ///< requests of a queue are numbered from 0
  std::uint64_t index = 0;         ///< work queue position at the requester
  std::uint64_t address = 0;       ///< in the responder's memory
  std::uint64_t bytes = 0;         ///< payload
  std::uint64_t value = 0;  ///< the payload's first 8 bytes, an atomic's operand or its old value
  std::uint64_t compare = 0;
  Ps rest_ps = 0;               ///< on arrival: its last packet came so long after its first
  JourneyBook* book = nullptr;  ///< the requester's
};

}  // namespace marrow::wire
