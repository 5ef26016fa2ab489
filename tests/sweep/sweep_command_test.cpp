// Does `marrow sweep` give the same bytes however it is run, go on where it was ended, keep the
// points that fail, and agree with arithmetic?
#include "tests/cli/command.h"

namespace marrow::cli {
namespace {

const std::string kHead =
    "study: s\nsystem: p-ib\nprotocol: mini-gda\n"
    "work: {does: [put, quiet], rounds: 40, bytes: 8}\n"
    "draws: 2\n";

class Sweep : public Command {
 protected:
  void study(const std::string& text) const { make("s.yaml", text); }
  Result sweep(const std::string& out, const Arguments& more = {}) const {
    return marrow(Arguments{"sweep", "s.yaml", "--out", out} + more);
  }
  /// Results, without the journal: its order is that of the points' ends.
  std::string results(const std::string& out) const {
    return text(out + "/results.csv") + text(out + "/results.json") +
           text(out + "/sensitivity.csv");
  }
  nlohmann::json points(const std::string& out) const {
    return json(out + "/results.json")["points"];
  }
};

TEST_F(Sweep, BytesDoNotDependOnHowManyRunAtOnceNorOnInterruption) {
  study(kHead +
        "mode: grid\n"
        "axes: {nic.receive_ns: {from: 100, to: 500, step: 100}, protocol.payload: [write, "
        "write_inline]}\n");
  ASSERT_EQ(sweep("one", {"-j", "1"}).code, 0);
  ASSERT_EQ(sweep("three", {"-j", "3"}).code, 0);
  EXPECT_EQ(results("one"), results("three"));

  // Ended after three points, in the middle of writing the fourth.
  std::filesystem::create_directory(path("cut"));
  std::istringstream lines(text("three/points.jsonl"));
  std::string kept, line;
  for (int i = 0; i < 4 && std::getline(lines, line); ++i) kept += line + "\n";
  make("cut/points.jsonl", kept + R"({"point":9,"line":{"metr)");
  const Result again = sweep("cut");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("3 points were there already"), std::string::npos) << again.out;
  EXPECT_EQ(results("cut"), results("one"));
  EXPECT_EQ(text("cut/points.jsonl").rfind(kept, 0), 0U) << "what was there stays";
}

TEST_F(Sweep, GoesOnAfterItWasKilled) {
  study(kHead + "mode: grid\naxes: {nic.receive_ns: {from: 1, to: 60, step: 1}}\n");
  shell(
      "marrow sweep s.yaml -j 2 --out killed & pid=$!; "
      "while kill -0 $pid && [ $(cat killed/points.jsonl | wc -l) -lt 5 ]; do sleep 0.01; done; "
      "kill -9 $pid; wait $pid");
  EXPECT_FALSE(std::filesystem::exists(path("killed/results.csv")));
  ASSERT_EQ(sweep("killed").code, 0);
  ASSERT_EQ(sweep("whole").code, 0);
  EXPECT_EQ(results("killed"), results("whole"));
}

TEST_F(Sweep, SpreadsOverRanksWithTheSameBytesAndGoesOnAfterOneWasKilled) {
  if (shell("command -v mpirun").code != 0 || !MARROW_HAS_MPI)
    GTEST_SKIP() << "no MPI; tools/install-deps.sh installs one";
  study(kHead + "mode: grid\naxes: {nic.receive_ns: {from: 1, to: 60, step: 1}}\n");
  ASSERT_EQ(sweep("one", {"-j", "1"}).code, 0);
  const std::string ranks =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 "
      "marrow sweep s.yaml --out ";
  const Result two = shell(ranks + "two");
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(results("one"), results("two"));

  // The last of the ranks, which mpirun has as children, is killed.
  shell(ranks +
        "killed & mpi=$!; "
        "while [ $(cat killed/points.jsonl 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; "
        "kill -9 $(tr ' ' '\\n' < /proc/$mpi/task/$mpi/children | grep . | tail -n 1); wait $mpi");
  ASSERT_EQ(shell(ranks + "killed").code, 0);
  EXPECT_EQ(results("one"), results("killed"));
}

TEST_F(Sweep, RefusesAFolderOfAnotherStudy) {
  study(kHead + "mode: grid\naxes: {nic.receive_ns: [100]}\n");
  ASSERT_EQ(sweep("out").code, 0);
  EXPECT_EQ(sweep("out").code, 0) << "the same study again";
  study(kHead + "mode: grid\naxes: {nic.receive_ns: [200]}\n");
  const Result other = sweep("out");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("out/points.jsonl: holds points of another study"), std::string::npos);
  EXPECT_NE(other.err.find("--out"), std::string::npos);
}

TEST_F(Sweep, APointThatFailsIsRecordedAndDoesNotEndTheStudy) {
  study(kHead + "mode: grid\naxes: {pcie.lanes_count: [8, 99, 16]}\n");
  const Result result = sweep("out");
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("1 of 3 points failed"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("point 1: "), std::string::npos) << result.err;
  const auto all = points("out");
  EXPECT_TRUE(all[0]["error"].is_null());
  EXPECT_NE(all[1]["error"].get<std::string>().find("pcie.lanes_count"), std::string::npos);
  EXPECT_TRUE(all[1]["metrics"].empty());
  EXPECT_GT(all[2]["metrics"]["put_completion_median_ns"].get<double>(), 0);
}

TEST_F(Sweep, FailsWhereEveryPointFails) {
  // Three 16 B stores hold no 4 KiB of inline payload.
  study(kHead + "mode: grid\naxes: {protocol.payload: [write_inline], work.bytes: [4096, 8192]}\n");
  const Result result = sweep("out");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("2 of 2 points failed"), std::string::npos) << result.err;
}

TEST_F(Sweep, EveryParameterAndMetricIsAColumn) {
  study(kHead +
        "mode: grid\n"
        "axes:\n"
        "  generation: {keys: [pcie.generation_count, nic.pcie.generation_count], values: [4, 5]}\n"
        "  kind: {cases: {\"big, far\": {work.bytes: 512, placement: far, protocol.payload: "
        "write}}}\n"
        "metrics: [put_completion, rate]\n");
  ASSERT_EQ(sweep("out").code, 0);
  std::istringstream lines(text("out/results.csv"));
  std::string head, first;
  std::getline(lines, head);
  std::getline(lines, first);
  EXPECT_EQ(head,
            "point,generation,kind,pcie.generation_count,nic.pcie.generation_count,work.bytes,"
            "placement,protocol.payload,put_completion_median_ns,put_completion_p90_ns,"
            "put_completion_p99_ns,rate_mmsg_per_s,error");
  EXPECT_EQ(first.rfind("0,4,\"big, far\",4,4,512,far,write,", 0), 0U) << first;
}

// One put at a time: nothing overlaps, so a stage's time is saved whole if it is free. receive is
// nic.receive_ns alone.
TEST_F(Sweep, ACostSetToZeroSavesItsStagesShare) {
  study(kHead + "placement: near\nmode: one_at_a_time\naxes: {nic.receive_ns: [0]}\n");
  ASSERT_EQ(sweep("out").code, 0);
  const auto all = points("out");
  const auto metric = [&](int point, const char* name) {
    return all[point]["metrics"][name].get<double>();
  };
  const double saved = 1 - metric(1, "end_to_end_median_ns") / metric(0, "end_to_end_median_ns");
  EXPECT_NEAR(saved, metric(0, "stage.receive_share"), 0.01 * saved + 1e-3);
  EXPECT_GT(saved, 0.05);
}

// The NIC's own times stand in a row for one put, so that the elasticity of each is its part of
// end_to_end: receive_ns 390.
TEST_F(Sweep, AnElasticityIsTheParametersPartWhereNothingOverlaps) {
  study(kHead +
        "placement: near\nmode: one_at_a_time\naxes: {nic.receive_ns: {percent: 50}}\n"
        "target: end_to_end\n");
  ASSERT_EQ(sweep("out").code, 0);
  const auto result = json("out/results.json");
  const double whole = result["points"][0]["metrics"]["end_to_end_median_ns"].get<double>();
  bool found = false;
  for (const auto& s : result["sensitivity"])
    if (s["what"] == "elasticity" && s["metric"] == "end_to_end_median_ns") {
      EXPECT_NEAR(s["result"].get<double>(), 390 / whole, 0.005);
      found = true;
    }
  EXPECT_TRUE(found);
}

// Every time of the model scaled by one factor scales every result by it, so that the elasticities
// of all times and cycle counts sum to 1; rates hardly matter to 8 B.
TEST_F(Sweep, ElasticitiesOfAllTimesSumToOne) {
  study(kHead +
        "placement: near\nmode: one_at_a_time\ntarget: end_to_end\n"
        "axes: {gpu.*: {percent: 10}, pcie.*: {percent: 10}, switch.*: {percent: 10}, nic.*: "
        "{percent: 10}, wire.*: {percent: 10}, protocol.*: {percent: 10}}\n"
        "metrics: [end_to_end]\n");
  ASSERT_EQ(sweep("out").code, 0);
  double sum = 0;
  const auto result = json("out/results.json");
  for (const auto& s : result["sensitivity"]) {
    const std::string axis = s["axis"];
    if (s["what"] == "elasticity" && s["metric"] == "end_to_end_median_ns" &&
        (axis.ends_with("_ns") || axis.ends_with("_us") || axis.ends_with("_cycles")))
      sum += s["result"].get<double>();
  }
  EXPECT_NEAR(sum, 1, 0.02);
}

// 1 MiB at a time on a 100 Gb/s wire in 4096 B packets of 26 B headers (16 B more in the first):
// 12.5 GB/s * 4096 / 4122 while 16 lanes keep it busy.
TEST_F(Sweep, GoodputIsTheWiresWherePayloadIsLarge) {
  study(
      "study: s\nsystem: p-ib\nprotocol: mini-gda\ndraws: 1\n"
      "set: [protocol.payload=write]\n"
      "work: {does: [put, quiet], warps: 16, queues: 16, rounds: 20, bytes: 1048576}\n"
      "mode: grid\naxes: {wire.rate_gbps: [100]}\nmetrics: [goodput]\n");
  ASSERT_EQ(sweep("out").code, 0);
  const double goodput = points("out")[0]["metrics"]["goodput_gb_per_s"].get<double>();
  EXPECT_NEAR(goodput, 12.5 * 4096 / 4122, 0.02 * 12.5);
}

TEST_F(Sweep, ReplaysATraceOrAWorkload) {
  study("study: s\nsystem: p-ib\ntrace: " + source_file("traces/workloads/put-quiet.yaml") +
        "\nonly: [mini-gda]\ndraws: 1\nmode: grid\naxes: {pcie.lanes_count: [8, 16]}\n");
  const Result result = sweep("out");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GT(points("out")[0]["metrics"]["put_completion_median_ns"].get<double>(), 0);
}

TEST_F(Sweep, TellsHowToMendAStudy) {
  study(kHead + "mode: grid\naxes: {pcie.lane_count: [8]}\n");
  const Result result = sweep("out");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("s.yaml:7"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("pcie.lanes_count"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

}  // namespace
}  // namespace marrow::cli
