// Two NICs with round numbers on one wire, each with a memory that answers after a fixed time: does
// every stage of a message happen when it must and not before, and what becomes of nonsense?
//
// The round NIC: doorbell 10, decode 20, translation 30, transmit 40, receive 50, ACK 60, ACK
// received 70, CQE 80 ns. The wire carries 8 Gb/s, so a byte takes a nanosecond; headers are 20 B,
// a request's 10 more, an answer's 5 more; one cable of 100 ns. A memory read takes 200 ns, a write
// takes effect after 100. PCIe between NIC and memory costs nothing here: a link of a billion lanes
// takes 0.14 ps for a MiB, which rounds to 0, and neither the switch nor the DMA engine adds to it.
#include "models/nic/nic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/nic/mlx5.h"
#include "models/pcie/link.h"
#include "models/pcie/switch.h"
#include "tests/support/agents.h"
#include "tests/support/systemc_fixture.h"
#include "tools/capture/nic/put.h"

namespace marrow::nic {
namespace {

constexpr std::uint64_t kMemoryBytes = 4 << 20;
constexpr std::uint64_t kSource = 1 << 20, kTarget = 2 << 20, kSink = 3 << 20;
constexpr Ps kNs = 1000;

/// Real bytes; notes every access and when it took effect.
class SlowMemory : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<SlowMemory> in{"in"};
  struct Seen {
    bool write;
    std::uint64_t address;
    std::uint64_t bytes;
    Ps at_ps;
  };
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kMemoryBytes, 0);
  std::vector<Seen> seen;

  explicit SlowMemory(sc_core::sc_module_name name)
      : sc_module(name),
        pending_("pending", [this](tlm::tlm_generic_payload*& p, Ps at_ps) { done(*p, at_ps); }) {
    in.register_nb_transport_fw(this, &SlowMemory::fw);
  }
  std::uint64_t word(std::uint64_t address) const {
    std::uint64_t value = 0;
    std::copy_n(bytes.data() + address, 8, reinterpret_cast<std::uint8_t*>(&value));
    return value;
  }
  void set(std::uint64_t address, std::uint64_t value) {
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&value), 8, bytes.data() + address);
  }
  /// When writes to that address took effect.
  std::vector<Ps> writes(std::uint64_t address) const {
    std::vector<Ps> at;
    for (const Seen& s : seen)
      if (s.write && s.address == address) at.push_back(s.at_ps);
    return at;
  }

 private:
  tlm::tlm_sync_enum fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                        sc_core::sc_time& delay) {
    const Ps takes_ps = payload.is_write() ? 100 * kNs : 200 * kNs;
    pending_.push(now_ps() + static_cast<Ps>(delay.value()) + takes_ps, &payload);
    return tlm::TLM_ACCEPTED;
  }
  void done(tlm::tlm_generic_payload& payload, Ps at_ps) {
    const std::uint64_t address = payload.get_address();
    seen.push_back({payload.is_write(), address, payload.get_data_length(), at_ps});
    std::uint8_t* const own = bytes.data() + address;
    if (payload.is_write())
      std::copy_n(payload.get_data_ptr(), payload.get_streaming_width(), own);
    else
      std::copy_n(own, payload.get_streaming_width(), payload.get_data_ptr());
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    in->nb_transport_bw(payload, phase, delay);
  }
  DelayLine<tlm::tlm_generic_payload*> pending_;
};

class Nics : public SystemC, public Observer {
 protected:
  NicSpec nic;
  DmaSpec dma;
  PcieSpec pcie;
  WireSpec wire;
  Program program;
  std::uint32_t queues = 1;

  Nics() {
    nic.doorbell_ns = 10;
    nic.fetch_entries = 4;
    nic.fetches = 4;
    nic.decode_ns = 20;
    nic.translate_ns = 30;
    nic.miss_ns = 0;
    nic.contexts = 64;
    nic.translations = 64;
    nic.page_bytes = 4096;
    nic.transmit_ns = 40;
    nic.receive_ns = 50;
    nic.ack_ns = 60;
    nic.ack_receive_ns = 70;
    nic.cqe_ns = 80;
    nic.dc_connect_ns = 500;
    nic.ack_timeout_us = 5;
    nic.retries = 7;
    dma.tags_count = 64;
    dma.outstanding_bytes = 1 << 20;
    dma.read_beat_bytes = dma.write_beat_bytes = 64;
    pcie.generation = 6;
    pcie.lanes = 1e9;
    pcie.mps_bytes = 256;
    pcie.mrrs_bytes = 512;
    pcie.rcb_bytes = 64;
    wire.gbps = 8;
    wire.mtu_bytes = 1024;
    wire.header_bytes = 20;
    wire.request_header_bytes = 10;
    wire.ack_header_bytes = 5;
    wire.cable_ns = 100;
    wire.buffer_bytes = 1e9;
    program.depth = 64;
    program.regions = {{"ring", MemoryKind::kGpu, 64 * 64},
                       {"cq", MemoryKind::kGpu, 64 * 64},
                       {"uar", MemoryKind::kNic, 4096}};
    Word entry;
    entry.region = 0;
    entry.entry_bytes = 64;
    entry.entries = 64;
    Word cqe;
    cqe.region = 1;
    cqe.offset_bytes = 63;
    cqe.entry_bytes = 64;
    cqe.entries = 64;
    Word bell;
    bell.region = 2;
    program.words = {entry, cqe, bell};
    program.nic.present = true;
    program.nic.entry = 0;
    program.nic.completion = 1;
    program.nic.doorbell = 2;
  }

  void build(std::uint32_t ports = 2, std::uint64_t seed = 1) {
    layout = QueueLayout(program, queues);
    fabric = std::make_unique<wire::Fabric>("fabric", wire, ports, false);
    fabric->reset(seed);
    books.resize(ports);
    for (std::uint32_t i = 0; i < ports; ++i) {
      const std::string number = std::to_string(i);
      for (const char* const whose : {"gpu_link", "nic_link"})
        links.push_back(std::make_unique<pcie::Link>((whose + number).c_str(), pcie));
      switches.push_back(std::make_unique<pcie::Switch>(("switch" + number).c_str(), SwitchSpec{},
                                                        *links[2 * i], *links[2 * i + 1]));
      nics.push_back(std::make_unique<Nic>(("nic" + number).c_str(), nic, dma, pcie, *switches[i],
                                           pcie::DmaEngine::Detail::kTrains, *fabric, i));
      memories.push_back(std::make_unique<SlowMemory>(("memory" + number).c_str()));
      hosts.push_back(std::make_unique<FarEnd>(("host" + number).c_str(), 0));
      software.push_back(std::make_unique<marrow::Requester>(("software" + number).c_str()));
      nics[i]->memory().bind(switches[i]->from_nic);
      switches[i]->to_gpu.bind(memories[i]->in);
      switches[i]->to_root.bind(hosts[i]->in);
      software[i]->out.bind(switches[i]->from_gpu);
      switches[i]->to_nic.bind(nics[i]->registers);
      books[i].begin(queues, this);
      Connections to{&program, &layout, &books[i], i, {}, kMemoryBytes, 4096};
      for (std::uint32_t q = 0; q < queues; ++q) to.peers.push_back((i + 1) % ports);
      nics[i]->start(to);
    }
    elaborate();
  }
  /// Everything anew, in a kernel of its own.
  void build_again() {
    nics.clear(), switches.clear(), links.clear(), memories.clear(), hosts.clear();
    software.clear(), books.clear(), journeys.clear();
    renew();
    build();
  }

  static WorkRequest write(std::uint32_t bytes) {
    WorkRequest request;
    request.opcode = Opcode::kRdmaWrite;
    request.fm_ce_se = kCqUpdate;
    request.laddr = kSource;
    request.raddr = kTarget;
    request.bytes = bytes;
    return request;
  }
  static WorkRequest inline_write(std::span<const std::uint8_t> data) {
    WorkRequest request = write(0);
    request.is_inline = true;
    request.inline_data = data;
    return request;
  }
  static WorkRequest fetch_add() {
    WorkRequest request = write(8);
    request.opcode = Opcode::kAtomicFa;
    request.swap_add = 1;
    request.laddr = kSink;
    return request;
  }
  /// Software writes an entry, in no time.
  void post(std::uint32_t pe, std::uint32_t q, std::uint64_t index, WorkRequest request) {
    request.qpn = q;
    request.index = static_cast<std::uint16_t>(index);
    std::vector<std::uint8_t> bytes(1024, 0);
    const std::uint32_t units = encode(request, bytes);
    const std::uint64_t at = layout.address(program, program.nic.entry, q, index);
    std::copy_n(bytes.data(), units * kWqeUnitBytes, memories[pe]->bytes.data() + at);
    Flight& flight = books[pe].open(q, index, (units + 3) / 4);
    flight.issued_ps = 0;
    books[pe].lane_done(q, index);
  }
  void ring(std::uint32_t pe, std::uint32_t q, std::uint64_t next, Ps at_ps = 0) {
    const std::uint64_t value = encode_doorbell(static_cast<std::uint16_t>(next), q);
    software[pe]->issue(AccessKind::kStore, layout.address(program, program.nic.doorbell, q, 0),
                        at_ps, value);
  }
  Completion cqe(std::uint32_t pe, std::uint32_t q, std::uint64_t number) const {
    return decode_cqe(std::span<const std::uint8_t, kCqeBytes>(
        memories[pe]->bytes.data() + cqe_address(q, number), kCqeBytes));
  }
  std::uint64_t cqe_address(std::uint32_t q, std::uint64_t number) const {
    return layout.address(program, program.nic.completion, q, number) / kCqeBytes * kCqeBytes;
  }
  double count(std::uint32_t pe, const std::string& part, const char* counter) const {
    const std::string block = "nic" + std::to_string(pe) + (part.empty() ? "" : "." + part);
    return counted(*nics[pe], block, counter);
  }
  void on_journey(const Journey& journey) override { journeys.push_back(journey); }

  QueueLayout layout;
  std::unique_ptr<wire::Fabric> fabric;
  std::vector<JourneyBook> books;
  std::vector<std::unique_ptr<pcie::Link>> links;  ///< the GPU's and the NIC's, side by side
  std::vector<std::unique_ptr<pcie::Switch>> switches;
  std::vector<std::unique_ptr<Nic>> nics;
  std::vector<std::unique_ptr<SlowMemory>> memories;
  std::vector<std::unique_ptr<FarEnd>> hosts;  ///< nothing goes there
  std::vector<std::unique_ptr<marrow::Requester>> software;
  std::vector<Journey> journeys;
};

TEST_F(Nics, WhenDoesAPutPassEachStage) {
  build();
  memories[0]->set(kSource, 0x1122334455667788);
  post(0, 0, 0, write(100));
  ring(0, 0, 1, 1000 * kNs);
  run();
  ASSERT_EQ(journeys.size(), 1u);
  const Journey& j = journeys[0];
  EXPECT_EQ(j.at(Stage::kMmio), 1000 * kNs);
  EXPECT_EQ(j.at(Stage::kNicSchedule), 10 * kNs);
  EXPECT_EQ(j.at(Stage::kWqeFetch), (200 + 20) * kNs);
  EXPECT_EQ(j.at(Stage::kTranslate), 30 * kNs);
  EXPECT_EQ(j.at(Stage::kPayloadFetch), (200 + 40) * kNs);
  EXPECT_EQ(j.at(Stage::kTransmit), (100 + 30) * kNs);
  EXPECT_EQ(j.at(Stage::kWire), 100 * kNs);
  EXPECT_EQ(j.at(Stage::kReceive), 50 * kNs);
  // At the far port 1730; its write leaves at 1780 and takes effect at 1880. Its ACK leaves 60
  // after the write, takes 25 and 100 on the wire, 70 in the NIC: 2035.
  EXPECT_EQ(memories[1]->writes(kTarget), (std::vector<Ps>{1880 * kNs}));
  EXPECT_EQ(memories[1]->word(kTarget), 0x1122334455667788u);
  EXPECT_EQ(j.at(Stage::kPayloadWrite), 100 * kNs);
  EXPECT_EQ(j.at(Stage::kAck), (2035 - 1880) * kNs);
  // 80 until the CQE leaves, 100 until it is there.
  EXPECT_EQ(j.at(Stage::kCqeWrite), 180 * kNs);
  EXPECT_EQ(memories[0]->writes(cqe_address(0, 0)), (std::vector<Ps>{2215 * kNs}));
  EXPECT_FALSE(cqe(0, 0, 0).is_error());
  EXPECT_EQ(cqe(0, 0, 0).byte_count, 100u);
}

TEST_F(Nics, WhatDoesAMissCost) {
  // Cold: two misses at the sender (context, source page), two at the receiver. Warm: none.
  nic.miss_ns = 1000;
  build();
  post(0, 0, 0, write(100));
  post(0, 0, 1, write(100));
  ring(0, 0, 1, 0);
  run_to(20'000 * kNs);
  ring(0, 0, 2, 20'000 * kNs);
  run();
  const auto at = memories[0]->writes(cqe_address(0, 0));
  const auto then = memories[0]->writes(cqe_address(0, 1));
  ASSERT_EQ(at.size(), 1u);
  ASSERT_EQ(then.size(), 1u);
  EXPECT_EQ(at[0], (1215 + 4000) * kNs);
  EXPECT_EQ(then[0], (20'000 + 1215) * kNs);
  EXPECT_EQ(count(0, "", "context misses"), 1);
  EXPECT_EQ(count(0, "", "context hits"), 1);
}

TEST_F(Nics, DoMoreQueuesThanContextsMiss) {
  queues = 3;
  nic.contexts = 2;
  build();
  for (std::uint64_t i = 0; i < 4; ++i)
    for (std::uint32_t q = 0; q < 3; ++q) {
      post(0, q, i, write(8));
      ring(0, q, i + 1, now_ps());
      run();
    }
  // Least recently used goes first: with three in turn on two places none is ever there.
  EXPECT_EQ(count(0, "", "context misses"), 12);
  EXPECT_EQ(count(0, "", "context hits"), 0);
}

TEST_F(Nics, WhatBecomesOfAnEntryThatIsNotTheOneAnnounced) {
  struct Case {
    const char* name;
    std::function<void(Nics&, std::uint8_t* entry)> spoil;
    Syndrome syndrome;
  };
  const Case cases[] = {
      {"wrong queue pair", [](Nics&, std::uint8_t* e) { e[6] ^= 1; }, Syndrome::kLocalQpOperation},
      {"wrong index", [](Nics&, std::uint8_t* e) { e[2] ^= 1; }, Syndrome::kLocalQpOperation},
      {"nothing but zeros", [](Nics&, std::uint8_t* e) { std::fill_n(e, 64, 0); },
       Syndrome::kLocalQpOperation},
      {"unknown opcode", [](Nics&, std::uint8_t* e) { e[3] = 0x7f; }, Syndrome::kLocalQpOperation},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    build_again();
    for (std::uint64_t i = 0; i < 4; ++i) post(0, 0, i, write(8));
    c.spoil(*this, memories[0]->bytes.data() + layout.address(program, 0, 0, 1));
    ring(0, 0, 3);
    run();
    ring(0, 0, 4, now_ps());  // into a queue that has stopped
    run();
    EXPECT_EQ(journeys.size(), 1u);
    EXPECT_FALSE(cqe(0, 0, 0).is_error());
    EXPECT_EQ(cqe(0, 0, 1).opcode, CqeOpcode::kRequesterError);
    EXPECT_EQ(cqe(0, 0, 1).syndrome, c.syndrome);
    EXPECT_EQ(cqe(0, 0, 1).wqe_counter, 1);
    for (std::uint64_t i = 2; i < 4; ++i) {
      EXPECT_EQ(cqe(0, 0, i).opcode, CqeOpcode::kRequesterError);
      EXPECT_EQ(cqe(0, 0, i).syndrome, Syndrome::kFlushed);
      EXPECT_EQ(cqe(0, 0, i).wqe_counter, i);
    }
    EXPECT_NE(nics[0]->complaint().find("queue 0, entry 1"), std::string::npos);
    EXPECT_EQ(memories[1]->writes(kTarget).size(), 1u);
  }
}

TEST_F(Nics, WhatBecomesOfAddressesOutsideMemory) {
  build();
  WorkRequest far = write(8);
  far.raddr = kMemoryBytes;
  post(0, 0, 0, write(8));
  post(0, 0, 1, far);
  post(0, 0, 2, write(8));
  ring(0, 0, 3);
  WorkRequest near = write(8);
  near.laddr = kMemoryBytes;
  post(1, 0, 0, near);
  ring(1, 0, 1);
  run();
  EXPECT_FALSE(cqe(0, 0, 0).is_error());
  EXPECT_EQ(cqe(0, 0, 1).syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(cqe(0, 0, 2).syndrome, Syndrome::kFlushed);
  EXPECT_EQ(memories[1]->writes(kTarget).size(), 1u);  // the third is not carried out
  EXPECT_EQ(cqe(1, 0, 0).syndrome, Syndrome::kLocalProtection);
}

TEST_F(Nics, IsARepeatedDoorbellHarmlessAndOneBeyondTheRingRefused) {
  build();
  post(0, 0, 0, write(8));
  ring(0, 0, 1);
  ring(0, 0, 1, 5 * kNs);
  run();
  ring(0, 0, 1, now_ps());
  run();
  EXPECT_EQ(journeys.size(), 1u);
  EXPECT_TRUE(nics[0]->complaint().empty());
  ring(0, 0, 1 + 65, now_ps());
  run();
  EXPECT_NE(nics[0]->complaint().find("more entries than the queue has"), std::string::npos);
  EXPECT_EQ(cqe(0, 0, 1).syndrome, Syndrome::kLocalQpOperation);
}

TEST_F(Nics, DoIndexAndRingWrap) {
  build();
  std::uint64_t posted = 0;
  while (posted < 70'000) {
    for (int i = 0; i < 60; ++i) post(0, 0, posted++, write(8));
    ring(0, 0, posted, now_ps());
    run();
  }
  EXPECT_TRUE(nics[0]->complaint().empty()) << nics[0]->complaint();
  EXPECT_EQ(journeys.size(), posted);
  EXPECT_EQ(memories[1]->writes(kTarget).size(), posted);
}

TEST_F(Nics, HasEachQueueItsTurn) {
  // One fetch of one entry at a time, eight queues: after every eight fetches no queue may be more
  // than one ahead of another.
  queues = 8;
  nic.fetches = 1;
  nic.fetch_entries = 1;
  build();
  for (std::uint32_t q = 0; q < queues; ++q) {
    for (std::uint64_t i = 0; i < 40; ++i) post(0, q, i, write(8));
    ring(0, q, 40);
  }
  run();
  std::vector<int> done(queues, 0);
  std::size_t entries = 0;
  for (const auto& s : memories[0]->seen) {
    if (s.write || s.address >= layout.region_end(0)) continue;
    ++done[s.address / (64 * 64)];
    if (++entries % queues == 0) {
      EXPECT_LE(
          *std::max_element(done.begin(), done.end()) - *std::min_element(done.begin(), done.end()),
          1);
    }
  }
  EXPECT_EQ(entries, 320u);
}

TEST_F(Nics, DoTheMessageIntervalsHold) {
  const auto last_placed = [&](double all_ns, double queue_ns) {
    queues = 4;
    nic.fetches = 64;
    nic.message_interval_ns = all_ns;
    nic.queue_interval_ns = queue_ns;
    wire.gbps = 8000;
    build_again();
    for (std::uint32_t q = 0; q < queues; ++q) {
      for (std::uint64_t i = 0; i < 4; ++i) post(0, q, i, write(8));
      ring(0, q, 4);
    }
    run();
    const auto at = memories[1]->writes(kTarget);
    EXPECT_EQ(at.size(), 16u);
    return at.back() - at.front();
  };
  EXPECT_EQ(last_placed(1000, 0), 15 * 1000 * kNs);  // sixteen messages, one ceiling
  // Four of each queue, side by side: 38 B each, one behind the other, at 1,000 B a ns.
  EXPECT_EQ(last_placed(0, 1000), 3 * 1000 * kNs + 3 * 38);
}

TEST_F(Nics, DoSentAndReceivedMessagesShareTheEngine) {
  const auto last_placed = [&](bool both) {
    queues = 4;
    nic.fetches = 64;
    nic.message_interval_ns = 1000;
    nic.receive_interval_ns = 500;
    wire.gbps = 8000;
    build_again();
    for (std::uint32_t pe = 0; pe < (both ? 2u : 1u); ++pe)
      for (std::uint32_t q = 0; q < queues; ++q) {
        for (std::uint64_t i = 0; i < 4; ++i) post(pe, q, i, write(8));
        ring(pe, q, 4);
      }
    run();
    const auto at = memories[1]->writes(kTarget);
    EXPECT_EQ(at.size(), 16u);
    return at.back() - at.front();
  };
  // One way, sixteen messages a microsecond apart: receiving takes half of that.
  EXPECT_EQ(last_placed(false), 15 * 1000 * kNs);
  // Both ways each NIC sends sixteen and receives sixteen. Sends and receives alternate: when the
  // last is sent, all but those of the way (some 500 ns: one) have been received too.
  EXPECT_GE(last_placed(true), (15 * 1000 + 14 * 500) * kNs);
  EXPECT_LE(last_placed(true), (16 * 1000 + 16 * 500) * kNs);
}

TEST_F(Nics, DoMissedContextsHoldUpTheReceiverAlone) {
  const auto last_placed = [&](double fetches) {
    queues = 8;
    nic.fetches = 64;
    nic.contexts = 1;
    nic.context_fetches = fetches;
    nic.miss_ns = 1000;
    wire.gbps = 8000;
    build_again();
    for (std::uint32_t q = 0; q < queues; ++q) {
      post(0, q, 0, write(8));
      ring(0, q, 1);
    }
    run();
    const auto at = memories[1]->writes(kTarget);
    EXPECT_EQ(at.size(), 8u);
    return at.back();
  };
  // Eight connections, none known: the sender fetches all eight contexts at once, the receiver one,
  // two or four at a time: the last is known after eight, four or two fetches.
  EXPECT_NEAR(static_cast<double>(last_placed(1) - last_placed(2)), 4000 * kNs, kNs);
  EXPECT_NEAR(static_cast<double>(last_placed(2) - last_placed(4)), 2000 * kNs, kNs);
}

TEST_F(Nics, DoAtomicsFollowEachOtherBehindTheWritesBefore) {
  build();
  memories[0]->set(kSource, 40);
  post(0, 0, 0, write(8));
  post(0, 0, 1, fetch_add());
  WorkRequest second = fetch_add();
  second.laddr = kSink + 8;
  post(0, 0, 2, second);
  ring(0, 0, 3);
  run();
  EXPECT_EQ(memories[1]->word(kTarget), 42u);
  EXPECT_EQ(memories[0]->word(kSink), 40u);
  EXPECT_EQ(memories[0]->word(kSink + 8), 41u);
  // A read of 200 ns each, one at a time: the second's write is at least as much later.
  const auto at = memories[1]->writes(kTarget);
  ASSERT_EQ(at.size(), 3u);
  EXPECT_GT(at[1], at[0]);
  EXPECT_GE(at[2] - at[1], 200 * kNs);
}

TEST_F(Nics, IsAReadCompleteOnlyOnceItsDataAreThere) {
  build();
  memories[1]->set(kTarget, 77);
  WorkRequest read = write(4096);
  read.opcode = Opcode::kRdmaRead;
  read.laddr = kSink;
  post(0, 0, 0, read);
  ring(0, 0, 1);
  run();
  EXPECT_EQ(memories[0]->word(kSink), 77u);
  const auto data = memories[0]->writes(kSink);
  const auto told = memories[0]->writes(cqe_address(0, 0));
  ASSERT_EQ(data.size(), 1u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_LT(data[0], told[0]);
}

TEST_F(Nics, DoesEveryMessageArriveOnceAndInOrderThoughPacketsAreLost) {
  wire.loss_ratio = 0.05;
  nic.retries = 7;
  build(2, 7);
  std::uint64_t posted = 0, atomics = 0;
  std::uint8_t data[8] = {};
  while (posted < 2'000) {
    for (int i = 0; i < 40; ++i) {
      if (posted % 10 == 9) {
        WorkRequest add = fetch_add();
        add.raddr = kTarget + 64;
        add.laddr = kSink + 8 * atomics++;
        post(0, 0, posted++, add);
      } else if (posted % 10 == 4) {
        WorkRequest read = write(8);
        read.opcode = Opcode::kRdmaRead;
        read.raddr = kTarget + 64;
        read.laddr = kSink + (512 << 10);
        post(0, 0, posted++, read);
      } else {
        data[0] = static_cast<std::uint8_t>(posted);
        post(0, 0, posted++, inline_write(data));
      }
    }
    ring(0, 0, posted, now_ps());
    run();
  }
  ASSERT_TRUE(nics[0]->complaint().empty()) << nics[0]->complaint();
  EXPECT_EQ(journeys.size(), posted);
  EXPECT_EQ(memories[1]->writes(kTarget).size(), posted - 2 * atomics);
  EXPECT_EQ(memories[1]->word(kTarget + 64), atomics);  // none twice
  for (std::uint64_t i = 0; i < atomics; ++i) EXPECT_EQ(memories[0]->word(kSink + 8 * i), i);
  EXPECT_GT(count(0, "requester", "sent again"), 50);
}

TEST_F(Nics, DoesAQueueGiveUpAfterAllRetries) {
  wire.loss_ratio = 0.5;
  nic.retries = 1;
  build(2, 3);
  for (std::uint64_t i = 0; i < 60; ++i) post(0, 0, i, write(8));
  ring(0, 0, 60);
  run();
  ASSERT_FALSE(nics[0]->complaint().empty());
  EXPECT_NE(nics[0]->complaint().find("after all retries"), std::string::npos);
  std::uint64_t i = 0;
  while (!cqe(0, 0, i).is_error()) ++i;
  EXPECT_EQ(cqe(0, 0, i).syndrome, Syndrome::kTransportRetryExceeded);
  for (++i; i < 60; ++i) EXPECT_EQ(cqe(0, 0, i).syndrome, Syndrome::kFlushed);
}

TEST_F(Nics, DoTwoSendersShareTheReceiversPort) {
  // 10 messages of 1,000 B (and 30 of headers) from each at 1 B a ns: the last is there no sooner
  // than 20 * 1,030 ns after the first began to arrive.
  queues = 1;
  program.nic.dc = true;
  build(3);
  for (std::uint32_t pe : {0u, 1u}) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      WorkRequest put = write(1000);
      put.av.form = AddressVector::Form::kHalf;
      put.av.destination = 2;
      post(pe, 0, i, put);
    }
    ring(pe, 0, 10);
  }
  run();
  const auto at = memories[2]->writes(kTarget);
  ASSERT_EQ(at.size(), 20u);
  EXPECT_EQ(at.back() - at.front(), 19 * 1030 * kNs);
}

TEST_F(Nics, DoesAnotherDestinationCostADcInitiatorAConnect) {
  program.nic.dc = true;
  build(3);
  const std::uint32_t to[] = {1, 1, 2};
  for (std::uint64_t i = 0; i < 3; ++i) {
    WorkRequest put = write(8);
    put.av.form = AddressVector::Form::kHalf;
    put.av.destination = to[i];
    post(0, 0, i, put);
  }
  ring(0, 0, 3);
  run();
  const auto one = memories[1]->writes(kTarget), two = memories[2]->writes(kTarget);
  ASSERT_EQ(one.size(), 2u);
  ASSERT_EQ(two.size(), 1u);
  EXPECT_LT(one[1] - one[0], 500 * kNs);
  WorkRequest nowhere = write(8);
  nowhere.av.form = AddressVector::Form::kHalf;
  nowhere.av.destination = 3;
  post(0, 0, 3, nowhere);
  ring(0, 0, 4, now_ps());
  run();
  EXPECT_EQ(cqe(0, 0, 3).syndrome, Syndrome::kLocalQpOperation);
  EXPECT_NE(nics[0]->complaint().find("no destination"), std::string::npos);
}

TEST_F(Nics, ReachesALongPutTheLineRateLessHeaders) {
  // 1 MiB in 1,024 packets: 1,024 * 20 B of headers and 10 more. The memory is not the bottleneck.
  build();
  for (std::uint64_t i = 0; i < 8; ++i) post(0, 0, i, write(1 << 20));
  ring(0, 0, 8);
  run();
  const auto at = memories[1]->writes(kTarget);
  ASSERT_EQ(at.size(), 8u);
  EXPECT_EQ((at.back() - at.front()) / 7, ((1 << 20) + 1024 * 20 + 10) * kNs);
}

// --------------------------------------------------------------- marrow-capture's put, NIC
// modelled

/// A lane of the capture program whose memory and NIC are the model's; time passes only while it
/// polls.
class ModelLane {
 public:
  /// ring: what a store to the register does; pass: lets the model go on until nothing is left.
  ModelLane(std::uint8_t* memory, const capture::NicQueue& queue,
            std::function<void(std::uint64_t)> ring, std::function<void()> pass)
      : memory_(memory),
        register_at_(queue.doorbell),
        cqe_at_(queue.cqe_tail),
        ring_(std::move(ring)),
        pass_(std::move(pass)) {}

  std::uint64_t stamp() const { return static_cast<std::uint64_t>(now_ps()); }
  std::uint64_t spins() const { return 3; }
  std::uint32_t load32(std::uint64_t at) const {
    if (at == cqe_at_) pass_();
    return get<std::uint32_t>(at);
  }
  std::uint64_t load64(std::uint64_t at) const { return get<std::uint64_t>(at); }
  void store32(std::uint64_t at, std::uint32_t value) { set(at, value); }
  void store64(std::uint64_t at, std::uint64_t value) {
    if (at == register_at_) return ring_(value);
    set(at, value);
  }
  void store_unit(std::uint64_t at, const Unit& unit) { set(at, unit); }
  std::uint64_t add64(std::uint64_t at, std::uint64_t value) {
    const std::uint64_t old = load64(at);
    set(at, old + value);
    return old;
  }
  std::uint64_t max64(std::uint64_t at, std::uint64_t value) {
    const std::uint64_t old = load64(at);
    set(at, std::max(old, value));
    return old;
  }
  template <class T>
  T cas(std::uint64_t at, T expected, T value) {
    const T old = get<T>(at);
    if (old == expected) set(at, value);
    return old;
  }
  std::uint64_t cas64(std::uint64_t at, std::uint64_t expected, std::uint64_t value) {
    return cas(at, expected, value);
  }
  std::uint32_t cas32(std::uint64_t at, std::uint32_t expected, std::uint32_t value) {
    return cas(at, expected, value);
  }
  void fence_cta() const {}
  void fence_gpu() const {}

 private:
  template <class T>
  T get(std::uint64_t at) const {
    T value;
    std::memcpy(&value, memory_ + at, sizeof value);
    return value;
  }
  template <class T>
  void set(std::uint64_t at, const T& value) {
    std::memcpy(memory_ + at, &value, sizeof value);
  }

  std::uint8_t* memory_;
  std::uint64_t register_at_, cqe_at_;
  std::function<void(std::uint64_t)> ring_;
  std::function<void()> pass_;
};

class CapturePut : public Nics, public testing::WithParamInterface<bool> {
 protected:
  static constexpr std::uint64_t kCounters = kSink + (1 << 19);

  CapturePut() {
    program.depth = capture::kDepth;
    program.regions[0].stride_bytes = std::uint64_t{capture::kDepth} * kWqebbBytes;
    program.words[0].entries = capture::kDepth;
    program.words[1].entry_bytes = 0;
    program.nic.kind = NicProgram::Completion::kCollapsed;
  }
  capture::NicQueue queue_of(std::uint32_t bytes) {
    const std::uint64_t cqe = cqe_address(0, 0);
    std::fill_n(memories[0]->bytes.data() + cqe, kCqeBytes, kCqeInitialByte);
    return {kCounters,
            kCounters + 128,
            kCounters + 256,
            kCounters + 512,
            layout.address(program, program.nic.entry, 0, 0),
            kCounters + 640 + kDoorbellRecordSendOffset,
            layout.address(program, program.nic.doorbell, 0, 0),
            cqe + kCqeWqeCounterOffset,
            0,
            0x1234,
            0x5678,
            bytes,
            kSource,
            kTarget};
  }
  ModelLane lane_of(const capture::NicQueue& queue, std::function<void(std::uint64_t)> ring) {
    return {memories[0]->bytes.data(), queue, std::move(ring), [] { run(); }};
  }
  ModelLane lane_of(const capture::NicQueue& queue) {
    return lane_of(queue, [this](std::uint64_t value) {
      rung.push_back(value);
      software[0]->issue(AccessKind::kStore, layout.address(program, program.nic.doorbell, 0, 0),
                         now_ps(), value);
    });
  }
  capture::NicPut put(ModelLane& lane, const capture::NicQueue& queue, std::uint64_t index,
                      bool may_ring, bool waits) {
    Flight& flight = books[0].open(0, index, 1);
    flight.issued_ps = now_ps();
    books[0].lane_done(0, index);
    capture::NicPut result;
    capture::nic_put(lane, queue, GetParam(), may_ring, waits, result);
    return result;
  }
  std::vector<std::uint64_t> rung;
};

TEST_P(CapturePut, AreItsBytesThoseThatTheNicReads) {
  build();
  const capture::NicQueue queue = queue_of(100);
  ModelLane lane = lane_of(queue);
  for (std::uint64_t i = 0; i < capture::kDepth + 3; ++i) {
    memories[0]->set(kSource, 0xabcd'0000 + i);
    const capture::NicPut result = put(lane, queue, i, true, true);
    ASSERT_FALSE(result.stuck || result.failed) << i << ' ' << nics[0]->complaint();
    ASSERT_TRUE(result.rang);
    ASSERT_EQ(result.index, i);
    // The codec's own encoding of the same request.
    WorkRequest request = write(100);
    request.index = static_cast<std::uint16_t>(i);
    request.lkey = queue.lkey;
    request.rkey = queue.rkey;
    std::vector<std::uint8_t> expected(64, 0);
    ASSERT_EQ(encode(request, expected), 3u);
    const auto* entry = memories[0]->bytes.data() + queue.ring + i % capture::kDepth * kWqebbBytes;
    ASSERT_EQ(std::vector<std::uint8_t>(entry, entry + 48),
              std::vector<std::uint8_t>(expected.begin(), expected.begin() + 48));
    std::uint32_t record = 0;
    std::memcpy(&record, memories[0]->bytes.data() + queue.dbrec, 4);
    ASSERT_EQ(decode_doorbell_record(record), static_cast<std::uint16_t>(i + 1));
    ASSERT_EQ(rung.back(), encode_doorbell(static_cast<std::uint16_t>(i + 1), 0));
    ASSERT_EQ(memories[1]->word(kTarget), 0xabcd'0000 + i);
    ASSERT_EQ(cqe(0, 0, 0).wqe_counter, static_cast<std::uint16_t>(i));
  }
  // IBGDA rings once, GDAKI twice.
  EXPECT_EQ(rung.size(), (GetParam() ? 1 : 2) * (capture::kDepth + 3));
  EXPECT_EQ(memories[1]->writes(kTarget).size(), capture::kDepth + 3);
}

TEST_P(CapturePut, OneDoorbellAnnouncesABatch) {
  if (GetParam()) return;  // IBGDA rings with each newest
  build();
  const capture::NicQueue queue = queue_of(8);
  ModelLane lane = lane_of(queue);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_FALSE(put(lane, queue, i, false, false).rang);
  run();
  EXPECT_TRUE(memories[1]->writes(kTarget).empty());
  EXPECT_FALSE(put(lane, queue, 3, true, true).failed);
  EXPECT_EQ(memories[1]->writes(kTarget).size(), 4u);
}

TEST_P(CapturePut, AnErrorIsToldAndEndsTheWait) {
  build();
  capture::NicQueue queue = queue_of(100);
  queue.qpn = 5;  // entries of another queue pair
  ModelLane lane = lane_of(queue, [this](std::uint64_t) { ring(0, 0, 1, now_ps()); });
  const capture::NicPut result = put(lane, queue, 0, true, true);
  EXPECT_TRUE(result.failed);
  EXPECT_FALSE(result.stuck);
}

TEST_P(CapturePut, AnAnswerThatDoesNotComeEndsTheWaitToo) {
  build();
  const capture::NicQueue queue = queue_of(100);
  ModelLane lane = lane_of(queue, [](std::uint64_t) {});
  const capture::NicPut result = put(lane, queue, 0, true, true);
  EXPECT_TRUE(result.stuck);
  EXPECT_EQ(result.polls, 3u);
}
INSTANTIATE_TEST_SUITE_P(Protocols, CapturePut, testing::Bool(),
                         [](const auto& test) { return test.param ? "ibgda" : "gdaki"; });

}  // namespace
}  // namespace marrow::nic
