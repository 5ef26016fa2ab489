// Does the capture's host side - consumer, clocks, configurations, file - do what it says, with a
// thread of this processor in the GPU's place?
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "tools/capture/host/capture_file.h"
#include "tools/capture/host/clock_alignment.h"
#include "tools/capture/host/host_consumer.h"
#include "tools/capture/host/options.h"
#include "tools/stamp/marrow_stamp.cuh"
#include "traces/commands.h"
#include "traces/importers/importers.h"
#include "traces/trace.h"

namespace marrow::capture {
namespace {

// ------------------------------------------------------------------------------------- consumer

struct Queues {
  std::vector<HostQueue> queues;
  std::vector<Entry> rings;
  explicit Queues(std::uint32_t count) : queues(count), rings(std::size_t{count} * kDepth) {}
  HostConsumer::Work work(std::uint64_t per_queue, bool by_tag, std::uint64_t bytes = 0) {
    return {queues.data(), rings.data(), static_cast<std::uint32_t>(queues.size()),
            per_queue,     bytes,        by_tag,
            10e9};
  }
  std::uint64_t done(std::uint32_t q) {
    return std::atomic_ref(queues[q].done).load(std::memory_order_acquire);
  }
};

/// As a GPU's lanes do it, in turn over the queues; waits so that no ring overflows.
void produce(Queues& memory, std::uint64_t per_queue, bool by_tag, std::uint64_t batch) {
  for (std::uint64_t i = 0; i < per_queue; ++i)
    for (std::uint32_t q = 0; q < memory.queues.size(); ++q) {
      while (memory.done(q) + kDepth <= i) std::this_thread::yield();
      Entry& entry = memory.rings[std::size_t{q} * kDepth + i % kDepth];
      entry.words[0] = i;
      std::atomic_ref(entry.words[7]).store(i + 1, std::memory_order_release);
      if (!by_tag && ((i + 1) % batch == 0 || i + 1 == per_queue))
        std::atomic_ref(memory.queues[q].doorbell).store(i + 1, std::memory_order_release);
    }
}

struct Way {
  bool by_tag;
  std::uint64_t batch, bytes;
};
class Consumes : public testing::TestWithParam<Way> {};

TEST_P(Consumes, DoesEveryEntryComeOnceAndInOrderAlsoOnceTheRingHasWrapped) {
  const std::uint64_t per_queue = kDepth + 77;
  Queues memory(3);
  HostConsumer consumer(memory.work(per_queue, GetParam().by_tag, GetParam().bytes));
  std::atomic<bool> stop{false};
  std::thread thread([&] { consumer.run(stop); });
  produce(memory, per_queue, GetParam().by_tag, GetParam().batch);
  thread.join();
  EXPECT_EQ(consumer.consumed(), 3 * per_queue);
  for (std::uint32_t q = 0; q < 3; ++q) {
    EXPECT_EQ(memory.done(q), per_queue);
    std::uint64_t last = 0;
    for (const HostConsumer::Times& t : consumer.times(q)) {
      EXPECT_LE(last, t.done);
      EXPECT_LE(t.seen, t.read);
      EXPECT_LE(t.read, t.done);
      last = t.done;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ways, Consumes,
                         testing::Values(Way{false, 1, 0}, Way{false, 16, 0}, Way{true, 1, 0},
                                         Way{false, 4, 4096}));

TEST(HostConsumer, EndsWhenItIsToldTo) {
  Queues memory(1);
  HostConsumer consumer(memory.work(10, false));
  std::atomic<bool> stop{true};
  consumer.run(stop);
  EXPECT_EQ(consumer.consumed(), 0u);
}

TEST(HostConsumer, EndsWhenNothingComesWithinItsLimit) {
  Queues memory(1);
  HostConsumer::Work work = memory.work(10, true);
  work.limit_ns = 1e6;
  HostConsumer consumer(work);
  std::atomic<bool> stop{false};
  consumer.run(stop);
  EXPECT_EQ(consumer.consumed(), 0u);
}

// --------------------------------------------------------------------------------------- clocks

/// The GPU's clock is 500 ns ahead; the ways take so long.
PingPong sample(double at, double there, double back, double offset = 500) {
  return {at + offset, at + there, at + there + 10, at + there + 10 + back + offset};
}

TEST(ClockAlignment, TheOffsetLiesWithinTheWays) {
  // seen - send <= there, so offset >= 500 - 700; gpu_seen - reply: offset <= 500 + 900.
  const std::vector<PingPong> one = {sample(1000, 700, 900)};
  const ClockOffset wide = align(one);
  EXPECT_NEAR(wide.offset_ns, 600, 1e-6);
  EXPECT_NEAR(wide.bound_ns, 800, 1e-6);
  // One sample with a fast way there, one with a fast way back: both bounds narrow.
  const std::vector<PingPong> more = {sample(1000, 700, 900), sample(2000, 300, 900),
                                      sample(3000, 900, 300)};
  const ClockOffset narrow = align(more);
  EXPECT_NEAR(narrow.offset_ns, 500, 1e-6);
  EXPECT_NEAR(narrow.bound_ns, 300, 1e-6);
}

TEST(ClockAlignment, ASampleThatContradictsTheOthersIsLeftOut) {
  const std::vector<PingPong> samples = {sample(1000, 300, 300), sample(2000, 310, 310),
                                         sample(3000, 400, 400, 5000)};
  EXPECT_NEAR(align(samples).offset_ns, 500, 1e-6);
}

TEST(ClockAlignment, DriftBetweenTwoAlignmentsIsEven) {
  // The GPU's clock gains 100 ns in 1 ms; the second one counts from a later moment.
  ClockOffset begin{0, 500, 3, 1'000'000}, end{1e6, 600 - 2e5, 5, 1'200'000};
  const ClockMap map(begin, end);
  EXPECT_NEAR(map.gpu_ns_after(0, 1'000'000), 500, 1e-6);
  EXPECT_NEAR(map.gpu_ns_after(500'000, 1'000'000), 500'550, 1e-6);
  EXPECT_NEAR(map.gpu_ns_after(1'000'000, 1'000'000), 1'000'600, 1e-6);
  EXPECT_EQ(map.bound_ns(), 5);
}

TEST(ClockAlignment, NothingIsNoAlignment) { EXPECT_THROW((void)align({}), std::invalid_argument); }

// ------------------------------------------------------------------------ options, configurations

Options parsed(std::vector<const char*> arguments) { return parse_options(arguments); }
std::string refusal(std::vector<const char*> arguments) {
  try {
    (void)parse_options(arguments);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CaptureOptions, TheDefaultSetHasTheConfigurationsOfTheOlderCaptures) {
  // traces/README.md: 60 against a device warp, 43 against a CPU thread. A peer's:
  // per protocol 2 + 5 warp counts by 2 queue counts + 4 sizes = 16, and two batches of gdaki: 34.
  std::size_t device = 0, host = 0, peer = 0;
  for (const Configuration& c : default_set()) {
    EXPECT_NO_THROW(check(c)) << description(c);
    device += c.consumer == Consumer::kDevice;
    host += c.consumer == Consumer::kHost;
    peer += c.consumer == Consumer::kPeer;
  }
  EXPECT_EQ(device, 60u);
  EXPECT_EQ(host, 43u);
  EXPECT_EQ(peer, 34u);
}

TEST(CaptureOptions, OneConfigurationIsDescribedByItsOptions) {
  const Options options =
      parsed({"--out", "f", "--protocol=capture-gdaki", "--warps", "8", "--queues", "2", "--batch",
              "4", "--wait", "16", "--fence", "sys"});
  ASSERT_TRUE(options.one);
  EXPECT_EQ(options.one->protocol, Protocol::kGdaki);
  EXPECT_EQ(options.one->consumer, Consumer::kDevice);
  EXPECT_EQ(options.one->warps, 8u);
  EXPECT_EQ(options.one->queues, 2u);
  EXPECT_EQ(options.one->batch, 4u);
  EXPECT_EQ(options.one->wait_every, 16u);
  EXPECT_EQ(options.one->fence_wqe, Fence::kSys);
  const Options host = parsed({"-o", "f", "--protocol", "capture-host-gdaki"});
  EXPECT_EQ(host.one->consumer, Consumer::kHost);
  EXPECT_EQ(host.one->fence_db, Fence::kSys);
}

TEST(CaptureOptions, WhatCannotBeIsRefusedWithAMend) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"--warps", "2", "--out", "f"}, "--warps"},
      {{}, "--out"},
      {{"--out", "f", "--only", "1000"}, "--list numbers them"},
      {{"--out", "f", "--protocol", "ibgda"}, "capture-ibgda"},
      {{"--out", "f", "--protocol", "capture-ibgda", "--warps", "3", "--queues", "2"}, "divisor"},
      {{"--out", "f", "--protocol", "capture-ibgda", "--consumer", "host"}, "--consumer device"},
      {{"--out", "f", "--protocol", "capture-gdaki", "--batch", "4", "--wait", "2"}, "multiple"},
      {{"--out", "f", "--protocol", "capture-gdaki", "--puts", "x"}, "number"},
      {{"--out", "f", "--protocol", "capture-gdaki", "--bytes", "64"}, "--consumer host"},
      {{"--out", "f", "--protocol", "capture-gdaki", "--only", "3"}, "one of the two"},
      {{"--out", "f", "--repeats", "0"}, "1 to 100"},
      {{"--frob"}, "--help"},
  };
  for (const auto& [arguments, part] : cases)
    EXPECT_NE(refusal(arguments).find(part), std::string::npos) << refusal(arguments);
}

/// The recipe that the capture of a configuration names, with its choices.
config::Recipe recipe_of(const Configuration& c) {
  return config::load_recipe(config::recipe_path(recipe(c), MARROW_ROOT "/configs"), choices(c));
}

TEST(CaptureRecipes, EveryConfigurationIsOneThatItsRecipeKnows) {
  std::vector<Configuration> all = default_set();
  Configuration c;
  for (const Protocol protocol : {Protocol::kIbgda, Protocol::kGdaki}) {
    c = {};
    c.protocol = protocol;
    for (const std::uint32_t bytes : {4u, 8u, 16u}) {
      c.store_bytes = bytes;
      all.push_back(c);
    }
    c = {};
    c.protocol = protocol;
    c.fence_wqe = Fence::kSys;
    all.push_back(c);
    c = {};
    c.protocol = protocol;
    c.consumer = Consumer::kNic;
    all.push_back(c);
  }
  for (const Configuration& configuration : all) {
    EXPECT_NO_THROW(check(configuration)) << description(configuration);
    EXPECT_NO_THROW((void)recipe_of(configuration)) << description(configuration);
  }
}

TEST(CaptureRecipes, WordsLieWhereTheProgramsMemoryHasThem) {
  const auto expect = [](const Program& program, const char* word, std::size_t offset,
                         std::size_t stride) {
    for (const Word& w : program.words)
      if (w.name == word) {
        EXPECT_EQ(w.offset_bytes, offset) << word;
        EXPECT_EQ(program.regions[w.region].stride_bytes, stride) << word;
        return;
      }
    ADD_FAILURE() << "no word " << word;
  };
  for (const Protocol protocol : {Protocol::kIbgda, Protocol::kGdaki}) {
    Configuration c;
    c.protocol = protocol;
    const Program program = recipe_of(c).program;
    EXPECT_EQ(program.depth, kDepth);
    constexpr std::size_t kQueue = sizeof(DeviceQueue);
    expect(program, "resv", offsetof(DeviceQueue, resv), kQueue);
    expect(program, "ready", offsetof(DeviceQueue, ready), kQueue);
    expect(program, "prod", offsetof(DeviceQueue, prod), kQueue);
    expect(program, "lock", offsetof(DeviceQueue, lock), kQueue);
    expect(program, "dbrec", offsetof(DeviceQueue, dbrec), kQueue);
    expect(program, "cqe", offsetof(DeviceQueue, cqe) + 15 * 4, kQueue);
    expect(program, "keys", offsetof(DeviceQueue, keys), kQueue);
    expect(program, "entry", 0, kDepth * kEntryBytes);
    expect(program, "doorbell", 0, kDoorbellStrideWords * 8);
    if (protocol == Protocol::kIbgda) expect(program, "rr", offsetof(DeviceQueue, rr), kQueue);
  }
  Configuration c;
  c.protocol = Protocol::kHostGdaki;
  c.consumer = Consumer::kHost;
  c.fence_wqe = c.fence_db = Fence::kSys;
  const Program program = recipe_of(c).program;
  expect(program, "resv", offsetof(Counters, resv), sizeof(Counters));
  expect(program, "ready", offsetof(Counters, ready), sizeof(Counters));
  expect(program, "prod", offsetof(Counters, prod), sizeof(Counters));
  expect(program, "lock", offsetof(Counters, lock), sizeof(Counters));
  expect(program, "doorbell", offsetof(HostQueue, doorbell), sizeof(HostQueue));
  expect(program, "dbrec", offsetof(HostQueue, record), sizeof(HostQueue));
  expect(program, "done", offsetof(HostQueue, done), sizeof(HostQueue));
  expect(program, "entry", 0, kDepth * kEntryBytes);
}

// ----------------------------------------------------------------------------------------- file

namespace fs = std::filesystem;

class CaptureFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("capture_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return folder_ / name; }

  /// Two warps on one queue, two puts each: waits after the second, rings with each.
  static capture::Run two_warps() {
    capture::Run run;
    run.name = "cfg 4";
    run.configuration.protocol = Protocol::kIbgda;
    run.configuration.warps = 2;
    run.configuration.puts = 2;
    run.configuration.wait_every = 2;
    run.configuration.gap_cycles = 7;
    run.sm_clock_ghz = 1.98;
    run.cycles_per_put = 5000;
    run.cycles_per_put_unstamped = 4800;
    for (std::uint32_t w = 0; w < 2; ++w)
      for (std::uint32_t i = 0; i < 2; ++i) {
        Record r{};
        r.start_ns = 1'700'000'000'000'000'000 + 1000 * i + 100 * w;
        for (std::size_t s = 0; s < kStages; ++s)
          r.cycles[s] = static_cast<std::uint32_t>(100 * s + 10 * w + i);
        r.warp = w;
        r.sm = 40 + w;
        r.index = 2 * i + w;
        r.polls = i * 3;
        r.flags = kRang | (i == 1 ? kWaited : 0);
        run.records.push_back(r);
      }
    run.consumed = {{{50, 60, 300}, {150, 60, 300}, {1050, 60, 300}, {1150.5, 60, 300}}};
    run.consumer_sm = 7;
    run.words = {
        {"resv", 0, 0, 0x7f0000000000, {{0, 330, false}, {1, 540, true}}, Sight{0, 333, false}},
        {"entry", 0, 64, 0x7f0000201000, {{0, 541, true}, {1, 329, false}}}};
    return run;
  }
  std::string written(const capture::Run& run) const {
    tools::MeasurementFile file(path("capture.jsonl"));
    add_run(file, run);
    file.add_line(R"({"end":true,"runs":1,"puts":4})");
    tools::Object header;
    header.add("schema", "marrow.capture/1").add("date", "2026-11-29").add("gpu", "made up");
    header.add("sm_clock_ghz", 1.98).add("near_cycles", 329.5).add("far_cycles", 540.5);
    tools::Object pcie;
    pcie.add("generation", 5).add("mps_bytes", std::optional<int>());
    file.commit(header.add("pcie", pcie));
    return path("capture.jsonl");
  }

  fs::path folder_;
};

TEST_F(CaptureFile, DoesATraceHoldWhatTheCaptureHad) {
  const std::string trace = path("capture.trace");
  trace::import_file("capture", written(two_warps()), trace, {});
  trace::Reader reader(trace);
  EXPECT_EQ(reader.header().machine, "capture");
  EXPECT_EQ(reader.header().sm_clock_ghz, 1.98);
  EXPECT_EQ(reader.header().l2_near_cycles, 329.5);
  EXPECT_EQ(reader.header().l2_far_cycles, 540.5);
  EXPECT_EQ(reader.header().facts,
            (std::map<std::string, std::string>{
                {"date", "2026-11-29"}, {"gpu", "made up"}, {"pcie.generation", "5"}}));
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->name, "cfg 4");
  EXPECT_EQ(run->protocol, "capture-ibgda");
  EXPECT_EQ(run->choices,
            (std::map<std::string, std::string>{
                {"batch", "1"}, {"doorbell_in", "gpu"}, {"program", "marrow-capture"}}));
  EXPECT_EQ(run->consumer, "device");
  EXPECT_EQ(run->put_cycles, 5000);
  EXPECT_EQ(run->put_unstamped_cycles, 4800);
  EXPECT_EQ(run->epoch_ns, 1'700'000'000'000'000'000u);
  ASSERT_EQ(run->lanes.size(), 2u);
  EXPECT_EQ(run->lanes[1].sm, 41u);
  ASSERT_EQ(run->words.size(), 2u);
  EXPECT_EQ(run->words[1].word, "entry");
  EXPECT_EQ(run->words[1].first_entry, 64u);
  EXPECT_EQ(run->words[1].address, 0x7f0000201000u);
  ASSERT_EQ(run->words[0].seen.size(), 2u);
  EXPECT_EQ(run->words[0].seen[1].cycles, 540u);
  EXPECT_TRUE(run->words[0].seen[1].far);
  EXPECT_FALSE(run->words[1].seen[1].far);
  EXPECT_EQ(run->consumer_sm, 7u);
  ASSERT_TRUE(run->words[0].from_consumer);
  EXPECT_EQ(run->words[0].from_consumer->cycles, 333u);
  EXPECT_FALSE(run->words[1].from_consumer);
  // By start: warp 0's first, warp 1's first, warp 0's second, warp 1's second.
  trace::Op op;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(reader.next_op(op));
    EXPECT_EQ(op.warp, i % 2);
    EXPECT_EQ(op.wait, i >= 2);
    EXPECT_EQ(op.flush, i >= 2);
    EXPECT_EQ(op.compute_cycles, 7u);
    ASSERT_TRUE(op.measured);
    EXPECT_EQ(op.measured->index, i);
    EXPECT_EQ(op.measured->start_ns, 1000 * (i / 2) + 100 * (i % 2));
    EXPECT_EQ(op.measured->stage_cycles[8], 800 + 10 * (i % 2) + i / 2);
    EXPECT_TRUE(op.measured->rang);
  }
  EXPECT_EQ(op.measured->consumer_seen_ns, 1150.5);
  EXPECT_EQ(op.measured->consumer_done_ns, 300);
  EXPECT_FALSE(reader.next_op(op));
}

TEST_F(CaptureFile, AWrongOrHalfCaptureIsRefusedByItsLine) {
  std::ifstream in(written(two_warps()));
  std::stringstream whole;
  whole << in.rdbuf();
  const std::string text = whole.str();
  std::vector<std::string> lines;
  for (std::string line; std::getline(whole, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 7u);
  const auto import_of = [&](const std::vector<std::string>& some) -> std::string {
    std::ofstream out(path("bad.jsonl"), std::ios::trunc);
    for (const std::string& line : some) out << line << '\n';
    out.close();
    try {
      trace::import_file("capture", path("bad.jsonl"), path("bad.trace"), {});
    } catch (const InputError& error) {
      EXPECT_FALSE(fs::exists(path("bad.trace")));
      return error.what();
    }
    return "";
  };
  const auto without = [&](std::size_t which) {
    std::vector<std::string> some = lines;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(which));
    return some;
  };
  const auto with = [&](std::size_t which, const std::string& line) {
    std::vector<std::string> some = lines;
    some[which] = line;
    return some;
  };
  EXPECT_EQ(import_of(lines), "");
  fs::remove(path("bad.trace"));
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {without(6), "cut short"},
      {without(0), "no capture"},
      {without(1), "bad.jsonl:2: a put before the first run"},
      {without(3), "bad.jsonl:6: run 'cfg 4' ends here with 1 puts of warp 1"},
      {with(3, "[1,1,1]"), "bad.jsonl:4: 3 values"},
      {with(3, "[1,1"), "bad.jsonl:4: is no JSON"},
      {with(3, "[9,1,1,100,0,0,0,0,0,0,0,0,0,0,0,0,0]"), "bad.jsonl:4"},
      {with(3, "[1,1,1,-5,0,0,0,0,0,0,0,0,0,0,0,0,0]"), "start_ns"},
      {with(6, R"({"end":true,"runs":1,"puts":5})"), "bad.jsonl:7"},
      {with(0, R"({"schema":"marrow.probe/1"})"), "a probe's measurements"},
      {with(0, R"({"schema":"marrow.capture/2"})"), "from the future"},
  };
  for (const auto& [some, part] : cases)
    EXPECT_NE(import_of(some).find(part), std::string::npos) << import_of(some) << " / " << part;
}

TEST_F(CaptureFile, AnyValueOfAnotherKindIsReadOrRefusedByItsLine) {
  std::ifstream in(written(two_warps()));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  std::size_t refused = 0;
  for (const std::size_t at : {0, 1, 6})
    for (const auto& [key, value] : lines[at].items())
      for (const char* other :
           {"null", "\"x\"", "-1", "true", "[]", "{}", "[-1]", "99999999999999999999"}) {
        SCOPED_TRACE(key + ": " + other);
        std::ofstream out(path("bad.jsonl"), std::ios::trunc);
        for (std::size_t l = 0; l < lines.size(); ++l) {
          nlohmann::json line = lines[l];
          if (l == at) line[key] = nlohmann::json::parse(other);
          out << line.dump() << '\n';
        }
        out.close();
        try {
          trace::import_file("capture", path("bad.jsonl"), path("bad.trace"), {});
        } catch (const InputError& error) {
          ++refused;
          EXPECT_NE(std::string(error.what()).find("bad.jsonl"), std::string::npos);
          EXPECT_EQ(std::string(error.what()).find("json.exception"), std::string::npos);
        }
      }
  EXPECT_GT(refused, 100u);
  // Times and clocks that are none.
  for (const auto& [key, at] : {std::pair("near_cycles", 0), std::pair("cycles_per_put", 1)}) {
    std::ofstream out(path("bad.jsonl"), std::ios::trunc);
    for (std::size_t l = 0; l < lines.size(); ++l) {
      nlohmann::json line = lines[l];
      if (l == static_cast<std::size_t>(at)) line[key] = -3;
      out << line.dump() << '\n';
    }
    out.close();
    EXPECT_THROW(trace::import_file("capture", path("bad.jsonl"), path("bad.trace"), {}),
                 InputError)
        << key;
  }
}

TEST_F(CaptureFile, APutWithoutARecordIsNoCapture) {
  capture::Run run = two_warps();
  run.records[3].start_ns = 0;
  tools::MeasurementFile file(path("never.jsonl"));
  EXPECT_THROW(add_run(file, run), std::runtime_error);
}

TEST_F(CaptureFile, DoTheStagesNamesSayTheSameInBothPrograms) {
  for (std::size_t s = 0; s < kStages; ++s) EXPECT_STREQ(kStageNames[s], kStampStageNames[s]);
}

TEST_F(CaptureFile, WhatTheStampingWrapperCollectsBecomesATrace) {
  using Slot = StampView::Slot;
  // One put: begin at cycle 1000, slot at 1010, wqe at 1050, completion at 1100, end at 1900.
  const std::vector<Slot> slots = {{5'000'000, StampView::kBegin, 17},
                                   {1000, StampView::kCycles, 0},
                                   {1010, 1, 0},
                                   {1050, 2, 0},
                                   {1100, 8, 0},
                                   {1900, StampView::kEnd, 3}};
  const auto puts = stamped_puts(slots.data(), slots.size(), 0);
  ASSERT_EQ(puts.size(), 1u);
  EXPECT_EQ(puts[0].sm, 17u);
  EXPECT_EQ(puts[0].stage_cycles[1], 40u);
  EXPECT_EQ(puts[0].stage_cycles[2], 50u);
  EXPECT_EQ(puts[0].stage_cycles[8], 800u);
  EXPECT_EQ(puts[0].stage_cycles[0], 0u);
  StampAbout about;
  about.protocol = "nvshmem-ibgda";
  about.bytes = 64;
  about.cycles_per_put_unstamped = 890;
  write_stamped(path("stamped.jsonl"), about, {puts}, 1.5, "made up");
  trace::import_file("capture", path("stamped.jsonl"), path("stamped.trace"), {});
  trace::Reader reader(path("stamped.trace"));
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->measured_stages, (std::vector<std::string>{"slot", "wqe", "completion"}));
  EXPECT_EQ(run->lanes[0].sm, 17u);
  EXPECT_EQ(run->put_cycles, 900);
  EXPECT_EQ(run->put_unstamped_cycles, 890);
  trace::Op op;
  ASSERT_TRUE(reader.next_op(op));
  EXPECT_EQ(op.bytes, 64u);
  EXPECT_TRUE(op.wait);
  EXPECT_EQ(op.measured->stage_cycles, (std::vector<std::uint32_t>{40, 50, 800}));
  EXPECT_EQ(op.measured->polls, 3u);
}

TEST_F(CaptureFile, StampsThatDoNotNestAreRefused) {
  using Slot = StampView::Slot;
  const std::vector<Slot> no_end = {{1, StampView::kBegin, 0}, {1, StampView::kCycles, 0}};
  EXPECT_THROW((void)stamped_puts(no_end.data(), no_end.size(), 0), std::runtime_error);
  const std::vector<Slot> no_begin = {{1, 2, 0}};
  EXPECT_THROW((void)stamped_puts(no_begin.data(), no_begin.size(), 0), std::runtime_error);
}

}  // namespace
}  // namespace marrow::capture
