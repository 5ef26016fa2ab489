// How long do transfers occupy a PCIe link, and who has to wait for whom?
#include "models/pcie/link.h"

#include "tests/support/agents.h"
#include "tests/support/systemc_fixture.h"

namespace marrow::pcie {
namespace {

/// The links of our machines, with no rate taken off for DLLPs: 16 lanes of 32 GT/s, 128b/130b:
/// 16 * 32e9 * 128/130 / 8 = 63.0154 bytes a ns.
PcieSpec gen5_x16() {
  PcieSpec spec;
  spec.generation = 5;
  spec.lanes = 16;
  spec.tlp_overhead_bytes = 24;
  spec.completion_overhead_bytes = 20;
  spec.dllp_ratio = 0;
  spec.mps_bytes = 256;
  spec.round_trip_ns = 800;
  spec.request_share_ratio = 0.25;
  return spec;
}

TEST(LinkRate, IsThatOfThePcieSpecificationForEachGeneration) {
  // Transfers a second times lanes times encoding over 8 bits:
  EXPECT_DOUBLE_EQ(raw_bytes_per_second(1, 16), 4.0e9);           // 2.5 GT/s, 8b/10b
  EXPECT_DOUBLE_EQ(raw_bytes_per_second(2, 16), 8.0e9);           // 5 GT/s, 8b/10b
  EXPECT_NEAR(raw_bytes_per_second(3, 16), 15.7538e9, 0.0001e9);  // 8 GT/s, 128b/130b
  EXPECT_NEAR(raw_bytes_per_second(4, 16), 31.5077e9, 0.0001e9);  // 16 GT/s, 128b/130b
  EXPECT_NEAR(raw_bytes_per_second(5, 16), 63.0154e9, 0.0001e9);  // 32 GT/s, 128b/130b
  EXPECT_DOUBLE_EQ(raw_bytes_per_second(6, 16), 118.0e9);         // 64 GT/s, FLIT 236 of 256
  EXPECT_DOUBLE_EQ(raw_bytes_per_second(1, 1), 0.25e9);
  EXPECT_NEAR(raw_bytes_per_second(3, 4), 3.93846e9, 0.00001e9);
}

struct Sent {
  std::uint64_t payload;
  double tlps, bytes;
  Ps length_ps;  ///< bytes / 63.0154 B/ns
};

class LinkTest : public SystemC {
 protected:
  LinkTest() {
    device_.out.bind(link_.from_device);
    link_.to_root.bind(root_.in);
  }
  /// When the last byte of a payload has left.
  Ps send(Way way, Ps at_ps, TlpKind kind, std::uint64_t payload_bytes) {
    return link_.wires().send(way, at_ps, link_.wires().train(kind, payload_bytes)).end_ps;
  }
  Link link_{"link", gen5_x16()};
  Requester device_{"device"};
  FarEnd root_{"root", 10'000};
};
void PrintTo(const Sent& train, std::ostream* out) { *out << train.payload << " B"; }
class LinkTrain : public LinkTest, public testing::WithParamInterface<Sent> {};

TEST_P(LinkTrain, SplitsAPayloadIntoTlpsOfTheMaximumPayloadSizeWith24BytesOnTop) {
  const Sent& train = GetParam();
  EXPECT_EQ(send(Way::kUp, 0, TlpKind::kMemWr, train.payload), train.length_ps);
  EXPECT_EQ(counted(link_, "pcie.up", "TLPs"), train.tlps);
  EXPECT_EQ(counted(link_, "pcie.up", "bytes"), train.bytes);
  EXPECT_EQ(counted(link_, "pcie.up", "payload"), static_cast<double>(train.payload));
  EXPECT_DOUBLE_EQ(counted(link_, "pcie.up", "busy"), static_cast<double>(train.length_ps) / 1000);
}

INSTANTIATE_TEST_SUITE_P(Payloads, LinkTrain,
                         testing::Values(Sent{0, 1, 24, 381},           // a read request: header
                                         Sent{1, 1, 25, 397},           //
                                         Sent{256, 1, 280, 4443},       // just one
                                         Sent{257, 2, 305, 4840},       // one byte more: two
                                         Sent{4096, 16, 4480, 71094}),  // 16 * 280
                         [](const auto& test) { return std::to_string(test.param.payload) + "B"; });

TEST_F(LinkTest, LosesTheShareOfDllps) {
  PcieSpec spec = gen5_x16();
  spec.dllp_ratio = 0.5;
  const Train train{TlpKind::kMemWr, 1, 256};
  EXPECT_EQ(Duplex(gen5_x16()).length_ps(train), 4443);
  EXPECT_EQ(Duplex(spec).length_ps(train), 8887);  // 280 / 31.5077 ns
}

TEST_F(LinkTest, LetsTheSecondSenderStartWhenTheFirstHasLeftAndNotBefore) {
  // 256 B take 4443 ps.
  EXPECT_EQ(send(Way::kUp, 0, TlpKind::kMemWr, 256), 4443);
  EXPECT_EQ(send(Way::kUp, 4442, TlpKind::kMemWr, 256), 8886) << "a picosecond too early: it waits";
  EXPECT_EQ(send(Way::kUp, 8886, TlpKind::kMemWr, 256), 13329) << "at once";
  EXPECT_EQ(send(Way::kUp, 14000, TlpKind::kMemWr, 256), 18443) << "an idle link makes nobody wait";
}

TEST_F(LinkTest, GivesCompletionsTheOtherDirection) {
  EXPECT_EQ(send(Way::kDown, 0, TlpKind::kCplD, 4096), 70078);  // 16 * 276 bytes
  EXPECT_EQ(send(Way::kUp, 0, TlpKind::kMemWr, 256), 4443);
  EXPECT_EQ(send(Way::kDown, 0, TlpKind::kCplD, 256), 70078 + 4380);
}

TEST_F(LinkTest, DeliversAPostedWriteAfterItsBytesAndTheWayUp) {
  elaborate();
  device_.issue(AccessKind::kStore, kHostBase, 5000);
  run();
  // 8 + 24 bytes: 508 ps; a quarter of the 800 ns round trip.
  ASSERT_EQ(root_.arrivals().size(), 1u);
  EXPECT_EQ(root_.arrivals()[0].at_ps, 5000 + 508 + 200'000);
  EXPECT_EQ(counted(link_, "pcie.up", "MemWr (posted)"), 1);
  EXPECT_EQ(counted(link_, "pcie.down", "TLPs"), 0) << "a posted write is not answered";
}

TEST_F(LinkTest, BringsAReadBackAfterRequestMemoryAndCompletion) {
  elaborate();
  const auto& read = device_.issue(AccessKind::kLoad, kHostBase, 5000);
  run();
  // Up: 24 bytes, 381 ps, and 200 ns. Memory: 10 ns. Down: 8 + 20 bytes, 444 ps, and 600 ns.
  ASSERT_EQ(root_.arrivals().size(), 1u);
  EXPECT_EQ(root_.arrivals()[0].at_ps, 5000 + 381 + 200'000);
  EXPECT_EQ(read.answered_ps, 5000 + 381 + 200'000 + 10'000 + 444 + 600'000);
  EXPECT_EQ(counted(link_, "pcie.up", "MemRd (non-posted)"), 1);
  EXPECT_EQ(counted(link_, "pcie.down", "CplD (completions)"), 1);
  EXPECT_EQ(counted(link_, "pcie.down", "bytes"), 28);
}

TEST_F(LinkTest, AnnotatesTheTimeAtWhichItLaterAnswers) {
  elaborate();
  auto& read = device_.prepare(AccessKind::kLoad, kHostBase);
  const Ps annotated_ps = device_.issue(read, 0);
  run();
  EXPECT_EQ(read.answered_ps, annotated_ps);
}

TEST_F(LinkTest, SharesTheWayUpBetweenReadsAndWrites) {
  elaborate();
  device_.issue(AccessKind::kStore, kHostBase, 0);
  device_.issue(AccessKind::kLoad, kHostBase, 0);
  device_.issue(AccessKind::kStore, kHostBase, 0);
  run();
  ASSERT_EQ(root_.arrivals().size(), 3u);
  EXPECT_EQ(root_.arrivals()[0].at_ps, 200'000 + 508);
  EXPECT_EQ(root_.arrivals()[1].at_ps, 200'000 + 508 + 381);
  EXPECT_EQ(root_.arrivals()[2].at_ps, 200'000 + 508 + 381 + 508);
}

}  // namespace
}  // namespace marrow::pcie
