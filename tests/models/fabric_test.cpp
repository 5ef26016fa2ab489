// How many bytes does a message take on the wire of each network, headers included? Who gets how
// much of a port?
#include "models/wire/fabric.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "sim/config/system.h"
#include "tests/support/agents.h"
#include "tests/support/systemc_fixture.h"

namespace marrow::wire {
namespace {

class FabricTest : public SystemC {
 protected:
  static std::uint64_t bytes_on_wire(const std::string& system, Message::Kind kind,
                                     std::uint64_t bytes) {
    renew();
    const auto spec =
        config::bind(config::load_system(MARROW_SOURCE_DIR "/configs/systems/" + system + ".yaml"));
    const Fabric fabric("fabric", spec.wire, 2, false);
    Message message;
    message.kind = kind;
    message.bytes = bytes;
    return fabric.wire_bytes(message);
  }
};

// InfiniBand: LRH 8, BTH 12, RETH 16 in the request's first packet, ICRC 4, VCRC 2. A packet of
// 4096 B is one, a byte more are two of which the second has no RETH.
TEST_F(FabricTest, AnInfiniBandWriteHasLinkTransportAndAddressHeaders) {
  for (const char* system : {"p-ib", "p-gb200", "p-h100", "h800-ib400"}) {
    EXPECT_EQ(bytes_on_wire(system, Message::Kind::kWrite, 8), 8 + 12 + 16 + 8 + 4 + 2) << system;
    EXPECT_EQ(bytes_on_wire(system, Message::Kind::kWrite, 4096), 8 + 12 + 16 + 4096 + 4 + 2);
    EXPECT_EQ(bytes_on_wire(system, Message::Kind::kWrite, 4097),
              (8 + 12 + 16 + 4096 + 4 + 2) + (8 + 12 + 1 + 4 + 2));
  }
}

// RoCEv2: preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4, FCS 4, gap 12.
TEST_F(FabricTest, ARoceWriteHasEthernetIpUdpAndTheSameTransportHeaders) {
  EXPECT_EQ(bytes_on_wire("p-roce", Message::Kind::kWrite, 8),
            8 + 14 + 20 + 8 + 12 + 16 + 8 + 4 + 4 + 12);
  EXPECT_EQ(bytes_on_wire("p-roce", Message::Kind::kWrite, 4096),
            8 + 14 + 20 + 8 + 12 + 16 + 4096 + 4 + 4 + 12);
}

TEST_F(FabricTest, AnAcknowledgementHasAnAethInsteadOfTheAddress) {
  EXPECT_EQ(bytes_on_wire("p-ib", Message::Kind::kAck, 0), 8 + 12 + 4 + 4 + 2);
  EXPECT_EQ(bytes_on_wire("p-roce", Message::Kind::kAck, 0), 8 + 14 + 20 + 8 + 12 + 4 + 4 + 4 + 12);
}

// Two senders of 64 KiB at once towards one port whose switch holds 32 KiB.
TEST_F(FabricTest, AFullEgressPausesTheSenderOrDrops) {
  for (const bool pauses : {true, false}) {
    renew();
    WireSpec spec;
    spec.gbps = 8;  // a byte a ns
    spec.mtu_bytes = 4096;
    spec.buffer_bytes = 32768;
    spec.pauses = pauses ? 1 : 0;
    Fabric fabric("fabric", spec, 3, false);
    int arrived = 0;
    std::vector<Ps> left_ps;
    for (std::uint32_t port = 0; port < 3; ++port)
      fabric.attach(
          port, [&](Message&, Ps) { ++arrived; },
          [&](const Message&, const Fabric::Sent& way) { left_ps.push_back(way.left_ps); });
    SystemC::elaborate();
    fabric.reset(1);
    Message message;
    message.kind = Message::Kind::kWrite;
    message.bytes = 65536;
    message.to = 0;
    message.from = 1;
    fabric.send(message, 0, 0);
    message.from = 2;
    fabric.send(message, 0, 0);
    SystemC::run();
    ASSERT_EQ(left_ps.size(), 2u);
    EXPECT_EQ(left_ps[0], 65'536'000);
    // The second one stands still until no more than the buffer is before it.
    EXPECT_EQ(left_ps[1], pauses ? 65'536'000 + 32'768'000 : 65'536'000);
    EXPECT_EQ(arrived, pauses ? 2 : 1);
    EXPECT_EQ(counted(fabric, "wire.port2", "messages lost"), pauses ? 0 : 1);
  }
}

/// A machine of three ports of a byte a ns, no headers; when each message has arrived, by sender.
class Incast : public SystemC {
 protected:
  Incast() {
    spec_.gbps = 8;
    spec_.mtu_bytes = 4096;
    spec_.buffer_bytes = 32768;
    fabric_ = std::make_unique<Fabric>("fabric", spec_, 3, false);
    for (std::uint32_t port = 0; port < 3; ++port)
      fabric_->attach(port,
                      [&](Message& m, Ps at_ps) { arrived_[m.from].push_back(at_ps / 1000); });
    SystemC::elaborate();
    fabric_->reset(1);
  }
  void send(std::uint32_t from, std::uint64_t bytes) {
    Message message;
    message.kind = Message::Kind::kWrite;
    message.bytes = bytes;
    message.from = from;
    fabric_->send(message, now_ps(), now_ps());
  }
  WireSpec spec_;
  std::unique_ptr<Fabric> fabric_;
  std::map<std::uint32_t, std::vector<Ps>> arrived_;
};

// Both have 64 KiB sixteen times: 2 MiB at a byte a ns. Neither is done before the other has had
// its turns, however early the first one's were ready.
TEST_F(Incast, TwoSendersAtLineRateTakeTwiceAsLongAndTakeTurns) {
  for (const std::uint32_t from : {1u, 2u})
    for (int i = 0; i < 16; ++i) send(from, 65536);
  SystemC::run();
  EXPECT_EQ(std::max(arrived_[1].back(), arrived_[2].back()), 32 * 65536);
  EXPECT_GE(std::min(arrived_[1].back(), arrived_[2].back()), 31 * 65536);
}

// Others at half the rate leave half of it; at the full rate, turns leave half of it, too.
TEST_F(Incast, OthersLeaveAPortsHalf) {
  for (const double gbps : {4.0, 8.0}) {
    arrived_.clear();
    fabric_->reset(1);
    const Ps begin_ns = now_ps() / 1000;
    fabric_->load(0, now_ps(), gbps, 4096);
    for (int i = 0; i < 16; ++i) send(1, 65536);
    SystemC::run();
    EXPECT_NEAR(static_cast<double>(arrived_[1].back() - begin_ns), 2 * 16 * 65536, 2 * 32768);
  }
}

TEST_F(Incast, OthersThatLeaveRoomHoldUpASmallMessageByOneBurstAtMost) {
  fabric_->load(0, 0, 4, 4096);
  send(1, 64);
  SystemC::run();
  EXPECT_EQ(arrived_[1].front(), 4096 + 64);  // the burst of time 0 goes first
}

}  // namespace
}  // namespace marrow::wire
