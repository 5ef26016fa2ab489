// The bytes that mlx5 software and hardware exchange: work queue entries (WQE), doorbells, doorbell
// records and completion queue entries (CQE). Layouts are those of rdma-core's
// infiniband/mlx5dv.h; the masked atomic and WAIT segments, which it lacks, are NVSHMEM's
// (ibgda_device.cuh) and DOCA GPUNetIO's (doca_gpunetio_dev_verbs_qp.cuh). Everything is big
// endian.
//
// What software writes, encode() gives; what the NIC makes of it, decode() gives. Nothing here
// allocates, and nothing knows time.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace marrow::nic {

constexpr std::uint32_t kWqebbBytes = 64;  ///< basic block: a queue's index counts these
constexpr std::uint32_t kWqeUnitBytes = 16;
constexpr std::uint32_t kMaxWqeUnits = 63;  ///< `ds` has 6 bits
constexpr std::uint32_t kMaxSegmentBytes = 1u << 31;
constexpr std::uint32_t kInlineFlag = 0x8000'0000;  ///< in a segment's byte_count
constexpr std::uint32_t kFullAvFlag = 0x8000'0000;  ///< in an address vector's dqp_dct

enum class Opcode : std::uint8_t {
  kNop = 0x00,
  kSendInvalidate = 0x01,  ///< not modelled: decode() refuses it
  kRdmaWrite = 0x08,
  kRdmaWriteImm = 0x09,
  kSend = 0x0a,
  kSendImm = 0x0b,
  kTso = 0x0e,  ///< not modelled
  kWait = 0x0f,
  kRdmaRead = 0x10,
  kAtomicCs = 0x11,
  kAtomicFa = 0x12,
  kMaskedCs = 0x14,
  kMaskedFa = 0x15,
  kDump = 0x23,
  kUmr = 0x25,  ///< not modelled
  kMmo = 0x2f,  ///< not modelled
};

/// Operand size of a masked atomic; every other opcode has opmod 0.
constexpr std::uint8_t kOpmodAtomic4 = 0x08;
constexpr std::uint8_t kOpmodAtomic8 = 0x09;

/// Bits of the control segment's fm_ce_se.
constexpr std::uint8_t kCqUpdate = 0x08;   ///< asks for a completion
constexpr std::uint8_t kSolicited = 0x02;  ///< solicited event at the receiver
constexpr std::uint8_t kFenceMask = 7 << 5;
constexpr std::uint8_t kFenceSmall = 1 << 5;
constexpr std::uint8_t kFence = 2 << 5;
constexpr std::uint8_t kStrongOrdering = 3 << 5;
constexpr std::uint8_t kFenceAndSmall = 4 << 5;  ///< rdma-core's MLX5_WQE_CTRL_FENCE

/// What the queue pair carries: it decides whether an entry has an address vector.
enum class Transport : std::uint8_t { kRc, kUd, kDc };

/// Why an operation failed, as the error CQE says it (mlx5dv.h MLX5_CQE_SYNDROME_*).
enum class Syndrome : std::uint8_t {
  kNone = 0x00,
  kLocalLength = 0x01,
  kLocalQpOperation = 0x02,
  kLocalProtection = 0x04,
  kFlushed = 0x05,
  kMemoryWindowBind = 0x06,
  kBadResponse = 0x10,
  kLocalAccess = 0x11,
  kRemoteInvalidRequest = 0x12,
  kRemoteAccess = 0x13,
  kRemoteOperation = 0x14,
  kTransportRetryExceeded = 0x15,
  kRnrRetryExceeded = 0x16,
  kRemoteAborted = 0x22,
};

/// Where a UD or DC entry goes. The half form is the first 16 of the full form's 48 bytes.
struct AddressVector {
  enum class Form : std::uint8_t { kNone, kHalf, kFull };
  Form form = Form::kNone;
  std::uint64_t key = 0;              ///< DC: access key; UD: Q_Key << 32
  std::uint32_t destination = 0;      ///< QP (UD) or DCT (DC) number, 24 bits
  std::uint8_t rate_sl = 0;           ///< static rate and service level
  std::uint8_t source_path = 0;       ///< fl_mlid
  std::uint16_t lid_udp = 0;          ///< rlid; RoCE: UDP source port
  std::array<std::uint8_t, 6> mac{};  ///< from here on full form only
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t grh_gid_flow = 0;  ///< GRH present, GID index, flow label
  std::array<std::uint8_t, 16> gid{};
};

/// One entry of a send queue, in the host's byte order. What an opcode has no use for is ignored by
/// encode() and left zero by decode().
struct WorkRequest {
  Opcode opcode = Opcode::kNop;
  std::uint8_t opmod = 0;
  std::uint8_t fm_ce_se = 0;
  std::uint16_t index = 0;  ///< low 16 bits of the queue position of the entry's first block
  std::uint32_t qpn = 0;    ///< 24 bits
  std::uint32_t imm = 0;    ///< the value; its bytes are stored big endian

  std::uint64_t raddr = 0;
  std::uint32_t rkey = 0;

  /// Local memory: payload, or where a read's data and an atomic's old value go. Range 0 .. 2^31.
  /// 0: the entry has no data segment, as rdma-core skips empty ones. A segment's byte_count of 0
  /// is read as 2^31: so the verbs documentation of earlier ConnectX has it; for mlx5 it is
  /// assumed.
  std::uint32_t bytes = 0;
  std::uint32_t lkey = 0;
  std::uint64_t laddr = 0;

  /// The payload stands in the entry itself; decode() points into the entry, so the view lives as
  /// long as that. At most 972 bytes (RC, WRITE). `bytes` is ignored by encode(), set by decode().
  bool is_inline = false;
  std::span<const std::uint8_t> inline_data;

  /// Atomics. 4-byte operands (masked, opmod 0x08) use the low halves.
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  std::uint64_t swap_mask = 0;       ///< masked compare-swap
  std::uint64_t compare_mask = 0;    ///< masked compare-swap
  std::uint64_t field_boundary = 0;  ///< masked fetch-add: no carry out of a bit that is set here

  std::uint32_t wait_index = 0;  ///< WAIT: goes on when the CQ has reached this
  std::uint32_t wait_cqn = 0;

  AddressVector av;  ///< UD and DC; NOP, WAIT and DUMP have none
};

/// Blocks that an entry of `ds` units takes: its queue's next index is so much further.
constexpr std::uint32_t blocks(std::uint32_t ds) { return (ds + 3) / 4; }

/// Units (16 B, 0 .. 255 as found) that the entry starting here claims to have: so much must be
/// fetched before it can be decoded. Needs the first 8 bytes.
std::uint32_t claimed_units(std::span<const std::uint8_t, 8> head);

/// Writes the entry and returns its length in units of 16 B, or 0 if the request has no such bytes
/// (opcode not modelled, masked atomic of another opmod, over 63 units, over 2 GiB) or `out` is too
/// short; then nothing is written. The last unit's bytes behind an inline payload are left alone,
/// as the libraries leave them. Does not judge: an unaligned atomic is encoded. An entry that wraps
/// round its queue's end is the caller's to split.
[[nodiscard]] std::uint32_t encode(const WorkRequest& request, std::span<std::uint8_t> out);

struct DecodeResult {
  /// Refused: opcode, opmod, fm_ce_se, index, qpn and imm as found, the rest not to be relied on.
  WorkRequest request;
  std::uint32_t ds = 0;  ///< as found
  Syndrome syndrome = Syndrome::kNone;
  const char* reason = "";  ///< why it is refused, for a person

  bool ok() const { return syndrome == Syndrome::kNone; }
};

/// Reads an entry as the NIC does. `entry`: at least claimed_units() * 16 bytes in one piece; what
/// lies behind is ignored. Whether index and QP number are the expected ones is for the caller, who
/// knows what it expects. Which syndrome ConnectX gives for which malformation is not published;
/// here, after the InfiniBand specification's names: local QP operation error for an entry that
/// cannot be read, local length error for lengths that contradict each other, and remote invalid
/// request for an atomic that the responder would refuse as unaligned.
DecodeResult decode(std::span<const std::uint8_t> entry, Transport transport);

/// A doorbell register write. BlueFlame writes the same 8 bytes as the head of a whole entry.
struct Doorbell {
  std::uint16_t next_index = 0;  ///< of the first block that is not yet written
  std::uint32_t qpn = 0;         ///< 24 bits
};
/// The 8-byte value to store, in memory byte order: storing it gives the bytes of the layout.
std::uint64_t encode_doorbell(std::uint16_t next_index, std::uint32_t qpn);
Doorbell decode_doorbell(std::uint64_t value);

/// A doorbell record: two words, receive and send; the same index as the doorbell's.
constexpr std::uint32_t kDoorbellRecordBytes = 8;
constexpr std::uint32_t kDoorbellRecordReceiveOffset = 0;
constexpr std::uint32_t kDoorbellRecordSendOffset = 4;
/// The 4-byte word to store, in memory byte order.
std::uint32_t encode_doorbell_record(std::uint16_t next_index);
std::uint16_t decode_doorbell_record(std::uint32_t word);

constexpr std::uint32_t kCqeBytes = 64;
constexpr std::uint32_t kCqeImmOffset = 36;
constexpr std::uint32_t kCqeByteCountOffset = 44;
constexpr std::uint32_t kCqeTimestampOffset = 48;
constexpr std::uint32_t kCqeVendorSyndromeOffset = 54;  ///< error
constexpr std::uint32_t kCqeSyndromeOffset = 55;        ///< error
constexpr std::uint32_t kCqeSendOpcodeOffset = 56;      ///< top byte of the word with the QP number
constexpr std::uint32_t kCqeWqeCounterOffset = 60;
constexpr std::uint32_t kCqeSignatureOffset = 62;
constexpr std::uint32_t kCqeOpOwnOffset = 63;

/// A CQ's buffer before its first completion: opcode INVALID, owner 1 (NVSHMEM, DOCA: memset 0xff).
constexpr std::uint8_t kCqeInitialByte = 0xff;

enum class CqeOpcode : std::uint8_t {
  kRequester = 0,
  kResponderWriteImm = 1,
  kResponderSend = 2,
  kResponderSendImm = 3,
  kResponderSendInvalidate = 4,
  kRequesterError = 13,
  kResponderError = 14,
  kInvalid = 15,
};

struct Completion {
  CqeOpcode opcode = CqeOpcode::kInvalid;
  std::uint8_t format = 0;  ///< 0 .. 3; 0: plain, 3: compressed
  bool solicited = false;
  std::uint8_t owner = 0;               ///< see cqe_owner()
  std::uint16_t wqe_counter = 0;        ///< index of the entry completed
  std::uint32_t qpn = 0;                ///< 24 bits
  Opcode send_opcode = Opcode::kNop;    ///< requester: of the entry completed
  std::uint32_t byte_count = 0;         ///< not in an error
  std::uint32_t imm = 0;                ///< not in an error
  std::uint64_t timestamp = 0;          ///< in the device's clock ticks; not in an error
  Syndrome syndrome = Syndrome::kNone;  ///< in an error only
  std::uint8_t vendor_syndrome = 0;     ///< in an error only

  bool is_error() const {
    return opcode == CqeOpcode::kRequesterError || opcode == CqeOpcode::kResponderError;
  }
};

/// Writes all 64 bytes, reserved ones as zero.
void encode_cqe(const Completion& completion, std::span<std::uint8_t, kCqeBytes> out);
Completion decode_cqe(std::span<const std::uint8_t, kCqeBytes> cqe);

/// Owner bit of the completion number `index` (from 0) in a ring: 0 in the first pass over it, 1 in
/// the second, and so on in turn. entries: the ring's size, a power of two.
constexpr std::uint8_t cqe_owner(std::uint64_t index, std::uint32_t entries) {
  return (index & entries) != 0;
}
/// What a poller of an entry asks of its last byte: has completion number `index` arrived?
constexpr bool cqe_arrived(std::uint8_t op_own, std::uint64_t index, std::uint32_t entries) {
  return op_own >> 4 != static_cast<std::uint8_t>(CqeOpcode::kInvalid) &&
         (op_own & 1) == cqe_owner(index, entries);
}

}  // namespace marrow::nic
