// Does a trace come back as it was written, and is every damaged or foreign file refused with its
// place?
#include "traces/trace.h"

#include <functional>
#include <vector>

#include "tests/traces/helpers.h"
#include "traces/atomic_file.h"
#include "traces/commands.h"
#include "traces/format/trace.pb.h"

namespace marrow::trace {
namespace {

using AtomicFileTest = Files;
using TraceFile = Files;
using DamagedTrace = Files;
using Commands = Files;

// ------------------------------------------------------------------------------------ AtomicFile

TEST_F(AtomicFileTest, AppearsOnlyWhenCommitted) {
  {
    AtomicFile file(path("a"));
    file.stream() << "text";
    EXPECT_FALSE(std::filesystem::exists(path("a")));
    file.commit();
    EXPECT_EQ(read_file(path("a")), "text");
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommitAndKeepsWhatWasThere) {
  make("a", "old");
  { AtomicFile(path("a")).stream() << "new"; }
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, ReplacesALinksTargetAndNotTheLink) {
  make("target", "old");
  std::filesystem::create_symlink("target", path("link"));
  AtomicFile file(path("link"));
  file.stream() << "new";
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("target")), "new");
}

TEST_F(AtomicFileTest, TellsWhereNothingCanBeWritten) {
  EXPECT_HAS(error_of([&] { AtomicFile(path("no/such/place")); }),
             path("no/such/place") + ": cannot be written (No such file or directory)");
  EXPECT_HAS(error_of([&] { AtomicFile(path("")); }), "is a directory");
  if (std::filesystem::exists("/dev/full"))
    EXPECT_HAS(error_of([] {
                 AtomicFile file("/dev/full");
                 file.stream() << "text";
                 file.commit();
               }),
               "/dev/full: writing failed");
}

// ------------------------------------------------------------------------------------- Round trip

Run two_lanes() {
  Run run;
  run.name = "first";
  run.protocol = "capture-ibgda";
  run.choices = {{"batch", "4"}, {"doorbell_in", "host"}};
  run.lanes = {{3, 17, 1}, {9, std::nullopt, 0}};
  run.queues = 2;
  run.puts_per_lane = 2;
  run.measured_stages = {"slot", "completion"};
  run.epoch_ns = 1795962676296162496;
  return run;
}

Op measured_op() {
  Op op;
  op.kind = OpKind::kPutSignal;
  op.warp = 9;
  op.bytes = 1ull << 40;
  op.flush = true;
  op.wait = true;
  op.compute_cycles = 12345678901;
  op.count = 7;
  op.measured = Measured{32, {0, 4294967295}, 5, 6, true, true, -96.5, 648.6, 0.25};
  return op;
}

void expect_equal(const Run& a, const Run& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.protocol, b.protocol);
  EXPECT_EQ(a.choices, b.choices);
  ASSERT_EQ(a.lanes.size(), b.lanes.size());
  for (std::size_t i = 0; i < a.lanes.size(); ++i) {
    EXPECT_EQ(a.lanes[i].warp, b.lanes[i].warp);
    EXPECT_EQ(a.lanes[i].sm, b.lanes[i].sm);
    EXPECT_EQ(a.lanes[i].queue, b.lanes[i].queue);
  }
  EXPECT_EQ(a.queues, b.queues);
  EXPECT_EQ(a.puts_per_lane, b.puts_per_lane);
  EXPECT_EQ(a.measured_stages, b.measured_stages);
  EXPECT_EQ(a.epoch_ns, b.epoch_ns);
}

void expect_equal(const Op& a, const Op& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.warp, b.warp);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.flush, b.flush);
  EXPECT_EQ(a.wait, b.wait);
  EXPECT_EQ(a.compute_cycles, b.compute_cycles);
  EXPECT_EQ(a.count, b.count);
  ASSERT_EQ(a.measured.has_value(), b.measured.has_value());
  if (!a.measured) return;
  EXPECT_EQ(a.measured->start_ns, b.measured->start_ns);
  EXPECT_EQ(a.measured->stage_cycles, b.measured->stage_cycles);
  EXPECT_EQ(a.measured->polls, b.measured->polls);
  EXPECT_EQ(a.measured->index, b.measured->index);
  EXPECT_EQ(a.measured->rang, b.measured->rang);
  EXPECT_EQ(a.measured->timed_out, b.measured->timed_out);
  EXPECT_EQ(a.measured->consumer_seen_ns, b.measured->consumer_seen_ns);
  EXPECT_EQ(a.measured->consumer_read_ns, b.measured->consumer_read_ns);
  EXPECT_EQ(a.measured->consumer_done_ns, b.measured->consumer_done_ns);
}

TEST_F(TraceFile, ComesBackAsItWasWritten) {
  Op plain;
  plain.warp = 3;
  plain.kind = OpKind::kBarrier;
  trace::Run second = two_lanes();
  second.name = "second";
  {
    Writer writer(path("t"), {"h200-x", "by hand", 1.98});
    writer.run(two_lanes());
    writer.op(measured_op());
    writer.op(plain);
    writer.run(second);
    writer.op(plain);
    EXPECT_FALSE(std::filesystem::exists(path("t")));
    writer.close();
  }
  Reader reader(path("t"));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(reader.header().machine, "h200-x");
    EXPECT_EQ(reader.header().origin, "by hand");
    EXPECT_EQ(reader.header().sm_clock_ghz, 1.98);
    Op op;
    EXPECT_FALSE(reader.next_op(op)) << "before the first run";
    auto run = reader.next_run();
    ASSERT_TRUE(run);
    expect_equal(*run, two_lanes());
    ASSERT_TRUE(reader.next_op(op));
    expect_equal(op, measured_op());
    ASSERT_TRUE(reader.next_op(op));
    expect_equal(op, plain);
    EXPECT_FALSE(reader.next_op(op));
    EXPECT_FALSE(reader.next_op(op)) << "a run's end stays its end";
    run = reader.next_run();
    ASSERT_TRUE(run);
    expect_equal(*run, second);
    if (pass == 0) {
      EXPECT_FALSE(reader.next_run()) << "skips the second run's operation";
      EXPECT_FALSE(reader.next_run());
      EXPECT_FALSE(reader.next_op(op));
    }
    reader.rewind();
  }
}

TEST_F(TraceFile, IsTheSameBytesForTheSameInput) {
  for (const char* name : {"a", "b"}) {
    Writer writer(path(name), {"m", "o", 1.5});
    trace::Run run = two_lanes();
    for (int i = 0; i < 50; ++i) run.choices["choice" + std::to_string(i)] = "x";
    writer.run(run);
    writer.op(measured_op());
    writer.close();
  }
  EXPECT_EQ(read_file(path("a")), read_file(path("b")));
}

TEST_F(TraceFile, MayHoldNoRuns) {
  Writer(path("t"), {"m", "", 0}).close();
  Reader reader(path("t"));
  EXPECT_FALSE(reader.next_run());
}

TEST_F(TraceFile, IsGoneIfTheWriterIsNotClosed) {
  { Writer(path("t"), {"m", "", 0}).run(two_lanes()); }
  EXPECT_EQ(files(), 0u);
}

TEST_F(TraceFile, IsNotWrittenAgainstTheRules) {
  Writer writer(path("t"), {"m", "", 0});
  Op op;
  EXPECT_HAS(error_of([&] { writer.op(op); }), path("t") + ": record 2: an operation before");
  writer.run(two_lanes());
  EXPECT_HAS(error_of([&] { writer.op(op); }),
             "record 3 (run 'first'): warp 0 is not among the run's 2 lanes");
  EXPECT_HAS(error_of([&] { Writer(path("u"), {"\xff", "", 0}); }), "not UTF-8");
}

// ------------------------------------------------------------------------- Damaged, record by
// record

std::string framed(const v1::Record& record) {
  std::string body = record.SerializeAsString(), length;
  for (std::size_t n = body.size();; n >>= 7) {
    length.push_back(static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0)));
    if (n <= 0x7f) break;
  }
  return length + body;
}

/// A good trace as protobuf messages, to be spoilt: header, run, two operations, end.
struct Parts {
  std::vector<v1::Record> records{5};

  Parts() {
    records[0].mutable_header()->set_format_version(1);
    records[0].mutable_header()->set_machine("m");
    v1::Run& r = run();
    r.set_name("cfg 1");
    r.set_protocol("p");
    r.set_queues(2);
    r.add_measured_stages("slot");
    for (unsigned w = 0; w < 2; ++w) {
      v1::Lane& lane = *r.add_lanes();
      lane.set_warp(w);
      lane.set_queue(w);
    }
    for (int i = 0; i < 2; ++i) {
      op(i).set_kind(v1::OP_PUT);
      op(i).mutable_measured()->add_stage_cycles(300);
    }
    records[4].mutable_end()->set_runs(1);
    records[4].mutable_end()->set_ops(2);
  }
  v1::Run& run() { return *records[1].mutable_run(); }
  v1::Op& op(int i) { return *records[2 + i].mutable_op(); }
  std::string bytes() const {
    std::string all;
    for (const v1::Record& r : records) all += framed(r);
    return all;
  }
};

class Spoilt : public Files {
 protected:
  std::string error(const std::function<void(Parts&)>& spoil) {
    Parts parts;
    spoil(parts);
    return error_of_bytes(parts.bytes());
  }
  std::string error_of_bytes(const std::string& inflated) {
    make("t", gzipped(inflated));
    const std::string text = error_of([&] { count_ops(path("t")); });
    EXPECT_TRUE(text.starts_with(path("t") + ": ")) << text;
    return text;
  }
};

TEST_F(Spoilt, TheUnspoiltPartsAreATrace) {
  make("t", gzipped(Parts().bytes()));
  EXPECT_EQ(count_ops(path("t")), 2u);
}

TEST_F(Spoilt, CountZeroMeansOne) {
  make("t", gzipped(Parts().bytes()));
  Reader reader(path("t"));
  ASSERT_TRUE(reader.next_run());
  Op op;
  ASSERT_TRUE(reader.next_op(op));
  EXPECT_EQ(op.count, 1u);
}

TEST_F(Spoilt, HeaderFaultsNameTheFirstRecord) {
  EXPECT_HAS(error([](Parts& p) { p.records[0].mutable_header()->set_format_version(2); }),
             "record 1: format version 2 is from the future (this marrow reads 1); use a later");
  EXPECT_HAS(error([](Parts& p) { p.records[0].mutable_header()->set_format_version(0); }),
             "record 1: the header has no format version");
  EXPECT_HAS(error([](Parts& p) { p.records[2] = p.records[0]; }),
             "record 3 (run 'cfg 1'): a second header");
}

TEST_F(Spoilt, RunFaultsNameRecordAndRun) {
  const std::string at = "record 2 (run 'cfg 1'): ";
  EXPECT_HAS(error([](Parts& p) { p.run().mutable_lanes(1)->set_queue(2); }),
             at + "warp 1: queue index out of range (2 of 2 queues); use 0 to 1");
  EXPECT_HAS(error([](Parts& p) { p.run().mutable_lanes(1)->set_warp(0); }),
             at + "warp 0 is listed twice");
  EXPECT_HAS(error([](Parts& p) { p.run().set_queues(0); }), at + "the run has 0 queues");
  EXPECT_HAS(error([](Parts& p) { p.run().clear_lanes(); }), at + "the run has no lanes");
  EXPECT_HAS(error([](Parts& p) { p.run().clear_protocol(); }), at + "the run names no protocol");
  EXPECT_HAS(error([](Parts& p) { p.run().set_measured_stages(0, "slots"); }),
             at + "unknown measured stage 'slots'; did you mean 'slot'? known: kernel_end, "
                  "host_notice, staging, enqueue, lookup,");
  EXPECT_HAS(error([](Parts& p) { p.run().add_measured_stages("slot"); }),
             at + "measured stage 'slot' is listed twice");
}

TEST_F(Spoilt, OperationFaultsNameRecordAndRun) {
  const std::string at = "record 4 (run 'cfg 1'): ";
  EXPECT_HAS(error([](Parts& p) { p.op(1).set_warp(2); }), at + "warp 2 is not among the run's 2");
  EXPECT_HAS(error([](Parts& p) { p.op(1).set_bytes((1ull << 40) + 1); }),
             at + "payload of 1099511627777 bytes is out of range");
  EXPECT_HAS(error([](Parts& p) { p.op(1).set_kind(static_cast<v1::OpKind>(10)); }),
             at + "unknown operation kind 10");
  EXPECT_HAS(error([](Parts& p) { p.op(1).clear_kind(); }), at + "unknown operation kind 0");
  EXPECT_HAS(error([](Parts& p) { p.op(1).mutable_measured()->add_stage_cycles(1); }),
             at + "2 measured stage times, but the run names 1 measured stages");
  EXPECT_HAS(error([](Parts& p) { p.op(1).mutable_measured()->set_consumer_read_ns(-1); }),
             at + "a consumer time is negative");
  EXPECT_HAS(error([](Parts& p) { p.records.erase(p.records.begin() + 1); }),
             "record 2: an operation before the first run");
  EXPECT_HAS(error([](Parts& p) { p.records[3].Clear(); }), at + "a record of unknown kind");
}

TEST_F(Spoilt, ACountThatDiffersFromTheEndRecordIsTruncation) {
  EXPECT_HAS(error([](Parts& p) { p.records.pop_back(); }),
             "record 5 (run 'cfg 1'): the file is truncated: the end record is missing");
  EXPECT_HAS(error([](Parts& p) { p.records.erase(p.records.begin() + 2); }),
             "1 runs and 1 operations were read, but the end record counts 1 and 2");
  EXPECT_HAS(error([](Parts& p) { p.records.push_back(p.records[4]); }),
             "record 5 (run 'cfg 1'): data after the end record");
}

TEST_F(Spoilt, BrokenFramingIsCorruption) {
  const Parts parts;
  const std::string start = framed(parts.records[0]) + framed(parts.records[1]);
  EXPECT_HAS(error_of_bytes(start + "\x81\x80\x80\x08" + std::string(64, 'x')),
             "record 3 (run 'cfg 1'): the file is corrupt: a record of 16777217 bytes");
  EXPECT_HAS(error_of_bytes(start + std::string(16, '\xff')),
             "record 3 (run 'cfg 1'): the file is corrupt: a record has no length");
  EXPECT_HAS(error_of_bytes(start + "\x05zzzzz"),
             "record 3 (run 'cfg 1'): the file is corrupt: the record cannot be parsed");
  EXPECT_HAS(error_of_bytes(start + "\x05z"),
             "record 3 (run 'cfg 1'): the file is truncated: it ends inside a record");
}

// ---------------------------------------------------------------------------- Damaged, as a file

TEST_F(DamagedTrace, SaysWhatAForeignFileIs) {
  const auto error = [&](const std::string& text) {
    make("t", text);
    return error_of([&] { Reader reader(path("t")); });
  };
  EXPECT_HAS(error_of([&] { Reader reader(path("none")); }), path("none") + ": no such file");
  EXPECT_HAS(error_of([&] { Reader reader(path("")); }), "is a directory");
  EXPECT_HAS(error(""), path("t") + ": the file is empty");
  EXPECT_HAS(
      error("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
      "is not a trace: it is a git-lfs pointer, not the file itself; fetch the file: git lfs");
  const std::string csv = read_file(source_file("tests/fixtures/traces/device.csv"));
  EXPECT_HAS(error(csv),
             "is not a trace: it looks like a CSV file in the device-consumer-csv "
             "layout; import it: marrow import device-consumer-csv " +
                 path("t"));
  EXPECT_HAS(error(gzipped(read_file(source_file("tests/fixtures/traces/host.csv")))),
             "it looks like a CSV file in the host-consumer-csv layout, gzipped; import it");
  EXPECT_HAS(error("a,b\n1,2\n"), "it looks like a CSV file of an unknown layout");
  EXPECT_HAS(error("{\"name\": 1}\n"), "it looks like JSON");
  EXPECT_HAS(error("machine: x\nruns:\n - {name: a, b: c}\n"), "marrow import workload-yaml");
  EXPECT_HAS(error("hello"), "it looks like text ('hello')");
  EXPECT_HAS(error("PK\x03\x04 and so on"), "zip archive");
  EXPECT_HAS(error(gzipped(std::string("\x00\x01\x02\x03", 4))), "holds binary data of another");
  EXPECT_HAS(error(gzipped("")), "holds nothing once unpacked");
  EXPECT_HAS(error("\x1f not gzip at all"), "corrupt");
}

TEST_F(DamagedTrace, IsFoundAtEveryCut) {
  const std::string whole = read_file(source_file("traces/h200-b-host-consumer.trace"));
  std::vector<std::size_t> cuts = {
      1, 2, 5, 10, 11, 12, 20, 50, 100, 1000, whole.size() / 3, whole.size() / 2};
  for (std::size_t tail = 1; tail <= 20; ++tail) cuts.push_back(whole.size() - tail);
  for (const std::size_t cut : cuts) {
    make("t", whole.substr(0, cut));
    const std::string text = error_of([&] { count_ops(path("t")); });
    EXPECT_TRUE(text.starts_with(path("t") + ": ")) << cut << text;
    EXPECT_HAS(text, "truncated") << " at " << cut;
  }
}

TEST_F(DamagedTrace, IsFoundWhereverAByteIsFlipped) {
  const std::string whole = read_file(source_file("traces/h200-b-host-consumer.trace"));
  for (const std::size_t at :
       {whole.size() / 4, whole.size() / 2, whole.size() - 8, whole.size() - 5}) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    make("t", bytes);
    EXPECT_HAS(error_of([&] { count_ops(path("t")); }), path("t") + ": ") << at;
  }
  make("t", whole + "more");
  EXPECT_HAS(error_of([&] { count_ops(path("t")); }), "corrupt");
}

// ---------------------------------------------------------------------------------- Command line

TEST_F(Commands, InfoTellsWhatARunHolds) {
  {
    Writer writer(path("t"), {"h200-x", "by hand", 2.0});
    trace::Run run = two_lanes();
    writer.run(run);
    Op op = measured_op();
    op.bytes = 100;
    op.measured->start_ns = 1000;
    op.measured->stage_cycles = {50, 150};
    writer.op(op);
    op.count = 1;
    op.measured->start_ns = 3000;  // ends 200 cycles = 100 ns later: 2,100 ns after the first start
    writer.op(op);
    writer.close();
  }
  std::ostringstream text, json;
  Reader reader(path("t"));
  info(reader, path("t"), false, text);
  EXPECT_HAS(text.str(), "machine   h200-x");
  EXPECT_HAS(text.str(),
             "first  capture-ibgda  batch=4 doorbell_in=host      2       2    8    800"
             "       yes          2.1");
  reader.rewind();
  info(reader, path("t"), true, json);
  EXPECT_HAS(json.str(), "\"schema\": \"marrow.trace.info/1\"");
  EXPECT_HAS(json.str(), "\"ops\": 8,");
  EXPECT_HAS(json.str(), "\"duration_ns\": 2100.0");
}

TEST_F(Commands, CheckCounts) {
  std::ostringstream out;
  const std::string file = source_file("traces/h200-b-host-consumer.trace");
  Reader reader(file);
  check(reader, file, out);
  EXPECT_HAS(out.str(), ": OK: 16 runs, 34000 operations in 34000 records, 34000 of them measured");
}

TEST_F(Commands, DumpPrintsTheRunAskedForUpToTheLimit) {
  const std::string file = source_file("traces/h200-b-host-consumer.trace");
  Reader reader(file);
  std::ostringstream out, all;
  dump(reader, file, "cfg 3", 2, out);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_TRUE(text.starts_with("{\"run\":\"cfg 3\",\"kind\":\"put\",\"warp\":0,")) << text;
  reader.rewind();
  dump(reader, file, "cfg 3", 0, all);
  const std::string lines = all.str();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2000);
  reader.rewind();
  EXPECT_HAS(error_of([&] { dump(reader, file, "cfg3", 1, out); }),
             file + ": has no run 'cfg3'; did you mean 'cfg 3'?");
}

TEST_F(Commands, ImportNamesTheFormatsAndTheNearestOne) {
  const auto error = [&](const std::string& format, const ImportOptions& options) {
    return error_of([&] {
      import_file(format, source_file("tests/fixtures/traces/device.csv"), path("t"), options);
    });
  };
  EXPECT_HAS(error("device-consumer", {}),
             "unknown format 'device-consumer'; did you mean 'device-consumer-csv'? known: "
             "host-consumer-csv, device-consumer-csv, peer-consumer-csv, workload-yaml");
  EXPECT_HAS(error("device-consumer-csv", {.machine = {}, .sm_clock_ghz = 0}),
             "--sm-clock-ghz: 0 is out of range");
  import_file("device-consumer-csv", source_file("tests/fixtures/traces/device.csv"), path("t"),
              {});
  EXPECT_EQ(count_ops(path("t")), 5u);
  EXPECT_HAS(error_of([&] { import_file("device-consumer-csv", path("t"), path("t"), {}); }),
             "is the file to import itself");
}

}  // namespace
}  // namespace marrow::trace
