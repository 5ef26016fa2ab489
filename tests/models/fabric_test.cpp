// How many bytes does a message take on the wire of each network, headers included?
#include "models/wire/fabric.h"

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
    for (std::uint32_t port = 0; port < 3; ++port)
      fabric.attach(port, [&](Message&, Ps) { ++arrived; });
    SystemC::elaborate();
    fabric.reset(1);
    Message message;
    message.kind = Message::Kind::kWrite;
    message.bytes = 65536;
    message.to = 0;
    message.from = 1;
    const Ps first_ps = fabric.send(message, 0, 0).left_ps;
    message.from = 2;
    const Ps second_ps = fabric.send(message, 0, 0).left_ps;
    SystemC::run();
    EXPECT_EQ(first_ps, 65'536'000);
    // The second one stands still until no more than the buffer is before it.
    EXPECT_EQ(second_ps, pauses ? 65'536'000 + 32'768'000 : 65'536'000);
    EXPECT_EQ(arrived, pauses ? 2 : 1);
    EXPECT_EQ(counted(fabric, "wire.port2", "messages lost"), pauses ? 0 : 1);
  }
}

}  // namespace
}  // namespace marrow::wire
