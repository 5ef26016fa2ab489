// Is each wrong or half log refused with file, line and mend, and does no cut or damage end in
// anything but a trace or such a message?
#include <sqlite3.h>

#include <functional>
#include <vector>

#include "tests/traces/helpers.h"
#include "traces/commands.h"
#include "traces/importers/importers.h"

namespace marrow::trace {
namespace {

using ImportBadLogs = Files;

std::string fixture(const std::string& name) {
  return read_file(source_file("tests/fixtures/traces/logs/" + name));
}

struct Bad {
  const char* format;
  std::string text;
  std::vector<std::string> says;  ///< all of it stands in the message
};

void import_as(const std::string& format, const std::string& file, const std::string& out) {
  import_file(format, file, out, {});
}

/// A fixture's text with one change.
std::string with(const std::string& name, const std::string& from, const std::string& to) {
  return replaced(fixture(name), from, to);
}
/// Without what follows the first `upto`, which is kept.
std::string up_to(const std::string& name, const std::string& upto) {
  const std::string text = fixture(name);
  return text.substr(0, text.find(upto) + upto.size());
}

TEST_F(ImportBadLogs, EachWrongOrHalfFileNamesItsLineAndAMend) {
  const std::string perftest_row = "8       1000          0.99 ";
  const std::vector<Bad> all = {
      // perftest
      {"perftest",
       with("perftest-write-lat.txt", "3.91         1.03", "1.03"),
       {":20: the row has 8 columns, the header 9", "cut off"}},
      {"perftest",
       with("perftest-write-lat.txt", "3.91", "3.9x"),
       {":20: '3.9x' is no number", "mixed with another line"}},
      {"perftest",
       with("perftest-write-lat.txt", "RDMA_Write Latency Test", "something"),
       {":18: a table whose test is not named", "keep the lines above"}},
      {"perftest",
       with("perftest-write-lat.txt", "t_stdev[usec]", "t_dev[usec]"),
       {":18: column 't_dev[usec]"}},
      {"perftest",
       up_to("perftest-write-lat.txt", "99.9% percentile[usec] \n"),
       {":18: a header but no rows", "take the whole log"}},
      {"perftest",
       up_to("perftest-write-lat.txt", "1.93"),
       {":21: the file ends in the middle of this line", "take the whole log"}},
      {"perftest",
       up_to("perftest-write-bw-gpu.txt", "0.375980\n"),
       {"the table has no end", "line of dashes"}},
      {"perftest",
       " 8       1000          0.99        3.91      1.03\n",
       {":1: a row without a header"}},
      {"perftest",
       with("perftest-unsorted.txt", "7, 1.16\n", ""),
       {":26: iteration 8 follows on 6", "whole log"}},
      {"perftest",
       up_to("perftest-unsorted.txt", "20, 1.15\n"),
       {"ends after a list of iterations, before their table"}},
      {"perftest",
       with("perftest-write-bw-gpu.txt", "MiB/sec]   MsgRate", "kB/sec]   MsgRate"),
       {"unknown unit of bandwidth 'kB/sec'"}},
      {"perftest",
       with("perftest-lat.json", "\"t_avg\": 1.04", "\"t_avg\": \"x\""),
       {":1: result 't_avg' is no number"}},
      {"perftest",
       with("perftest-lat.json", "\"t_avg\": 1.04", "\"t_avg\": "),
       {"is no JSON here", ":26:"}},
      {"perftest",
       up_to("perftest-lat.json", "\"t_min\""),
       {"the JSON that begins in line 1 is cut off", "whole file"}},
      {"perftest", with("perftest-lat.json", "\"MsgSize\": 8,", ""), {"no 'MsgSize'", "--output"}},
      {"perftest",
       fixture("nccl-tests-old.txt"),
       {"holds no results of perftest", "marrow import nccl-tests"}},
      {"perftest", "Segmentation fault\n", {"holds no results of perftest", "ib_write_lat"}},
      // NVSHMEM
      {"nvshmem-perftest",
       with("nvshmem-put-latency.txt", "7.123456", "7.12345x"),
       {":12: '7.12345x' is no number"}},
      {"nvshmem-perftest",
       up_to("nvshmem-put-latency.txt", "7.1234"),
       {":12: the file ends in the middle"}},
      {"nvshmem-perftest",
       with("nvshmem-put-latency.txt", "Thread    7.123456", "Thread    "),
       {":12:"}},
      {"nvshmem-perftest",
       up_to("nvshmem-put-latency.txt", "latency (us)    \n"),
       {":10: a header but no rows"}},
      {"nvshmem-perftest",
       with("nvshmem-put-latency.txt", "#shmem_put_latency\n", "\n"),
       {":10: a table whose test is not named"}},
      {"nvshmem-perftest",
       "#shmem_put_latency\n8           Thread    7.1\n",
       {":2: a row without a header"}},
      {"nvshmem-perftest",
       "&&&& PERF shmem_put_latency___Thread___size__8___latency 7.1\n",
       {":1: the line has no value and unit", "VALUE -us"}},
      {"nvshmem-perftest",
       "&&&& PERF shmem_put_latency___Thread___latency 7.1 -us\n",
       {":1: the line has no size"}},
      {"nvshmem-perftest",
       "&&&& PERF shmem_put_latency___Thread___size__8___latency x -us\n",
       {":1: 'x' is no number"}},
      {"nvshmem-perftest",
       "&&&& PERF_STATS a___b___size__8___latency -us mean=1 stddev\n",
       {":1: the line has no value behind stddev"}},
      {"nvshmem-perftest",
       fixture("perftest-write-lat.txt"),
       {"no results of NVSHMEM's perftest", "marrow import perftest"}},
      // nccl-tests
      {"nccl-tests",
       with("nccl-tests.txt", "  13.05", "       "),
       {":15: the row has 12 columns, the header 13", "cut off"}},
      {"nccl-tests", with("nccl-tests.txt", "  13.05", "  13.0x"), {":15: '13.0x' is no number"}},
      {"nccl-tests",
       up_to("nccl-tests-old.txt", "28.40    0.00    0.00  1e-07\n"),
       {"the table has no end", "Out of bounds values"}},
      {"nccl-tests", up_to("nccl-tests-old.txt", "(GB/s)       \n"), {":7: a header but no rows"}},
      {"nccl-tests",
       with("nccl-tests-old.txt", "busbw  error     time", "busbw     time"),
       {":7: the header does not name the same columns"}},
      {"nccl-tests",
       with("nccl-tests-old.txt", "busbw  error     time", "bandw  error     time"),
       {":7: column 'bandw' is not known"}},
      {"nccl-tests",
       "   8   2   float   sum   29.93  0.00  0.00  0e+00  28.32  0.00  0.00  0\n",
       {":1: a row without a header"}},
      {"nccl-tests", up_to("nccl-tests.json", "\"redop\""), {":1: the JSON is cut off", "whole"}},
      {"nccl-tests",
       with("nccl-tests.json", "\"version\":3", "\"version\":9"),
       {"version 9 of the file is not known"}},
      {"nccl-tests",
       with("nccl-tests.json", "\"size\":1024", "\"size\":-4"),
       {":1: result 1: 'size' is missing or out of range"}},
      {"nccl-tests",
       with("nccl-tests.json", "\"size\":2048", "\"bytes\":2048"),
       {":1: result 2: 'size' is missing"}},
      {"nccl-tests", "{\"results\": []}", {"the JSON has no results"}},
      // GIN proxy
      {"gin-proxy-log",
       with("gin-proxy.log", "op: 0x9, size: 4096", "op: 0x900, size: 4096"),
       {":8: operation 0x900 is not known"}},
      {"gin-proxy-log",
       with("gin-proxy.log", ", stateIdx: 5\n", "\n"),
       {":8: the line has no stateIdx"}},
      {"gin-proxy-log",
       with("gin-proxy.log", "NCCL TRACE GFD submitted into GIN plugin - contextId: 0, stateIdx: 5",
            "NCCL TRACE nothing"),
       {":15: stateIdx 5 of context 0, seen in line 8, is completed without having been "
        "submitted"}},
      {"gin-proxy-log",
       with("gin-proxy.log", "NCCL TRACE GFD on context 0 to target PE 1 raw idx: 0",
            "NCCL TRACE x"),
       {"stateIdx 4 of context 0 is submitted without having been seen", "from the start"}},
      {"gin-proxy-log",
       up_to("gin-proxy.log", "request: 0x7f3a10\n"),
       {":2: the operation of stateIdx 4 in context 0 is seen here and never completed",
        "to the end"}},
      {"gin-proxy-log",
       with("gin-proxy.log", "5000.009100", "5000.000100"),
       {":9: the time is before that of the operation's line above"}},
      {"gin-proxy-log",
       with("gin-proxy.log", "raw idx: 2", "raw idx: 3"),
       {":10: raw idx 3 follows on 1"}},
      {"gin-proxy-log",
       with("gin-proxy.log", "node1:100:120 [0] 5000.001000 proxyGinProcessGfd:320 NCCL TRACE ",
            ""),
       {":3: the line has lost NCCL's prefix", "NCCL_DEBUG=TRACE"}},
      {"gin-proxy-log",
       "node1:1:2 [0] NCCL INFO cudaDriverVersion 12080\n",
       {"has no line of NCCL's GIN proxy", "TRACE=1"}},
      // counters
      {"mlx5-counters",
       with("hw-counters-before.txt", ":1000", ":10x0"),
       {":5: '10x0' is no count", "whole numbers"}},
      {"mlx5-counters",
       fixture("hw-counters-before.txt") + fixture("hw-counters-before.txt"),
       {":6: counter 'duplicate_request' stands twice", "--after"}},
      {"mlx5-counters",
       up_to("hw-counters-before.txt", "rx_write_requests:10"),
       {":5: the file ends in the middle"}},
      {"mlx5-counters",
       "link mlx5_0/1 rx_write_requests 12 rx_read_requests\n",
       {":1: the line has a counter without value"}},
      {"mlx5-counters", "no counters here\n", {"line 1 is no counter"}},
      {"mlx5-counters", "NIC statistics:\n", {"holds no counters"}},
      // what is another's
      {"nsys-sqlite", "plain text\n", {"is no SQLite database", "nsys export"}},
      {"nsys-sqlite", fixture("gin-proxy.log"), {"is no SQLite database", "gin-proxy-log"}},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(std::string(bad.format) + ": " + bad.says.front());
    const std::string in = make("in", bad.text);
    const std::string error = error_of([&] { import_as(bad.format, in, path("out")); });
    EXPECT_HAS(error, "/in");
    for (const std::string& part : bad.says) EXPECT_HAS(error, part);
    EXPECT_EQ(files(), 1u) << "nothing is left behind";
    std::filesystem::remove(path("out"));
  }
}

// A row whose numbers no program can have written is no sentence that begins with a number: it was
// once passed over without a word.
TEST_F(ImportBadLogs, ARowWithANumberThatNoneCanHaveIsRefusedAndNotPassedOver) {
  struct Row {
    const char *format, *fixture, *from;  ///< the row's text up to and with its size
    const char* before;                   ///< the same without the size
    const char* line;
  };
  const std::vector<Row> rows = {
      {"perftest", "perftest-write-lat.txt", "[1,0]<stdout>: 8 ", "[1,0]<stdout>: ", ":20: "},
      {"perftest", "perftest-write-bw-gpu.txt", "65536      ", "", ":27: "},
      {"perftest", "perftest-lat.json", "\"MsgSize\": 8", "\"MsgSize\": ", ":"},
      {"nvshmem-perftest", "nvshmem-put-latency.txt", "\n8    ", "\n", ":12: "},
      {"nvshmem-perftest", "nvshmem-machine.txt", "size__8", "size__", ":5: "},
      {"nvshmem-perftest", "nvshmem-ruled.txt", "|          2048 ", "|   ", ":7: "},
      {"nccl-tests", "nccl-tests.txt", " 2048  ", " ", ":15: "},
      {"nccl-tests", "nccl-tests.json", "\"size\":1024", "\"size\":", ":1: "},
      {"gin-proxy-log", "gin-proxy.log", "size: 4096", "size: ", ":8: "},
      {"gin-proxy-log", "gin-proxy.log", "raw idx: 1", "raw idx: ", ":8: "},
      {"gin-proxy-log", "gin-proxy.log", "target PE 1", "target PE ", ":2: "},
      {"mlx5-counters", "hw-counters-before.txt", "rx_write_requests:1000",
       "rx_write_requests:", ":5: "},
      {"mlx5-counters", "ethtool.txt", "rx_packets: 1845", "rx_packets: ", ":2: "},
  };
  for (const Row& row : rows)
    for (const char* number : {"99999999999999999999", "-8", "8.5", "1e999"}) {
      SCOPED_TRACE(std::string(row.fixture) + ": " + row.before + number);
      const std::string text = with(
          row.fixture, row.from,
          std::string(row.before) + number + (std::string(row.from).ends_with(' ') ? " " : ""));
      EXPECT_HAS(error_of([&] { import_as(row.format, make("in", text), path("out")); }),
                 std::string("/in") + row.line);
    }
}

TEST_F(ImportBadLogs, AMessageOfNoBytesIsRefusedWhereTheProgramSendsNone) {
  const std::vector<Bad> all = {
      {"perftest",
       with("perftest-write-lat.txt", "[1,0]<stdout>: 8 ", "[1,0]<stdout>: 0 "),
       {":20: a message of 0"}},
      {"perftest",
       with("perftest-write-lat.txt", "8       1000 ", "8       0 "),
       {":20: a number of iterations of 0"}},
      {"perftest",
       with("perftest-lat.json", "\"MsgSize\": 8", "\"MsgSize\": 0"),
       {"a message of 0"}},
      {"nvshmem-perftest",
       with("nvshmem-put-latency.txt", "\n8    ", "\n0    "),
       {":12: a message of 0 bytes"}},
      {"nvshmem-perftest",
       with("nvshmem-machine.txt", "size__8", "size__0"),
       {"a message of 0 bytes"}},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.says.front());
    EXPECT_HAS(error_of([&] { import_as(bad.format, make("in", bad.text), path("out")); }),
               bad.says.front());
  }
  // nccl-tests does: a rank's share of a few bytes, rounded down.
  import_nccl_tests(make("in", with("nccl-tests.txt", "1024           256", "   0             0")),
                    path("out"));
  EXPECT_EQ(load(path("out")).runs[0].name, "all_reduce_perf float sum 0 B");
}

TEST_F(ImportBadLogs, SnapshotsThatDoNotBelongTogetherAreRefused) {
  const std::string before = make("before", fixture("hw-counters-before.txt"));
  const auto refused = [&](const std::string& text, const std::string& says) {
    ImportOptions options;
    options.after = make("after", text);
    EXPECT_HAS(error_of([&] { import_mlx5_counters(before, path("out"), options); }), says);
  };
  const std::string after = fixture("hw-counters-after.txt");
  refused(replaced(after, ":1004", ":990"), "after:5: counter 'rx_write_requests' falls from 1000");
  refused(replaced(after, "rx_read_requests", "rx_x_requests"), "is not in");
  refused(after.substr(0, after.rfind("/sys")), "before:5: counter 'rx_write_requests' is not in");
  ImportOptions options;
  options.after = make("after", after);
  EXPECT_HAS(error_of([&] { import_file("nccl-tests", before, path("out"), options); }), "--after");
}

const std::vector<std::pair<const char*, const char*>> kAllFixtures = {
    {"perftest", "perftest-write-lat.txt"},
    {"perftest", "perftest-read-lat-duration.txt"},
    {"perftest", "perftest-unsorted.txt"},
    {"perftest", "perftest-write-bw-gpu.txt"},
    {"perftest", "perftest-bw-gbits-old.txt"},
    {"perftest", "perftest-lat.json"},
    {"perftest", "perftest-bw-qos.json"},
    {"nvshmem-perftest", "nvshmem-put-latency.txt"},
    {"nvshmem-perftest", "nvshmem-repetitions.txt"},
    {"nvshmem-perftest", "nvshmem-machine.txt"},
    {"nvshmem-perftest", "nvshmem-ruled.txt"},
    {"nvshmem-perftest", "nvshmem-collective.txt"},
    {"nccl-tests", "nccl-tests.txt"},
    {"nccl-tests", "nccl-tests-old.txt"},
    {"nccl-tests", "nccl-tests-per-iteration.txt"},
    {"nccl-tests", "nccl-tests.json"},
    {"gin-proxy-log", "gin-proxy.log"},
    {"mlx5-counters", "hw-counters-before.txt"},
    {"mlx5-counters", "ethtool.txt"},
    {"mlx5-counters", "rdma-statistic.txt"},
};

/// Imports; true: it went through, false: an InputError with text. Anything else fails the test.
bool taken(const char* format, const std::string& file) {
  try {
    import_as(format, file, "/dev/null");
    return true;
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()), "");
    return false;
  }
}

TEST_F(ImportBadLogs, EveryFixtureCutAtEveryByteIsATraceOrAnError) {
  for (const auto& [format, name] : kAllFixtures) {
    SCOPED_TRACE(name);
    const std::string text = fixture(name), in = make("in", text);
    EXPECT_TRUE(taken(format, in));
    for (std::size_t n = text.size(); n-- > 0;) {
      std::filesystem::resize_file(in, n);
      taken(format, in);
    }
    EXPECT_FALSE(taken(format, in)) << "nothing is left";
  }
}

TEST_F(ImportBadLogs, EveryFixtureWithADamagedByteIsATraceOrAnError) {
  for (const auto& [format, name] : kAllFixtures) {
    SCOPED_TRACE(name);
    const std::string text = fixture(name), in = make("in", text);
    std::fstream file(in, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](std::size_t at, char c) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put(c);
      file.flush();
    };
    const std::string damage = std::string("9-\"\n\xff") + '\0';
    for (std::size_t n = 0; n < text.size(); n += 3) {
      put(n, damage[n / 3 % damage.size()]);
      taken(format, in);
      put(n, text[n]);
    }
  }
}

TEST_F(ImportBadLogs, EveryFormatRefusesEveryOtherFixtureWithItsName) {
  for (const ImportFormat& format : import_formats())
    for (const auto& [own, name] : kAllFixtures) {
      if (format.name == own) continue;
      SCOPED_TRACE(std::string(format.name) + " on " + name);
      EXPECT_FALSE(taken(std::string(format.name).c_str(), make("in", fixture(name))));
    }
}

}  // namespace
}  // namespace marrow::trace
