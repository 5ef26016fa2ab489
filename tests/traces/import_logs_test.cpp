// Does each line of a benchmark's output or log arrive value for value, whatever stands around it?
#include <map>
#include <vector>

#include "tests/traces/helpers.h"
#include "traces/counters.h"
#include "traces/importers/importers.h"
#include "traces/importers/log.h"
#include "traces/importers/quantiles.h"

namespace marrow::trace {
namespace {

using ImportLogs = Files;

std::string fixture(const std::string& name) {
  return source_file("tests/fixtures/traces/logs/" + name);
}

/// "metric statistic" to "value unit", with the note where several differ by it alone.
std::map<std::string, std::string> told(const Run& run) {
  std::map<std::string, std::string> all;
  for (const Summary& s : run.summaries) {
    std::ostringstream value;
    value << s.value << ' ' << s.unit;
    std::string key = s.metric + " " + s.statistic;
    if (all.count(key)) key += ", " + s.note;
    all[key] = value.str();
  }
  return all;
}

using Told = std::map<std::string, std::string>;
using Choices = std::map<std::string, std::string>;

std::vector<OpKind> first_ops(const Loaded& t, std::size_t run, std::size_t count) {
  std::vector<OpKind> kinds;
  for (std::size_t i = 0; i < count && i < t.ops[run].size(); ++i)
    kinds.push_back(t.ops[run][i].kind);
  return kinds;
}

using enum OpKind;

// Every expected value below is read off the fixtures by hand.

// ---------------------------------------------------------------------------------- what logs have

TEST(Log, LaunchersPrefixesAreNoPartOfALine) {
  for (const std::string prefix :
       {"", "[1,0]<stdout>:", "[1,0]<stdout>: ", "[prterun-node-1@1,0]<stderr>:", "0: ", "12: ",
        "node7: ", "gpu-node.cluster: ", "[rank0]: ", "[default0]:", "2026-11-29T12:00:00.5Z ",
        "node7: [1,0]<stdout>:"})
    EXPECT_EQ(trimmed(without_prefix(prefix + " 65536  5000")), "65536  5000") << prefix;
  for (const std::string line : {"# size", " Number of qps   : 1", "node1:10:11 [0] NCCL INFO x",
                                 "&&&& PERF a___b", "1, 2.5", ""})
    EXPECT_EQ(without_prefix(line), line);
}

TEST_F(ImportLogs, ColoursAndOverwrittenTextAreNoPartOfALine) {
  Log log(make("log", "\x1b[1;32mgreen\x1b[0m text\r\n50 %\r100 %\nplain\n"));
  ASSERT_TRUE(log.next());
  EXPECT_EQ(log.line(), "green text");
  ASSERT_TRUE(log.next());
  EXPECT_EQ(log.line(), "100 %");
  ASSERT_TRUE(log.next());
  EXPECT_EQ(log.line(), "plain");
  EXPECT_FALSE(log.next());
}

TEST(Quantiles, AreWithinAThousandthInBoundedMemory) {
  Quantiles q;
  for (int i = 1; i <= 100000; ++i) q.add(i);
  EXPECT_EQ(q.count(), 100000u);
  EXPECT_EQ(q.min(), 1);
  EXPECT_EQ(q.max(), 100000);
  EXPECT_NEAR(q.mean(), 50000.5, 1e-6);
  EXPECT_NEAR(q.quantile(0.5), 50001, 50);
  EXPECT_NEAR(q.quantile(0.99), 99001, 99);
  EXPECT_NEAR(q.quantile(0), 1, 0.001);
}

TEST(Quantiles, TheMedianOfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle) {
  const auto median = [](const std::vector<double>& values) {
    Quantiles q;
    for (const double value : values) q.add(value);
    return q.median();
  };
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({300, 100}), 200);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({10, 40, 20, 1000}), 30);
  EXPECT_EQ(median({0, 0, 4, 6}), 2);
}

// ---------------------------------------------------------------------------------------- perftest

TEST_F(ImportLogs, PerftestLatencyRowsBecomePingPongsWithTheirQuantiles) {
  import_perftest(fixture("perftest-write-lat.txt"), path("t"));
  const Loaded t = load(path("t"));
  EXPECT_EQ(t.header.machine, "perftest-write-lat");
  ASSERT_EQ(t.runs.size(), 3u);
  const trace::Run& run = t.run("write_lat 8 B");
  EXPECT_EQ(run.protocol, "perftest");
  EXPECT_EQ(run.choices, (Choices{{"payload", "write_inline"}}));
  EXPECT_EQ(run.lanes.size(), 2u);
  EXPECT_EQ(run.puts_per_lane, 1000u);
  EXPECT_EQ(told(run), (Told{{"one_way min", "0.99 us"},
                             {"one_way max", "3.91 us"},
                             {"one_way median", "1.03 us"},
                             {"one_way mean", "1.04 us"},
                             {"one_way stdev", "0.04 us"},
                             {"one_way p99", "1.2 us"},
                             {"one_way p99.9", "3.91 us"}}));
  EXPECT_EQ(run.summaries.front().count, 1000u);
  EXPECT_EQ(run.summaries.front().note, "half of a round trip");
  EXPECT_EQ(first_ops(t, 1, 6), (std::vector{kPut, kQuiet, kWait, kWait, kPut, kQuiet}));
  EXPECT_EQ(t.ops[1][0].bytes, 8u);
  EXPECT_EQ(t.run("write_lat 512 B").choices, (Choices{{"payload", "write"}}))
      << "more than the 220 B that the log names";
}

TEST_F(ImportLogs, PerftestReadsTakeAWholeRoundTrip) {
  import_perftest(fixture("perftest-read-lat-duration.txt"), path("t"));
  const Loaded t = load(path("t"));
  EXPECT_EQ(told(t.run("read_lat 8 B")), (Told{{"put_completion mean", "2.28 us"}}));
  EXPECT_EQ(t.runs[0].summaries[0].count, 2187342u);
  EXPECT_EQ(t.runs[0].puts_per_lane, 1000u) << "a replay needs no more";
  EXPECT_EQ(first_ops(t, 0, 2), (std::vector{kGet, kQuiet}));
}

TEST_F(ImportLogs, PerftestIterationsGiveMoreQuantiles) {
  import_perftest(fixture("perftest-unsorted.txt"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 1u) << "the header is printed twice around the list";
  const std::vector<Summary>& all = t.runs[0].summaries;
  ASSERT_EQ(all.size(), 9u);
  EXPECT_EQ(all[7].statistic, "p10");
  EXPECT_NEAR(all[7].value, 1.10, 0.0011);
  EXPECT_EQ(all[8].statistic, "p90");
  EXPECT_NEAR(all[8].value, 1.16, 0.0012);
  EXPECT_EQ(all[8].count, 20u);
}

TEST_F(ImportLogs, PerftestBandwidthRowsBecomeStreamsOfGpuBuffers) {
  import_perftest(fixture("perftest-write-bw-gpu.txt"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 2u) << "the warning between header and rows is none";
  const trace::Run& run = t.run("write_bw gpu 65536 B");
  EXPECT_EQ(run.choices, (Choices{{"payload", "write"}, {"source", "gpu"}, {"target", "gpu"}}));
  EXPECT_EQ(told(run), (Told{{"goodput peak", "23512.1 MiB/s"},
                             {"goodput mean", "23498.8 MiB/s"},
                             {"rate mean", "0.37598 Mmsg/s"}}));
  EXPECT_EQ(first_ops(t, 1, 3), (std::vector{kPut, kPut, kPut}));
}

TEST_F(ImportLogs, PerftestUnitsAndQueuePairsAreTold) {
  import_perftest(fixture("perftest-bw-gbits-old.txt"), path("t"));
  const Loaded t = load(path("t"));
  EXPECT_EQ(told(t.run("read_bw 4096 B")), (Told{{"goodput peak", "9801.55 MiB/s"},
                                                 {"goodput mean", "9777.03 MiB/s"},
                                                 {"rate mean", "2.50292 Mmsg/s"}}))
      << "MB/sec of old versions is MiB; 2.50292 M x 4096 B = 9777 x 2^20 B";
  const trace::Run& both = t.run("write_bw both ways 4 qps 1024 B");
  EXPECT_EQ(both.queues, 4u);
  EXPECT_EQ(both.lanes.size(), 8u);
  EXPECT_EQ(told(both), (Told{{"goodput mean", "180.2 Gb/s"}, {"rate mean", "21.9971 Mmsg/s"}}))
      << "half of 360.4 and 43.99414";
}

TEST_F(ImportLogs, PerftestJsonIsReadAsItsTable) {
  import_perftest(fixture("perftest-lat.json"), path("json"));
  import_perftest(fixture("perftest-write-lat.txt"), path("text"));
  const trace::Run json = load(path("json")).run("write_lat 8 B");
  const trace::Run text = load(path("text")).run("write_lat 8 B");
  EXPECT_EQ(told(json), told(text));
  EXPECT_EQ(json.choices, text.choices);
  EXPECT_EQ(json.protocol, text.protocol);
}

TEST_F(ImportLogs, PerftestJsonWithAKeyWithoutQuotesIsMendedAndItsUnitFound) {
  import_perftest(fixture("perftest-bw-qos.json"), path("t"));
  const trace::Run run = load(path("t")).run("send_bw 65536 B");
  // 0.185051 M x 65536 B x 8 = 97.02 Gb/s
  EXPECT_EQ(told(run), (Told{{"goodput peak", "97.12 Gb/s"},
                             {"goodput mean", "97.02 Gb/s"},
                             {"rate mean", "0.185051 Mmsg/s"}}));
  EXPECT_HAS(run.not_replayable, "send and receive are not simulated");
}

TEST_F(ImportLogs, PerftestClientAndServerMayWriteIntoOneLog) {
  const std::string text = read_file(fixture("perftest-write-bw-gpu.txt"));
  std::string twice;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) twice += line + "\n" + line + "\n";
  import_perftest(make("log", twice), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 4u);
  EXPECT_EQ(told(t.run("write_bw gpu 8 B")), told(t.run("write_bw gpu 8 B #2")));
}

// ----------------------------------------------------------------------------------------- NVSHMEM

TEST_F(ImportLogs, NvshmemTablesTellTheTimeOfAnIteration) {
  import_nvshmem_perftest(fixture("nvshmem-put-latency.txt"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 9u) << "three sizes in three scopes";
  const trace::Run& run = t.run("shmem_put_latency Thread 8 B");
  EXPECT_EQ(run.protocol, "nvshmem-ibgda");
  EXPECT_EQ(told(run), (Told{{"iteration mean", "7.12346 us"}}));
  EXPECT_EQ(run.summaries[0].count, 50u) << "from the line of options";
  EXPECT_EQ(first_ops(t, 0, 2), (std::vector{kPut, kQuiet}));
  EXPECT_EQ(first_ops(t, 3, 3), (std::vector{kPut, kQuiet, kQuiet})) << "the warp's put waits";
}

TEST_F(ImportLogs, NvshmemRepetitionsHaveASpread) {
  import_nvshmem_perftest(fixture("nvshmem-repetitions.txt"), path("t"));
  const Loaded t = load(path("t"));
  EXPECT_EQ(told(t.run("shmem_put_ping_lat None 8 B")),
            (Told{{"iteration mean", "14.25 us"},
                  {"iteration of a repetition stdev", "0.125 us"},
                  {"iteration of a repetition min", "14 us"},
                  {"iteration of a repetition max", "14.5 us"}}));
  EXPECT_EQ(told(t.run("shmem_put_ping_lat None 16 B")).size(), 3u) << "NA is no number";
  EXPECT_HAS(t.runs[0].summaries[0].note, "whole round trip");
  EXPECT_EQ(first_ops(t, 0, 4), (std::vector{kPut, kFence, kAtomic, kWait}));
}

TEST_F(ImportLogs, NvshmemLinesForMachinesAreReadOldAndNew) {
  import_nvshmem_perftest(fixture("nvshmem-machine.txt"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 5u);
  EXPECT_EQ(told(t.run("shmem_put_latency Thread 16 B")), (Told{{"iteration mean", "7.2 us"}}));
  const trace::Run& bw = t.run("shmem_put_bw None 1024 B");
  EXPECT_EQ(told(bw), (Told{{"goodput mean", "0.512 GB/s"}}));
  EXPECT_EQ(bw.lanes.size(), 4u) << "number of ctas";
  EXPECT_EQ(t.ops[2][0].bytes, 256u) << "each CTA its quarter";
  EXPECT_EQ(t.ops[2].back().kind, kQuiet);
  const trace::Run& p = t.run("shmem_p_latency Thread 4 B");
  EXPECT_EQ(told(p)["iteration of a repetition stdev"], "0.1 us");
  EXPECT_EQ(p.choices, (Choices{{"payload", "write_inline"}}));
  EXPECT_EQ(t.run("device_reduction int-sum-block 1024 B").not_replayable,
            "collectives are not simulated");
}

TEST_F(ImportLogs, NvshmemRuledTablesOfVersion2AreRead) {
  import_nvshmem_perftest(fixture("nvshmem-ruled.txt"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 2u);
  EXPECT_EQ(told(t.run("shmem_put_bw 2048 B")), (Told{{"goodput mean", "16.51 GB/s"}}));
}

TEST_F(ImportLogs, NvshmemCollectivesKeepTheirColumns) {
  import_nvshmem_perftest(fixture("nvshmem-collective.txt"), path("t"));
  const Loaded t = load(path("t"));
  EXPECT_EQ(told(t.run("alltoall_device block 32-bit 1024 B")),
            (Told{{"time mean", "223.616 us"},
                  {"algbw mean", "0.005 GB/s"},
                  {"busbw mean", "0.004 GB/s"}}));
}

// -------------------------------------------------------------------------------------- nccl-tests

TEST_F(ImportLogs, NcclTestsRowsTellBothHalvesBetweenWarnings) {
  import_nccl_tests(fixture("nccl-tests.txt"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 2u);
  const trace::Run& run = t.run("all_reduce_perf float sum 2048 B");
  EXPECT_EQ(told(run), (Told{{"time mean", "13.05 us"},
                             {"algbw mean", "0.16 GB/s"},
                             {"busbw mean", "0.16 GB/s"},
                             {"time mean, in place", "12.87 us"},
                             {"algbw mean, in place", "0.16 GB/s"},
                             {"busbw mean, in place", "0.16 GB/s"}}));
  EXPECT_EQ(run.summaries[0].count, 20u);
  EXPECT_EQ(run.not_replayable, "collectives are not simulated");
  EXPECT_EQ(run.protocol, "");
}

TEST_F(ImportLogs, NcclTestsOldTablesAreRead) {
  import_nccl_tests(fixture("nccl-tests-old.txt"), path("t"));
  const Loaded t = load(path("t"));
  EXPECT_EQ(told(t.run("collective float sum 16 B"))["time mean"], "28.74 us");
}

TEST_F(ImportLogs, NcclTestsIterationsAreTold) {
  import_nccl_tests(fixture("nccl-tests-per-iteration.txt"), path("t"));
  Told all = told(load(path("t")).run("all_reduce_perf float root 0 1024 B"));
  EXPECT_EQ(all["iteration p99"], "15.1 us");
  EXPECT_EQ(all["iteration cv, in place"], "4.1 %");
}

TEST_F(ImportLogs, NcclTestsJsonIsReadWithoutItsEnvironment) {
  import_nccl_tests(fixture("nccl-tests.json"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 2u);
  Told all = told(t.run("alltoall_perf float 1024 B"));
  EXPECT_EQ(all["time mean"], "12.31 us");
  EXPECT_EQ(all["iteration median"], "12.2 us");
  EXPECT_EQ(all.count("algbw mean, in place"), 0u) << "nan is no number";
  EXPECT_EQ(told(t.run("alltoall_perf float 2048 B")).size(), 3u) << "out of place is null";
}

// --------------------------------------------------------------------------------------- GIN proxy

TEST_F(ImportLogs, GinProxyOperationsCarryTheirTimes) {
  import_gin_proxy_log(fixture("gin-proxy.log"), path("t"));
  const Loaded t = load(path("t"));
  ASSERT_EQ(t.runs.size(), 2u);
  const trace::Run& run = t.run("node1:100");
  EXPECT_EQ(run.protocol, "gin-proxy");
  EXPECT_EQ(run.lanes.size(), 2u) << "context 0 and 1, each to PE 1";
  EXPECT_EQ(run.measured_stages, (std::vector<std::string>{"proxy_post"}));
  ASSERT_EQ(run.summaries.size(), 12u);
  // Of the three puts: 0.9, 1.0 and 0.6 us to the submission, then 5.1, 6.0 and 4.0 us.
  EXPECT_EQ(run.summaries[1].metric + " " + run.summaries[1].statistic, "proxy_post median");
  EXPECT_NEAR(run.summaries[1].value, 900, 1);
  EXPECT_EQ(run.summaries[1].count, 3u) << "NCCL logs no submission of a get or a flush";
  EXPECT_EQ(run.summaries[8].metric + " " + run.summaries[8].statistic, "post_to_completion mean");
  EXPECT_NEAR(run.summaries[8].value, 15100.0 / 3, 0.01);
  std::vector<Op> lane0, lane1;
  for (const Op& op : t.ops[0]) (op.warp == 0 ? lane0 : lane1).push_back(op);
  ASSERT_EQ(lane0.size(), 3u);
  ASSERT_EQ(lane1.size(), 2u);

  // Seen at 0.1 us, submitted at 1.0, completed at 6.1; the next one seen at 8.1. 1.98 cycles/ns.
  EXPECT_EQ(lane0[0].kind, kPut);
  EXPECT_EQ(lane0[0].bytes, 64u);
  EXPECT_EQ(lane0[0].measured->start_ns, 0u);
  EXPECT_EQ(lane0[0].measured->stage_cycles, (std::vector<std::uint32_t>{1782})) << "0.9 us";
  EXPECT_EQ(lane0[0].measured->consumer_seen_ns, 5000000100) << "NCCL's own clock, ns";
  EXPECT_EQ(lane0[0].measured->consumer_done_ns, 6000) << "completed 6 us after it was seen";
  EXPECT_TRUE(lane0[0].wait) << "the next was posted only after its completion";
  EXPECT_EQ(lane0[0].compute_cycles, 3960u) << "2 us later";

  EXPECT_EQ(lane0[1].kind, kPutSignal);
  EXPECT_FALSE(lane0[1].wait) << "the next was posted meanwhile";
  EXPECT_EQ(lane0[1].measured->start_ns, 8000u);
  EXPECT_EQ(lane0[1].measured->stage_cycles, (std::vector<std::uint32_t>{1980}));
  EXPECT_EQ(lane0[1].measured->consumer_done_ns, 7000);
  EXPECT_EQ(lane0[2].measured->index, 2u) << "it completed first and stays behind";

  EXPECT_EQ(lane1[0].kind, kGet);
  EXPECT_EQ(lane1[0].measured->consumer_done_ns, 3000);
  EXPECT_EQ(lane1[1].kind, kQuiet) << "a flush";
  EXPECT_EQ(lane1[1].measured->consumer_done_ns, 100) << "completed when consumed";

  EXPECT_EQ(t.run("node1:101").lanes.size(), 1u);
  EXPECT_EQ(t.ops[1][0].bytes, 128u);
}

TEST_F(ImportLogs, CountersGoWithATraceAndAreHeldAgainstItsOperations) {
  ImportOptions options;
  options.after = fixture("hw-counters-after.txt");
  import_mlx5_counters(fixture("hw-counters-before.txt"), path("counters"), options);
  const Header counters = load(path("counters")).header;
  ASSERT_EQ(counters.counters.size(), 4u) << "lifespan is a setting";
  EXPECT_EQ(counters.counters[3].device, "mlx5_0/1");
  EXPECT_EQ(counters.counters[3].name, "rx_write_requests");
  EXPECT_EQ(counters.counters[3].value, 4) << "1004 - 1000";
  EXPECT_EQ(counters.counters[3].taken, "difference");

  ImportOptions with;
  with.counters = counters.counters;
  import_gin_proxy_log(fixture("gin-proxy.log"), path("t"), with);
  const Loaded t = load(path("t"));
  EXPECT_EQ(t.header.counters.size(), 4u);
  Requests requests;
  for (const auto& ops : t.ops)
    for (const Op& op : ops) requests.add(op);
  const std::vector<CounterCheck> checks = check_counters(t.header, requests);
  ASSERT_EQ(checks.size(), 3u);
  // Two puts and two puts with signal; a get; two signals.
  for (const auto& [i, expected] : {std::pair(0, 4.0), std::pair(1, 1.0), std::pair(2, 2.0)}) {
    EXPECT_EQ(checks[i].expected, expected) << checks[i].name;
    EXPECT_EQ(checks[i].counted, expected) << checks[i].name;
  }
}

// ---------------------------------------------------------------------------------------- counters

TEST_F(ImportLogs, CountersAreReadFromFoldersAndPrintoutsAlike) {
  const std::string folder = "snapshot/mlx5_0/ports/1/hw_counters/";
  std::filesystem::create_directories(path(folder));
  for (const auto& [name, value] :
       {std::pair("rx_write_requests", "1000"), std::pair("rx_atomic_requests", "100"),
        std::pair("rx_read_requests", "7"), std::pair("duplicate_request", "0"),
        std::pair("lifespan", "10")})
    make(folder + name, std::string(value) + "\n");
  import_mlx5_counters(path("snapshot"), path("folder"));
  import_mlx5_counters(fixture("hw-counters-before.txt"), path("text"));
  const auto from_folder = load(path("folder")).header.counters;
  const auto from_text = load(path("text")).header.counters;
  ASSERT_EQ(from_folder.size(), 4u);
  ASSERT_EQ(from_text.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(from_folder[i].device, from_text[i].device);
    EXPECT_EQ(from_folder[i].name, from_text[i].name);
    EXPECT_EQ(from_folder[i].value, from_text[i].value);
  }
}

TEST_F(ImportLogs, CountersOfEthtoolAndRdmaAreRead) {
  import_mlx5_counters(fixture("ethtool.txt"), path("e"));
  const auto ethtool = load(path("e")).header.counters;
  ASSERT_EQ(ethtool.size(), 3u);
  EXPECT_EQ(ethtool[0].name, "outbound_pci_stalled_wr");
  EXPECT_EQ(ethtool[0].value, 3);
  import_mlx5_counters(fixture("rdma-statistic.txt"), path("r"));
  const auto rdma = load(path("r")).header.counters;
  ASSERT_EQ(rdma.size(), 6u);
  EXPECT_EQ(rdma[5].device, "mlx5_1/1");
  EXPECT_EQ(rdma[5].value, 5);
}

// ------------------------------------------------------------------------------------------ format

TEST_F(ImportLogs, ATraceOfBeforeThereWereSummariesLoadsAsEver) {
  const Loaded t = load(source_file("traces/h200-c-device-consumer.trace"));
  EXPECT_TRUE(t.header.counters.empty());
  EXPECT_TRUE(t.runs.front().summaries.empty());
  EXPECT_EQ(t.runs.front().not_replayable, "");
}

}  // namespace
}  // namespace marrow::trace
