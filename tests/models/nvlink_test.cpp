// How long do accesses to another GPU's memory take, who waits for whom on the links, and what do a
// fence and a consumer over there cost?
#include "models/common/error.h"
#include "models/nvlink/bulk.h"
#include "models/nvlink/link.h"
#include "models/nvlink/switch.h"
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"
#include "tests/support/small_recipe.h"

namespace marrow {
namespace {

/// 100 bytes a ns each way; 36 bytes on top of each packet of at most 128, in sectors of 32.
NvlinkSpec round_nvlink() {
  NvlinkSpec spec;
  spec.peers = 1;
  spec.rate_gbps = 800;
  spec.packet_overhead_bytes = 36;
  spec.packet_bytes = 128;
  spec.sector_bytes = 32;
  spec.load_round_trip_ns = 600;
  spec.atomic_round_trip_ns = 700;
  spec.store_ns = 400;
  return spec;
}

/// Two GPUs, each a requester and a memory that answers after 10 ns.
class Nvlink : public SystemC {
 protected:
  Nvlink() {
    nvlink::Link* links[] = {&link0_, &link1_};
    Requester* gpus[] = {&gpu0_, &gpu1_};
    FarEnd* memories[] = {&memory0_, &memory1_};
    for (int i : {0, 1}) {
      gpus[i]->out.bind(links[i]->from_gpu);
      links[i]->to_switch.bind(switch_.from_links);
      switch_.to_links.bind(links[i]->from_switch);
      links[i]->to_gpu.bind(memories[i]->in);
    }
    elaborate();
  }
  nvlink::Link link0_{"link0", round_nvlink()}, link1_{"link1", round_nvlink()};
  nvlink::Switch switch_{"switch"};
  Requester gpu0_{"gpu0"}, gpu1_{"gpu1"};
  FarEnd memory0_{"memory0", 10'000}, memory1_{"memory1", 10'000};
};

TEST_F(Nvlink, CutsAPayloadIntoPacketsOfWholeSectors) {
  const NvlinkSpec spec = round_nvlink();
  EXPECT_DOUBLE_EQ(nvlink::train_ns(spec, 0), 0.36) << "a request";
  EXPECT_DOUBLE_EQ(nvlink::train_ns(spec, 8), 0.68) << "36 + 32";
  EXPECT_DOUBLE_EQ(nvlink::train_ns(spec, 128), 1.64) << "36 + 128";
  EXPECT_DOUBLE_EQ(nvlink::train_ns(spec, 129), 2.32) << "2 * 36 + 5 * 32";
  NvlinkSpec with_byte_enables = spec;
  with_byte_enables.partial_bytes = 16;
  with_byte_enables.link_layer_ratio = 0.5;
  EXPECT_DOUBLE_EQ(nvlink::train_ns(with_byte_enables, 8), 2 * 0.84) << "36 + 16 + 32";
  EXPECT_DOUBLE_EQ(nvlink::train_ns(with_byte_enables, 128), 2 * 1.64) << "sectors are full";
}

TEST_F(Nvlink, AStoreArrivesInTheMemoryWhoseWindowItsAddressIsIn) {
  gpu0_.issue(AccessKind::kStore, peer_address(1, 256), 5000);
  gpu1_.issue(AccessKind::kStore, peer_address(0, 512), 5000);
  run();
  ASSERT_EQ(memory0_.arrivals().size(), 1u);
  ASSERT_EQ(memory1_.arrivals().size(), 1u);
  EXPECT_EQ(memory0_.arrivals()[0].address, 512u);
  EXPECT_EQ(memory1_.arrivals()[0].address, 256u);
  EXPECT_EQ(memory1_.arrivals()[0].at_ps, 5000 + 400'000);
}

TEST_F(Nvlink, ALoadIsBackAfterItsRoundTripTheMemoryAndItsData) {
  const auto& load = gpu0_.issue(AccessKind::kLoad, peer_address(1, 256), 5000);
  const auto& atomic = gpu1_.issue(AccessKind::kAtomic, peer_address(0, 256), 5000);
  run();
  EXPECT_EQ(memory1_.arrivals()[0].at_ps, 5000 + 300'000);
  EXPECT_EQ(load.answered_ps, 5000 + 600'000 + 10'000 + 680);
  EXPECT_EQ(load.payload.get_address(), peer_address(1, 256)) << "as it was asked";
  // The atomic's operand takes 680 ps of GPU 1's way out, before the load's answer needs it.
  EXPECT_EQ(atomic.answered_ps, 5000 + 700'000 + 10'000 + 680);
}

TEST_F(Nvlink, StoresWaitForEachOtherOnTheLinkAndNotAPicosecondLonger) {
  for (const Ps at_ps : {0, 679, 1360, 2040})
    gpu0_.issue(AccessKind::kStore, peer_address(1, 0), at_ps);
  run();
  ASSERT_EQ(memory1_.arrivals().size(), 4u);
  EXPECT_EQ(memory1_.arrivals()[1].at_ps, 680 + 400'000) << "a picosecond early: it waits";
  EXPECT_EQ(memory1_.arrivals()[2].at_ps, 1360 + 400'000) << "at once";
  EXPECT_EQ(memory1_.arrivals()[3].at_ps, 2040 + 400'000);
  EXPECT_EQ(counted(link0_, "link0.out", "packets"), 4);
  EXPECT_EQ(counted(link0_, "link0.out", "bytes"), 4 * 68);
  EXPECT_EQ(counted(link1_, "link1.in", "payload"), 4 * 8);
  EXPECT_EQ(counted(link1_, "link1.out", "packets"), 0) << "the other way is free";
}

TEST_F(Nvlink, ALoadNeverOvertakesAnEarlierStoreOfItsSm) {
  gpu0_.issue(AccessKind::kStore, peer_address(1, 0), 0);
  gpu0_.issue(AccessKind::kLoad, peer_address(1, 0), 1000);
  run();
  ASSERT_EQ(memory1_.arrivals().size(), 2u);
  EXPECT_EQ(memory1_.arrivals()[1].kind, AccessKind::kLoad);
  EXPECT_EQ(memory1_.arrivals()[1].at_ps, 400'000) << "alone it would be there at 301,000";
}

TEST(NvlinkBulk, StreamsRunAtTheSmsRateUntilTheLinkIsFull) {
  NvlinkSpec spec = round_nvlink();
  spec.sm_store_gbps = 160;  // 20 bytes a ns
  spec.sm_load_gbps = 80;
  // 128,000 bytes: 6400 ns of the SM's time; 1000 packets of 164 bytes are 1640 ns of the link's.
  EXPECT_DOUBLE_EQ(nvlink::stream_store_us(spec, 1, 128'000), 6.4);
  EXPECT_DOUBLE_EQ(nvlink::stream_store_us(spec, 3, 128'000), 6.4) << "4920 ns of the link's";
  EXPECT_DOUBLE_EQ(nvlink::stream_store_us(spec, 4, 128'000), 6.56) << "4 * 1640 ns";
  EXPECT_DOUBLE_EQ(nvlink::stream_load_us(spec, 4, 128'000), 12.8);
}

TEST(NvlinkBulk, ScatteredStoresTakeAPacketEach) {
  NvlinkSpec spec = round_nvlink();
  spec.sm_scattered_store_ns = 1;
  EXPECT_DOUBLE_EQ(nvlink::scattered_store_us(spec, 1, 1000, 8), 1) << "the link: 680 ns";
  EXPECT_DOUBLE_EQ(nvlink::scattered_store_us(spec, 2, 1000, 8), 1.36) << "2 * 680 ns";
}

TEST(NvlinkBulk, ACopyTakesItsIssueAShareOfTheStartAndItsBytes) {
  NvlinkSpec spec = round_nvlink();
  spec.copy_issue_us = 5;
  spec.copy_start_us = 16;
  spec.copy_queue_bytes = 12'800;
  EXPECT_DOUBLE_EQ(nvlink::copy_us(spec, 128'000, 8), 5 + 2 + 1.64);
  EXPECT_DOUBLE_EQ(nvlink::beside_copy_ns(spec), 164) << "100 packets";
}

/// A machine with round numbers and a peer: a load within a GPU takes 200 cycles of 1 ns.
config::SystemSpec two_gpus() {
  config::SystemSpec spec = round_system();
  spec.nvlink = round_nvlink();
  spec.gpu.fence_gpu_peer_cycles = 900;
  spec.gpu.fence_sys_peer_cycles = 1500;
  return spec;
}

/// The doorbell (and `other`) in the peer's memory, a warp over there: notices 30 cycles after it
/// has looked, 80 and 120 cycles of its own for an entry, 25 for a round of payload.
config::Recipe peer_recipe(const Steps& put) {
  config::Recipe recipe = small_recipe(put);
  for (std::uint32_t w : {kBell, kOther}) recipe.program.regions[w].memory = MemoryKind::kPeer;
  ConsumerProgram& consumer = recipe.program.consumer;
  consumer.where = ConsumerProgram::Where::kPeer;
  consumer.copies_payload = true;
  consumer.notice_cycles = 30;
  consumer.round_cycles = 25;
  return recipe;
}

class Peer : public SystemC {};

TEST_F(Peer, ALanesLoadCrossesItsOwnL2TheLinksAndBack) {
  const auto journeys =
      replay(two_gpus(),
             peer_recipe({stage(Stage::kLookup), load(kOther), stage(Stage::kSlot), take_index(),
                          stage(Stage::kDoorbellRegister), store(kBell, Value::kNext),
                          stage(Stage::kPoll), poll_completed()}),
             {{0, 0, waited(1)}});
  // 100 to the link and 100 back, 600 between the L2s, 0.68 for the data.
  EXPECT_EQ(stages(journeys.all.at(0)).at("lookup"), 800'680);
}

TEST_F(Peer, AnAtomicThereIsDoneThereOnceForEachLane) {
  const auto journeys =
      replay(two_gpus(),
             peer_recipe({stage(Stage::kSlot), take_index(), add_unwaited(kOther), use(),
                          stage(Stage::kDoorbellRegister), store(kBell, Value::kNext),
                          stage(Stage::kPoll), poll_completed()}),
             {{0, 0, waited(1)}});
  // The ticket is near: 300. Then 100 + 700 + 100, and 0.68 for the old value.
  EXPECT_EQ(stages(journeys.all.at(0)).at("slot"), 300'000 + 900'680);
}

TEST_F(Peer, AnEntrysWayIsDoorbellLookReadFenceAndCompletion) {
  const auto journeys =
      replay(two_gpus(),
             peer_recipe({stage(Stage::kSlot), take_index(), stage(Stage::kDoorbellRegister),
                          store(kBell, Value::kNext), stage(Stage::kPoll), poll_completed()}),
             {{0, 0, waited(1)}});
  const Journey& put = journeys.all.at(0);
  // 100 to the link, 400 to the peer's L2.
  EXPECT_EQ(put.at(Stage::kMmio), 500'000);
  // A look every 300, of which at most one is missed; back after 100, noticed after 30.
  EXPECT_GE(put.at(Stage::kNicSchedule), 130'000);
  EXPECT_LT(put.at(Stage::kNicSchedule), 430'000);
  // 200 within the GPU, 600 between them, 64 + 36 bytes, 80 of its own.
  EXPECT_EQ(put.at(Stage::kWqeFetch), 881'000);
  // The fence behind stores to a peer, 120 of its own, 100 to the link, 400 to the other L2.
  EXPECT_EQ(put.at(Stage::kCqeWrite), 900'000 + 120'000 + 500'000);
}

TEST_F(Peer, PayloadIsReadRoundByRound) {
  std::map<std::uint64_t, Ps> cqe_write;
  for (const std::uint64_t bytes : {0, 512, 513}) {
    renew();
    const auto journeys =
        replay(two_gpus(),
               peer_recipe({stage(Stage::kSlot), take_index(), stage(Stage::kDoorbellRegister),
                            store(kBell, Value::kNext), stage(Stage::kPoll), poll_completed()}),
               {{0, 0, waited(1, bytes)}});
    cqe_write[bytes] = journeys.all.at(0).at(Stage::kCqeWrite);
  }
  // 200 + 600 + 25; 512 bytes are 4 * 164 on the link, one byte is 68.
  EXPECT_EQ(cqe_write[512] - cqe_write[0], 825'000 + 6560);
  EXPECT_EQ(cqe_write[513] - cqe_write[512], 825'000 + 680);
}

TEST_F(Peer, FencesBehindAStoreToAPeerFlushTheWayThere) {
  const auto journeys =
      replay(two_gpus(),
             peer_recipe(Steps{stage(Stage::kSlot), take_index(), stage(Stage::kWqe),
                               store(kKeys, Value::kNext), stage(Stage::kOrderFence),
                               fence(Scope::kGpu), stage(Stage::kDoorbellRegister),
                               store(kBell, Value::kNext), stage(Stage::kDoorbellRecord),
                               fence(Scope::kSys), stage(Stage::kPoll), poll_completed()}),
             {{0, 0, waited(2)}});
  EXPECT_EQ(journeys.all.at(0).at(Stage::kOrderFence), 400'000) << "nothing went there yet: near";
  EXPECT_EQ(journeys.all.at(1).at(Stage::kOrderFence), 900'000) << "from then on";
  EXPECT_EQ(journeys.all.at(0).at(Stage::kDoorbellRecord), 1'500'000) << "until it is acknowledged";
}

TEST_F(Peer, ASystemFenceWaitsForNoAcknowledgementThatIsThereAlready) {
  const auto journeys =
      replay(two_gpus(),
             peer_recipe(Steps{stage(Stage::kSlot), take_index(), stage(Stage::kDoorbellRegister),
                               store(kBell, Value::kNext), stage(Stage::kWqe), compute(499),
                               stage(Stage::kDoorbellRecord), fence(Scope::kSys),
                               stage(Stage::kPoll), poll_completed()}),
             {{0, 0, waited(1)}});
  EXPECT_EQ(journeys.all.at(0).at(Stage::kDoorbellRecord), 1'001'000) << "1500 - 499";
}

struct HostFence {
  const char* name;
  double peers, between_cycles;  ///< of a store to the host and the fence
  Ps fence_ps;
};
class PeerHostFence : public SystemC, public testing::WithParamInterface<HostFence> {};

// Probe rows op st8+fence.sys host: 1171 cycles on h200-k, 2822 on h200x2-l, whose GPU reaches
// another; with nothing under way (h200x2-l, capture-host-proxy's fence) 1150 there, too.
TEST_P(PeerHostFence, TakesLongerUntilTheHostHasAcknowledgedWhereNvlinkReachesAPeer) {
  config::SystemSpec spec = two_gpus();
  spec.nvlink.peers = GetParam().peers;
  spec.gpu.fence_sys_host_peer_cycles = 2500;
  const auto journeys =
      replay(spec,
             small_recipe(Steps{stage(Stage::kSlot), take_index(), stage(Stage::kWqe),
                                store(kHostWord, Value::kOne), compute(GetParam().between_cycles),
                                stage(Stage::kOrderFence), fence(Scope::kSys),
                                stage(Stage::kDoorbellRegister), store(kBell, Value::kNext),
                                stage(Stage::kPoll), poll_completed()}),
             {{0, 0, waited(1)}});
  EXPECT_EQ(journeys.all.at(0).at(Stage::kOrderFence), GetParam().fence_ps);
}

// The host acknowledges a store 800 ns after it was issued.
INSTANTIATE_TEST_SUITE_P(
    Waits, PeerHostFence,
    testing::Values(HostFence{"OneGpu", 0, 0, 1'000'000}, HostFence{"AtOnce", 1, 0, 2'500'000},
                    HostFence{"JustBeforeTheAcknowledgement", 1, 799, 2'500'000},
                    HostFence{"AtTheAcknowledgement", 1, 800, 1'000'000}),
    [](const auto& test) { return test.param.name; });

TEST_F(Peer, WithoutASecondGpuWordsThereAreRefused) {
  try {
    replay(round_system(), peer_recipe({take_index(), store(kBell, Value::kNext)}),
           {{0, 0, waited(1)}});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("the system has one GPU"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("nvlink.peers_count"), std::string::npos);
  }
}

}  // namespace
}  // namespace marrow
