// Do commands that succeed deliver what they promise: help, files of the documented schema, the
// same bytes for the same seed?
#include <zlib.h>

#include "tests/cli/command.h"

namespace marrow::cli {
namespace {

class Help : public Command {};
class RunResults : public Command {};
class ValidateResults : public Command {};
class ConfigResults : public Command {};

TEST_F(Help, EveryCommandHasOne) {
  const auto commands = all_commands();
  for (const Arguments& known : {Arguments{"run"}, {"trace", "dump"}, {"config", "check"}})
    EXPECT_NE(std::find(commands.begin(), commands.end(), known), commands.end());
  for (const Arguments& command : commands) {
    std::string name = "marrow";
    for (const std::string& word : command) name += " " + word;
    const Result result = marrow(command + Arguments{"--help"});
    EXPECT_EQ(result.code, 0) << name;
    EXPECT_EQ(result.err, "") << name;
    EXPECT_NE(result.out.find("Usage: " + name + " "), std::string::npos) << result.out;
  }
}

TEST_F(Help, SaysWhatEveryOptionArgumentAndCommandIs) {
  for (const Arguments& command : all_commands()) {
    const std::string help = marrow(command + Arguments{"--help"}).out;
    for (const char* section : {"Positionals:", "Options:", "Subcommands:"})
      for (const auto& [name, text] : entries(help, section))
        EXPECT_GE(std::count(text.begin(), text.end(), ' '), 1) << name << " of\n" << help;
  }
}

TEST_F(Help, EndsWithExamplesThatWork) {
  for (const char* folder : {"configs", "traces", "validate"})
    std::filesystem::create_directory_symlink(source_file(folder), path(folder));
  make("workload.yaml", kWorkload);
  make("puts.csv.gz", read_file(source_file("tests/fixtures/traces/device.csv")));
  for (const auto& [name, log] :
       {std::pair("ib_write_lat.log", "perftest-write-lat.txt"),
        std::pair("before", "hw-counters-before.txt"), std::pair("after", "hw-counters-after.txt"),
        std::pair("nccl.log", "gin-proxy.log")})
    make(name, read_file(source_file(std::string("tests/fixtures/traces/logs/") + log)));
  for (const Arguments& command : all_commands()) {
    const std::string help = marrow(command + Arguments{"--help"}).out;
    std::string name = "marrow";
    for (const std::string& word : command) name += " " + word;
    const std::size_t at = help.find("\nExample");
    ASSERT_NE(at, std::string::npos) << help;
    std::istringstream lines(help.substr(at + 1));
    std::string line;
    std::getline(lines, line);
    std::size_t examples = 0;
    while (std::getline(lines, line) && !line.empty()) {
      ++examples;
      EXPECT_EQ(line.find("  " + name + " "), 0u) << line;
      const Result result = shell(line);
      // Where marrow was built without Node, reports say what to install.
      if (name == "marrow report" && result.err.find("nodejs") != std::string::npos) continue;
      EXPECT_EQ(result.code, 0) << line << '\n' << result.err;
    }
    EXPECT_GE(examples, 1u) << help;
  }
}

TEST_F(Help, VersionIsTold) {
  const Result result = marrow({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.out.starts_with("marrow ")) << result.out;
}

/// The three views of the whole stand beside the stages and are no part of the tiling.
bool tiles(const std::string& stage) {
  return stage != "completion" && stage != "put" && stage != "end_to_end";
}

void expect_shares_add_up(const nlohmann::json& stages) {
  double sum = 0;
  for (const auto& row : stages)
    if (tiles(row.at("stage"))) sum += row.at("share").get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST_F(RunResults, JsonHasTheSchemaAndItsSharesAddUp) {
  // One run of each recipe of this capture.
  expect_done(run_of(kCapture) +
              Arguments{"--only", "cfg 4", "--only", "cfg 20", "--json", "out.json"});
  const nlohmann::json result = json("out.json");
  EXPECT_EQ(result.at("schema"), "marrow.run/1");
  EXPECT_EQ(result.at("system"), "h200-c");
  EXPECT_EQ(result.at("trace"), kCapture);
  EXPECT_EQ(result.at("seed"), 1);
  EXPECT_FALSE(result.at("protocols").empty());
  EXPECT_TRUE(result.at("provenance").is_object());
  ASSERT_EQ(result.at("runs").size(), 2u);
  std::uint64_t messages = 0;
  for (const auto& run : result.at("runs")) {
    SCOPED_TRACE(run.at("run").get<std::string>());
    messages += run.at("messages").get<std::uint64_t>();
    expect_shares_add_up(run.at("stages"));
    for (const auto& row : run.at("stages"))
      for (const char* key : {"count", "median_ns", "p90_ns", "p99_ns", "mean_ns", "share"})
        EXPECT_TRUE(row.at(key).is_number()) << key;
  }
  EXPECT_EQ(result.at("total").at("messages"), messages);
  expect_shares_add_up(result.at("total").at("stages"));
  ASSERT_FALSE(result.at("counters").empty());
  for (const auto& counter : result.at("counters"))
    for (const char* key : {"block", "counter", "value", "unit"})
      EXPECT_TRUE(counter.contains(key)) << key;
}

TEST_F(RunResults, CsvFilesHaveTheirHeadings) {
  expect_done(run_cfg4() + kAllOutputs);
  EXPECT_TRUE(
      text("out.csv").starts_with("run,stage,count,median_ns,p90_ns,p99_ns,mean_ns,share\n"));
  const std::string messages = text("out-messages.csv");
  EXPECT_TRUE(messages.starts_with("run,warp,sm,queue,index,op,start_ns,"));
  // A heading and one line for each of the run's 2000 puts.
  EXPECT_EQ(std::count(messages.begin(), messages.end(), '\n'), 2001);
}

/// What the first packet of a timeline holds deflated (field 50: key 0x92 0x03). What comes first
/// in a run's process is in it.
std::string first_packets(const std::string& packed) {
  const std::size_t key = packed.find("\x92\x03");
  if (key == std::string::npos) return "";
  std::size_t at = key + 2;
  while (at < packed.size() && (packed[at++] & 0x80) != 0) continue;  // the length
  std::string inflated(1 << 20, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + at));
  stream.avail_in = static_cast<uInt>(packed.size() - at);
  stream.next_out = reinterpret_cast<Bytef*>(inflated.data());
  stream.avail_out = static_cast<uInt>(inflated.size());
  if (inflateInit(&stream) != Z_OK) return "";
  inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return inflated.substr(0, stream.total_out);
}

TEST_F(RunResults, SeveralProtocolsGiveOneTable) {
  const Arguments start = {"run",
                           "--system",
                           source_file("configs/systems/p-ib.yaml"),
                           "--trace",
                           source_file("traces/workloads/submission-modes.yaml"),
                           "--protocol",
                           "gdaki",
                           "--protocol",
                           "mini-proxy",
                           "--protocol",
                           "host-initiated"};
  const Arguments near = {"--placement", "near", "--csv", "c.csv", "--json", "c.json"};
  const Result result = marrow(start + near);
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(read_file(path("c.json")));
  EXPECT_EQ(json["protocols"], (nlohmann::json{"gdaki", "mini-proxy", "host-initiated"}));
  ASSERT_EQ(json["comparison"].size(), 24u) << "8 sizes, 3 protocols";
  std::map<std::string, std::vector<double>> median_ns;
  for (const auto& row : json["comparison"]) median_ns[row["protocol"]].push_back(row["median_ns"]);
  for (std::size_t size = 0; size < 8; ++size)
    EXPECT_LT(median_ns["gdaki"][size], median_ns["host-initiated"][size]);
  const std::string csv = read_file(path("c.csv"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 25);
  EXPECT_EQ(marrow(start + Arguments{"--perfetto", "p"}).code, 2);
  EXPECT_EQ(result.out.find("Not the same work"), std::string::npos) << "all three have a NIC";
}

TEST_F(RunResults, AComparisonSaysWhichWaysEndBeforeTheNic) {
  make("w.yaml", kWorkload);
  const Result result =
      marrow({"run", "--system", source_file("configs/systems/p-ib.yaml"), "--trace", "w.yaml",
              "--protocol", "capture-ibgda", "--protocol", "gdaki", "--placement", "near"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("Not the same work: capture-ibgda ends where a consumer in a NIC's "
                            "place has completed the entry, gdaki goes"),
            std::string::npos)
      << result.out;
}

TEST_F(RunResults, AChangeThatNothingUsesIsTold) {
  make("w.yaml", kWorkload);
  const Arguments run = {"run",     "--system", source_file("configs/systems/p-ib.yaml"),
                         "--trace", "w.yaml",   "--draws",
                         "1"};
  const auto told = [&](const Arguments& more, const std::vector<std::string>& parts) {
    const Result result = marrow(run + more);
    EXPECT_EQ(result.code, 0) << result.err;
    for (const std::string& part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos) << "no '" << part << "': " << result.err;
    if (parts.empty()) {
      EXPECT_EQ(result.err, "");
    }
  };
  const Arguments nvshmem = {"--protocol", "nvshmem-ibgda"};
  // A proxy's clock where the GPU rings itself, and where a CPU thread does.
  told(nvshmem + Arguments{"--set", "protocol.worker=warm"},
       {"marrow: --set protocol.worker changes nothing: no step that is in force uses it\n"});
  told(nvshmem + Arguments{"--set", "protocol.worker=warm", "--set", "protocol.nic_handler=cpu"},
       {});
  told(nvshmem + Arguments{"--set", "protocol.scan_cycles=1"},
       {"marrow: --set protocol.scan_cycles changes nothing"});
  // A recipe without a NIC, and without words in a peer's memory.
  told({"--set", "nic.doorbell_ns=1"},
       {"--set nic.doorbell_ns=1 changes nothing: no recipe that was run posts to the NIC"});
  told({"--set", "gpu.sm.clock_ghz=1.5", "--set", "protocol.wqe.bytes=16", "--set",
        "protocol.wqe.count=3"},
       {});
  // Of a workload's own choices.
  make("w.yaml", replaced(kWorkload, "    protocol: capture-ibgda\n",
                          "    protocol: nvshmem-ibgda\n    choices: {worker: warm}\n"));
  told({}, {"marrow: choice worker=warm of the trace changes nothing"});
}

/// What sha1sum says of a file.
std::string sha1(const std::string& file) {
  FILE* const pipe = popen(("sha1sum '" + file + "'").c_str(), "r");
  char text[41] = "";
  const bool read = pipe != nullptr && fgets(text, sizeof text, pipe) != nullptr;
  if (pipe != nullptr) pclose(pipe);
  return read ? text : "";
}

TEST_F(RunResults, EveryResultSaysWithWhichFilesAndVersionItWasMade) {
  const std::string probe = source_file("validate/probes/h200-i-probe.jsonl");
  const std::string table = source_file("validate/measurements/dissecting/dissect-t4.yaml");
  make("s.yaml",
       "study: s\nsystem: p-ib\nprotocol: mini-gda\nwork: {does: [put, quiet], rounds: 3}\n"
       "draws: 1\nmode: grid\naxes: {work.bytes: [8]}\n");
  const std::string gdaki = "capture-gdaki.yaml", h200 = "gpus/h200.yaml", p_ib = "p-ib.yaml";
  for (const auto& [command, file, names] :
       std::vector<std::tuple<Arguments, std::string, std::vector<std::string>>>{
           {run_cfg4() + Arguments{"--json", "o.json"},
            "o.json",
            {"capture-ibgda.yaml", h200, "h200-c.yaml"}},
           {run_of(kCapture) + Arguments{"--only", "cfg=4", "--protocol", "capture-gdaki",
                                         "--protocol", "capture-ibgda", "--json", "c.json"},
            "c.json",
            {gdaki, "capture-ibgda.yaml", h200}},
           {{"validate", "--system", kSystem, "--capture", kCapture, "--only", "cfg=4", "--json",
             "v.json"},
            "v.json",
            {"capture-ibgda.yaml", h200, "h200-c.yaml"}},
           {{"validate", "--measurements", table, "--json", "m.json"},
            "m.json",
            {"dissect-t4.yaml", p_ib, "mini-gda.yaml"}},
           {{"calibrate", "--system", kSystem, "--probe", probe, "--parameters",
             "gpu.fence.sys_cycles", "--starts", "1", "--out", "o.yaml", "--json", "f.json"},
            "f.json",
            {"h200-i-probe.jsonl", h200, "h200-c.yaml"}},
           {{"sweep", "s.yaml", "--out", "."},
            "results.json",
            {"s.yaml", p_ib, "mini-gda.yaml"}}}) {
    const Result result = marrow(command);
    ASSERT_EQ(result.code, 0) << result.err;
    const nlohmann::json provenance = json(file).at("provenance");
    EXPECT_NE(marrow({"--version"}).out.find(provenance.at("version").get<std::string>()),
              std::string::npos);
    for (const std::string& name : names) {
      bool found = false;
      for (const auto& one : provenance.at("files")) {
        const std::string path = one.at("file");
        if (!path.ends_with(name)) continue;
        found = true;
        const std::string from = path.front() == '/' ? path : this->path(path);
        EXPECT_EQ(one.at("sha1"), sha1(from)) << from;
      }
      EXPECT_TRUE(found) << name << " in " << provenance.dump(1);
    }
  }
}

TEST_F(RunResults, KernelsAreToldApartWhereACpuThreadLaunchesThem) {
  const Result result =
      marrow({"run", "--system", source_file("configs/systems/p-ib.yaml"), "--trace",
              source_file("traces/workloads/submission-modes.yaml"), "--protocol", "host-initiated",
              "--only", "8 B", "--json", "k.json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("8 B: CPU waiting"), std::string::npos);
  const auto parts = nlohmann::json::parse(read_file(path("k.json")))["runs"][0]["kernels"];
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0]["part"], "kernel");
  EXPECT_NEAR(parts[0]["median_ns"].get<double>(), 10000 / 1.98, 1);
  EXPECT_NEAR(parts[0]["mean_ns"].get<double>() + parts[1]["mean_ns"].get<double>() +
                  parts[2]["mean_ns"].get<double>(),
              parts[3]["mean_ns"].get<double>(), 1);
}

TEST_F(RunResults, PerfettoShowsMeasuredBesidePredicted) {
  expect_done(run_cfg4() + Arguments{"--perfetto", "out.perfetto"});
  const std::string packed = text("out.perfetto");
  ASSERT_FALSE(packed.empty());
  EXPECT_EQ(packed[0], '\x0a');  // a packet: field 1 of the trace, length-delimited
  const std::string timeline = first_packets(packed);
  EXPECT_NE(timeline.find("marrow: cfg 4"), std::string::npos);
  EXPECT_NE(timeline.find("measured: cfg 4"), std::string::npos);
}

TEST_F(RunResults, TheSeedAloneDecidesWhatIsDrawn) {
  make("w.yaml", kWorkload);
  expect_done({"import", "workload-yaml", "w.yaml", "--out", "w.trace"});
  const auto with_seed = [&](const char* seed, const char* file) {
    expect_done(run_of("w.trace") + Arguments{"--draws", "1", "--seed", seed, "--json", file});
    return text(file);
  };
  const std::string first = with_seed("7", "a.json");
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(with_seed("7", "b.json"), first);
  with_seed("8", "c.json");
  // The seed itself stands in the file: only the times tell whether anything was drawn anew.
  EXPECT_NE(json("c.json").at("runs"), json("a.json").at("runs"));
}

TEST_F(RunResults, ACaptureReplaysToTheSameBytesToo) {
  expect_done(run_cfg4() + Arguments{"--json", "a.json"});
  expect_done(run_cfg4() + Arguments{"--json", "b.json"});
  EXPECT_EQ(text("a.json"), text("b.json"));
}

Arguments validate_cfg4() {
  return {"validate", "--system", kSystem, "--capture", kCapture, "--only", "cfg=4"};
}

TEST_F(ValidateResults, JsonHasEveryFieldOfTheSchema) {
  expect_done(validate_cfg4() + Arguments{"--json", "out.json"});
  const nlohmann::json result = json("out.json");
  EXPECT_EQ(result.at("schema"), "marrow.validate/1");
  EXPECT_EQ(result.at("system"), "h200-c");
  ASSERT_FALSE(result.at("rows").empty());
  for (const auto& row : result.at("rows")) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row.at("case"), "cfg 4");
    EXPECT_TRUE(row.at("stage").is_string());
    const std::string role = row.at("role");
    EXPECT_TRUE(role == "fit" || role == "placement" || role == "predicted");
    EXPECT_TRUE(row.at("unit") == "cycles" || row.at("unit") == "ns");
    for (const char* side : {"measured", "predicted"}) {
      const auto& spread = row.at(side);
      EXPECT_LE(spread.at("p10").get<double>(), spread.at("median").get<double>());
      EXPECT_LE(spread.at("median").get<double>(), spread.at("p90").get<double>());
    }
    const double measured = row.at("measured").at("median");
    const double predicted = row.at("predicted").at("median");
    EXPECT_NEAR(row.at("error").get<double>(), predicted / measured - 1, 1e-9);
    EXPECT_TRUE(row.at("baseline_error").is_number() || row.at("baseline_error").is_null());
    EXPECT_TRUE(row.at("stable").is_boolean());
  }
  const auto& summary = result.at("summary");
  EXPECT_TRUE(summary.at("rows").is_number_unsigned());
  EXPECT_LE(summary.at("median_abs_error").get<double>(),
            summary.at("p90_abs_error").get<double>());
  EXPECT_EQ(summary.at("worst").at("case"), "cfg 4");
  EXPECT_TRUE(summary.at("worst").at("stage").is_string());
  EXPECT_TRUE(summary.at("worst").at("error").is_number());
}

TEST_F(ValidateResults, AMissedBoundExitsWithOneAndAKeptOneWithZero) {
  for (const char* bound : {"--bound-median-percent", "--bound-p90-percent"}) {
    const Result missed =
        marrow(validate_cfg4() + Arguments{bound, "0.0001", "--json", "out.json"});
    EXPECT_EQ(missed.code, 1) << missed.err;
    EXPECT_EQ(missed.err, "");
    EXPECT_NE(missed.out.find("bound missed"), std::string::npos);
    // A missed bound is a result, not a failure: its rows tell where.
    EXPECT_EQ(json("out.json").at("schema"), "marrow.validate/1");
    expect_done(validate_cfg4() + Arguments{bound, "1000"});
  }
}

TEST_F(ConfigResults, EverySystemChecksAndShows) {
  std::size_t systems = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_file("configs/systems"))) {
    if (entry.path().extension() != ".yaml") continue;
    ++systems;
    const std::string file = entry.path().string();
    SCOPED_TRACE(file);
    const Result check = marrow({"config", "check", file});
    EXPECT_EQ(check.code, 0) << check.err;
    EXPECT_NE(check.out.find(": OK"), std::string::npos) << check.out;
    const Result show = marrow({"config", "show", "--json", file});
    EXPECT_EQ(show.code, 0) << show.err;
    const auto shown = nlohmann::json::parse(show.out);
    EXPECT_EQ(shown.at("schema"), "marrow.config/1");
    EXPECT_EQ(shown.at("system"), entry.path().stem().string());
    EXPECT_FALSE(shown.at("parameters").empty());
  }
  EXPECT_GE(systems, 1u);
}

TEST_F(ConfigResults, EveryRecipeShowsItsChoicesAndCostsWithSources) {
  std::size_t recipes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_file("configs/protocols"))) {
    if (entry.path().extension() != ".yaml") continue;
    ++recipes;
    const std::string name = entry.path().stem().string();
    SCOPED_TRACE(name);
    const Result by_name = marrow({"config", "show", "--json", name});
    EXPECT_EQ(by_name.code, 0) << by_name.err;
    const auto shown = nlohmann::json::parse(by_name.out);
    EXPECT_EQ(shown.at("schema"), "marrow.config/1");
    EXPECT_EQ(shown.at("protocol"), name);
    ASSERT_FALSE(shown.at("costs").empty());
    const Result by_path = marrow({"config", "show", entry.path().string()});
    EXPECT_EQ(by_path.code, 0) << by_path.err;
    for (const auto& cost : shown.at("costs"))
      EXPECT_FALSE(cost.at("source").get<std::string>().empty()) << cost;
    for (const char* part : {"choices", "costs"})
      for (const auto& row : shown.at(part)) {
        const std::string line = "  protocol." + row.at("key").get<std::string>() + " ";
        EXPECT_NE(by_path.out.find(line), std::string::npos) << line;
      }
  }
  EXPECT_GE(recipes, 4u);
}

TEST_F(ConfigResults, ARecipesCostsAndChoicesAreThoseOfItsFile) {
  const auto row = [&](const char* part, const std::string& key, const Arguments& sets) {
    const Result result = marrow(Arguments{"config", "show", "--json", "capture-gdaki"} + sets);
    const auto shown = nlohmann::json::parse(result.out);
    for (const auto& entry : shown.at(part))
      if (entry.at("key") == key) return entry;
    return nlohmann::json();
  };
  // configs/protocols/capture-gdaki.yaml: lookup_cycles: {value: 51, fitted: ...},
  // doorbell_in: {allowed: [gpu, host], default: gpu}
  EXPECT_EQ(row("costs", "lookup_cycles", {}).at("value"), 51);
  EXPECT_EQ(row("costs", "lookup_cycles", {}).at("evidence"), "fitted");
  const Arguments more = {"--set", "protocol.lookup_cycles+=9"};
  EXPECT_EQ(row("costs", "lookup_cycles", more).at("value"), 60);
  EXPECT_EQ(row("costs", "lookup_cycles", more).at("evidence"), "assumed");
  EXPECT_EQ(row("choices", "doorbell_in", {}).at("value"), "gpu");
  EXPECT_EQ(row("choices", "doorbell_in", {}).at("allowed"), "gpu, host, peer");
}

}  // namespace
}  // namespace marrow::cli
