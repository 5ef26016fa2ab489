// The parts of mlx5's entries, doorbells and completions as words in memory byte order, so that
// storing a word gives the layout's bytes. For whoever builds them with plain stores, on the host
// or in GPU code; encode() and decode() of mlx5.h are made of the same.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define MARROW_HOST_DEVICE __host__ __device__
#else
#define MARROW_HOST_DEVICE
#endif

namespace marrow::nic {

/// The host's byte order to big endian, or back.
MARROW_HOST_DEVICE constexpr std::uint16_t big16(std::uint16_t v) {
  if (std::endian::native == std::endian::big) return v;
  return static_cast<std::uint16_t>(v << 8 | v >> 8);
}
MARROW_HOST_DEVICE constexpr std::uint32_t big32(std::uint32_t v) {
  if (std::endian::native == std::endian::big) return v;
  return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24;
}
MARROW_HOST_DEVICE constexpr std::uint64_t big64(std::uint64_t v) {
  if (std::endian::native == std::endian::big) return v;
  return std::uint64_t{big32(static_cast<std::uint32_t>(v))} << 32 |
         big32(static_cast<std::uint32_t>(v >> 32));
}

/// 16 bytes of an entry: a segment, or a part of one.
struct Unit {
  std::uint32_t words[4];
};

/// The control segment. ds: the entry's length in units; fm_ce_se: 0x08 asks for a completion.
MARROW_HOST_DEVICE constexpr Unit control_unit(std::uint8_t opcode, std::uint8_t opmod,
                                               std::uint16_t index, std::uint32_t qpn,
                                               std::uint32_t ds, std::uint8_t fm_ce_se,
                                               std::uint32_t imm) {
  // Signature and DCI stream: 0.
  return {{big32(std::uint32_t{opmod} << 24 | std::uint32_t{index} << 8 | opcode),
           big32(qpn << 8 | ds), big32(fm_ce_se), big32(imm)}};
}
MARROW_HOST_DEVICE constexpr Unit remote_address_unit(std::uint64_t address, std::uint32_t rkey) {
  return {{big32(static_cast<std::uint32_t>(address >> 32)),
           big32(static_cast<std::uint32_t>(address)), big32(rkey), 0}};
}
/// bytes: 1 to 2^31, which is written as 0.
MARROW_HOST_DEVICE constexpr Unit data_unit(std::uint32_t bytes, std::uint32_t lkey,
                                            std::uint64_t address) {
  return {{big32(bytes & ~0x8000'0000u), big32(lkey),
           big32(static_cast<std::uint32_t>(address >> 32)),
           big32(static_cast<std::uint32_t>(address))}};
}

/// An RDMA WRITE of local memory on an RC queue pair; of no bytes where `bytes` is 0.
struct WriteEntry {
  Unit units[3];
  std::uint32_t ds;  ///< how many of them the entry has
};
MARROW_HOST_DEVICE constexpr WriteEntry write_entry(std::uint16_t index, std::uint32_t qpn,
                                                    std::uint8_t fm_ce_se, std::uint64_t raddr,
                                                    std::uint32_t rkey, std::uint64_t laddr,
                                                    std::uint32_t lkey, std::uint32_t bytes) {
  const std::uint32_t ds = bytes > 0 ? 3 : 2;
  return {{control_unit(0x08, 0, index, qpn, ds, fm_ce_se, 0), remote_address_unit(raddr, rkey),
           bytes > 0 ? data_unit(bytes, lkey, laddr) : Unit{}},
          ds};
}

/// The value to store to the doorbell register.
MARROW_HOST_DEVICE constexpr std::uint64_t doorbell_word(std::uint16_t next_index,
                                                         std::uint32_t qpn) {
  return big64(std::uint64_t{next_index} << 40 | std::uint64_t{qpn & 0xff'ffff} << 8);
}
/// The word to store to the doorbell record, whose place in it is the send counter's.
MARROW_HOST_DEVICE constexpr std::uint32_t doorbell_record_word(std::uint16_t next_index) {
  return big32(next_index);
}

/// The last 4 bytes of a CQE as one word: which entry is completed, and how.
struct CqeTail {
  std::uint16_t wqe_counter;
  std::uint8_t op_own;
  MARROW_HOST_DEVICE constexpr std::uint8_t opcode() const { return op_own >> 4; }
};
MARROW_HOST_DEVICE constexpr CqeTail cqe_tail(std::uint32_t word) {
  const std::uint32_t v = big32(word);
  return {static_cast<std::uint16_t>(v >> 16), static_cast<std::uint8_t>(v)};
}

}  // namespace marrow::nic
