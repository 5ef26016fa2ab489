#include "models/nic/mlx5.h"

#include <algorithm>
#include <cstring>

#include "models/nic/mlx5_bytes.h"

namespace marrow::nic {
namespace {

template <typename T>
T swap_to_big(T value) {
  if constexpr (sizeof(T) == 2) return big16(value);
  if constexpr (sizeof(T) == 4) return big32(value);
  if constexpr (sizeof(T) == 8) return big64(value);
}

template <typename T>
void put(std::uint8_t* at, T value) {
  value = swap_to_big(value);
  std::memcpy(at, &value, sizeof value);
}
void put_unit(std::uint8_t* at, const Unit& unit) {
  static_assert(sizeof unit == kWqeUnitBytes);
  std::memcpy(at, &unit, sizeof unit);
}
void put16(std::uint8_t* at, std::uint16_t value) { put(at, value); }
void put32(std::uint8_t* at, std::uint32_t value) { put(at, value); }
void put64(std::uint8_t* at, std::uint64_t value) { put(at, value); }

template <typename T>
T get(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return swap_to_big(value);
}
std::uint16_t get16(const std::uint8_t* at) { return get<std::uint16_t>(at); }
std::uint32_t get32(const std::uint8_t* at) { return get<std::uint32_t>(at); }
std::uint64_t get64(const std::uint8_t* at) { return get<std::uint64_t>(at); }

constexpr std::uint32_t kInlineHeaderBytes = 4;
constexpr std::uint32_t kHalfAvUnits = 1;
constexpr std::uint32_t kFullAvUnits = 3;

/// What follows the control segment.
enum class Body : std::uint8_t {
  kUnknown,
  kNothing,  ///< whatever is there is skipped
  kSend,     ///< [address vector] [payload]
  kWrite,    ///< [address vector] remote address [payload]
  kRead,     ///< [address vector] remote address [data segment]
  kAtomic,   ///< [address vector] remote address, operands, data segment
  kDump,     ///< data segment
  kWait,     ///< wait segment
};

Body body_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kNop:
      return Body::kNothing;
    case Opcode::kSend:
    case Opcode::kSendImm:
      return Body::kSend;
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaWriteImm:
      return Body::kWrite;
    case Opcode::kRdmaRead:
      return Body::kRead;
    case Opcode::kAtomicCs:
    case Opcode::kAtomicFa:
    case Opcode::kMaskedCs:
    case Opcode::kMaskedFa:
      return Body::kAtomic;
    case Opcode::kDump:
      return Body::kDump;
    case Opcode::kWait:
      return Body::kWait;
    case Opcode::kSendInvalidate:
    case Opcode::kTso:
    case Opcode::kUmr:
    case Opcode::kMmo:
      break;
  }
  return Body::kUnknown;
}

bool goes_to_the_wire(Body body) { return body >= Body::kSend && body <= Body::kAtomic; }
bool has_remote_address(Body body) { return body >= Body::kWrite && body <= Body::kAtomic; }
bool may_be_inline(Body body) { return body == Body::kSend || body == Body::kWrite; }
bool is_masked(Opcode opcode) { return opcode == Opcode::kMaskedCs || opcode == Opcode::kMaskedFa; }

bool opmod_fits(Opcode opcode, std::uint8_t opmod) {
  return is_masked(opcode) ? opmod == kOpmodAtomic4 || opmod == kOpmodAtomic8 : opmod == 0;
}
std::uint32_t operand_bytes(std::uint8_t opmod) { return opmod == kOpmodAtomic4 ? 4 : 8; }
/// The masks of an 8-byte compare-swap take a unit of their own.
std::uint32_t operand_units(Opcode opcode, std::uint8_t opmod) {
  return opcode == Opcode::kMaskedCs && opmod == kOpmodAtomic8 ? 2 : 1;
}

std::uint32_t av_units(AddressVector::Form form) {
  switch (form) {
    case AddressVector::Form::kHalf:
      return kHalfAvUnits;
    case AddressVector::Form::kFull:
      return kFullAvUnits;
    case AddressVector::Form::kNone:
      break;
  }
  return 0;
}

std::uint32_t inline_units(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((kInlineHeaderBytes + bytes + kWqeUnitBytes - 1) /
                                    kWqeUnitBytes);
}

/// Units of the request's entry; 0: it has none.
std::uint32_t units_of(const WorkRequest& request, Body body) {
  if (body == Body::kUnknown || request.bytes > kMaxSegmentBytes) return 0;
  if (is_masked(request.opcode) && !opmod_fits(request.opcode, request.opmod)) return 0;

  std::uint32_t units = 1;
  if (goes_to_the_wire(body)) units += av_units(request.av.form);
  if (has_remote_address(body)) ++units;
  if (body == Body::kAtomic) units += operand_units(request.opcode, request.opmod);
  if (body == Body::kWait) {
    ++units;
  } else if (may_be_inline(body) && request.is_inline) {
    units += inline_units(request.inline_data.size());
  } else if (body != Body::kNothing && request.bytes > 0) {
    ++units;
  } else if (body == Body::kAtomic || body == Body::kDump) {
    return 0;  // without a data segment there is no such entry
  }
  return units <= kMaxWqeUnits ? units : 0;
}

void put_av(std::uint8_t* at, const AddressVector& av) {
  const bool full = av.form == AddressVector::Form::kFull;
  put64(at, av.key);
  put32(at + 8, (full ? kFullAvFlag : 0) | (av.destination & 0xff'ffff));
  at[12] = av.rate_sl;
  at[13] = av.source_path;
  put16(at + 14, av.lid_udp);
  if (!full) return;
  put32(at + 16, 0);
  std::memcpy(at + 20, av.mac.data(), av.mac.size());
  at[26] = av.traffic_class;
  at[27] = av.hop_limit;
  put32(at + 28, av.grh_gid_flow);
  std::memcpy(at + 32, av.gid.data(), av.gid.size());
}

void get_av(const std::uint8_t* at, AddressVector& av) {
  const std::uint32_t destination = get32(at + 8);
  av.form = destination & kFullAvFlag ? AddressVector::Form::kFull : AddressVector::Form::kHalf;
  av.key = get64(at);
  av.destination = destination & 0xff'ffff;
  av.rate_sl = at[12];
  av.source_path = at[13];
  av.lid_udp = get16(at + 14);
  if (av.form == AddressVector::Form::kHalf) return;
  std::memcpy(av.mac.data(), at + 20, av.mac.size());
  av.traffic_class = at[26];
  av.hop_limit = at[27];
  av.grh_gid_flow = get32(at + 28);
  std::memcpy(av.gid.data(), at + 32, av.gid.size());
}

/// Returns the units written.
std::uint32_t put_operands(std::uint8_t* at, const WorkRequest& request) {
  const bool fetch_add = request.opcode == Opcode::kAtomicFa || request.opcode == Opcode::kMaskedFa;
  if (request.opmod == kOpmodAtomic4 && is_masked(request.opcode)) {
    put32(at, static_cast<std::uint32_t>(request.swap_add));
    put32(at + 4, static_cast<std::uint32_t>(fetch_add ? request.field_boundary : request.compare));
    put32(at + 8, fetch_add ? 0 : static_cast<std::uint32_t>(request.swap_mask));
    put32(at + 12, fetch_add ? 0 : static_cast<std::uint32_t>(request.compare_mask));
    return 1;
  }
  put64(at, request.swap_add);
  if (request.opcode == Opcode::kMaskedFa)
    put64(at + 8, request.field_boundary);
  else
    put64(at + 8, fetch_add ? 0 : request.compare);
  if (request.opcode != Opcode::kMaskedCs) return 1;
  put64(at + 16, request.swap_mask);
  put64(at + 24, request.compare_mask);
  return 2;
}

void get_operands(const std::uint8_t* at, WorkRequest& request) {
  const bool narrow = request.opmod == kOpmodAtomic4;
  request.swap_add = narrow ? get32(at) : get64(at);
  const std::uint64_t second = narrow ? get32(at + 4) : get64(at + 8);
  if (request.opcode == Opcode::kMaskedFa) {
    request.field_boundary = second;
  } else if (request.opcode != Opcode::kAtomicFa) {
    request.compare = second;
  }
  if (request.opcode == Opcode::kMaskedCs) {
    request.swap_mask = narrow ? get32(at + 8) : get64(at + 16);
    request.compare_mask = narrow ? get32(at + 12) : get64(at + 24);
  }
}

void get_data_segment(const std::uint8_t* at, WorkRequest& request) {
  const std::uint32_t bytes = get32(at);
  request.bytes = bytes == 0 ? kMaxSegmentBytes : bytes;
  request.lkey = get32(at + 4);
  request.laddr = get64(at + 8);
}

/// Reads what follows the control segment. Returns null, or why the entry is refused.
const char* get_body(const std::uint8_t* entry, Transport transport, DecodeResult& result) {
  WorkRequest& request = result.request;
  const Body body = body_of(request.opcode);
  const auto refuse = [&result](Syndrome syndrome, const char* reason) {
    result.syndrome = syndrome;
    return reason;
  };
  constexpr Syndrome kMalformed = Syndrome::kLocalQpOperation;

  if (body == Body::kUnknown) return refuse(kMalformed, "opcode unknown or not modelled");
  if (!opmod_fits(request.opcode, request.opmod))
    return refuse(kMalformed, "opmod is not one of this opcode's");
  if (body == Body::kNothing) return nullptr;
  if (transport == Transport::kUd && goes_to_the_wire(body) && body != Body::kSend)
    return refuse(kMalformed, "a UD queue pair only sends");

  std::uint32_t at = 1;  // in units, as `left`
  const auto left = [&] { return result.ds - at; };
  const auto here = [&] { return entry + std::size_t{at} * kWqeUnitBytes; };

  if (body == Body::kWait) {
    if (left() != 1) return refuse(kMalformed, "ds does not fit the opcode");
    request.wait_index = get32(here() + 8);
    request.wait_cqn = get32(here() + 12);
    return nullptr;
  }
  if (transport != Transport::kRc && goes_to_the_wire(body)) {
    if (left() < kHalfAvUnits) return refuse(kMalformed, "no room for an address vector");
    const std::uint32_t units = get32(here() + 8) & kFullAvFlag ? kFullAvUnits : kHalfAvUnits;
    if (left() < units) return refuse(kMalformed, "no room for a full address vector");
    get_av(here(), request.av);
    at += units;
  }
  if (has_remote_address(body)) {
    if (left() < 1) return refuse(kMalformed, "no room for a remote address");
    request.raddr = get64(here());
    request.rkey = get32(here() + 8);
    ++at;
  }
  if (body == Body::kAtomic) {
    const std::uint32_t units = operand_units(request.opcode, request.opmod);
    if (left() != units + 1) return refuse(kMalformed, "ds does not fit the opcode");
    get_operands(here(), request);
    at += units;
  }

  if (left() == 0) {
    if (body == Body::kDump) return refuse(kMalformed, "ds does not fit the opcode");
    return nullptr;  // a message of no bytes
  }
  const std::uint32_t byte_count = get32(here());
  if (byte_count & kInlineFlag) {
    const std::uint32_t bytes = byte_count & ~kInlineFlag;
    if (!may_be_inline(body)) return refuse(kMalformed, "this opcode takes no inline data");
    if (inline_units(bytes) > left())
      return refuse(Syndrome::kLocalLength, "inline data is longer than the entry");
    if (inline_units(bytes) < left())
      return refuse(kMalformed, "ds is larger than the inline data needs");
    request.is_inline = true;
    request.bytes = bytes;
    request.inline_data = {here() + kInlineHeaderBytes, bytes};
    return nullptr;
  }
  if (left() > 1) return refuse(kMalformed, "more than one data segment: not modelled");
  get_data_segment(here(), request);
  if (body == Body::kAtomic) {
    const std::uint32_t bytes = operand_bytes(request.opmod);
    if (request.bytes != bytes)
      return refuse(Syndrome::kLocalLength, "an atomic's result has not its operand's size");
    if (request.raddr % bytes != 0)
      return refuse(Syndrome::kRemoteInvalidRequest, "an atomic's remote address is not aligned");
  }
  return nullptr;
}

}  // namespace

std::uint32_t claimed_units(std::span<const std::uint8_t, 8> head) { return head[7]; }

std::uint32_t encode(const WorkRequest& request, std::span<std::uint8_t> out) {
  const Body body = body_of(request.opcode);
  const std::uint32_t ds = units_of(request, body);
  if (ds == 0 || out.size() < std::size_t{ds} * kWqeUnitBytes) return 0;

  std::uint8_t* at = out.data();
  put_unit(at, control_unit(static_cast<std::uint8_t>(request.opcode), request.opmod, request.index,
                            request.qpn, ds, request.fm_ce_se, request.imm));
  at += kWqeUnitBytes;

  if (goes_to_the_wire(body) && request.av.form != AddressVector::Form::kNone) {
    put_av(at, request.av);
    at += std::size_t{av_units(request.av.form)} * kWqeUnitBytes;
  }
  if (has_remote_address(body)) {
    put_unit(at, remote_address_unit(request.raddr, request.rkey));
    at += kWqeUnitBytes;
  }
  if (body == Body::kAtomic) at += std::size_t{put_operands(at, request)} * kWqeUnitBytes;

  if (body == Body::kWait) {
    put64(at, 0);
    put32(at + 8, request.wait_index);
    put32(at + 12, request.wait_cqn);
  } else if (may_be_inline(body) && request.is_inline) {
    const std::span<const std::uint8_t> data = request.inline_data;
    put32(at, kInlineFlag | static_cast<std::uint32_t>(data.size()));
    std::copy(data.begin(), data.end(), at + kInlineHeaderBytes);
  } else if (body != Body::kNothing && request.bytes > 0) {
    put_unit(at, data_unit(request.bytes, request.lkey, request.laddr));
  }
  return ds;
}

DecodeResult decode(std::span<const std::uint8_t> entry, Transport transport) {
  DecodeResult result;
  const auto refuse = [&result](const char* reason) {
    result.syndrome = Syndrome::kLocalQpOperation;
    result.reason = reason;
  };
  if (entry.size() < kWqeUnitBytes) {
    refuse("shorter than a control segment");
    return result;
  }
  const std::uint8_t* at = entry.data();
  WorkRequest& request = result.request;
  const std::uint32_t first = get32(at);
  const std::uint32_t second = get32(at + 4);
  request.opmod = static_cast<std::uint8_t>(first >> 24);
  request.index = static_cast<std::uint16_t>(first >> 8);
  request.opcode = static_cast<Opcode>(first & 0xff);
  request.qpn = second >> 8;
  request.fm_ce_se = at[11];
  request.imm = get32(at + 12);
  result.ds = second & 0xff;

  if (result.ds == 0) {
    refuse("ds is 0: nothing was written here");
  } else if (result.ds > kMaxWqeUnits) {
    refuse("ds is over 63");
  } else if (entry.size() < std::size_t{result.ds} * kWqeUnitBytes) {
    refuse("the entry goes on behind what was fetched");
  } else if (const char* reason = get_body(at, transport, result)) {
    result.reason = reason;
  }
  return result;
}

std::uint64_t encode_doorbell(std::uint16_t next_index, std::uint32_t qpn) {
  return doorbell_word(next_index, qpn);
}

Doorbell decode_doorbell(std::uint64_t value) {
  value = swap_to_big(value);
  return {static_cast<std::uint16_t>(value >> 40), static_cast<std::uint32_t>(value) >> 8};
}

std::uint32_t encode_doorbell_record(std::uint16_t next_index) {
  return doorbell_record_word(next_index);
}

std::uint16_t decode_doorbell_record(std::uint32_t word) {
  return static_cast<std::uint16_t>(swap_to_big(word));
}

void encode_cqe(const Completion& completion, std::span<std::uint8_t, kCqeBytes> out) {
  std::uint8_t* at = out.data();
  std::memset(at, 0, kCqeBytes);
  if (completion.is_error()) {
    at[kCqeVendorSyndromeOffset] = completion.vendor_syndrome;
    at[kCqeSyndromeOffset] = static_cast<std::uint8_t>(completion.syndrome);
  } else {
    put32(at + kCqeImmOffset, completion.imm);
    put32(at + kCqeByteCountOffset, completion.byte_count);
    put64(at + kCqeTimestampOffset, completion.timestamp);
  }
  put32(at + kCqeSendOpcodeOffset,
        static_cast<std::uint32_t>(completion.send_opcode) << 24 | (completion.qpn & 0xff'ffff));
  put16(at + kCqeWqeCounterOffset, completion.wqe_counter);
  at[kCqeOpOwnOffset] = static_cast<std::uint8_t>(
      static_cast<std::uint32_t>(completion.opcode) << 4 | (completion.format & 3u) << 2 |
      (completion.solicited ? 2u : 0u) | (completion.owner & 1u));
}

Completion decode_cqe(std::span<const std::uint8_t, kCqeBytes> cqe) {
  const std::uint8_t* at = cqe.data();
  const std::uint8_t op_own = at[kCqeOpOwnOffset];
  Completion completion;
  completion.opcode = static_cast<CqeOpcode>(op_own >> 4);
  completion.format = op_own >> 2 & 3;
  completion.solicited = op_own & 2;
  completion.owner = op_own & 1;
  completion.wqe_counter = get16(at + kCqeWqeCounterOffset);
  completion.qpn = get32(at + kCqeSendOpcodeOffset) & 0xff'ffff;
  completion.send_opcode = static_cast<Opcode>(at[kCqeSendOpcodeOffset]);
  if (completion.is_error()) {
    completion.vendor_syndrome = at[kCqeVendorSyndromeOffset];
    completion.syndrome = static_cast<Syndrome>(at[kCqeSyndromeOffset]);
  } else {
    completion.imm = get32(at + kCqeImmOffset);
    completion.byte_count = get32(at + kCqeByteCountOffset);
    completion.timestamp = get64(at + kCqeTimestampOffset);
  }
  return completion;
}

}  // namespace marrow::nic
