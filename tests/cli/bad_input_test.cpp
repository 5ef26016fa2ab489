// Is each bad input refused with exit code 2 and one message that names place and mend, with no
// output left behind?
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_stream.hpp>

#include "tests/cli/command.h"
#include "traces/format/trace.pb.h"

namespace marrow::cli {
namespace {

class BadUsage : public Command {};
class BadTrace : public Command {};
class BadSetting : public Command {};
class BadFile : public Command {};

// ----------------------------------------------------------------------------------------- Usage

TEST_F(BadUsage, NoArgumentsAskForACommand) {
  expect_bad_usage({}, {"`marrow` needs a command", "run, validate"});
  expect_bad_usage({"trace"}, {"`marrow trace` needs a command", "info, check, dump"});
  expect_bad_usage({"config"}, {"`marrow config` needs a command", "show, check"});
}

TEST_F(BadUsage, AnOutputNeverReplacesWhatTheCommandReads) {
  const std::string work =
      "machine: m\nruns:\n  - {name: a, protocol: mini-gda, warps: 1, queues: 1, puts_per_warp: 1, "
      "bytes: 8}\n";
  make("w.yaml", work);
  std::filesystem::copy_file(kCapture, path("c.trace"));
  const std::string system = source_file("configs/systems/p-ib.yaml");
  for (const Arguments& command : std::vector<Arguments>{
           {"run", "--system", system, "--trace", "w.yaml", "--json", "w.yaml"},
           {"run", "--system", system, "--trace", "w.yaml", "--perfetto", "./w.yaml"},
           {"validate", "--system", kSystem, "--capture", "c.trace", "--json", "c.trace"},
           {"calibrate", "--system", system, "--probe", "w.yaml", "--out", "w.yaml"},
           {"run", "--system", system, "--trace", "w.yaml", "--json", "a", "--csv", "a"}}) {
    const Result result = marrow(command);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_NE(result.err.find("name another file"), std::string::npos) << result.err;
  }
  EXPECT_EQ(text("w.yaml"), work);
  EXPECT_EQ(text("c.trace"), read_file(kCapture));
  EXPECT_FALSE(std::filesystem::exists(path("a")));
}

TEST_F(BadUsage, AnUnknownCommandIsNamedWithTheNearest) {
  expect_bad_usage({"fly"}, {"`marrow` has no command fly",
                             "run, validate, calibrate, sweep, litmus, report, import, trace"});
  expect_bad_usage({"fly", "--help"}, {"`marrow` has no command fly"});
  expect_bad_usage({"fly", "--system", kSystem}, {"`marrow` has no command fly"});
  std::size_t commands = 0;
  for (const Arguments& command : all_commands()) {
    if (command.empty()) continue;
    ++commands;
    const std::string name = command.back();
    const Arguments above(command.begin(), command.end() - 1);
    const std::string of = "`marrow" + (above.empty() ? "" : " " + above.front()) + "` has no ";
    for (const std::string& slip : {name.substr(1), name + "s", name.substr(0, name.size() - 1)})
      expect_bad_usage(above + Arguments{slip},
                       {of + "command " + slip, "did you mean " + name + "?"});
  }
  EXPECT_GE(commands, 10u);
}

TEST_F(BadUsage, AnUnknownOptionIsNamedWithTheNearest) {
  expect_bad_usage(run_cfg4() + kAllOutputs + Arguments{"--wings"},
                   {"`marrow run` has no option --wings"});
  expect_bad_usage(run_cfg4() + Arguments{"--wings=2"}, {"has no option --wings;"});
  std::size_t options = 0;
  for (const Arguments& command : all_commands()) {
    std::string name = "marrow";
    for (const std::string& word : command) name += " " + word;
    for (const std::string& option : options_of(command)) {
      ++options;
      // A letter left out, one too many; what is required is missing here too.
      for (const std::string& slip : {option.substr(0, 2) + option.substr(3), option + "x"})
        expect_bad_usage(command + Arguments{slip}, {"`" + name + "` has no option " + slip + ";",
                                                     "did you mean " + option + "?"});
    }
  }
  EXPECT_GE(options, 30u);
}

TEST_F(BadUsage, AnArgumentTooManyIsNamed) {
  expect_bad_usage({"trace", "info", kCapture, "again"},
                   {"`marrow trace info`: one argument too many, again"});
  expect_bad_usage({"run", "it"}, {"`marrow run`: one argument too many, it"});
}

TEST_F(BadUsage, AMissingOptionIsNamed) {
  expect_bad_usage({"run", "--trace", kCapture}, {"--system is required"});
  expect_bad_usage({"run", "--system", kSystem}, {"--trace is required"});
  expect_bad_usage({"validate", "--system", kSystem}, {"--capture is required"});
}

TEST_F(BadUsage, ANumberThatIsNoneIsNamed) {
  expect_bad_usage(run_cfg4() + Arguments{"--seed", "many"}, {"--seed", "many"});
}

TEST_F(BadUsage, OnlyThatNamesNoRunTellsWhatListsThem) {
  expect_refused(run_of(kCapture) + kAllOutputs + Arguments{"--only", "cfg=400"},
                 {"--only", "no run of " + kCapture, "marrow trace info"});
  expect_refused({"validate", "--system", kSystem, "--capture", kCapture, "--only", "cfg=400",
                  "--json", "out.json"},
                 {"--only", "no run of " + kCapture, "marrow trace info", "cfg=4"});
}

// ----------------------------------------------------------------------------------------- Files

TEST_F(BadFile, AMissingSystemFileIsNamed) {
  expect_refused(Arguments{"run", "--system", "no.yaml", "--trace", kCapture} + kAllOutputs,
                 {"no.yaml", "No such file", "check the name"});
  expect_refused({"config", "check", "no.yaml"}, {"no.yaml", "No such file", "check the name"});
  expect_refused({"config", "show", "no.yaml"}, {"no.yaml", "No such file", "check the name"});
}

TEST_F(BadFile, AMissingTraceIsNamed) {
  expect_refused(run_of("no.trace") + kAllOutputs, {"no.trace", "no such file", "check the path"});
  expect_refused({"trace", "info", "no.trace"}, {"no.trace", "no such file", "check the path"});
}

TEST_F(BadFile, WhatNoReportShowsIsNamed) {
  make("empty.json", "{}");
  expect_refused({"report", "none", "--out", "o.html"}, {"none", "no such file or folder"});
  expect_refused({"report", "empty.json", "--out", "o.html"},
                 {"empty.json", "nothing that a report shows", "run --json"});
}

TEST_F(BadFile, AnOutputThatCannotBeWrittenIsNamed) {
  for (const char* option : {"--json", "--csv", "--messages-csv", "--perfetto"})
    expect_refused(run_cfg4() + Arguments{option, "no/such/place"},
                   {"no/such/place", "cannot be written", "check that its directory exists"});
  make("w.yaml", kWorkload);
  expect_refused({"import", "workload-yaml", "w.yaml", "--out", "no/such/place"},
                 {"no/such/place", "cannot be written", "check that its directory exists"});
}

// Before anything is read, let alone simulated: the inputs named here do not even exist.
TEST_F(BadFile, EveryCommandLooksAtItsOutputsFirst) {
  std::filesystem::create_directory(path("folder"));
  const Arguments run = {"run", "--system", "none.yaml", "--trace", "none.trace"};
  const Arguments fit = {"calibrate", "--system", "none.yaml", "--probe", "none.jsonl"};
  for (const auto& [command, option] : std::vector<std::pair<Arguments, std::string>>{
           {run, "--json"},
           {run, "--csv"},
           {run, "--messages-csv"},
           {run, "--perfetto"},
           {run + Arguments{"--protocol", "a", "--protocol", "b"}, "--json"},
           {{"validate", "--system", "none.yaml", "--capture", "none.trace"}, "--json"},
           {{"validate", "--measurements", "none"}, "--json"},
           {fit, "--out"},
           {fit + Arguments{"--out", "o.yaml"}, "--json"},
           {{"report", "none"}, "--out"},
           {{"litmus", "none.yaml"}, "--json"},
           {{"import", "perftest", "none.log"}, "--out"}}) {
    expect_refused(command + Arguments{option, "no/such/place"},
                   {"no/such/place", "cannot be written", "check that its directory exists"});
    expect_refused(command + Arguments{option, "folder"}, {"folder: is a directory"});
  }
  std::filesystem::create_directory(path("report.html"));
  expect_refused({"report", "none"}, {"report.html: is a directory"});
  make("s.yaml",
       "study: s\nsystem: p-ib\nprotocol: mini-gda\nwork: {does: [put, quiet]}\n"
       "mode: grid\naxes: {work.bytes: [8]}\n");
  make("file", "");
  expect_refused({"sweep", "s.yaml", "--out", "file"}, {"file", "--out"});
  std::filesystem::create_directories(path("swept/results.json"));
  expect_refused({"sweep", "s.yaml", "--out", "swept"}, {"swept/results.json: is a directory"});
  EXPECT_FALSE(std::filesystem::exists(path("swept/points.jsonl")));
}

TEST_F(BadFile, AnOutputThatIsThereIsKeptWhereTheCommandFails) {
  make("o.json", "old");
  expect_refused({"run", "--system", "none.yaml", "--trace", "none.trace", "--json", "o.json"},
                 {"none.yaml"});
  EXPECT_EQ(text("o.json"), "old");
}

TEST_F(BadFile, NegativeBytesInAWorkloadNameLineAndRange) {
  make("w.yaml", replaced(kWorkload, "bytes: 64", "bytes: -64"));
  expect_refused({"import", "workload-yaml", "w.yaml", "--out", "w.trace"},
                 {"w.yaml:8", "bytes", "-64", "write a whole number"});
}

TEST_F(BadFile, AnUnknownKeyInAWorkloadNamesLineAndNearest) {
  make("w.yaml", replaced(kWorkload, "queues:", "queus:"));
  expect_refused({"import", "workload-yaml", "w.yaml", "--out", "w.trace"},
                 {"w.yaml:6", "queus", "did you mean 'queues'"});
}

TEST_F(BadFile, AnUnknownImportFormatNamesTheKnownOnes) {
  make("w.yaml", kWorkload);
  expect_refused({"import", "workload", "w.yaml", "--out", "w.trace"},
                 {"'workload'", "workload-yaml", "device-consumer-csv"});
}

TEST_F(BadFile, WhatIsNoSystemIsToldAndWhatToGiveInstead) {
  const std::string fragment = source_file("configs/gpus/h200.yaml");
  const std::string recipe = source_file("configs/protocols/capture-ibgda.yaml");
  const Arguments run = {"run", "--trace", kCapture, "--system"};
  for (const Arguments& command : {Arguments{"config", "check"}, Arguments{"config", "show"}, run})
    expect_refused(command + Arguments{fragment},
                   {fragment + ":", "is a part that systems include", "name a system"});
  for (const Arguments& command : {Arguments{"config", "check"}, run})
    expect_refused(command + Arguments{recipe},
                   {recipe + ":", "is a protocol recipe", "marrow config show " + recipe,
                    "marrow run --protocol " + recipe, "name a system"});
  expect_refused({"config", "show", "capture-ibgd"}, {"capture-ibgd", "there are: capture-gdaki"});
  expect_refused({"config", "show", "capture-ibgda", "--set", "gpu.sm.clock_ghz=1"},
                 {"--set gpu.sm.clock_ghz=1", "is a protocol recipe", "protocol.NAME=VALUE"});
  expect_refused({"config", "show", kSystem, "--set", "protocol.batch=1"},
                 {"--set protocol.batch=1", "is no protocol recipe", "show the recipe"});
}

TEST_F(BadFile, AnUnknownTargetInARecipeNamesLineStepAndNearest) {
  const std::string good = read_file(source_file("configs/protocols/capture-ibgda.yaml"));
  const std::size_t at = good.find("word: prod,");
  ASSERT_NE(at, std::string::npos);
  const auto line = 1 + std::count(good.begin(), good.begin() + static_cast<long>(at), '\n');
  make("broken.yaml", replaced(good, "word: prod,", "word: prodd,"));
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--protocol", "broken.yaml"},
                 {"broken.yaml:" + std::to_string(line), "atomic.word", "unknown target 'prodd'",
                  "nearest: prod"});
}

TEST_F(BadFile, AnUnknownProtocolNamesTheKnownOnes) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--protocol", "capture-ibgd"},
                 {"capture-ibgd", "there are: ", "capture-ibgda"});
}

// ---------------------------------------------------------------------------------------- Traces

TEST_F(BadTrace, ATruncatedTraceIsRefusedWhereverItIsCut) {
  const std::string whole = read_file(kCapture);
  // In the gzip header, in the trace's own header, in the first and in later runs, in the checksum.
  for (const std::size_t kept : {std::size_t{1}, std::size_t{9}, std::size_t{60}, whole.size() / 4,
                                 whole.size() / 2, whole.size() - 9, whole.size() - 1}) {
    SCOPED_TRACE(kept);
    make("cut.trace", whole.substr(0, kept));
    expect_refused(run_of("cut.trace") + kAllOutputs,
                   {"cut.trace", "truncated", "make or fetch it again"});
    expect_refused({"trace", "check", "cut.trace"},
                   {"cut.trace", "truncated", "make or fetch it again"});
  }
  make("cut.trace", "");
  expect_refused(run_of("cut.trace") + kAllOutputs,
                 {"cut.trace", "is empty", "make or fetch it again"});
}

TEST_F(BadTrace, ACorruptTraceIsRefusedWhereverItIs) {
  const std::string whole = read_file(kCapture);
  for (const std::size_t share : {3, 5, 7}) {
    SCOPED_TRACE(share);
    std::string bad = whole;
    for (std::size_t i = 0; i < 8; ++i) bad[bad.size() * share / 10 + i] ^= '\xff';
    make("bad.trace", bad);
    // What unpacks by chance is found by a record's own rules: not always "corrupt".
    expect_refused(run_of("bad.trace") + kAllOutputs, {"bad.trace", "record ", "(run 'cfg "});
    expect_refused({"trace", "check", "bad.trace"}, {"bad.trace", "record ", "(run 'cfg "});
  }
}

TEST_F(BadTrace, ACsvFileIsToldApartAndTheImportNamed) {
  make("puts.csv", "cfg,a,b\n1,2,3\n");
  expect_refused(run_of("puts.csv") + kAllOutputs,
                 {"puts.csv", "looks like a CSV file", "device-consumer-csv"});
}

TEST_F(BadTrace, AWorkloadIsToldApartAndTheImportNamed) {
  // By its name a workload is read as one; under another it is told apart.
  make("w.txt", kWorkload);
  expect_refused(run_of("w.txt") + kAllOutputs,
                 {"w.txt", "workload in YAML", "marrow import workload-yaml w.txt --out"});
}

TEST_F(BadTrace, ATraceWithoutMeasuredTimesCannotBeValidated) {
  make("w.yaml", kWorkload);
  expect_done({"import", "workload-yaml", "w.yaml", "--out", "w.trace"});
  expect_refused({"validate", "--system", kSystem, "--capture", "w.trace", "--json", "out.json"},
                 {"w.trace", "no captured times", "marrow run"});
}

/// One run of one put, gzipped: what marrow's own writer would refuse to write.
std::string trace_of(std::uint32_t version, std::uint32_t queue) {
  std::vector<trace::v1::Record> records(4);
  records[0].mutable_header()->set_format_version(version);
  records[0].mutable_header()->set_machine("made-up");
  trace::v1::Run& run = *records[1].mutable_run();
  run.set_name("only");
  run.set_protocol("capture-ibgda");
  run.set_queues(2);
  run.add_lanes()->set_queue(queue);
  trace::v1::Op& op = *records[2].mutable_op();
  op.set_kind(trace::v1::OP_PUT);
  op.set_flush(true);
  op.set_wait(true);
  records[3].mutable_end()->set_runs(1);
  records[3].mutable_end()->set_ops(1);
  std::stringstream out;
  boost::iostreams::filtering_ostream gz;
  gz.push(boost::iostreams::gzip_compressor());
  gz.push(out);
  for (const auto& record : records) {
    const std::string body = record.SerializeAsString();
    EXPECT_LT(body.size(), 128u) << "its length must fit into one byte";
    gz.put(static_cast<char>(body.size()));
    gz << body;
  }
  gz.reset();
  return out.str();
}

TEST_F(BadTrace, TheTraceThatTheNextTestsSpoilIsGood) {
  make("t.trace", trace_of(1, 1));
  expect_done(run_of("t.trace"));
}

TEST_F(BadTrace, AQueueIndexOutOfRangeNamesWarpAndRange) {
  make("t.trace", trace_of(1, 2));
  expect_refused(run_of("t.trace") + kAllOutputs,
                 {"t.trace", "run 'only'", "warp 0", "queue index out of range", "use 0 to 1"});
}

TEST_F(BadTrace, AVersionFromTheFutureAsksForALaterProgram) {
  make("t.trace", trace_of(2, 1));
  expect_refused(run_of("t.trace") + kAllOutputs,
                 {"t.trace", "format version 2 is from the future", "use a later marrow"});
}

// -------------------------------------------------------------------------------------- Settings

TEST_F(BadSetting, AnUnknownKeyNamesTheNearest) {
  for (const char* command : {"run", "validate"}) {
    const Arguments start = command == std::string("run")
                                ? run_cfg4()
                                : Arguments{"validate", "--system", kSystem, "--capture", kCapture};
    expect_refused(
        start + Arguments{"--json", "out.json", "--set", "gpu.sm.clok_ghz=2"},
        {"--set gpu.sm.clok_ghz=2", "unknown parameter", "did you mean gpu.sm.clock_ghz"});
  }
  expect_refused({"config", "show", kSystem, "--set", "gpu.sm.clok_ghz=2"},
                 {"--set gpu.sm.clok_ghz=2", "unknown parameter", "did you mean gpu.sm.clock_ghz"});
}

TEST_F(BadSetting, AWrongUnitNamesTheRightOne) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "gpu.sm.clock_mhz=1980"},
                 {"--set gpu.sm.clock_mhz=1980", "wrong unit", "gpu.sm.clock_ghz", "convert"});
}

TEST_F(BadSetting, AGroupLeftOutNamesTheWholeKey) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "sm.clock_ghz=1"},
                 {"--set sm.clock_ghz=1", "unknown parameter", "did you mean gpu.sm.clock_ghz?"});
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "sm.clock_mhz=1980"},
                 {"--set sm.clock_mhz=1980", "wrong unit", "this parameter is gpu.sm.clock_ghz"});
}

TEST_F(BadSetting, AnL2OfATerabyteIsRefused) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "gpu.l2.capacity_bytes=1e12"},
                 {"gpu.l2.capacity_bytes", "out of range", "65536 to 1073741824 bytes"});
}

TEST_F(BadSetting, WhatIsNoAssignmentShowsOne) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "gpu.sm.clock_ghz"},
                 {"--set gpu.sm.clock_ghz", "not an assignment", "write key=value"});
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "gpu.sm.clock_ghz=fast"},
                 {"--set gpu.sm.clock_ghz=fast", "\"fast\" is not a number", "write a number"});
}

TEST_F(BadSetting, AFractionOfACountIsRefused) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "pcie.generation_count=4.5"},
                 {"--set", "pcie.generation_count", "not a whole number", "without a fraction"});
}

TEST_F(BadSetting, AStoreThatIsTooWideNamesTheStepAndTheRange) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "protocol.wqe.bytes=17"},
                 {"--set protocol.wqe.bytes=17", "'17'", "from 1 to 16"});
}

TEST_F(BadSetting, ArithmeticOnWhatIsNoCostIsRefused) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "protocol.wqe.count+=1"},
                 {"--set protocol.wqe.count+=", "only costs", "write protocol.wqe.count=VALUE"});
}

TEST_F(BadSetting, TheDepthCannotBeSet) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "protocol.depth=64"},
                 {"--set protocol.depth", "nothing of that name", "marrow config show"});
}

TEST_F(BadSetting, AnUnknownNameOfARecipeNamesTheNearest) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "protocol.spin_cycle=3"},
                 {"--set protocol.spin_cycle", "capture-ibgda.yaml", "protocol.spin_cycles"});
}

TEST_F(BadSetting, AChoiceThatIsNotOfferedIsRefused) {
  expect_refused(run_cfg4() + kAllOutputs + Arguments{"--set", "protocol.doorbell_in=nic"},
                 {"doorbell_in", "'nic'"});
}

// More than a place carries: what comes behind it would wait for ever.
TEST_F(BadTrace, BackgroundThatOverfillsItsPlaceIsRefused) {
  for (const char* at : {"gpu_link_up", "gpu_link_down", "nic_link_up", "nic_link_down", "wire"}) {
    make("full.yaml",
         std::string("machine: made-up\nruns:\n  - {name: r, protocol: gdaki, warps: 1, "
                     "queues: 1, puts_per_warp: 5, bytes: 8, background: [{at: ") +
             at + ", gbps: 600, bytes: 4096}]}\n");
    expect_refused(
        {"run", "--system", source_file("configs/systems/p-ib.yaml"), "--trace", "full.yaml"},
        {"run 'r'", "600 Gb/s", at, "smaller gbps"});
  }
}

TEST_F(BadTrace, BackgroundWarpsAcrossNvlinkAreRefused) {
  make("warps.yaml",
       "machine: made-up\nruns:\n  - {name: r, protocol: nvshmem-p2p, warps: 1, queues: 1, "
       "puts_per_warp: 5, bytes: 64, does: [put], background: [{warps: 1, does: [put], bytes: "
       "64}]}\n");
  expect_refused(
      {"run", "--system", source_file("configs/systems/h200x2-l.yaml"), "--trace", "warps.yaml"},
      {"run 'r'", "across NVLink", "nvlink_copies"});
}

}  // namespace
}  // namespace marrow::cli
