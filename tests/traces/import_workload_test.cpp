// Does a workload written by hand become the puts it describes, and is each slip in it told with
// line and key?
#include <map>
#include <string>
#include <vector>

#include "tests/traces/helpers.h"
#include "traces/importers/importers.h"

namespace marrow::trace {
namespace {

using Workload = Files;

const std::string kFixture = "tests/fixtures/traces/workload.yaml";

TEST_F(Workload, BecomesThePutsItDescribes) {
  import_workload_yaml(source_file(kFixture), path("t"));
  Reader reader(path("t"));
  EXPECT_EQ(reader.header().machine, "made-up");
  EXPECT_EQ(reader.header().sm_clock_ghz, 0);
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->name, "small");
  EXPECT_EQ(run->protocol, "capture-ibgda");
  EXPECT_EQ(run->choices,
            (std::map<std::string, std::string>{{"batch", "1"}, {"doorbell_in", "gpu"}}));
  EXPECT_EQ(run->queues, 2u);
  EXPECT_EQ(run->puts_per_lane, 10u);
  ASSERT_EQ(run->lanes.size(), 3u);
  EXPECT_EQ(run->lanes[1].queue, 1u);
  EXPECT_EQ(run->lanes[2].queue, 0u) << "warp w uses queue w mod 2";
  EXPECT_EQ(run->lanes[2].sm, 7u);

  // Ten puts that wait at the 4th, 8th and, as the last, 10th: 3, 1, 3, 1, 1, 1.
  struct Step {
    std::uint64_t count;
    bool wait, flush;
  };
  const std::vector<Step> steps = {{3, false, false}, {1, true, false},  {3, false, false},
                                   {1, true, false},  {1, false, false}, {1, true, true}};
  Op op;
  for (const Step& step : steps)
    for (std::uint32_t warp = 0; warp < 3; ++warp) {
      ASSERT_TRUE(reader.next_op(op));
      EXPECT_EQ(op.warp, warp) << "warps progress together";
      EXPECT_EQ(op.kind, OpKind::kPut);
      EXPECT_EQ(op.count, step.count);
      EXPECT_EQ(op.wait, step.wait);
      EXPECT_EQ(op.flush, step.flush);
      EXPECT_EQ(op.bytes, 64u);
      EXPECT_EQ(op.compute_cycles, 7u);
      EXPECT_FALSE(op.measured);
    }
  EXPECT_FALSE(reader.next_op(op));
}

TEST_F(Workload, SendersAreWarpsOfTheFurtherElementsTowardsTheFirst) {
  make("w.yaml",
       "machine: m\nruns:\n  - {name: r, protocol: gdaki, warps: 2, queues: 2, puts_per_warp: 1, "
       "bytes: 8, senders: 3, does: [put, quiet]}\n");
  import_workload_yaml(path("w.yaml"), path("t"));
  Reader reader(path("t"));
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  ASSERT_EQ(run->lanes.size(), 6u);
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(run->lanes[i].warp, i);
    EXPECT_EQ(run->lanes[i].pe, 1 + i / 2);
    EXPECT_EQ(run->lanes[i].peer, 0u);
    EXPECT_EQ(run->lanes[i].queue, i % 2);
  }
  Op op;
  for (std::uint32_t i = 0; i < 6; ++i)
    for (const OpKind kind : {OpKind::kPut, OpKind::kQuiet}) {
      ASSERT_TRUE(reader.next_op(op));
      EXPECT_EQ(op.kind, kind);
      EXPECT_EQ(op.warp, i);
    }
}

TEST_F(Workload, OfTenMillionPutsStaysSmall) {
  import_workload_yaml(source_file(kFixture), path("t"));
  Reader reader(path("t"));
  reader.next_run();
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->lanes[0].sm, std::nullopt);
  std::uint64_t puts = 0, records = 0;
  Op op;
  for (; reader.next_op(op); ++records) puts += op.count;
  EXPECT_EQ(puts, 10'000'000u);
  EXPECT_EQ(records, 4u);
  EXPECT_LT(std::filesystem::file_size(path("t")), 1000u);
}

TEST_F(Workload, PutsAddUpForEveryWaitingPattern) {
  const std::string yaml =
      "machine: m\nruns:\n  - {name: a, protocol: p, warps: 1, queues: 1, bytes: 8, "
      "puts_per_warp: PUTS, wait_every: EVERY}\n";
  for (int puts = 1; puts <= 9; ++puts)
    for (int every = 0; every <= 10; ++every) {
      make("w",
           replaced(replaced(yaml, "PUTS", std::to_string(puts)), "EVERY", std::to_string(every)));
      import_workload_yaml(path("w"), path("t"));
      Reader reader(path("t"));
      reader.next_run();
      Op op;
      std::vector<bool> waits, flushes;
      while (reader.next_op(op))
        for (std::uint64_t i = 0; i < op.count; ++i) {
          waits.push_back(op.wait);
          flushes.push_back(op.flush);
        }
      ASSERT_EQ(waits.size(), static_cast<std::size_t>(puts)) << every;
      for (int i = 0; i < puts; ++i) {
        EXPECT_EQ(waits[i], i == puts - 1 || (every != 0 && (i + 1) % every == 0)) << puts << every;
        EXPECT_EQ(flushes[i], i == puts - 1);
      }
    }
}

TEST_F(Workload, ScriptsGiveEveryWarpItsOperationsInTurn) {
  make("w",
       "machine: m\nruns:\n  - {name: a, protocol: p, warps: 2, queues: 1, bytes: 8, "
       "puts_per_warp: 3, does: [put_signal, wait], peer_does: [wait, put_signal]}\n");
  import_workload_yaml(path("w"), path("t"));
  Reader reader(path("t"));
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  ASSERT_EQ(run->lanes.size(), 4u) << "as many on the peer";
  EXPECT_EQ(run->lanes[3].pe, 1u);
  std::map<std::uint32_t, std::vector<OpKind>> of;
  Op op;
  while (reader.next_op(op)) of[op.warp].push_back(op.kind);
  const std::vector<OpKind> first = {OpKind::kPutSignal, OpKind::kWait,      OpKind::kPutSignal,
                                     OpKind::kWait,      OpKind::kPutSignal, OpKind::kWait};
  EXPECT_EQ(of[0], first);
  EXPECT_EQ(of[2].front(), OpKind::kWait);
  for (const std::string wrong :
       {"peer_does: [wait]", "does: [put], wait_every: 1", "does: [puts]", "does: put"}) {
    make("w",
         "machine: m\nruns:\n  - {name: a, protocol: p, warps: 1, queues: 1, bytes: 8, "
         "puts_per_warp: 3, " +
             wrong + "}\n");
    EXPECT_THROW(import_workload_yaml(path("w"), path("t")), InputError) << wrong;
  }
}

TEST_F(Workload, MayHaveBackgroundAndGoRoundItsQueues) {
  make("w.yaml", R"(machine: m
runs:
  - name: probe
    protocol: mini-gda
    warps: 2
    queues: 8
    puts_per_warp: 4
    bytes: 8
    does: [put, quiet]
    visits: 4
    puts_per_visit: 2
    peers: 3
    background:
      - {warps: 2, does: [put, quiet], bytes: 64, first_queue: 8, queues: 2, mmsgs: 4}
      - {at: wire, pe: 1, gbps: 100, bytes: 4096}
)");
  import_workload_yaml(path("w.yaml"), path("t"));
  Reader reader(path("t"));
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->peers, 3u);
  EXPECT_EQ(run->queues, 10u);
  ASSERT_EQ(run->lanes.size(), 4u);
  EXPECT_EQ(run->lanes[1].visits, 4u);
  EXPECT_EQ(run->lanes[1].visit_stride, 2u);
  EXPECT_EQ(run->lanes[1].puts_per_visit, 2u);
  EXPECT_FALSE(run->lanes[1].background);
  EXPECT_TRUE(run->lanes[3].background);
  EXPECT_EQ(run->lanes[3].queue, 9u);
  EXPECT_EQ(run->lanes[3].period_ns, 500);  // two warps, four million operations a second
  ASSERT_EQ(run->traffic.size(), 1u);
  EXPECT_EQ(run->traffic[0].place, Traffic::Place::kWire);
  EXPECT_EQ(run->traffic[0].gbps, 100);
  Op op;
  for (int i = 0; i < 4; ++i) {  // what repeats comes first, once
    ASSERT_TRUE(reader.next_op(op));
    EXPECT_EQ(op.warp, 2u + static_cast<std::uint32_t>(i) / 2);
    EXPECT_EQ(op.kind, i % 2 == 0 ? OpKind::kPut : OpKind::kQuiet);
  }
  ASSERT_TRUE(reader.next_op(op));
  EXPECT_EQ(op.warp, 0u);
}

TEST_F(Workload, BackgroundThatIsNoneIsRefused) {
  const auto error = [&](const std::string& entry) {
    make("w.yaml",
         "machine: m\nruns:\n  - name: n\n    protocol: p\n    warps: 1\n    queues: 1\n"
         "    puts_per_warp: 1\n    bytes: 8\n    does: [put]\n    background:\n      - {" +
             entry + "}\n");
    return error_of([&] { import_workload_yaml(path("w.yaml"), path("t")); });
  };
  EXPECT_HAS(error("at: wires, gbps: 1, bytes: 8"),
             path("w.yaml") + ":11: at: unknown place 'wires'; did you mean 'wire'?");
  EXPECT_HAS(error("at: wire, gbps: 0, bytes: 8"), "gbps: '0' is no rate");
  EXPECT_HAS(error("at: wire, gbps: 1"), "key 'bytes' is missing");
  EXPECT_HAS(error("warps: 1, bytes: 8"), "key 'does' is missing");
}

class MalformedWorkload : public Files {
 protected:
  std::string error(const std::string& from, const std::string& to) {
    make("w.yaml", replaced(read_file(source_file(kFixture)), from, to));
    const std::string what = error_of([&] { import_workload_yaml(path("w.yaml"), path("t")); });
    EXPECT_EQ(files(), 1u) << "a failed import leaves nothing";
    return what;
  }
  std::string at(int line, const std::string& rest) const {
    return path("w.yaml") + ":" + std::to_string(line) + ": " + rest;
  }
};

TEST_F(MalformedWorkload, KeyFaultsNameLineAndNearestKey) {
  EXPECT_HAS(error("    bytes: 64", "    byte: 64"),
             at(9, "run 1: unknown key 'byte'; did you mean 'bytes'? known: name, protocol,"));
  EXPECT_HAS(error("    bytes: 64\n", ""), at(3, "run 1: key 'bytes' is missing"));
  EXPECT_HAS(error("    bytes: 64\n", "    bytes: 64\n    bytes: 65\n"),
             at(10, "run 1: key 'bytes' stands twice"));
  EXPECT_HAS(error("machine:", "machin:"), at(1, "the workload: unknown key 'machin'"));
  EXPECT_HAS(error("batch: 1}", "batch: 1, batch: 2}"), at(5, "choices: key 'batch' stands twice"));
}

TEST_F(MalformedWorkload, ValueFaultsNameLineAndRange) {
  EXPECT_HAS(error("warps: 3", "warps: three"), at(6, "warps: 'three' is not a whole number"));
  EXPECT_HAS(error("warps: 3", "warps: -3"), at(6, "warps: '-3' is not a whole number"));
  EXPECT_HAS(error("warps: 3", "warps: 0"), at(6, "warps: 0 is out of range"));
  EXPECT_HAS(error("queues: 2", "queues: 0"), at(7, "queues: 0 is out of range"));
  EXPECT_HAS(error("puts_per_warp: 10", "puts_per_warp: 1e3"),
             at(8, "puts_per_warp: '1e3' is not"));
  EXPECT_HAS(error("bytes: 64", "bytes: 1099511627777"),
             at(9, "bytes: 1099511627777 is out of range"));
  EXPECT_HAS(error("sms: [5, 6, 7]", "sms: [5, 6]"), at(12, "sms: 2 SMs for 3 warps"));
  EXPECT_HAS(error("sms: [5, 6, 7]", "sms: 5"), at(12, "sms: is not a list"));
  EXPECT_HAS(error("sms: [5, 6, 7]", "sms: [5, 6, x]"), at(12, "sms: 'x' is not a whole number"));
  EXPECT_HAS(error("name: small", "name: "), at(3, "run 1: key 'name' has no value"));
}

TEST_F(MalformedWorkload, FilesThatAreNoWorkloadAreTold) {
  EXPECT_HAS(error("    choices: {", "    choices: [{"), "is no YAML");
  make("w.yaml", "");
  EXPECT_HAS(error_of([&] { import_workload_yaml(path("w.yaml"), path("t")); }),
             "the file is empty");
  make("w.yaml", "just text\n");
  EXPECT_HAS(error_of([&] { import_workload_yaml(path("w.yaml"), path("t")); }),
             path("w.yaml") + ": is no workload: it looks like text ('just text')");
  make("w.yaml", read_file(source_file("tests/fixtures/traces/device.csv")));
  EXPECT_HAS(error_of([&] { import_workload_yaml(path("w.yaml"), path("t")); }),
             "is no workload: it looks like a CSV file in the device-consumer-csv layout");
  EXPECT_HAS(error_of([&] {
               import_workload_yaml(source_file("traces/h200-b-host-consumer.trace"), path("t"));
             }),
             "is no workload: it is a marrow trace already");
  make("w.yaml", "machine: m\nruns: []\n");
  EXPECT_HAS(error_of([&] { import_workload_yaml(path("w.yaml"), path("t")); }),
             at(2, "runs: is not a list of runs"));
}

}  // namespace
}  // namespace marrow::trace
