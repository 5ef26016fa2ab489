// Does each capture layout arrive value for value, and is each malformed row refused with its
// place?
#include <algorithm>
#include <map>
#include <vector>

#include "tests/traces/helpers.h"
#include "traces/importers/importers.h"

namespace marrow::trace {
namespace {

using ImportCsv = Files;

const std::string kFixtures = "tests/fixtures/traces/";

using Cycles = std::vector<std::uint32_t>;

// Every expected value below is read off the fixture's rows by hand; 1.98 cycles are 1 ns.

TEST_F(ImportCsv, DeviceRowsArriveValueForValue) {
  import_device_consumer_csv(source_file(kFixtures + "device.csv"), path("t"));
  const Loaded t = load(path("t"));
  EXPECT_EQ(t.header.machine, "device");
  EXPECT_EQ(t.header.origin,
            "device.csv: puts into queues in GPU memory, a warp on another SM consumes");
  EXPECT_EQ(t.header.sm_clock_ghz, 1.98);
  ASSERT_EQ(t.runs.size(), 2u);

  const trace::Run& run = t.runs[0];
  EXPECT_EQ(run.name, "cfg 4");
  EXPECT_EQ(run.protocol, "capture-ibgda");
  EXPECT_EQ(run.choices,
            (std::map<std::string, std::string>{{"batch", "1"}, {"doorbell_in", "gpu"}}));
  EXPECT_EQ(run.queues, 1u);
  EXPECT_EQ(run.puts_per_lane, 2u);
  EXPECT_EQ(run.epoch_ns, 1795962676296162464u) << "the first start, warp 1's";
  EXPECT_EQ(run.measured_stages,
            (std::vector<std::string>{"lookup", "slot", "wqe", "order.fence", "order.publish",
                                      "order.lock", "doorbell.record", "doorbell.register",
                                      "completion"}));
  ASSERT_EQ(run.lanes.size(), 2u);
  EXPECT_EQ(run.lanes[0].sm, 124u);
  EXPECT_EQ(run.lanes[1].sm, 7u);
  EXPECT_EQ(run.lanes[1].warp, 1u);
  EXPECT_EQ(run.lanes[1].queue, 0u);

  // By start: warp 1 (…464), warp 0 (…496), then both at …6032, the lower warp first.
  const std::vector<Op>& ops = t.ops[0];
  ASSERT_EQ(ops.size(), 4u);
  EXPECT_EQ(ops[0].warp, 1u);
  EXPECT_EQ(ops[1].warp, 0u);
  EXPECT_EQ(ops[2].warp, 0u);
  EXPECT_EQ(ops[3].warp, 1u);

  EXPECT_EQ(ops[0].kind, OpKind::kPut);
  EXPECT_EQ(ops[0].bytes, 0u);
  EXPECT_EQ(ops[0].count, 1u);
  EXPECT_EQ(ops[0].compute_cycles, 20000u);
  EXPECT_FALSE(ops[0].wait);
  EXPECT_FALSE(ops[0].flush);
  EXPECT_FALSE(ops[0].measured->rang);
  EXPECT_EQ(ops[0].measured->start_ns, 0u);
  EXPECT_EQ(ops[0].measured->index, 1u);
  EXPECT_EQ(ops[0].measured->polls, 20u);
  EXPECT_EQ(ops[0].measured->stage_cycles, (Cycles{11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(ops[0].measured->consumer_seen_ns, 2752);
  EXPECT_DOUBLE_EQ(ops[0].measured->consumer_read_ns, 400);  // 792 cycles from the doorbell on
  EXPECT_DOUBLE_EQ(ops[0].measured->consumer_done_ns, 600);

  EXPECT_TRUE(ops[1].measured->rang);
  EXPECT_FALSE(ops[1].wait);
  EXPECT_EQ(ops[1].measured->start_ns, 32u);
  EXPECT_EQ(ops[1].measured->stage_cycles, (Cycles{1331, 387, 141, 581, 407, 734, 707, 393, 0}));
  EXPECT_DOUBLE_EQ(ops[1].measured->consumer_read_ns, 100);
  EXPECT_DOUBLE_EQ(ops[1].measured->consumer_done_ns, 300);

  EXPECT_TRUE(ops[2].wait);
  EXPECT_TRUE(ops[2].flush) << "the last put of a warp";
  EXPECT_FALSE(ops[2].measured->timed_out);
  EXPECT_EQ(ops[2].measured->start_ns, 13568u);

  EXPECT_TRUE(ops[3].wait);
  EXPECT_TRUE(ops[3].flush);
  EXPECT_TRUE(ops[3].measured->timed_out);
  EXPECT_TRUE(ops[3].measured->rang);
  EXPECT_EQ(ops[3].measured->index, 3u);
  EXPECT_EQ(ops[3].measured->consumer_seen_ns, 0) << "never seen";

  EXPECT_EQ(t.runs[1].name, "cfg 9");
  EXPECT_EQ(t.runs[1].protocol, "capture-gdaki");
  EXPECT_EQ(t.runs[1].choices.at("doorbell_in"), "host");
  EXPECT_EQ(t.runs[1].choices.at("batch"), "16");
  ASSERT_EQ(t.ops[1].size(), 1u);
  EXPECT_DOUBLE_EQ(t.ops[1][0].measured->consumer_read_ns, 1000);
}

TEST_F(ImportCsv, HostRowsArriveValueForValue) {
  import_host_consumer_csv(source_file(kFixtures + "host.csv"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 2u);
  const trace::Run& run = t.runs[0];
  EXPECT_EQ(run.protocol, "capture-host-gdaki");
  EXPECT_EQ(run.choices, (std::map<std::string, std::string>{
                             {"batch", "1"}, {"fence_db", "sys"}, {"fence_wqe", "gpu"}}));
  EXPECT_EQ(run.queues, 2u);
  EXPECT_EQ(run.lanes[1].queue, 1u);
  EXPECT_EQ(run.epoch_ns, 4000u);
  EXPECT_EQ(run.measured_stages,
            (std::vector<std::string>{"slot", "wqe", "order.fence", "order.publish",
                                      "doorbell.record", "doorbell.register", "completion"}));
  ASSERT_EQ(t.ops[0].size(), 2u);
  EXPECT_EQ(t.ops[0][0].warp, 1u) << "started first";
  const Op& op = t.ops[0][1];
  EXPECT_EQ(op.bytes, 4096u);
  EXPECT_EQ(op.compute_cycles, 500u);
  EXPECT_EQ(op.measured->start_ns, 1000u);
  EXPECT_EQ(op.measured->stage_cycles, (Cycles{328, 40, 2059, 380, 1917, 1025, 376881}));
  EXPECT_EQ(op.measured->polls, 182u);
  EXPECT_EQ(op.measured->consumer_seen_ns, 41563806950.7);
  EXPECT_EQ(op.measured->consumer_read_ns, 648.6);  // ...7599.3 - ...6950.7
  EXPECT_EQ(op.measured->consumer_done_ns, 218.1);  // ...7817.4 - ...7599.3

  EXPECT_EQ(t.runs[1].protocol, "capture-host-proxy");
  EXPECT_EQ(t.runs[1].choices.at("fence_wqe"), "none");
  EXPECT_FALSE(t.ops[1][0].wait);
  EXPECT_TRUE(t.ops[1][1].wait);
}

TEST_F(ImportCsv, PeerRowsArriveValueForValue) {
  import_peer_consumer_csv(source_file(kFixtures + "peer.csv"), path("t"),
                           {.machine = "my machine", .sm_clock_ghz = 0.99});
  const Loaded t = load(path("t"));
  EXPECT_EQ(t.header.machine, "my machine");
  EXPECT_EQ(t.header.sm_clock_ghz, 0.99);
  EXPECT_EQ(t.runs[0].protocol, "capture-ibgda");
  EXPECT_EQ(t.runs[0].choices.at("doorbell_in"), "peer");
  const Op& op = t.ops[0][0];
  EXPECT_EQ(op.bytes, 64u);
  EXPECT_EQ(op.measured->stage_cycles, (Cycles{1194, 326, 131, 579, 405, 732, 697, 396, 6382}));
  EXPECT_EQ(op.measured->consumer_seen_ns, -96) << "the peer's own clock may lie before";
  EXPECT_DOUBLE_EQ(op.measured->consumer_read_ns, 2000) << "at 0.99 GHz";
  EXPECT_DOUBLE_EQ(op.measured->consumer_done_ns, 800);
}

TEST_F(ImportCsv, MachineComesFromTheFilesName) {
  const std::string csv = read_file(source_file(kFixtures + "device.csv"));
  for (const auto& [name, machine] : std::map<std::string, std::string>{
           {"h200-c-device-consumer.csv", "h200-c"}, {"mine.csv", "mine"}, {"other", "other"}}) {
    import_device_consumer_csv(make(name, csv), path("t"));
    EXPECT_EQ(Reader(path("t")).header().machine, machine);
  }
}

TEST_F(ImportCsv, GzippedAndCarriageReturnsAndColumnOrderMakeNoDifference) {
  const std::string csv = read_file(source_file(kFixtures + "device.csv"));
  import_device_consumer_csv(make("a.csv", csv), path("plain"));
  import_device_consumer_csv(make("a.csv", gzipped(csv)), path("gzipped"));
  std::string crlf, turned = "";
  for (const char c : csv) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comma = line.find(',');
    turned += line.substr(comma + 1) + "," + line.substr(0, comma) + "\n";
  }
  import_device_consumer_csv(make("a.csv", crlf), path("crlf"));
  import_device_consumer_csv(make("a.csv", turned), path("turned"));
  EXPECT_EQ(read_file(path("plain")), read_file(path("gzipped")));
  EXPECT_EQ(read_file(path("plain")), read_file(path("crlf")));
  EXPECT_EQ(read_file(path("plain")), read_file(path("turned")));
}

// -------------------------------------------------------------------------------- Malformed files

class MalformedCsv : public Files {
 protected:
  /// The error of a fixture with `from` replaced by `to`. Nothing may be left behind by it.
  std::string error(const std::string& fixture, const std::string& from, const std::string& to) {
    return error_of_text(fixture, replaced(read_file(source_file(kFixtures + fixture)), from, to));
  }
  std::string error_of_text(const std::string& fixture, const std::string& text) {
    make("f.csv", text);
    const std::string what = error_of([&] {
      (fixture == "host.csv"   ? import_host_consumer_csv
       : fixture == "peer.csv" ? import_peer_consumer_csv
                               : import_device_consumer_csv)(path("f.csv"), path("t"), {});
    });
    EXPECT_EQ(files(), 1u) << "a failed import leaves nothing";
    return what;
  }
  std::string at(int line, const std::string& rest) const {
    return path("f.csv") + ":" + std::to_string(line) + ": " + rest;
  }
};

TEST_F(MalformedCsv, HeaderFaultsNameTheColumnAndTheOtherLayout) {
  EXPECT_HAS(error("device.csv", "lock_cy,", ""),
             at(1, "column 'lock_cy' is missing; device-consum"));
  EXPECT_HAS(error("device.csv", "lock_cy,", "look_cy,"), at(1, "column 'lock_cy' is missing"));
  EXPECT_HAS(error("device.csv", "polls,", "polls,extra,"), at(1, "column 'extra' is not known"));
  EXPECT_HAS(error("device.csv", "polls,", "polls,polls,"), at(1, "column 'polls' stands twice"));
  EXPECT_HAS(error_of_text("device.csv", read_file(source_file(kFixtures + "host.csv"))),
             at(1, "column 'doorbell_in' is missing; the header is that of host-consumer-csv"));
  EXPECT_HAS(error_of_text("device.csv", read_file(source_file(kFixtures + "peer.csv"))),
             at(1, "column 'bytes' is not known; the header is that of peer-consumer-csv"));
  EXPECT_HAS(error_of_text("device.csv", "version https://git-lfs.github.com/spec/v1\n"),
             at(1, "no CSV header: the file is a git-lfs pointer"));
  EXPECT_HAS(
      error_of_text("device.csv", read_file(source_file("traces/h200-b-host-consumer.trace"))),
      at(1, "no CSV header: the file is a marrow trace already"));
}

TEST_F(MalformedCsv, EmptyAndMissingFilesAreTold) {
  EXPECT_HAS(error_of_text("device.csv", ""), path("f.csv") + ": the file is empty");
  EXPECT_HAS(error_of([&] { import_device_consumer_csv(path("none.csv"), path("t")); }),
             path("none.csv") + ": no such file");
  const std::string csv = read_file(source_file(kFixtures + "device.csv"));
  EXPECT_HAS(error_of_text("device.csv", csv.substr(0, csv.find('\n') + 1)),
             at(1, "a header but no rows"));
}

TEST_F(MalformedCsv, CellFaultsNameLineAndColumn) {
  EXPECT_HAS(error("device.csv", ",1338,389,", ",1338,x9,"),
             at(3, "column 'slot_cy': 'x9' is not a whole number; write 0 to 4294967295"));
  EXPECT_HAS(error("device.csv", ",1338,389,", ",1338,-389,"),
             at(3, "column 'slot_cy': '-389' is neg"));
  EXPECT_HAS(error("device.csv", ",1338,389,", ",1338,3.5,"),
             at(3, "column 'slot_cy': '3.5' is not"));
  EXPECT_HAS(error("device.csv", ",1338,389,", ",1338,,"), at(3, "column 'slot_cy': is empty"));
  EXPECT_HAS(error("device.csv", ",1338,389,", ",1338,4294967296,"),
             at(3, "column 'slot_cy': 4294967296 is out of range"));
  EXPECT_HAS(error("device.csv", ",1338,389,", ",1338,99999999999999999999999,"),
             at(3, "column 'slot_cy': 99999999999999999999999 is out of range"));
  EXPECT_HAS(error("device.csv", "20000,7,1,0,1", "20000,7,2,0,1"),
             at(4, "column 'warp': 2 is out"));
  EXPECT_HAS(error("device.csv", "20000,7,1,0,1", "20000,7,1,1,1"), at(4, "column 'qp': 1 is out"));
  EXPECT_HAS(error("device.csv", "9,gdaki,host", "9,gdaki,cpu"),
             at(6, "column 'doorbell_in': 'cpu' is not known; "));
  EXPECT_HAS(error("device.csv", "9,gdaki,", "9,proxy,"),
             at(6, "column 'proto': 'proxy' is not known; known: ibgda, gdaki"));
  EXPECT_HAS(error("device.csv", "host,1,1,16,", "host,1,1,0,"), at(6, "column 'batch': 0 is out"));
  EXPECT_HAS(error("device.csv", "3,0,0,0,3,1000", "3,0,0,0,7,1000"),
             at(6, "column 'flags': 7 has bits without a meaning"));
  EXPECT_HAS(error("host.csv", "0,gdaki,2,3", "0,gdaki,1,3"),
             at(2, "column 'fence_wqe': '1' is no"));
  EXPECT_HAS(error("host.csv", "100.0,100.5,102.0", "100.0,x,102.0"),
             at(3, "column 'cpu_read_ns': 'x' is not a number"));
  EXPECT_HAS(error("host.csv", "100.0,100.5,102.0", "100.0,99.5,102.0"),
             at(3, "column 'cpu_read_ns': the entry is read before it is seen"));
  EXPECT_HAS(error("host.csv", "100.0,100.5,102.0", "100.0,100.5,100.4"),
             at(3, "column 'cpu_done_ns': the entry is completed before it is read"));
  EXPECT_HAS(error("host.csv", "100.0,100.5,102.0", "-1,100.5,102.0"),
             at(3, "column 'cpu_seen_ns': '-1' is negative"));
  EXPECT_HAS(error("host.csv", "100.0,100.5,102.0", "nan,100.5,102.0"),
             at(3, "column 'cpu_seen_ns'"));
}

TEST_F(MalformedCsv, RowsOfTheWrongLengthAreTold) {
  EXPECT_HAS(error("device.csv", ",99,396\n", ",99\n"),
             at(3, "the row has 26 columns, the header 27"));
  EXPECT_HAS(error("device.csv", ",99,396\n", ",99,396,1\n"), at(3, "the row has 28 columns"));
  EXPECT_HAS(error("device.csv", ",1980,3960\n", ",1980,39"), at(6, "the file ends in the middle"));
}

TEST_F(MalformedCsv, ACutGzipIsToldWithItsLine) {
  const std::string gz = gzipped(read_file(source_file(kFixtures + "device.csv")));
  for (const std::size_t cut : {std::size_t{5}, std::size_t{40}, gz.size() / 2, gz.size() - 4})
    EXPECT_HAS(error_of_text("device.csv", gz.substr(0, cut)), "the file is truncated");
  std::string flipped = gz;
  flipped[gz.size() - 6] ^= 1;
  EXPECT_HAS(error_of_text("device.csv", flipped), "the file is corrupt: gzip checksum mismatch");
}

TEST_F(MalformedCsv, ConfigurationsThatDoNotHoldTogetherAreTold) {
  EXPECT_HAS(
      error("device.csv", "4,ibgda,gpu,2,1,1,1,20000,7,1,0,1", "4,ibgda,gpu,2,1,2,1,20000,7,1,0,1"),
      at(4, "column 'batch': '2', but '1' in the first row of cfg 4"));
  EXPECT_HAS(error("device.csv", "20000,7,1,0,3", "20000,8,1,0,3"),
             at(5, "column 'sm': warp 1 was on SM 7"));
  EXPECT_HAS(error("device.csv", "20000,7,1,0,3", "20000,7,1,0,0"),
             at(5, "column 'idx': 0 after 1"));
  EXPECT_HAS(error("device.csv", "20000,7,1,0,3", "20000,7,1,0,5"),
             at(5, "column 'idx': a gap before 5: place 3 of queue 0 is missing in cfg 4"));
  EXPECT_HAS(error("device.csv", "20000,7,1,0,3", "20000,7,1,0,2"),
             at(5, "column 'idx': place 2 of queue 0 stands twice in cfg 4"));
  EXPECT_HAS(error("device.csv", "7,1,0,3,131", "7,1,0,3,1"),
             at(5, "column 'flags': the last put of warp 1 in cfg 4 did not wait"));
  EXPECT_HAS(error("host.csv", "12,0,0,0,1,9000", "12,0,0,1,1,9000"), "column 'idx'");
  const std::string csv = read_file(source_file(kFixtures + "device.csv"));
  std::vector<std::string> lines;
  std::istringstream in(csv);
  for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  EXPECT_HAS(error_of_text("device.csv", lines[0] + lines[1] + lines[2]),
             at(2, "column 'warps': cfg 4 says 2, but rows of 1 warps follow"));
  EXPECT_HAS(error_of_text("device.csv", lines[0] + lines[1] + lines[2] + lines[3]),
             at(4, "column 'warp': cfg 4 has 1 rows of warp 1, but 2 of warp 0"));
  EXPECT_HAS(error_of_text("device.csv", csv + lines[1]),
             at(7, "column 'cfg': cfg 4 has already ended"));
}

// --------------------------------------------------------------------------------- Real captures

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

double stage_median(const Loaded& t, const std::string& run, const std::string& stage) {
  for (std::size_t r = 0; r < t.runs.size(); ++r) {
    if (t.runs[r].name != run) continue;
    const auto& stages = t.runs[r].measured_stages;
    const auto i = std::find(stages.begin(), stages.end(), stage) - stages.begin();
    std::vector<double> values;
    for (const Op& op : t.ops[r])
      values.push_back(op.measured->stage_cycles.at(static_cast<std::size_t>(i)));
    return median(values);
  }
  ADD_FAILURE() << "no " << run;
  return 0;
}

std::size_t total(const Loaded& t) {
  std::size_t n = 0;
  for (const auto& ops : t.ops) n += ops.size();
  return n;
}

// Row counts (zcat | wc -l, less the header) and medians (Python's statistics.median over the CSV's
// columns) were taken from the capture files without this program.

TEST(BundledTraces, DeviceConsumerHoldsTheCapturesRows) {
  const Loaded t = load(source_file("traces/h200-c-device-consumer.trace"));
  EXPECT_EQ(t.header.machine, "h200-c");
  EXPECT_EQ(t.runs.size(), 21u);
  EXPECT_EQ(total(t), 41400u);
  EXPECT_EQ(stage_median(t, "cfg 0", "slot"), 387);
  EXPECT_EQ(stage_median(t, "cfg 0", "completion"), 1709);
  EXPECT_EQ(stage_median(t, "cfg 11", "order.fence"), 581);
  EXPECT_EQ(stage_median(t, "cfg 11", "completion"), 42352);
  EXPECT_EQ(stage_median(t, "cfg 35", "doorbell.register"), 552.5);
  EXPECT_EQ(stage_median(t, "cfg 50", "slot"), 666);
  // nic_seen_ns - gpu_start_ns: exact only because times count from the run's epoch
  std::vector<double> seen, read;
  for (const Op& op : t.ops[0]) {
    seen.push_back(op.measured->consumer_seen_ns - static_cast<double>(op.measured->start_ns));
    read.push_back(op.measured->consumer_read_ns);
  }
  EXPECT_EQ(median(seen), 2560);
  EXPECT_NEAR(median(read), 128 / 1.98, 1e-9);
}

TEST(BundledTraces, HostConsumerHoldsTheCapturesRows) {
  const Loaded t = load(source_file("traces/h200-b-host-consumer.trace"));
  EXPECT_EQ(t.header.machine, "h200-b");
  EXPECT_EQ(t.runs.size(), 16u);
  EXPECT_EQ(total(t), 34000u);
  EXPECT_EQ(stage_median(t, "cfg 11", "slot"), 2516);
  EXPECT_EQ(stage_median(t, "cfg 14", "order.publish"), 377.5);
  EXPECT_EQ(stage_median(t, "cfg 36", "completion"), 4832);
  ASSERT_EQ(t.runs[9].name, "cfg 23");
  std::vector<double> done;
  for (const Op& op : t.ops[9]) {
    done.push_back(op.measured->consumer_done_ns);
    EXPECT_EQ(op.bytes, 65536u);
  }
  EXPECT_NEAR(median(done), 1908.6, 0.05);
}

TEST(BundledTraces, PeerConsumerHoldsTheCapturesRows) {
  const Loaded t = load(source_file("traces/h200x2-f-peer-consumer.trace"));
  EXPECT_EQ(t.header.machine, "h200x2-f");
  EXPECT_EQ(t.runs.size(), 19u);
  EXPECT_EQ(total(t), 35300u);
  EXPECT_EQ(stage_median(t, "cfg 11", "completion"), 100465.5);
  EXPECT_EQ(stage_median(t, "cfg 33", "completion"), 232711);
  std::size_t rang = 0;
  ASSERT_EQ(t.runs[15].name, "cfg 28");
  for (const Op& op : t.ops[15]) rang += op.measured->rang;
  EXPECT_EQ(rang, 250u) << "one doorbell for four puts";
}

TEST(BundledTraces, WarpsProgressTogetherAndKeepTheirOrder) {
  for (const char* name : {"h200-b-host", "h200-c-device", "h200x2-f-peer"}) {
    const Loaded t = load(source_file(std::string("traces/") + name + "-consumer.trace"));
    for (std::size_t r = 0; r < t.runs.size(); ++r) {
      std::uint64_t last_start = 0;
      std::map<std::uint32_t, std::int64_t> last_index;
      std::map<std::uint32_t, std::uint64_t> flushes;
      for (const Op& op : t.ops[r]) {
        EXPECT_GE(op.measured->start_ns, last_start);
        last_start = op.measured->start_ns;
        const auto [at, first] = last_index.try_emplace(op.warp, -1);
        EXPECT_LT(at->second, static_cast<std::int64_t>(op.measured->index));
        at->second = static_cast<std::int64_t>(op.measured->index);
        flushes[op.warp] += op.flush;
      }
      EXPECT_EQ(flushes.size(), t.runs[r].lanes.size());
      for (const auto& [warp, n] : flushes) EXPECT_EQ(n, 1u);
    }
  }
}

}  // namespace
}  // namespace marrow::trace
