// Does a user get from an imported file what it holds: its numbers, a prediction beside them, or a
// clear word why there is none?
#include "tests/cli/command.h"

namespace marrow::cli {
namespace {

class Import : public Command {
 protected:
  static std::string fixture(const std::string& name) {
    return source_file("tests/fixtures/traces/logs/" + name);
  }
  Result info(const std::string& trace, const Arguments& more = {}) const {
    return marrow(Arguments{"trace", "info", trace} + more);
  }
};

const std::string kNicSystem = source_file("configs/systems/p-ib.yaml");

TEST_F(Import, ABenchmarksRowsStandBesideTheirPrediction) {
  expect_done({"import", "perftest", fixture("perftest-write-lat.txt"), "--out", "t.trace"});
  const Result shown = info("t.trace");
  EXPECT_NE(shown.out.find("write_lat 8 B    one_way   median      1.03    us   1000"),
            std::string::npos)
      << shown.out;
  const Result run = marrow(
      {"run", "--system", kNicSystem, "--trace", "t.trace", "--draws", "1", "--json", "out.json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("one_way median               1.03"), std::string::npos) << run.out;
  const auto measured = json("out.json")["measured"];
  ASSERT_EQ(measured.size(), 21u) << "three rows of seven numbers";
  for (const auto& row : measured) {
    EXPECT_GT(row["predicted"], 0) << row;
    EXPECT_NEAR(row["error"], double(row["predicted"]) / double(row["measured"]) - 1, 1e-9);
  }
}

TEST_F(Import, AProxysLogIsReplayedWithItsTimesAndCounters) {
  expect_done({"import", "mlx5-counters", fixture("hw-counters-before.txt"), "--after",
               fixture("hw-counters-after.txt"), "--out", "counters.trace"});
  expect_done({"import", "gin-proxy-log", fixture("gin-proxy.log"), "--counters", "counters.trace",
               "--out", "gin.trace"});
  const Result run =
      marrow({"run", "--system", kNicSystem, "--trace", "gin.trace", "--draws", "1"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("proxy_post median"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("post_to_completion median"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("rx_write_requests: 4 counted, 4 asked for by the trace's operations"),
            std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("rx_read_requests: 1 counted, 1 asked for by the trace's operations"),
            std::string::npos)
      << run.out;
  EXPECT_EQ(marrow({"validate", "--system", kNicSystem, "--capture", "gin.trace"}).code, 0);
}

// What an importer calls replayable, the recipe that it names can do.
TEST_F(Import, EveryOperationOfEveryFormatIsReplayedByItsRecipe) {
  std::size_t replayed = 0;
  for (const auto& [format, log] : std::vector<std::pair<std::string, std::string>>{
           {"perftest", "perftest-write-lat.txt"},
           {"perftest", "perftest-read-lat-duration.txt"},
           {"perftest", "perftest-unsorted.txt"},
           {"perftest", "perftest-write-bw-gpu.txt"},
           {"perftest", "perftest-bw-gbits-old.txt"},
           {"perftest", "perftest-lat.json"},
           {"nvshmem-perftest", "nvshmem-put-latency.txt"},
           {"nvshmem-perftest", "nvshmem-repetitions.txt"},
           {"nvshmem-perftest", "nvshmem-machine.txt"},
           {"nvshmem-perftest", "nvshmem-ruled.txt"},
           {"gin-proxy-log", "gin-proxy.log"}}) {
    SCOPED_TRACE(log);
    expect_done({"import", format, fixture(log), "--out", "t.trace"});
    const Result run =
        marrow({"run", "--system", kNicSystem, "--trace", "t.trace", "--draws", "1"});
    EXPECT_EQ(run.code, 0) << run.err;
    replayed += run.code == 0;
  }
  EXPECT_EQ(replayed, 11u);
  // Every kind of operation that NCCL's proxy knows (ncclGinProxyOp_t), beside a put.
  const std::string all = read_file(fixture("gin-proxy.log"));
  for (const char* op : {"0x1", "0x3", "0x9", "0x11", "0x29", "0x31", "0x40"}) {
    make("nccl.log", replaced(all, "op: 0x40", std::string("op: ") + op));
    const Result import = marrow({"import", "gin-proxy-log", "nccl.log", "--out", "t.trace"});
    if (import.code != 0) continue;  // a put whose submission the log does not tell
    EXPECT_EQ(marrow({"run", "--system", kNicSystem, "--trace", "t.trace", "--draws", "1"}).code, 0)
        << op;
  }
}

TEST_F(Import, OnlyLeavesOutARunThatTheRecipeCannotDo) {
  expect_done({"import", "gin-proxy-log", fixture("gin-proxy.log"), "--out", "gin.trace"});
  // A recipe without get: node1:100 has one, node1:101 has none.
  const std::string recipe = read_file(source_file("configs/protocols/gin-proxy.yaml"));
  make("no-get.yaml", replaced(recipe, "\nget:\n  - part: enqueue\n", "\n"));
  const Arguments run = {"run",        "--system",    kNicSystem, "--trace", "gin.trace",
                         "--protocol", "no-get.yaml", "--draws",  "1"};
  expect_refused(run, {"node1:100", "the recipe has no 'get'", "--only"});
  EXPECT_EQ(marrow(run + Arguments{"--only", "node1:101"}).code, 0);
}

TEST_F(Import, WhatCannotBeReplayedSaysWhy) {
  expect_done({"import", "nccl-tests", fixture("nccl-tests.txt"), "--out", "n.trace"});
  expect_refused({"run", "--system", kNicSystem, "--trace", "n.trace"},
                 {"n.trace", "no work to replay: collectives are not simulated", "workload"});
  expect_done({"import", "mlx5-counters", fixture("ethtool.txt"), "--out", "c.trace"});
  expect_refused({"run", "--system", kNicSystem, "--trace", "c.trace"},
                 {"c.trace", "has no runs", "--counters"});
  expect_done({"import", "nvshmem-perftest", fixture("nvshmem-machine.txt"), "--out", "m.trace"});
  const Result some = marrow({"run", "--system", kNicSystem, "--trace", "m.trace", "--draws", "1"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_NE(some.out.find("Left out, for they cannot be replayed: 1 run: collectives"),
            std::string::npos)
      << some.out;
}

TEST_F(Import, AWorkloadInYamlMayBeLookedIntoAsATrace) {
  make("w.yaml", kWorkload);
  const Result shown = info("w.yaml");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("small puts  capture-ibgda"), std::string::npos) << shown.out;
  const Result checked = marrow({"trace", "check", "w.yaml"});
  EXPECT_NE(checked.out.find("w.yaml: OK: 1 runs, 160 operations"), std::string::npos)
      << "8 warps of 20 puts: " << checked.out;
  EXPECT_EQ(marrow({"trace", "dump", "w.yaml", "--limit", "1"}).code, 0);
}

TEST_F(Import, InfoTellsAllAsJsonToo) {
  expect_done({"import", "mlx5-counters", fixture("hw-counters-before.txt"), "--out", "c.trace"});
  expect_done({"import", "perftest", fixture("perftest-bw-qos.json"), "--counters", "c.trace",
               "--out", "t.trace"});
  const auto told = nlohmann::json::parse(info("t.trace", {"--json"}).out);
  EXPECT_EQ(told["counters"].size(), 4u);
  EXPECT_EQ(told["counters"][3]["counter"], "rx_write_requests");
  EXPECT_EQ(told["counters"][3]["value"], 1000);
  EXPECT_EQ(told["runs"][0]["summaries"][1]["value"], 97.02);
  EXPECT_NE(std::string(told["runs"][0]["not_replayable"]).find("send and receive"),
            std::string::npos);
}

}  // namespace
}  // namespace marrow::cli
