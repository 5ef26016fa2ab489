// Are entries, doorbells and completions the bytes that mlx5 software and hardware exchange, and is
// what no NIC could carry out refused?
//
// Expected bytes are written by hand from the layouts of infiniband/mlx5dv.h and of NVSHMEM's
// ibgda_device.cuh, 16 bytes (one unit) a line.
#include "models/nic/mlx5.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<infiniband/mlx5dv.h>)
#include <cstddef>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <infiniband/mlx5dv.h>
#pragma GCC diagnostic pop
#endif

namespace marrow::nic {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// "01 ff" -> {0x01, 0xff}; blanks do not matter.
Bytes hex(const std::string& text) {
  std::string digits;
  for (char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) digits += c;
  Bytes bytes;
  for (std::size_t at = 0; at < digits.size(); at += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(digits.substr(at, 2), nullptr, 16)));
  return bytes;
}

/// The entry in a buffer that was not 0 before; empty: refused.
Bytes encoded(const WorkRequest& request) {
  Bytes bytes(1024, 0xa5);
  bytes.resize(encode(request, bytes) * kWqeUnitBytes);
  return bytes;
}

/// Decoding and encoding again gives the same bytes.
void expect_round_trip(const Bytes& entry, Transport transport) {
  const DecodeResult result = decode(entry, transport);
  ASSERT_TRUE(result.ok()) << result.reason;
  EXPECT_EQ(result.ds, entry.size() / kWqeUnitBytes);
  EXPECT_EQ(encoded(result.request), entry);
}

void expect_refused(const Bytes& entry, Transport transport, Syndrome syndrome,
                    const std::string& reason) {
  const DecodeResult result = decode(entry, transport);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.syndrome, syndrome) << result.reason;
  EXPECT_NE(std::string(result.reason).find(reason), std::string::npos) << result.reason;
}

WorkRequest base(Opcode opcode) {
  WorkRequest request;
  request.opcode = opcode;
  request.index = 0x4567;
  request.qpn = 0x000123;
  request.fm_ce_se = kCqUpdate;
  request.raddr = 0x7f00'1122'3344'5568;
  request.rkey = 0x00a1'b2c3;
  request.bytes = 8;
  request.lkey = 0x0004'0506;
  request.laddr = 0x7e00'aabb'ccdd'eef0;
  return request;
}

AddressVector full_av() {
  AddressVector av;
  av.form = AddressVector::Form::kFull;
  av.key = 0x0102'0304'0506'0708;
  av.destination = 0x00'0abc;
  av.rate_sl = 0x13;
  av.source_path = 0x24;
  av.lid_udp = 0xc0de;
  av.mac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
  av.traffic_class = 0x6a;
  av.hop_limit = 0x40;
  av.grh_gid_flow = 0x4030'0001;
  for (std::uint8_t i = 0; i < 16; ++i) av.gid[i] = static_cast<std::uint8_t>(0xe0 + i);
  return av;
}

AddressVector half_av() {
  AddressVector av = full_av();
  av.form = AddressVector::Form::kHalf;
  return av;
}

// opmod, idx16, opcode | qpn, ds | signature, DCI stream (2), fm_ce_se | imm
const std::string kRaddr = "7f00112233445568 00a1b2c3 00000000";     // raddr | rkey | reserved
const std::string kData = "00000008 00040506 7e00aabbccddeef0";      // byte_count | lkey | addr
const std::string kHalfAv = "0102030405060708 00000abc 13 24 c0de";  // key | dqp | sl, mlid, rlid
const std::string kFullAv =
    "0102030405060708 80000abc 13 24 c0de"  // bit 31 of dqp_dct: 48 bytes
    "00000000 021122334455 6a 40 40300001"  // reserved | rmac | tclass | hop | grh_gid_fl
    "e0e1e2e3e4e5e6e7e8e9eaebecedeeef";     // rgid

TEST(Mlx5Entry, WriteHasControlRemoteAddressAndData) {
  const Bytes entry = hex("00456708 00012303 00000008 00000000" + kRaddr + kData);
  EXPECT_EQ(encoded(base(Opcode::kRdmaWrite)), entry);
  expect_round_trip(entry, Transport::kRc);

  const DecodeResult result = decode(entry, Transport::kRc);
  EXPECT_EQ(result.request.opcode, Opcode::kRdmaWrite);
  EXPECT_EQ(result.request.index, 0x4567);
  EXPECT_EQ(result.request.qpn, 0x123u);
  EXPECT_EQ(result.request.fm_ce_se, kCqUpdate);
  EXPECT_EQ(result.request.raddr, 0x7f00'1122'3344'5568u);
  EXPECT_EQ(result.request.rkey, 0x00a1'b2c3u);
  EXPECT_EQ(result.request.bytes, 8u);
  EXPECT_EQ(result.request.lkey, 0x0004'0506u);
  EXPECT_EQ(result.request.laddr, 0x7e00'aabb'ccdd'eef0u);
  EXPECT_FALSE(result.request.is_inline);
  EXPECT_EQ(result.request.av.form, AddressVector::Form::kNone);
  EXPECT_EQ(blocks(result.ds), 1u);
}

TEST(Mlx5Entry, WriteWithImmediateCarriesIt) {
  WorkRequest request = base(Opcode::kRdmaWriteImm);
  request.imm = 0x1234'5678;
  request.fm_ce_se = kCqUpdate | kSolicited | kStrongOrdering;  // 08 | 02 | 60
  const Bytes entry = hex("00456709 00012303 0000006a 12345678" + kRaddr + kData);
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.imm, 0x1234'5678u);
}

TEST(Mlx5Entry, ReadIsLaidOutAsAWrite) {
  const Bytes entry = hex("00456710 00012303 00000008 00000000" + kRaddr + kData);
  EXPECT_EQ(encoded(base(Opcode::kRdmaRead)), entry);
  expect_round_trip(entry, Transport::kRc);
}

TEST(Mlx5Entry, InlineWriteOfAWordFillsOneUnitWithItsHeader) {
  const Bytes payload = hex("0102030405060708 0000 0a0b");  // 12 B: 4 + 12 = 16
  WorkRequest request = base(Opcode::kRdmaWrite);
  request.is_inline = true;
  request.inline_data = payload;
  const Bytes entry =
      hex("00456708 00012303 00000008 00000000" + kRaddr + "8000000c 0102030405060708 0000 0a0b");
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  const DecodeResult result = decode(entry, Transport::kRc);
  EXPECT_TRUE(result.request.is_inline);
  EXPECT_EQ(result.request.bytes, 12u);
  EXPECT_EQ(Bytes(result.request.inline_data.begin(), result.request.inline_data.end()), payload);
}

TEST(Mlx5Entry, InlinePayloadGoesOnInTheNextBlocks) {
  // A warp's combined put of 32 values: NVSHMEM's ds for 1, 2, 4 and 8 bytes each.
  struct Case {
    std::uint32_t bytes, ds, blocks;
  };
  for (const Case& c : {Case{32, 5, 2}, Case{64, 7, 2}, Case{128, 11, 3}, Case{256, 19, 5}}) {
    Bytes payload(c.bytes);
    for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::uint8_t>(i + 1);
    WorkRequest request = base(Opcode::kRdmaWrite);
    request.is_inline = true;
    request.inline_data = payload;
    const Bytes entry = encoded(request);
    ASSERT_EQ(entry.size(), c.ds * 16) << c.bytes;
    EXPECT_EQ(blocks(c.ds), c.blocks);
    EXPECT_EQ(Bytes(entry.begin() + 36, entry.begin() + 36 + c.bytes), payload);
    expect_round_trip(entry, Transport::kRc);
  }
}

TEST(Mlx5Entry, InlinePayloadLeavesTheBytesBehindItAlone) {
  const Bytes payload = hex("aabb");
  WorkRequest request = base(Opcode::kRdmaWrite);
  request.is_inline = true;
  request.inline_data = payload;
  Bytes buffer(64, 0x5a);
  ASSERT_EQ(encode(request, buffer), 3u);
  EXPECT_EQ(Bytes(buffer.begin() + 32, buffer.begin() + 40), hex("80000002 aabb 5a5a"));
  EXPECT_EQ(buffer[48], 0x5a);
}

TEST(Mlx5Entry, FetchAddHasOneOperandUnitAndTheOldValuesPlace) {
  WorkRequest request = base(Opcode::kAtomicFa);
  request.swap_add = 0x1111'2222'3333'4444;
  request.compare = 7;  // of no use here: not stored
  const Bytes entry = hex("00456712 00012304 00000008 00000000" + kRaddr +
                          "1111222233334444 0000000000000000" + kData);  // add | compare
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.swap_add, 0x1111'2222'3333'4444u);
}

TEST(Mlx5Entry, CompareSwapHasSwapThenCompare) {
  WorkRequest request = base(Opcode::kAtomicCs);
  request.swap_add = 0x1111'2222'3333'4444;
  request.compare = 0x5555'6666'7777'8888;
  const Bytes entry = hex("00456711 00012304 00000008 00000000" + kRaddr +
                          "1111222233334444 5555666677778888" + kData);
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.compare, 0x5555'6666'7777'8888u);
}

TEST(Mlx5Entry, MaskedFetchAddOfEightBytesHasItsFieldBoundary) {
  WorkRequest request = base(Opcode::kMaskedFa);
  request.opmod = kOpmodAtomic8;
  request.swap_add = 1;
  request.field_boundary = 0x8000'0000'0000'0000;
  const Bytes entry = hex("09456715 00012304 00000008 00000000" + kRaddr +
                          "0000000000000001 8000000000000000" + kData);
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.field_boundary, 0x8000'0000'0000'0000u);
}

TEST(Mlx5Entry, MaskedFetchAddOfFourBytesUsesHalfItsUnit) {
  WorkRequest request = base(Opcode::kMaskedFa);
  request.opmod = kOpmodAtomic4;
  request.bytes = 4;
  request.swap_add = 0xffff'fffe;  // -1 - 1: an expert's count of one
  request.field_boundary = 0x8000'0000;
  request.swap_mask = request.compare_mask = 7;  // of no use here: not stored
  const Bytes entry = hex("08456715 00012304 00000008 00000000" + kRaddr +
                          "fffffffe 80000000 0000000000000000"  // add | boundary | reserved
                          "00000004 00040506 7e00aabbccddeef0");
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.swap_add, 0xffff'fffeu);
}

TEST(Mlx5Entry, MaskedCompareSwapOfEightBytesTakesTwoBlocks) {
  // NVSHMEM's signal set: swap everything, compare nothing.
  WorkRequest request = base(Opcode::kMaskedCs);
  request.opmod = kOpmodAtomic8;
  request.swap_add = 0x1111'2222'3333'4444;
  request.swap_mask = ~std::uint64_t{0};
  const Bytes entry = hex("09456714 00012305 00000008 00000000" + kRaddr +
                          "1111222233334444 0000000000000000"  // swap | compare
                          "ffffffffffffffff 0000000000000000"  // swap mask | compare mask
                          + kData);                            // alone in the second block
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(blocks(5), 2u);
  EXPECT_EQ(decode(entry, Transport::kRc).request.swap_mask, ~std::uint64_t{0});
  EXPECT_EQ(decode(entry, Transport::kRc).request.compare_mask, 0u);
}

TEST(Mlx5Entry, MaskedCompareSwapOfFourBytesHasItsMasksBesideIt) {
  WorkRequest request = base(Opcode::kMaskedCs);
  request.opmod = kOpmodAtomic4;
  request.bytes = 4;
  request.swap_add = 0x1111'2222;
  request.compare = 0x3333'4444;
  request.swap_mask = 0xffff'0000;
  request.compare_mask = 0x0000'ffff;
  const Bytes entry = hex("08456714 00012304 00000008 00000000" + kRaddr +
                          "11112222 33334444 ffff0000 0000ffff"  // swap, compare, their masks
                          "00000004 00040506 7e00aabbccddeef0");
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.compare_mask, 0x0000'ffffu);
}

TEST(Mlx5Entry, NopIsAControlSegmentOfAnyLength) {
  EXPECT_EQ(encoded(base(Opcode::kNop)), hex("00456700 00012301 00000008 00000000"));
  expect_round_trip(hex("00456700 00012301 00000008 00000000"), Transport::kRc);
  // Older NVSHMEM says 2 units, of which the second is whatever was there.
  const Bytes longer = hex("00456700 00012302 00000008 00000000" + kData);
  EXPECT_TRUE(decode(longer, Transport::kRc).ok());
  EXPECT_EQ(decode(longer, Transport::kRc).ds, 2u);
  // And on a DCI it has no address vector.
  expect_round_trip(hex("00456700 00012301 00000008 00000000"), Transport::kDc);
}

TEST(Mlx5Entry, DumpReadsLocalMemoryOnly) {
  WorkRequest request = base(Opcode::kDump);
  request.bytes = 1;
  request.fm_ce_se = kCqUpdate | kFence;  // 08 | 40
  const Bytes entry =
      hex("00456723 00012302 00000048 00000000"
          "00000001 00040506 7e00aabbccddeef0");
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  expect_round_trip(entry, Transport::kDc);
}

TEST(Mlx5Entry, WaitNamesAQueueAndAnIndexInIt) {
  WorkRequest request = base(Opcode::kWait);
  request.wait_index = 0x0001'0002;
  request.wait_cqn = 0x0000'0456;
  const Bytes entry =
      hex("0045670f 00012302 00000008 00000000"
          "0000000000000000 00010002 00000456");  // reserved | max_index | cqn
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.wait_index, 0x0001'0002u);
  EXPECT_EQ(decode(entry, Transport::kRc).request.wait_cqn, 0x456u);
}

TEST(Mlx5Entry, SendHasNoRemoteAddress) {
  EXPECT_EQ(encoded(base(Opcode::kSend)), hex("0045670a 00012302 00000008 00000000" + kData));
  expect_round_trip(hex("0045670a 00012302 00000008 00000000" + kData), Transport::kRc);

  WorkRequest request = base(Opcode::kSendImm);
  request.imm = 7;
  EXPECT_EQ(encoded(request), hex("0045670b 00012302 00000008 00000007" + kData));
}

TEST(Mlx5Entry, DatagramHasAFullAddressVector) {
  WorkRequest request = base(Opcode::kSend);
  request.av = full_av();
  const Bytes entry = hex("0045670a 00012305 00000008 00000000" + kFullAv + kData);
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kUd);

  const AddressVector av = decode(entry, Transport::kUd).request.av;
  EXPECT_EQ(av.form, AddressVector::Form::kFull);
  EXPECT_EQ(av.key >> 32, 0x0102'0304u) << "Q_Key";
  EXPECT_EQ(av.destination, 0xabcu);
  EXPECT_EQ(av.mac, full_av().mac);
  EXPECT_EQ(av.gid, full_av().gid);
  EXPECT_EQ(av.hop_limit, 0x40);
}

TEST(Mlx5Entry, DynamicConnectionHasAHalfOrAFullAddressVector) {
  // NVSHMEM on a DCI: a WRITE of 4 units in one block, or of 6 in two.
  WorkRequest request = base(Opcode::kRdmaWrite);
  request.av = half_av();
  const Bytes half = hex("00456708 00012304 00000008 00000000" + kHalfAv + kRaddr + kData);
  EXPECT_EQ(encoded(request), half);
  expect_round_trip(half, Transport::kDc);
  EXPECT_EQ(decode(half, Transport::kDc).request.av.key, 0x0102'0304'0506'0708u);
  EXPECT_EQ(decode(half, Transport::kDc).request.av.form, AddressVector::Form::kHalf);

  request.av = full_av();
  const Bytes full = hex("00456708 00012306 00000008 00000000" + kFullAv + kRaddr + kData);
  EXPECT_EQ(encoded(request), full);
  expect_round_trip(full, Transport::kDc);

  request = base(Opcode::kSend);
  request.av = half_av();
  const Bytes send = hex("0045670a 00012303 00000008 00000000" + kHalfAv + kData);
  EXPECT_EQ(encoded(request), send);
  expect_round_trip(send, Transport::kDc);
  request.av = full_av();
  expect_round_trip(encoded(request), Transport::kDc);
  EXPECT_EQ(encoded(request).size(), 5u * 16);

  // A signal set with a half vector: 6 units, its masks and result in the second block.
  request = base(Opcode::kMaskedCs);
  request.opmod = kOpmodAtomic8;
  request.av = half_av();
  EXPECT_EQ(encoded(request).size(), 6u * 16);
  expect_round_trip(encoded(request), Transport::kDc);
}

TEST(Mlx5Entry, OfNoBytesHasNoDataSegment) {
  WorkRequest request = base(Opcode::kRdmaWrite);
  request.bytes = 0;
  const Bytes entry = hex("00456708 00012302 00000008 00000000" + kRaddr);
  EXPECT_EQ(encoded(request), entry);
  expect_round_trip(entry, Transport::kRc);
  EXPECT_EQ(decode(entry, Transport::kRc).request.bytes, 0u);
}

TEST(Mlx5Entry, TellsHowMuchToFetchBeforeItIsDecoded) {
  const Bytes entry = hex("09456714 00012305");
  EXPECT_EQ(claimed_units(std::span<const std::uint8_t, 8>(entry.data(), 8)), 5u);
  EXPECT_EQ(blocks(1), 1u);
  EXPECT_EQ(blocks(4), 1u);
  EXPECT_EQ(blocks(5), 2u);
  EXPECT_EQ(blocks(63), 16u);
}

// What cannot be encoded.

TEST(Mlx5Encode, RefusesASegmentOverTwoGib) {
  WorkRequest request = base(Opcode::kRdmaWrite);
  request.bytes = 1u << 31;  // legal; its 31 bits hold 0
  const Bytes entry =
      hex("00456708 00012303 00000008 00000000" + kRaddr + "00000000 00040506 7e00aabbccddeef0");
  EXPECT_EQ(encoded(request), entry);
  EXPECT_EQ(decode(entry, Transport::kRc).request.bytes, 1u << 31);
  request.bytes = (1u << 31) - 1;
  expect_round_trip(encoded(request), Transport::kRc);
  request.bytes = (1u << 31) + 1;
  EXPECT_TRUE(encoded(request).empty());
}

TEST(Mlx5Encode, RefusesInlineDataThatSixtyThreeUnitsDoNotHold) {
  // 63 - control - remote address = 61 units of 16 B, less 4 B of header: 972 B.
  const Bytes payload(973, 1);
  WorkRequest request = base(Opcode::kRdmaWrite);
  request.is_inline = true;
  request.inline_data = std::span(payload).first(972);
  EXPECT_EQ(encoded(request).size(), 63u * 16);
  expect_round_trip(encoded(request), Transport::kRc);
  request.inline_data = payload;
  EXPECT_TRUE(encoded(request).empty());
}

TEST(Mlx5Encode, RefusesABufferThatIsTooShort) {
  Bytes buffer(48, 0x5a);
  EXPECT_EQ(encode(base(Opcode::kRdmaWrite), std::span(buffer).first(47)), 0u);
  EXPECT_EQ(buffer, Bytes(48, 0x5a)) << "nothing was written";
  EXPECT_EQ(encode(base(Opcode::kRdmaWrite), buffer), 3u);
}

TEST(Mlx5Encode, RefusesWhatHasNoForm) {
  for (Opcode opcode : {Opcode::kSendInvalidate, Opcode::kTso, Opcode::kUmr, Opcode::kMmo})
    EXPECT_TRUE(encoded(base(opcode)).empty());
  WorkRequest request = base(Opcode::kMaskedFa);
  EXPECT_TRUE(encoded(request).empty()) << "neither 4 nor 8 bytes";
  request.opmod = kOpmodAtomic8;
  EXPECT_FALSE(encoded(request).empty());
  request.bytes = 0;
  EXPECT_TRUE(encoded(request).empty()) << "no place for the old value";
}

// What the NIC refuses.

constexpr Syndrome kMalformed = Syndrome::kLocalQpOperation;

TEST(Mlx5Decode, RefusesAnEntryThatWasNeverWritten) {
  expect_refused(Bytes(64, 0), Transport::kRc, kMalformed, "ds is 0");
  // Its first word alone has arrived; the second is what makes it an entry.
  Bytes entry = hex("00456708 00000000 00000000 00000000" + kRaddr + kData);
  expect_refused(entry, Transport::kRc, kMalformed, "ds is 0");
  entry[7] = 3;
  EXPECT_TRUE(decode(entry, Transport::kRc).ok());
  expect_refused(Bytes(64, 0xff), Transport::kRc, kMalformed, "ds is over 63");
}

TEST(Mlx5Decode, TakesAStaleEntryForWhatItSays) {
  // A full entry from the ring's last pass: only its index tells, and that the caller compares.
  Bytes entry = hex("00456708 00012303 00000008 00000000" + kRaddr + kData);
  EXPECT_TRUE(decode(entry, Transport::kRc).ok());
  EXPECT_EQ(decode(entry, Transport::kRc).request.index, 0x4567);
  // Control segment written, the rest still zero: a WRITE of 2 GiB with key 0, which translation
  // refuses.
  std::fill(entry.begin() + 16, entry.end(), std::uint8_t{0});
  EXPECT_EQ(decode(entry, Transport::kRc).request.bytes, 1u << 31);
  EXPECT_EQ(decode(entry, Transport::kRc).request.lkey, 0u);
}

TEST(Mlx5Decode, RefusesMoreUnitsThanTheFieldHolds) {
  Bytes entry(64 * 16);
  entry[7] = 63;
  EXPECT_TRUE(decode(entry, Transport::kRc).ok()) << "a NOP of 63 units";
  entry[7] = 64;
  expect_refused(entry, Transport::kRc, kMalformed, "ds is over 63");
}

TEST(Mlx5Decode, RefusesAnEntryThatGoesOnBehindWhatWasFetched) {
  const Bytes entry = hex("00456708 00012303 00000008 00000000" + kRaddr + kData);
  EXPECT_TRUE(decode(std::span(entry).first(48), Transport::kRc).ok());
  expect_refused(Bytes(entry.begin(), entry.begin() + 47), Transport::kRc, kMalformed, "behind");
  expect_refused(Bytes(entry.begin(), entry.begin() + 15), Transport::kRc, kMalformed, "shorter");
}

TEST(Mlx5Decode, RefusesUnknownOpcodesAndKeepsTheEntrysHead) {
  for (std::uint32_t opcode = 0; opcode < 256; ++opcode) {
    Bytes entry = hex("00456700 00012303 00000008 00000000" + kRaddr + kData);
    entry[3] = static_cast<std::uint8_t>(opcode);
    switch (opcode) {
      case 0x00:
      case 0x08:
      case 0x09:
      case 0x10:  // NOP, WRITE, WRITE_IMM, READ of 3 units
        EXPECT_TRUE(decode(entry, Transport::kRc).ok()) << opcode;
        break;
      case 0x0a:
      case 0x0b:  // SEND: two data segments
      case 0x0f:
      case 0x11:
      case 0x12:
      case 0x23:
        expect_refused(entry, Transport::kRc, kMalformed, "");
        break;
      case 0x14:
      case 0x15:  // opmod is not 8 or 9
        expect_refused(entry, Transport::kRc, kMalformed, "opmod");
        break;
      default:
        expect_refused(entry, Transport::kRc, kMalformed, "opcode unknown");
    }
    EXPECT_EQ(decode(entry, Transport::kRc).request.index, 0x4567);
    EXPECT_EQ(decode(entry, Transport::kRc).request.qpn, 0x123u);
    EXPECT_EQ(static_cast<std::uint32_t>(decode(entry, Transport::kRc).request.opcode), opcode);
  }
}

TEST(Mlx5Decode, RefusesAnotherOpcodesOpmod) {
  for (std::uint32_t opmod = 0; opmod < 256; ++opmod) {
    Bytes masked = hex("00456715 00012304 00000008 00000000" + kRaddr +
                       "00000001 00000000 0000000000000000" + kData);
    masked[0] = static_cast<std::uint8_t>(opmod);
    masked[51] = opmod == 8 ? 4 : 8;  // byte_count
    EXPECT_EQ(decode(masked, Transport::kRc).ok(), opmod == 8 || opmod == 9) << opmod;
    Bytes plain = hex("00456708 00012303 00000008 00000000" + kRaddr + kData);
    plain[0] = static_cast<std::uint8_t>(opmod);
    EXPECT_EQ(decode(plain, Transport::kRc).ok(), opmod == 0) << opmod;
  }
}

TEST(Mlx5Decode, RefusesUnitsThatDoNotFitTheOpcode) {
  // For each form the units that it may have; every other number is refused.
  struct Case {
    const char* head;
    Transport transport;
    std::vector<std::uint32_t> legal;
  };
  const std::vector<Case> cases = {
      {"00456708", Transport::kRc, {2, 3}},  // WRITE, with and without data
      {"0045670a", Transport::kRc, {1, 2}},  // SEND
      {"00456710", Transport::kRc, {2, 3}},  // READ
      {"00456712", Transport::kRc, {4}},     // FA
      {"00456711", Transport::kRc, {4}},     // CS
      {"09456715", Transport::kRc, {4}},     // masked FA
      {"09456714", Transport::kRc, {5}},     // masked CS
      {"00456723", Transport::kRc, {2}},     // DUMP
      {"0045670f", Transport::kRc, {2}},     // WAIT
      {"00456708", Transport::kDc, {3, 4}},  // WRITE with half a vector
      {"09456714", Transport::kDc, {6}},     // masked CS with half a vector
      {"0045670a", Transport::kUd, {2, 3}},  // SEND with half a vector
  };
  for (const Case& c : cases)
    for (std::uint32_t ds = 1; ds <= 63; ++ds) {
      Bytes entry = hex(c.head);
      entry.resize(63 * 16);
      entry[7] = static_cast<std::uint8_t>(ds);
      // An 8-byte data segment wherever one may be looked for.
      for (std::size_t unit = 1; unit < 63; ++unit) entry[unit * 16 + 3] = 8;
      const bool legal = std::find(c.legal.begin(), c.legal.end(), ds) != c.legal.end();
      EXPECT_EQ(decode(entry, c.transport).ok(), legal) << c.head << " ds " << ds;
    }
}

TEST(Mlx5Decode, RefusesAnAddressVectorThatDoesNotFit) {
  Bytes entry = hex("0045670a 00012304 00000008 00000000" + kFullAv + kData);
  EXPECT_TRUE(decode(entry, Transport::kUd).ok()) << "no data";
  entry[7] = 3;
  expect_refused(entry, Transport::kUd, kMalformed, "full address vector");
  entry[7] = 1;
  expect_refused(entry, Transport::kUd, kMalformed, "address vector");
}

TEST(Mlx5Decode, RefusesAllButSendsOnADatagramQueue) {
  for (const char* head : {"00456708", "00456710", "00456712"}) {
    Bytes entry = hex(std::string(head) + " 00012306 00000008 00000000" + kFullAv + kRaddr + kData);
    expect_refused(entry, Transport::kUd, kMalformed, "only sends");
  }
}

TEST(Mlx5Decode, RefusesInlineDataLongerThanTheEntry) {
  Bytes entry = hex("00456708 00012303 00000008 00000000" + kRaddr + kData + kData);
  entry[32] = 0x80;
  entry[35] = 12;  // with its header 16 B: the one unit there is
  EXPECT_TRUE(decode(entry, Transport::kRc).ok());
  entry[35] = 13;
  expect_refused(entry, Transport::kRc, Syndrome::kLocalLength, "longer");
  entry[7] = 4;
  EXPECT_TRUE(decode(entry, Transport::kRc).ok());
  entry[35] = 12;
  expect_refused(entry, Transport::kRc, kMalformed, "larger");
  // A byte count over 2 GiB sets the same bit.
  for (std::size_t at = 32; at < 36; ++at) entry[at] = 0xff;
  expect_refused(entry, Transport::kRc, Syndrome::kLocalLength, "longer");
}

TEST(Mlx5Decode, RefusesInlineDataWhereMemoryIsNeeded) {
  Bytes read = hex("00456710 00012303 00000008 00000000" + kRaddr + "80000008" + "00000000" +
                   "0000000000000000");
  expect_refused(read, Transport::kRc, kMalformed, "no inline");
  read[3] = 0x08;
  EXPECT_TRUE(decode(read, Transport::kRc).ok()) << "a WRITE may";
  expect_refused(hex("00456712 00012304 00000008 00000000" + kRaddr +
                     "1111222233334444 0000000000000000" + "80000008 00000000 0000000000000000"),
                 Transport::kRc, kMalformed, "no inline");
}

TEST(Mlx5Decode, RefusesAnAtomicOffItsOperandsBoundary) {
  for (const auto& [opmod, bytes] : {std::pair{8, 4}, {9, 8}})
    for (int offset = 0; offset < 16; ++offset) {
      WorkRequest request = base(Opcode::kMaskedFa);
      request.opmod = static_cast<std::uint8_t>(opmod);
      request.bytes = static_cast<std::uint32_t>(bytes);
      request.raddr = 0x1000u + static_cast<std::uint32_t>(offset);
      const Bytes entry = encoded(request);
      if (offset % bytes == 0)
        EXPECT_TRUE(decode(entry, Transport::kRc).ok());
      else
        expect_refused(entry, Transport::kRc, Syndrome::kRemoteInvalidRequest, "not aligned");
    }
  WorkRequest request = base(Opcode::kAtomicFa);
  request.raddr = 0x1004;
  expect_refused(encoded(request), Transport::kRc, Syndrome::kRemoteInvalidRequest, "not aligned");
}

TEST(Mlx5Decode, RefusesAnAtomicWhoseResultHasAnotherSize) {
  WorkRequest request = base(Opcode::kAtomicFa);
  for (std::uint32_t bytes : {7u, 8u, 9u}) {
    request.bytes = bytes;
    if (bytes == 8)
      expect_round_trip(encoded(request), Transport::kRc);
    else
      expect_refused(encoded(request), Transport::kRc, Syndrome::kLocalLength, "operand's size");
  }
}

TEST(Mlx5Decode, NeverReadsBehindAnEntryWhateverItsBytes) {
  // For the sanitizers; and what is accepted can be encoded again to the same decoded entry.
  std::mt19937 random(1);
  const std::uint8_t opcodes[] = {0x00, 0x08, 0x09, 0x0a, 0x0b, 0x0f, 0x10,
                                  0x11, 0x12, 0x14, 0x15, 0x23, 0x99};
  std::uint32_t accepted = 0;
  for (std::uint32_t round = 0; round < 200'000; ++round) {
    Bytes entry(16 * (1 + random() % 8));
    for (std::uint8_t& byte : entry) byte = random() % 3 ? 0 : static_cast<std::uint8_t>(random());
    entry[0] = random() % 3 ? 0 : static_cast<std::uint8_t>(8 + random() % 2);
    entry[3] = opcodes[random() % std::size(opcodes)];
    entry[7] = static_cast<std::uint8_t>(random() % 10);
    const auto transport = static_cast<Transport>(random() % 3);
    const DecodeResult result = decode(entry, transport);
    if (!result.ok()) continue;
    ++accepted;
    ASSERT_LE(result.ds * 16, entry.size());
    const Bytes again = encoded(result.request);
    if (result.request.opcode == Opcode::kNop) continue;  // may be longer than it need be
    ASSERT_EQ(again.size(), result.ds * 16);
    ASSERT_EQ(encoded(decode(again, transport).request), again);
  }
  EXPECT_GT(accepted, 1000u);
}

// Doorbells.

TEST(Mlx5Doorbell, IsTheHeadOfAControlSegment) {
  const std::uint64_t value = encode_doorbell(0x0004, 0x000123);
  Bytes bytes(8);
  std::memcpy(bytes.data(), &value, 8);
  EXPECT_EQ(bytes, hex("00 00 04 00 00 01 23 00"));
  EXPECT_EQ(decode_doorbell(value).next_index, 4);
  EXPECT_EQ(decode_doorbell(value).qpn, 0x123u);
  EXPECT_EQ(decode_doorbell(encode_doorbell(0xffff, 0xff'ffff)).next_index, 0xffff);
  EXPECT_EQ(decode_doorbell(encode_doorbell(0xffff, 0xff'ffff)).qpn, 0xff'ffffu);
}

TEST(Mlx5Doorbell, OfABlueFlameWriteIgnoresOpcodeAndUnits) {
  const Bytes entry = encoded(base(Opcode::kRdmaWrite));
  std::uint64_t head = 0;
  std::memcpy(&head, entry.data(), 8);
  EXPECT_EQ(decode_doorbell(head).next_index, 0x4567);
  EXPECT_EQ(decode_doorbell(head).qpn, 0x123u);
}

TEST(Mlx5Doorbell, RecordHoldsTheIndexAlone) {
  const std::uint32_t word = encode_doorbell_record(0x1234);
  Bytes bytes(4);
  std::memcpy(bytes.data(), &word, 4);
  EXPECT_EQ(bytes, hex("00 00 12 34"));
  EXPECT_EQ(decode_doorbell_record(word), 0x1234);
}

// Completions.

Bytes encoded(const Completion& completion) {
  Bytes bytes(kCqeBytes, 0xff);
  encode_cqe(completion, std::span<std::uint8_t, kCqeBytes>(bytes));
  return bytes;
}
Completion decoded(const Bytes& bytes) {
  return decode_cqe(std::span<const std::uint8_t, kCqeBytes>(bytes));
}

TEST(Mlx5Completion, SaysWhichEntryIsDone) {
  Completion completion;
  completion.opcode = CqeOpcode::kRequester;
  completion.owner = 1;
  completion.wqe_counter = 0x4567;
  completion.qpn = 0x123;
  completion.send_opcode = Opcode::kRdmaWrite;
  completion.byte_count = 0x1000;
  completion.timestamp = 0x0102'0304'0506'0708;
  const Bytes cqe =
      hex("00000000000000000000000000000000"
          "00000000000000000000000000000000"
          "00000000 00000000 00000000 00001000"      // uidx | imm | app | byte_cnt
          "0102030405060708 08 000123 4567 00 01");  // time | op, qpn | counter | own
  EXPECT_EQ(encoded(completion), cqe);
  const Completion back = decoded(cqe);
  EXPECT_EQ(back.opcode, CqeOpcode::kRequester);
  EXPECT_EQ(back.owner, 1);
  EXPECT_EQ(back.wqe_counter, 0x4567);
  EXPECT_EQ(back.qpn, 0x123u);
  EXPECT_EQ(back.send_opcode, Opcode::kRdmaWrite);
  EXPECT_EQ(back.byte_count, 0x1000u);
  EXPECT_EQ(back.timestamp, 0x0102'0304'0506'0708u);
  EXPECT_FALSE(back.is_error());
}

TEST(Mlx5Completion, OfAReceiveCarriesTheImmediate) {
  Completion completion;
  completion.opcode = CqeOpcode::kResponderWriteImm;
  completion.format = 3;
  completion.solicited = true;
  completion.imm = 0x1234'5678;
  const Bytes cqe = encoded(completion);
  EXPECT_EQ(Bytes(cqe.begin() + 36, cqe.begin() + 40), hex("12345678"));
  EXPECT_EQ(cqe[63], 0x1e);  // 1 << 4 | 3 << 2 | 1 << 1 | 0
  EXPECT_EQ(decoded(cqe).format, 3);
  EXPECT_TRUE(decoded(cqe).solicited);
  EXPECT_EQ(decoded(cqe).imm, 0x1234'5678u);
}

TEST(Mlx5Completion, OfAFailureSaysWhy) {
  Completion completion;
  completion.opcode = CqeOpcode::kRequesterError;
  completion.wqe_counter = 0x4567;
  completion.qpn = 0x123;
  completion.send_opcode = Opcode::kAtomicFa;
  completion.syndrome = Syndrome::kTransportRetryExceeded;
  completion.vendor_syndrome = 0x81;
  const Bytes cqe =
      hex("00000000000000000000000000000000"
          "00000000000000000000000000000000"
          "00000000000000000000000000000000"
          "000000000000 81 15 12 000123 4567 00 d0");  // 13 << 4 | owner 0
  EXPECT_EQ(encoded(completion), cqe);
  const Completion back = decoded(cqe);
  EXPECT_TRUE(back.is_error());
  EXPECT_EQ(back.opcode, CqeOpcode::kRequesterError);
  EXPECT_EQ(back.syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(back.vendor_syndrome, 0x81);
  EXPECT_EQ(back.wqe_counter, 0x4567);
  EXPECT_EQ(back.send_opcode, Opcode::kAtomicFa);
}

TEST(Mlx5Completion, InAFreshBufferHasNotArrived) {
  const Bytes fresh(kCqeBytes, kCqeInitialByte);
  EXPECT_EQ(decoded(fresh).opcode, CqeOpcode::kInvalid);
  EXPECT_EQ(decoded(fresh).owner, 1);
  EXPECT_FALSE(cqe_arrived(fresh[kCqeOpOwnOffset], 0, 4));
  EXPECT_FALSE(cqe_arrived(fresh[kCqeOpOwnOffset], 4, 4)) << "owner fits, opcode does not";
}

TEST(Mlx5Completion, ChangesItsOwnerBitWithEveryPassOverTheRing) {
  const std::uint8_t expected[] = {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1};  // 4 entries
  for (std::uint64_t index = 0; index < std::size(expected); ++index) {
    EXPECT_EQ(cqe_owner(index, 4), expected[index]) << index;
    EXPECT_TRUE(cqe_arrived(expected[index], index, 4));
    EXPECT_FALSE(cqe_arrived(expected[index], index + 4, 4)) << "the last pass's entry is stale";
  }
}

#if __has_include(<infiniband/mlx5dv.h>)
// The hand-written offsets above are those of the system's own header.
static_assert(sizeof(mlx5_wqe_ctrl_seg) == kWqeUnitBytes);
static_assert(offsetof(mlx5_wqe_ctrl_seg, qpn_ds) == 4);
static_assert(offsetof(mlx5_wqe_ctrl_seg, fm_ce_se) == 11);
static_assert(offsetof(mlx5_wqe_ctrl_seg, imm) == 12);
static_assert(sizeof(mlx5_wqe_raddr_seg) == kWqeUnitBytes);
static_assert(offsetof(mlx5_wqe_raddr_seg, rkey) == 8);
static_assert(sizeof(mlx5_wqe_data_seg) == kWqeUnitBytes);
static_assert(offsetof(mlx5_wqe_data_seg, lkey) == 4);
static_assert(offsetof(mlx5_wqe_data_seg, addr) == 8);
static_assert(sizeof(mlx5_wqe_atomic_seg) == kWqeUnitBytes);
static_assert(offsetof(mlx5_wqe_atomic_seg, compare) == 8);
static_assert(sizeof(mlx5_wqe_inl_data_seg) == 4);
static_assert(sizeof(mlx5_wqe_av) == 48);
static_assert(offsetof(mlx5_wqe_av, dqp_dct) == 8);
static_assert(offsetof(mlx5_wqe_av, stat_rate_sl) == 12);
static_assert(offsetof(mlx5_wqe_av, fl_mlid) == 13);
static_assert(offsetof(mlx5_wqe_av, rlid) == 14);
static_assert(offsetof(mlx5_wqe_av, rmac) == 20);
static_assert(offsetof(mlx5_wqe_av, tclass) == 26);
static_assert(offsetof(mlx5_wqe_av, hop_limit) == 27);
static_assert(offsetof(mlx5_wqe_av, grh_gid_fl) == 28);
static_assert(offsetof(mlx5_wqe_av, rgid) == 32);
static_assert(sizeof(mlx5_cqe64) == kCqeBytes);
static_assert(offsetof(mlx5_cqe64, imm_inval_pkey) == kCqeImmOffset);
static_assert(offsetof(mlx5_cqe64, byte_cnt) == kCqeByteCountOffset);
static_assert(offsetof(mlx5_cqe64, timestamp) == kCqeTimestampOffset);
static_assert(offsetof(mlx5_cqe64, sop_drop_qpn) == kCqeSendOpcodeOffset);
static_assert(offsetof(mlx5_cqe64, wqe_counter) == kCqeWqeCounterOffset);
static_assert(offsetof(mlx5_cqe64, signature) == kCqeSignatureOffset);
static_assert(offsetof(mlx5_cqe64, op_own) == kCqeOpOwnOffset);
static_assert(sizeof(mlx5_err_cqe) == kCqeBytes);
static_assert(offsetof(mlx5_err_cqe, vendor_err_synd) == kCqeVendorSyndromeOffset);
static_assert(offsetof(mlx5_err_cqe, syndrome) == kCqeSyndromeOffset);
static_assert(offsetof(mlx5_err_cqe, s_wqe_opcode_qpn) == kCqeSendOpcodeOffset);
static_assert(MLX5_SEND_WQE_BB == kWqebbBytes);
static_assert(MLX5_INLINE_SEG == kInlineFlag);
static_assert(MLX5_EXTENDED_UD_AV == kFullAvFlag);
static_assert(MLX5_SND_DBR * 4 == kDoorbellRecordSendOffset);
static_assert(MLX5_RCV_DBR * 4 == kDoorbellRecordReceiveOffset);
static_assert(MLX5_WQE_CTRL_CQ_UPDATE == kCqUpdate);
static_assert(MLX5_WQE_CTRL_SOLICITED == kSolicited);
static_assert(MLX5_WQE_CTRL_FENCE == kFenceAndSmall);
static_assert(MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE == kFenceSmall);

template <typename Theirs, typename Ours>
constexpr bool same(Theirs theirs, Ours ours) {
  return static_cast<std::uint32_t>(theirs) == static_cast<std::uint32_t>(ours);
}
static_assert(same(MLX5_OPCODE_NOP, Opcode::kNop));
static_assert(same(MLX5_OPCODE_SEND_INVAL, Opcode::kSendInvalidate));
static_assert(same(MLX5_OPCODE_RDMA_WRITE, Opcode::kRdmaWrite));
static_assert(same(MLX5_OPCODE_RDMA_WRITE_IMM, Opcode::kRdmaWriteImm));
static_assert(same(MLX5_OPCODE_SEND, Opcode::kSend));
static_assert(same(MLX5_OPCODE_SEND_IMM, Opcode::kSendImm));
static_assert(same(MLX5_OPCODE_TSO, Opcode::kTso));
static_assert(same(MLX5_OPCODE_RDMA_READ, Opcode::kRdmaRead));
static_assert(same(MLX5_OPCODE_ATOMIC_CS, Opcode::kAtomicCs));
static_assert(same(MLX5_OPCODE_ATOMIC_FA, Opcode::kAtomicFa));
static_assert(same(MLX5_OPCODE_ATOMIC_MASKED_CS, Opcode::kMaskedCs));
static_assert(same(MLX5_OPCODE_ATOMIC_MASKED_FA, Opcode::kMaskedFa));
static_assert(same(MLX5_OPCODE_UMR, Opcode::kUmr));
static_assert(same(MLX5_OPCODE_MMO, Opcode::kMmo));
static_assert(same(MLX5_CQE_REQ, CqeOpcode::kRequester));
static_assert(same(MLX5_CQE_RESP_WR_IMM, CqeOpcode::kResponderWriteImm));
static_assert(same(MLX5_CQE_RESP_SEND, CqeOpcode::kResponderSend));
static_assert(same(MLX5_CQE_RESP_SEND_IMM, CqeOpcode::kResponderSendImm));
static_assert(same(MLX5_CQE_RESP_SEND_INV, CqeOpcode::kResponderSendInvalidate));
static_assert(same(MLX5_CQE_REQ_ERR, CqeOpcode::kRequesterError));
static_assert(same(MLX5_CQE_RESP_ERR, CqeOpcode::kResponderError));
static_assert(same(MLX5_CQE_INVALID, CqeOpcode::kInvalid));
static_assert(same(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, Syndrome::kLocalLength));
static_assert(same(MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, Syndrome::kLocalQpOperation));
static_assert(same(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, Syndrome::kLocalProtection));
static_assert(same(MLX5_CQE_SYNDROME_WR_FLUSH_ERR, Syndrome::kFlushed));
static_assert(same(MLX5_CQE_SYNDROME_MW_BIND_ERR, Syndrome::kMemoryWindowBind));
static_assert(same(MLX5_CQE_SYNDROME_BAD_RESP_ERR, Syndrome::kBadResponse));
static_assert(same(MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, Syndrome::kLocalAccess));
static_assert(same(MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, Syndrome::kRemoteInvalidRequest));
static_assert(same(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, Syndrome::kRemoteAccess));
static_assert(same(MLX5_CQE_SYNDROME_REMOTE_OP_ERR, Syndrome::kRemoteOperation));
static_assert(same(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, Syndrome::kTransportRetryExceeded));
static_assert(same(MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, Syndrome::kRnrRetryExceeded));
static_assert(same(MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR, Syndrome::kRemoteAborted));
#endif

}  // namespace
}  // namespace marrow::nic
