// When is a transfer's data where it goes, by trains and by single TLPs?
#include "models/pcie/dma_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace marrow::pcie {
namespace {

using Detail = DmaEngine::Detail;

/// 8 lanes of 8 GT/s, 128b/130b: 7.8769 bytes a ns, 0.126953 ns a byte.
PcieSpec gen3_x8() {
  PcieSpec spec;
  spec.generation = 3;
  spec.lanes = 8;
  spec.tlp_overhead_bytes = 24;
  spec.completion_overhead_bytes = 20;
  spec.mps_bytes = 256;
  spec.mrrs_bytes = 512;
  spec.rcb_bytes = 64;
  spec.combine_bytes = 0;
  return spec;
}

DmaSpec engine() {
  DmaSpec spec;
  spec.tags_count = 64;
  spec.outstanding_bytes = 1 << 20;
  spec.read_beat_bytes = spec.write_beat_bytes = 64;
  return spec;
}

constexpr Ps kWayPs = 200'000, kMemoryPs = 100'000;

/// A device, its link and a memory 200 ns away that answers within 100 ns.
struct Device {
  explicit Device(const PcieSpec& pcie = gen3_x8(), const DmaSpec& dma = engine(),
                  Detail detail = Detail::kTrains)
      : link(pcie), dma_engine(dma, pcie, detail) {
    path.out = {{&link, Way::kUp, kWayPs}};
    path.back = {{&link, Way::kDown, kWayPs}};
    path.read_latency = [](std::uint64_t, std::uint64_t) { return kMemoryPs; };
  }
  ReadTimes read(Ps at_ps, std::uint64_t address, std::uint64_t bytes) {
    return dma_engine.read(path, at_ps, address, bytes);
  }
  WriteTimes write(Ps at_ps, std::uint64_t address, std::uint64_t bytes) {
    return dma_engine.write(path, at_ps, address, bytes);
  }
  Duplex link;
  Path path;
  DmaEngine dma_engine;
};

bool near(Ps actual_ps, Ps expected_ps, Ps apart_ps) {
  return std::abs(actual_ps - expected_ps) <= apart_ps;
}

class BothDetails : public testing::TestWithParam<Detail> {};
INSTANTIATE_TEST_SUITE_P(Details, BothDetails, testing::Values(Detail::kTrains, Detail::kTlps),
                         [](const auto& test) {
                           return test.param == Detail::kTrains ? "Trains" : "Tlps";
                         });

TEST_P(BothDetails, AReadTakesItsRequestTheMemoryAndItsCompletion) {
  Device device(gen3_x8(), engine(), GetParam());
  // Up 24 B: 3047 ps. Down 8 + 20 B: 3555 ps. Two ways and the memory: 500 ns.
  const ReadTimes times = device.read(1000, 0, 8);
  EXPECT_PRED3(near, times.last_ps, 1000 + 3047 + 500'000 + 3555, 2);
  EXPECT_EQ(times.first_ps, times.last_ps);
}

TEST_P(BothDetails, AReadsFirstBytesComeWithItsFirstCompletion) {
  Device device(gen3_x8(), engine(), GetParam());
  // 512 B: two completions of 276 B, 35039 ps each.
  const ReadTimes times = device.read(0, 0, 512);
  EXPECT_PRED3(near, times.first_ps, 3047 + 500'000 + 35'039, 3);
  EXPECT_PRED3(near, times.last_ps, 3047 + 500'000 + 2 * 35'039, 3);
}

TEST_P(BothDetails, ShortReadsComeLineByLineWhereLongOnesAreCombined) {
  PcieSpec spec = gen3_x8();
  spec.combine_bytes = 512;
  Device device(spec, engine(), GetParam());
  // 256 B as four completions of 84 B: 336 B, 42656 ps.
  EXPECT_PRED3(near, device.read(0, 0, 256).last_ps, 3047 + 500'000 + 42'656, 4);
}

TEST_P(BothDetails, AWriteIsPlacedWhenItsLastTlpHasCrossed) {
  Device device(gen3_x8(), engine(), GetParam());
  // 257 B: 257 + 2 * 24 = 305 B, 38721 ps.
  const WriteTimes times = device.write(0, 0, 257);
  EXPECT_PRED3(near, times.sent_ps, 38'721, 2);
  EXPECT_PRED3(near, times.placed_ps, 38'721 + kWayPs, 2);
}

TEST_P(BothDetails, AnUnalignedTransferIsCutAtMultiplesOfTheMaximum) {
  Device device(gen3_x8(), engine(), GetParam());
  // 256 B from 4 B before a boundary: 4 and 252 B, so two TLPs: 304 B, 38594 ps.
  EXPECT_PRED3(near, device.write(0, 252, 256).sent_ps, 38'594, 2);
}

TEST_P(BothDetails, OneTagMakesRequestsWaitForEachOther) {
  DmaSpec dma = engine();
  dma.tags_count = 1;
  Device device(gen3_x8(), dma, GetParam());
  // A request of 512 B alone: 3047 + 500000 + 70078 ps; four of them.
  EXPECT_PRED3(near, device.read(0, 0, 2048).last_ps, 4 * (3047 + 500'000 + 70'078), 40);
}

TEST_P(BothDetails, TheSameTagAlsoHoldsUpTheNextRead) {
  DmaSpec dma = engine();
  dma.tags_count = 1;
  Device device(gen3_x8(), dma, GetParam());
  device.read(0, 0, 512);
  EXPECT_PRED3(near, device.read(0, 512, 512).last_ps, 2 * (3047 + 500'000 + 70'078), 20);
}

TEST_P(BothDetails, AReadNeverPassesAWriteThatLeftBeforeIt) {
  Device device(gen3_x8(), engine(), GetParam());
  WriteBuffer slow{1 << 20, 10'000, 0};  // drains a byte in 10 ns
  device.path.buffer = &slow;
  const WriteTimes write = device.write(0, 0, 256);
  // The first TLP is there, then 256 B drain for 2560 ns.
  EXPECT_PRED3(near, write.placed_ps, 35'547 + kWayPs + 2'560'000, 2);
  const Ps read_ps = device.read(write.sent_ps, 0, 8).last_ps;
  EXPECT_PRED3(near, read_ps, write.placed_ps + kMemoryPs + 3555 + kWayPs, 2);
}

TEST_P(BothDetails, AReadThatLeavesFirstDoesNotWaitForTheWrite) {
  DmaSpec dma = engine();
  dma.gather_ns = 100;
  Device device(gen3_x8(), dma, GetParam());
  device.write(0, 0, 256);
  EXPECT_PRED3(near, device.read(0, 0, 8).last_ps, 3047 + 500'000 + 3555, 2);
}

TEST_P(BothDetails, AFullWriteBufferHoldsTheSender) {
  Device device(gen3_x8(), engine(), GetParam());
  WriteBuffer buffer{1024, 1000, 0};  // 1 KiB; drains a byte a ns, an eighth of the link
  device.path.buffer = &buffer;
  const WriteTimes write = device.write(0, 0, 65536);
  // All drained, from the first TLP's arrival on; the last byte was let in 1024 B ahead of that.
  EXPECT_PRED3(near, write.placed_ps, 35'547 + kWayPs + 65'536'000, 2);
  EXPECT_PRED3(near, write.sent_ps, write.placed_ps - kWayPs - 1'024'000, 100);
}

TEST_P(BothDetails, BusesThatStoreAddTheirTime) {
  DmaSpec dma = engine();
  dma.setup_ns = 50;
  dma.read_turn_ns = 10;
  dma.read_beat_ns = 5;  // 512 B: 8 beats, 40 ns
  dma.write_turn_ns = 4;
  dma.write_beat_ns = 6;  // 512 B: 48 ns
  dma.gather_ns = 90;
  Device device(gen3_x8(), dma, GetParam());
  const ReadTimes read = device.read(0, 0, 512);
  EXPECT_PRED3(near, read.last_ps, 50'000 + 3047 + 500'000 + 2 * 35'039 + 50'000, 4);
  EXPECT_PRED3(near, read.first_ps, read.last_ps - 7 * 5000, 2);
  // 560 B: 71094 ps.
  EXPECT_PRED3(near, device.write(1'000'000, 0, 512).sent_ps, 1'192'000 + 71'094, 4);
}

TEST_P(BothDetails, WritesAndTheRequestsOfReadsShareTheWayUp) {
  Device device(gen3_x8(), engine(), GetParam());
  device.write(0, 0, 4096);  // 16 * 280 B: 568749 ps
  EXPECT_PRED3(near, device.read(0, 0, 8).last_ps, 568'749 + 3047 + 500'000 + 3555, 20);
}

TEST_P(BothDetails, DllpsThatAnswerWritesTakeFromTheWayDown) {
  PcieSpec spec = gen3_x8();
  spec.ack_bytes = spec.credit_bytes = 8;
  Device device(spec, engine(), GetParam());
  Ps last_ps = 0;
  for (int i = 0; i < 100; ++i) {
    device.write(0, 0, 4096);
    last_ps = device.link.send(Way::kDown, 0, {TlpKind::kCplD, 16, 4096}).end_ps;
  }
  // 16 answers of 16 B beside 16 completions of 276 B: 593.1 ns a round.
  EXPECT_PRED3(near, last_ps, 59'311'000, 600'000);
}

TEST(DmaEngine, SharesALinkFairlyInTimeWhateverTheOrderOfCalls) {
  Device first, second;
  second.path.out[0].link = second.path.back[0].link = &first.link;
  const Ps late_ps = first.read(10'000'000, 0, 512).last_ps;
  EXPECT_PRED3(near, second.read(0, 0, 8).last_ps, 3047 + 500'000 + 3555, 2)
      << "what is due later was asked for first, and is not in the way";
  EXPECT_PRED3(near, late_ps, 10'000'000 + 3047 + 500'000 + 2 * 35'039, 3);
}

TEST(Path, CrossesSwitchesAndSocketsHopByHop) {
  // NIC to a GPU behind a switch: 300 ns of switch and 16 lanes down to the GPU.
  PcieSpec wide = gen3_x8();
  wide.lanes = 16;
  Duplex nic(gen3_x8()), gpu(wide);
  Path path;
  path.out = {{&nic, Way::kUp, 300'000}, {&gpu, Way::kDown, 0}};
  path.back = {{&gpu, Way::kUp, 300'000}, {&nic, Way::kDown, 0}};
  path.read_latency = [](std::uint64_t, std::uint64_t) { return Ps{500'000}; };
  DmaEngine dma(engine(), gen3_x8());
  // A write of 4 KiB, 16 TLPs of 280 B: 568749 ps, and the last TLP once more at twice the rate.
  EXPECT_PRED3(near, dma.write(path, 0, 0, 4096).placed_ps, 568'749 + 300'000 + 17'773, 20);
  // To the other socket: a hop that cannot contend.
  path.out.insert(path.out.begin() + 1, Hop{nullptr, Way::kUp, 120'000});
  dma.reset(), nic.reset(), gpu.reset();
  EXPECT_PRED3(near, dma.write(path, 0, 0, 4096).placed_ps, 568'749 + 420'000 + 17'773, 20);
  // Two senders onto one GPU share its link.
  Duplex other(gen3_x8());
  Path other_path = path;
  other_path.out[0].link = &other;
  dma.reset(), nic.reset(), gpu.reset();
  DmaEngine other_dma(engine(), gen3_x8());
  const Ps alone_ps = dma.write(path, 0, 0, 1 << 20).placed_ps;
  const Ps both_ps = other_dma.write(other_path, 0, 0, 1 << 20).placed_ps;
  EXPECT_NEAR(static_cast<double>(both_ps - alone_ps) / static_cast<double>(alone_ps), 0, 0.01)
      << "twice the NICs' rate fits the GPU's";
}

struct Shape {
  double mrrs, mps, combine, tags;
};
class Agreement : public testing::TestWithParam<Shape> {};
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const double mrrs : {128., 256., 512., 1024., 2048., 4096.})
    for (const double mps : {128., 256., 512.})
      for (const double combine : {0., 512.})
        for (const double tags : {4., 32., 256.}) all.push_back({mrrs, mps, combine, tags});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Shapes, Agreement, testing::ValuesIn(shapes()), [](const auto& test) {
  const Shape& shape = test.param;
  const auto text = [](double value) { return std::to_string(static_cast<int>(value)); };
  return "mrrs" + text(shape.mrrs) + "_mps" + text(shape.mps) + "_combine" + text(shape.combine) +
         "_tags" + text(shape.tags);
});

/// Every stage takes time, so that nothing is compared at 0.
std::pair<PcieSpec, DmaSpec> full_specs(const Shape& shape) {
  PcieSpec pcie = gen3_x8();
  pcie.mrrs_bytes = shape.mrrs;
  pcie.mps_bytes = shape.mps;
  pcie.combine_bytes = shape.combine;
  pcie.ack_bytes = pcie.credit_bytes = 4;
  DmaSpec dma = engine();
  dma.tags_count = shape.tags;
  dma.setup_ns = 20;
  dma.request_ns = 3;
  dma.completion_ns = 10;
  dma.read_turn_ns = 10;
  dma.gather_ns = 50;
  dma.write_turn_ns = 4;
  return {pcie, dma};
}

constexpr std::uint64_t kSizes[] = {1,    8,    64,    65,    256,   257,    512,    1000,
                                    1024, 4096, 10000, 16384, 65536, 262144, 1 << 20};
constexpr double kApart = 0.02;
/// DLLPs of a long train are reserved in a few pieces: each may meet the first completion.
constexpr Ps kFirstApartPs = 25'000;

TEST_P(Agreement, OfTrainsAndTlpsInLatency) {
  const auto [pcie, dma] = full_specs(GetParam());
  for (const std::uint64_t bytes : kSizes)
    for (const std::uint64_t address : {0, 40}) {
      SCOPED_TRACE(std::to_string(bytes) + " B at " + std::to_string(address));
      Device trains(pcie, dma, Detail::kTrains), tlps(pcie, dma, Detail::kTlps);
      const ReadTimes fast = trains.read(0, address, bytes), slow = tlps.read(0, address, bytes);
      EXPECT_NEAR(static_cast<double>(fast.last_ps) / static_cast<double>(slow.last_ps), 1, kApart);
      EXPECT_PRED3(near, fast.first_ps, slow.first_ps, std::max(slow.first_ps / 50, kFirstApartPs));
      const Ps at_ps = slow.last_ps;
      const WriteTimes fast_write = trains.write(at_ps, address, bytes);
      const WriteTimes slow_write = tlps.write(at_ps, address, bytes);
      EXPECT_NEAR(static_cast<double>(fast_write.placed_ps - at_ps) /
                      static_cast<double>(slow_write.placed_ps - at_ps),
                  1, kApart);
      EXPECT_NEAR(static_cast<double>(fast_write.sent_ps - at_ps) /
                      static_cast<double>(slow_write.sent_ps - at_ps),
                  1, kApart);
    }
}

enum class Mix : std::uint8_t { kReads, kWrites, kBoth };

/// Bytes a ns in the second half of transfers that each start when the one `depth` before has
/// ended.
double throughput(const PcieSpec& pcie, const DmaSpec& dma, Detail detail, Mix mix,
                  std::uint64_t bytes) {
  Device device(pcie, dma, detail);
  const std::size_t count = bytes >= 65536 ? 64 : 512, depth = bytes >= 65536 ? 2 : 16;
  std::vector<Ps> done_ps;
  for (std::size_t i = 0; i < count; ++i) {
    const Ps at_ps = i < depth ? 0 : done_ps[i - depth];
    const bool read = mix == Mix::kReads || (mix == Mix::kBoth && i % 2 == 0);
    done_ps.push_back(read ? device.read(at_ps, 0, bytes).last_ps
                           : device.write(at_ps, 0, bytes).sent_ps);
  }
  const auto end = [&](std::size_t first, std::size_t last) {
    return *std::max_element(done_ps.begin() + static_cast<std::ptrdiff_t>(first),
                             done_ps.begin() + static_cast<std::ptrdiff_t>(last));
  };
  return static_cast<double>(bytes * count / 2) /
         static_cast<double>(end(0, count) - end(0, count / 2)) * 1000;
}

TEST_P(Agreement, OfTrainsAndTlpsInThroughput) {
  const auto [pcie, dma] = full_specs(GetParam());
  // Four tags leave the link idle most of the time: then it matters which of two requests is first.
  const double apart = GetParam().tags < 32 ? 0.03 : kApart;
  for (const std::uint64_t bytes : kSizes)
    for (const Mix mix : {Mix::kReads, Mix::kWrites, Mix::kBoth}) {
      // TLP by TLP, 1 MiB each way is more than a lane's calendar holds.
      if (mix == Mix::kBoth && bytes > 262144) continue;
      const double fast = throughput(pcie, dma, Detail::kTrains, mix, bytes);
      const double slow = throughput(pcie, dma, Detail::kTlps, mix, bytes);
      EXPECT_NEAR(fast / slow, 1, apart)
          << bytes << " B, mix " << static_cast<int>(mix) << ": " << fast << " and " << slow;
    }
}

}  // namespace
}  // namespace marrow::pcie
