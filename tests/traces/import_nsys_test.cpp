// Do kernels, ranges and NIC metrics of an Nsight Systems export arrive, whatever tables and
// columns its version has? The databases are made here in the documented shape: none was measured.
#include <sqlite3.h>

#include <vector>

#include "tests/traces/helpers.h"
#include "traces/importers/importers.h"

namespace marrow::trace {
namespace {

class ImportNsys : public Files {
 protected:
  std::string database(const std::string& name, const std::string& statements) const {
    sqlite3* handle = nullptr;
    EXPECT_EQ(sqlite3_open(path(name).c_str(), &handle), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(handle, statements.c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << (message ? message : "");
    sqlite3_free(message);
    sqlite3_close(handle);
    return path(name);
  }
  Header header(const std::string& trace) const { return Reader(trace).header(); }
  std::string refused(const std::string& statements) const {
    const std::string in = database("bad.sqlite", statements);
    std::string error = error_of([&] { import_nsys_sqlite(in, path("out")); });
    std::filesystem::remove(in);
    EXPECT_FALSE(std::filesystem::exists(path("out")));
    return error;
  }
};

const char* const kStrings =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "INSERT INTO StringIds VALUES (1, 'put_kernel'), (2, 'wait_kernel'), (3, 'exchange');";
const char* const kKernels =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, \"end\" INTEGER NOT NULL,"
    " deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,"
    " demangledName INTEGER, shortName INTEGER, gridX INTEGER, blockX INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 7000, 0, 1, 7, 11, 1, 1, 4, 128),"
    " (1000, 2000, 0, 1, 7, 10, 1, 1, 4, 128), (9000, 13000, 1, 1, 8, 12, 1, 1, 4, 128),"
    " (2500, 2600, 0, 1, 7, 13, 2, 2, 1, 32);";
const char* const kNvtx =
    "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, \"end\" INTEGER, eventType INTEGER,"
    " rangeId INTEGER, text TEXT, textId INTEGER, domainId INTEGER, globalTid INTEGER);"
    "INSERT INTO NVTX_EVENTS VALUES (100, 400, 59, NULL, 'step', NULL, 0, 281479271677952),"
    " (500, 900, 60, 1, NULL, 3, 0, 281479271677952), (600, NULL, 34, NULL, 'mark', NULL, 0, 1),"
    " (0, NULL, 75, NULL, 'domain', NULL, 0, 1);";
const char* const kNics =
    "CREATE TABLE NET_NIC_METRIC (start INTEGER, \"end\" INTEGER, globalId INTEGER, portId INTEGER,"
    " metricsListId INTEGER, metricsIdx INTEGER, value INTEGER);"
    "CREATE TABLE TARGET_INFO_NETWORK_METRICS (metricsListId INTEGER, metricsIdx INTEGER, name "
    "TEXT,"
    " description TEXT, unit TEXT);"
    "CREATE TABLE NIC_ID_MAP (nicId INTEGER, globalId INTEGER);"
    "CREATE TABLE TARGET_INFO_NIC_INFO (GUID INTEGER, stateName TEXT, nicId INTEGER, name TEXT,"
    " deviceId INTEGER, vendorId INTEGER, linkLayer INTEGER);"
    "INSERT INTO TARGET_INFO_NETWORK_METRICS VALUES (0, 0, 'IB: Bytes sent', '', 'B'),"
    " (0, 1, 'IB: Send rate', '', 'B/s');"
    "INSERT INTO NIC_ID_MAP VALUES (3, 77);"
    "INSERT INTO TARGET_INFO_NIC_INFO VALUES (1, '', 3, 'mlx5_0', 1, 1, 1);"
    "INSERT INTO NET_NIC_METRIC VALUES (0, 1000000, 77, 1, 0, 0, 4096),"
    " (1000000, 2000000, 77, 1, 0, 0, 1024), (0, 1000000, 77, 1, 0, 1, 30),"
    " (1000000, 2000000, 77, 1, 0, 1, 10);";
std::string meta(const std::string& version) {
  return "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
         "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '" +
         version + "'), ('EXPORT_PRODUCT_VERSION', '2026.1.1');";
}

TEST_F(ImportNsys, KernelsBecomeRunsOfTheirExecutions) {
  import_nsys_sqlite(database("p.sqlite", meta("3.24.14") + kStrings + kKernels), path("t"));
  Reader reader(path("t"));
  EXPECT_EQ(reader.header().origin, "p.sqlite: Nsight Systems 2026.1.1");
  const auto run = reader.next_run();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->name, "kernel put_kernel");
  EXPECT_EQ(run->lanes.size(), 2u) << "stream 7 of device 0, stream 8 of device 1";
  EXPECT_EQ(run->epoch_ns, 1000u);
  EXPECT_HAS(run->not_replayable, "does not tell which messages");
  ASSERT_EQ(run->summaries.size(), 4u);
  EXPECT_EQ(run->summaries[0].value, 1000) << "min of 2000, 1000, 4000";
  EXPECT_NEAR(run->summaries[1].value, 2000, 2) << "median";
  EXPECT_NEAR(run->summaries[2].value, 7000.0 / 3, 1e-9);
  EXPECT_EQ(run->summaries[3].value, 4000);
  EXPECT_EQ(run->summaries[3].unit, "ns");
  EXPECT_EQ(run->summaries[3].count, 3u);
  Op op;
  std::vector<std::uint64_t> starts, cycles;
  while (reader.next_op(op)) {
    EXPECT_EQ(op.kind, OpKind::kCompute);
    starts.push_back(op.measured->start_ns);
    cycles.push_back(op.compute_cycles);
  }
  EXPECT_EQ(starts, (std::vector<std::uint64_t>{0, 4000, 8000}));
  EXPECT_EQ(cycles, (std::vector<std::uint64_t>{1980, 3960, 7920})) << "1.98 cycles a ns";
  const auto second = reader.next_run();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->name, "kernel wait_kernel");
  EXPECT_FALSE(reader.next_run());
}

TEST_F(ImportNsys, RangesAreThoseThatEnd) {
  import_nsys_sqlite(database("p.sqlite", std::string(kStrings) + kNvtx), path("t"));
  Reader reader(path("t"));
  std::vector<std::string> names;
  while (const auto run = reader.next_run()) names.push_back(run->name);
  EXPECT_EQ(names, (std::vector<std::string>{"range exchange", "range step"}))
      << "a mark and a domain have no end; the text stands in the row or among the strings";
}

TEST_F(ImportNsys, NicMetricsBecomeCounters) {
  import_nsys_sqlite(database("p.sqlite", kNics), path("t"));
  const std::vector<Counter> counters = header(path("t")).counters;
  ASSERT_EQ(counters.size(), 3u);
  EXPECT_EQ(counters[0].device, "mlx5_0/1");
  EXPECT_EQ(counters[0].name, "IB: Bytes sent");
  EXPECT_EQ(counters[0].value, 5120) << "4096 + 1024";
  EXPECT_EQ(counters[0].taken, "total");
  EXPECT_EQ(counters[1].value, 20) << "rates do not add up: (30 + 10) / 2";
  EXPECT_EQ(counters[1].taken, "mean");
  EXPECT_EQ(counters[2].value, 30);
}

TEST_F(ImportNsys, MissingTablesAndColumnsAreToleratedAsFarAsCanBe) {
  // An old export: kernels alone, without streams, names or versions.
  import_nsys_sqlite(database("old.sqlite",
                              "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, \"end\" "
                              "INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2);"),
                     path("t"));
  Reader reader(path("t"));
  EXPECT_EQ(reader.next_run()->name, "kernel ?");
  // Metrics whose names and NICs are not told.
  import_nsys_sqlite(
      database("nic.sqlite",
               "CREATE TABLE NET_NIC_METRIC (metricsListId INTEGER, metricsIdx "
               "INTEGER, value INTEGER); INSERT INTO NET_NIC_METRIC VALUES (0, 4, 9);"),
      path("n"));
  EXPECT_EQ(header(path("n")).counters.at(0).name, "metric 4");
}

TEST_F(ImportNsys, WrongDatabasesNameTableAndRow) {
  EXPECT_HAS(refused("CREATE TABLE t (x INTEGER);"), "has no kernels, NVTX ranges or NIC metrics");
  EXPECT_HAS(refused(meta("4.0.0") + kKernels), "META_DATA_EXPORT: schema version '4.0.0'");
  EXPECT_HAS(refused("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (begin INTEGER, \"end\" INTEGER);"),
             "table CUPTI_ACTIVITY_KIND_KERNEL: has no column 'start'");
  EXPECT_HAS(refused(std::string(kKernels) +
                     "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, \"end\") VALUES (9, 8);"),
             "table CUPTI_ACTIVITY_KIND_KERNEL, row 5: it starts at 9 ns and ends at 8 ns");
  EXPECT_HAS(refused(std::string(kKernels) +
                     "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, \"end\") VALUES (0, "
                     "9223372036854775807);"),
             "row 5: it starts at 0 ns and ends at 9223372036854775807 ns");
  EXPECT_HAS(refused(std::string(kKernels) +
                     "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, \"end\") VALUES ('x', 8);"),
             "row 5: start or end is no number");
  EXPECT_HAS(refused(std::string(kNics) +
                     "INSERT INTO NET_NIC_METRIC VALUES (0, 1, 77, 1, 0, 0, 'many');"),
             "table NET_NIC_METRIC: a value of 'IB: Bytes sent' is no number");
  EXPECT_HAS(
      refused(std::string(kNics) + "INSERT INTO NET_NIC_METRIC VALUES (0, 1, 77, 1, 0, 0, 9e999);"),
      "table NET_NIC_METRIC: the values of 'IB: Bytes sent' are out of range");
}

TEST_F(ImportNsys, ACutDatabaseIsATraceOrAnError) {
  const std::string whole =
      read_file(database("p.sqlite", meta("3.24.14") + kStrings + kKernels + kNvtx + kNics));
  std::size_t refused = 0;
  for (std::size_t n = 0; n < whole.size(); n += 211) {
    try {
      import_nsys_sqlite(make("cut.sqlite", whole.substr(0, n)), "/dev/null");
    } catch (const InputError& e) {
      EXPECT_HAS(std::string(e.what()), "cut.sqlite");
      ++refused;
    }
  }
  EXPECT_GT(refused, whole.size() / 211 / 2);
  for (std::size_t n = 16; n < whole.size(); n += 101) {
    std::string damaged = whole;
    damaged[n] = static_cast<char>(damaged[n] ^ 0x5a);
    try {
      import_nsys_sqlite(make("damaged.sqlite", damaged), "/dev/null");
    } catch (const InputError&) {
    }
  }
}

}  // namespace
}  // namespace marrow::trace
