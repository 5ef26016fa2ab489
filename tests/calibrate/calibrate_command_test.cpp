// Does `marrow calibrate` recover what made the data, say what they do not tell, give the same
// bytes however it is run, go on where it was ended, and refuse what is wrong?
#include <random>

#include "tests/cli/command.h"

namespace marrow::cli {
namespace {

const std::string kProbe = source_file("validate/probes/h200-i-probe.jsonl");

/// Few parameters, so that it takes a second; one that the rows do not tell among them.
const std::string kKeys =
    "gpu.sm.store_cycles,gpu.l2.load_cycles,gpu.l2.near_cycles,gpu.l2.far_cycles,"
    "gpu.fence.sys_cycles,gpu.fence.gpu_far_cycles,pcie.round_trip_ns,host.snoop_ns,"
    "host.read_after_store_ns,host.notice_ns";

class Calibrate : public Command {
 protected:
  Result calibrate(const std::string& out, const Arguments& more = {},
                   const std::string& probe = kProbe) const {
    return marrow(Arguments{"calibrate", "--system", kSystem, "--probe", probe, "--out", out} +
                  more);
  }
  Arguments few() const { return {"--parameters", kKeys, "--starts", "2"}; }

  /// The bundled probe's rows, with what a system predicts in place of what was measured, times
  /// noise of 2 %.
  void make_probe_of(const std::string& system, const std::string& name) const {
    const Result result =
        marrow({"calibrate", "--system", system, "--probe", kProbe, "--parameters",
                "gpu.fence.sys_cycles", "--starts", "1", "--out", "x.yaml", "--json", "x.json"});
    ASSERT_EQ(result.code, 0) << result.err;
    std::vector<nlohmann::ordered_json> lines;
    std::istringstream in(read_file(kProbe));
    for (std::string line; std::getline(in, line);)
      lines.push_back(nlohmann::ordered_json::parse(line));
    std::mt19937 random(7);
    std::normal_distribution<double> noise(1, 0.02);
    const auto predicted = json("x.json");
    for (const auto& row : predicted["rows"]) {
      const std::string place = row["place"];
      auto& line = lines.at(std::stoul(place.substr(place.rfind(':') + 1)) - 1);
      const std::string label = row["row"];
      const double made = row["before"].get<double>() * noise(random);
      if (label.ends_with("p10 to p90") || label.ends_with("p10 to median")) continue;
      const std::vector<const char*> keys =
          label.ends_with(", p10")
              ? std::vector<const char*>{"p10"}
              : std::vector<const char*>{"median", "median_low", "median_high"};
      const double overhead = line[keys[0]].get<double>() - row["measured"].get<double>();
      for (const char* key : keys) line[key] = made + overhead;
    }
    std::string text;
    for (const auto& line : lines) text += line.dump() + "\n";
    make(name, text);
  }
};

TEST_F(Calibrate, RecoversWhatMadeTheDataWithinFivePercent) {
  const std::map<std::string, double> truth = {
      {"gpu.sm.store_cycles", 4.4},   {"gpu.l2.load_cycles", 300},
      {"gpu.l2.near_cycles", 330},    {"gpu.l2.far_cycles", 560},
      {"gpu.fence.sys_cycles", 1180}, {"gpu.fence.gpu_far_cycles", 610},
      {"pcie.round_trip_ns", 940},    {"host.snoop_ns", 130}};
  std::string system = "system: truth\ninclude: [" + kSystem + "]\nparameters:\n";
  for (const auto& [key, value] : truth)
    system += "  " + key + ": {value: " + std::to_string(value) + ", assumed: made up}\n";
  make("truth.yaml", system);
  make_probe_of("truth.yaml", "made.jsonl");
  const Result result =
      calibrate("fit.yaml", few() + Arguments{"--json", "fit.json"}, "made.jsonl");
  ASSERT_EQ(result.code, 0) << result.err;
  std::map<std::string, std::string> verdicts;
  const auto fit = json("fit.json");
  for (const auto& parameter : fit["parameters"]) {
    const std::string key = parameter["key"];
    verdicts[key] = parameter["verdict"];
    if (verdicts[key] == "fitted" && truth.count(key)) {
      EXPECT_NEAR(parameter["value"].get<double>() / truth.at(key), 1, 0.05) << key;
    }
    if (parameter["interval"].is_null() || !truth.count(key)) continue;
    EXPECT_LE(parameter["interval"][0].get<double>(), truth.at(key)) << key;
    EXPECT_GE(parameter["interval"][1].get<double>(), truth.at(key)) << key;
  }
  for (const auto& [key, value] : truth) {
    // One row of 4700 cycles tells the 260 that it adds.
    if (key == "host.snoop_ns") continue;
    EXPECT_EQ(verdicts[key], "fitted") << key;
  }
  EXPECT_EQ(verdicts["host.notice_ns"], "unmoved");
  EXPECT_EQ(verdicts["host.read_after_store_ns"], "not identifiable");
  EXPECT_NE(result.out.find("do not tell it apart from host.snoop_ns"), std::string::npos)
      << result.out;
  const auto& after = fit["summary"]["held_out_rows"]["after"];
  EXPECT_LT(after["median_abs_error"].get<double>(), 0.03) << "noise of 2 %";
  // What is written can be used.
  make("mine.yaml", "system: mine\ninclude: [" + kSystem + ", fit.yaml]\n");
  EXPECT_EQ(marrow({"config", "check", "mine.yaml"}).code, 0) << text("fit.yaml");
}

TEST_F(Calibrate, BytesDoNotDependOnHowManyRunAtOnceNorOnInterruption) {
  ASSERT_EQ(calibrate("one.yaml", few() + Arguments{"-j", "1", "--json", "one.json"}).code, 0);
  ASSERT_EQ(calibrate("two.yaml", few() + Arguments{"-j", "2", "--json", "two.json"}).code, 0);
  EXPECT_EQ(replaced(text("one.yaml"), "fragment: one", "fragment: two"), text("two.yaml"));
  EXPECT_EQ(text("one.json"), text("two.json"));
  EXPECT_FALSE(std::filesystem::exists(path("one.yaml.journal"))) << "removed when it is done";

  std::string line = "marrow calibrate --system " + kSystem + " --probe " + kProbe;
  for (const std::string& argument : few()) line += " " + argument;
  shell(line +
        " --out two.yaml -j 2 & pid=$!; while kill -0 $pid && [ $(cat two.yaml.journal | wc -l) "
        "-lt 12 ]; do sleep 0.01; done; kill -9 $pid; wait $pid");
  ASSERT_TRUE(std::filesystem::exists(path("two.yaml.journal")));
  const std::string before = text("two.yaml");
  const Result again = calibrate("two.yaml", few() + Arguments{"--json", "again.json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("were there already"), std::string::npos) << again.out;
  EXPECT_EQ(text("two.yaml"), before);
  EXPECT_EQ(text("again.json"), text("one.json"));
}

TEST_F(Calibrate, GivesTheSameOverMpiRanks) {
  if (!MARROW_HAS_MPI) GTEST_SKIP() << "built without MPI";
  ASSERT_EQ(calibrate("one.yaml", few()).code, 0);
  std::string line = "mpirun --allow-run-as-root --oversubscribe -n 3 marrow calibrate --system " +
                     kSystem + " --probe " + kProbe + " --out ranks.yaml";
  for (const std::string& argument : few()) line += " " + argument;
  const Result result = shell(line);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(replaced(text("one.yaml"), "fragment: one", "fragment: ranks"), text("ranks.yaml"));
}

TEST_F(Calibrate, RefusesAJournalOfAnotherCalibration) {
  make("o.yaml.journal", "{\"schema\":\"other\"}\n");
  const Result result = calibrate("o.yaml", few());
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("o.yaml.journal"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("remove"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(path("o.yaml")));
}

TEST_F(Calibrate, RefusesWhatIsWrong) {
  const auto with = [&](const Arguments& more) {
    return Arguments{"calibrate", "--system", kSystem, "--probe", kProbe, "--out", "o.yaml"} + more;
  };
  expect_refused(with({"--parameters", "gpu.fence.sys_cycle"}), {"gpu.fence.sys_cycles"});
  expect_refused(with({"--parameters", "gpu.nope"}), {"marrow: --parameters gpu.nope: "});
  expect_refused(with({"--parameters", "pcie.mps_bytes"}), {"pcie.mps_bytes", "whole number"});
  expect_refused(with({"--parameters-from", "gpu.fense"}), {"gpu.fence"});
  expect_refused(with({"--probe", "none.jsonl"}), {"none.jsonl"});
  expect_bad_usage(with({"--hold-out", "2"}), {"--hold-out"});
  expect_bad_usage({"calibrate", "--system", kSystem, "--out", "o.yaml"}, {"--probe"});
  make("bad.jsonl", "{\"name\":\"device\"}\nnonsense\n");
  expect_refused(with({"--probe", "bad.jsonl"}), {"bad.jsonl:2"});
  make("nothing.jsonl", "{\"name\":\"device\"}\n{\"name\":\"launch_x\",\"median\":1}\n");
  expect_refused({"calibrate", "--system", kSystem, "--probe", "nothing.jsonl", "--out", "o.yaml"},
                 {"nothing.jsonl", "no row"});
}

TEST_F(Calibrate, RefusesAProbeThatWasCutAtALinesEndOrHoldsAbsurdValues) {
  const std::string whole = read_file(kProbe);
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    make("p.jsonl", text);
    expect_refused({"calibrate", "--system", kSystem, "--probe", "p.jsonl", "--out", "o.yaml"},
                   parts);
  };
  for (const std::size_t part : {whole.size() / 4, whole.size() / 2, whole.size() - 10})
    refused(whole.substr(0, whole.rfind('\n', part) + 1), {"p.jsonl", "this one was cut"});
  for (const char* value : {"-3960", "1e300", "\"x\"", "true", "[]"})
    refused(replaced(whole, "\"median\":", std::string("\"median\":") + value + ",\"was\":"),
            {"p.jsonl:", "'median'", "no number from 0 to"});
  refused(replaced(whole, "\"p10\":", "\"p10\":-1,\"was\":"), {"p.jsonl:", "'p10': -1"});
  refused(replaced(whole, "\"gpu\":\"NVIDIA H200\"", "\"gpu\":7"), {"p.jsonl:1", "'gpu'"});
  refused(replaced(whole, "\"clock_changed\":false", "\"clock_changed\":0"),
          {"p.jsonl:1", "'clock_changed'"});
}

TEST_F(Calibrate, GoesOnOverADamagedJournal) {
  const Arguments one = {"--parameters", "gpu.fence.sys_cycles", "--starts", "1"};
  ASSERT_EQ(calibrate("o.yaml", one).code, 0);
  const std::string fresh = text("o.yaml");
  shell(
      "marrow calibrate --system " + kSystem + " --probe " + kProbe +
      " --parameters gpu.fence.sys_cycles --starts 1 --out o.yaml & pid=$!; while kill -0 $pid && "
      "[ $(cat o.yaml.journal 2>/dev/null | wc -l) -lt 3 ]; do sleep 0.01; done; kill -9 $pid; "
      "wait $pid");
  if (!std::filesystem::exists(path("o.yaml.journal"))) GTEST_SKIP() << "it was done before";
  std::string journal = text("o.yaml.journal");
  journal = journal.substr(0, journal.find('\n') + 1) + "{\"point\":\"x\",\"line\":[1]}\n" +
            "{\"point\":1,\"line\":[\"x\"]}\n";
  make("o.yaml.journal", journal);
  const Result again = calibrate("o.yaml", one);
  EXPECT_NE(again.code, 3) << again.err;
  EXPECT_EQ(again.err.find("json.exception"), std::string::npos) << again.err;
}

TEST_F(Calibrate, WarnsOfAProbeOfAnotherGpuAndCountsWhatNothingPredicts) {
  make("other.jsonl", replaced(read_file(kProbe), "\"sms\":132", "\"sms\":114"));
  const Result result =
      calibrate("o.yaml", {"--parameters", "gpu.fence.sys_cycles", "--starts", "1"}, "other.jsonl");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("gpu.sm.units_count 114"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("rows of the probe are predicted by nothing"), std::string::npos);
  EXPECT_NE(result.out.find("6 launches: "), std::string::npos) << result.out;
}

// A capture's own rows: cfg 0's fences and reads are there.
TEST_F(Calibrate, FitsToACaptureToo) {
  const std::string capture = source_file("traces/h200-b-host-consumer.trace");
  const Result result = marrow({"calibrate", "--system", source_file("configs/systems/h200-b.yaml"),
                                "--capture", capture, "--parameters", "gpu.fence.sys_cycles",
                                "--starts", "1", "--out", "o.yaml", "--json", "o.json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto parameter = json("o.json")["parameters"][0];
  EXPECT_NE(parameter["verdict"], "unmoved");
  EXPECT_NEAR(parameter["value"].get<double>(), 1020, 50) << "what the machine's probe shows";
}

TEST_F(Calibrate, RunAndValidateStateIntervalsThatHoldTheMedian) {
  const Arguments run = run_cfg4() + Arguments{"--intervals", "20"};
  ASSERT_EQ(marrow(run + Arguments{"-j", "1", "--json", "a.json"}).code, 0);
  ASSERT_EQ(marrow(run + Arguments{"-j", "2", "--json", "b.json"}).code, 0);
  EXPECT_EQ(text("a.json"), text("b.json"));
  const auto run_result = json("a.json");
  for (const auto& row : run_result["runs"][0]["stages"]) {
    EXPECT_LE(row["interval_ns"][0], row["median_ns"]) << row;
    EXPECT_GE(row["interval_ns"][1], row["median_ns"]) << row;
  }
  const Result result = marrow({"validate", "--system", kSystem, "--capture", kCapture, "--only",
                                "cfg=4", "--intervals", "20", "--json", "v.json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("90 % intervals"), std::string::npos) << result.out;
  const auto told = json("v.json")["summary"]["intervals"]["predicted"];
  EXPECT_GE(told["rows"].get<int>(), 5);
  EXPECT_GE(told["share"].get<double>(), 0.8);
}

}  // namespace
}  // namespace marrow::cli
