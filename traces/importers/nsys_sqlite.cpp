// Nsight Systems' SQLite export: kernels, NVTX ranges and the NIC's metrics.
//
// Tables are absent when they are empty and columns come and go with versions: what is there is
// used. Kernels (by name) and NVTX ranges (by text) become runs whose operations are their
// executions; NIC metrics become counters. None of it says which messages were sent, so nothing of
// it can be replayed.
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "models/common/error.h"
#include "traces/guess.h"
#include "traces/importers/importers.h"
#include "traces/importers/log.h"
#include "traces/importers/quantiles.h"
#include "traces/rules.h"
#include "traces/source.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

constexpr std::int64_t kRangePushPop = 59, kRangeStartEnd = 60;  // NVTX_EVENTS.eventType
constexpr int kKnownSchema = 3;                                  // EXPORT_SCHEMA_VERSION's major

/// A database opened for reading; errors are InputErrors.
class Database {
 public:
  explicit Database(const std::string& path) : path_(path) {
    sqlite3* opened = nullptr;
    // Nobody writes the file meanwhile, and no journal is to appear beside it.
    const std::string uri = "file:" + escaped(path) + "?immutable=1";
    const int error =
        sqlite3_open_v2(uri.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    handle_.reset(opened);
    if (error != SQLITE_OK) fail(error, "");
    if (const int odd =
            sqlite3_exec(opened, "SELECT count(*) FROM sqlite_master", nullptr, nullptr, nullptr);
        odd != SQLITE_OK)
      fail(odd, "");
  }

  sqlite3* handle() const { return handle_.get(); }
  const std::string& path() const { return path_; }

  /// The table's columns; empty: there is no such table.
  const std::set<std::string>& columns(const std::string& table);
  bool has(const std::string& table, std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(),
                       [&](const char* name) { return columns(table).count(name) != 0; });
  }

  [[noreturn]] void fail(int error, const std::string& table) const {
    const std::string place = table.empty() ? path_ : fmt::format("{}: table {}", path_, table);
    if (error == SQLITE_NOTADB) throw InputError(place, "is no SQLite database", "export it again");
    if (error == SQLITE_CORRUPT || error == SQLITE_IOERR || (error & 0xff) == SQLITE_IOERR)
      throw InputError(place, "the database is truncated or corrupt", "export it again");
    throw InputError(place, fmt::format("SQLite cannot read it: {}", sqlite3_errmsg(handle())),
                     "export it with: nsys export --type sqlite");
  }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  static std::string escaped(const std::string& path) {
    std::string out;
    for (const char c : path)
      out += c == '?' || c == '#' || c == '%'
                 ? fmt::format("%{:02x}", static_cast<unsigned char>(c))
                 : std::string(1, c);
    return out;
  }

  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
  std::map<std::string, std::set<std::string>> columns_;
};

/// A query's rows, one by one.
class Query {
 public:
  Query(Database& database, std::string table, const std::string& text)
      : database_(database), table_(std::move(table)) {
    sqlite3_stmt* made = nullptr;
    const int error = sqlite3_prepare_v2(database.handle(), text.c_str(), -1, &made, nullptr);
    statement_.reset(made);
    if (error != SQLITE_OK) database_.fail(error, table_);
  }
  bool next() {
    const int result = sqlite3_step(statement_.get());
    if (result != SQLITE_ROW && result != SQLITE_DONE) database_.fail(result, table_);
    return result == SQLITE_ROW;
  }
  bool null(int column) const { return type(column) == SQLITE_NULL; }
  std::int64_t whole(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double number(int column) const { return sqlite3_column_double(statement_.get(), column); }
  bool is_number(int column) const {
    return type(column) == SQLITE_INTEGER || type(column) == SQLITE_FLOAT;
  }
  std::string text(int column) const {
    const auto* const chars =
        reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    return chars == nullptr ? std::string() : std::string(chars);
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  int type(int column) const { return sqlite3_column_type(statement_.get(), column); }

  Database& database_;
  std::string table_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

const std::set<std::string>& Database::columns(const std::string& table) {
  const auto [at, fresh] = columns_.try_emplace(table);
  if (fresh)
    for (Query q(*this, table, fmt::format("PRAGMA table_info(\"{}\")", table)); q.next();)
      at->second.insert(q.text(1));
  return at->second;
}

/// An execution of a kernel or range: its lane is a stream or a thread.
struct Execution {
  std::string name;
  std::int64_t lane = 0, sub_lane = 0, start_ns = 0, end_ns = 0;
};

class Importer {
 public:
  Importer(const std::string& in, const std::string& out, const ImportOptions& options)
      : database_(in), cycles_per_ns_(options.sm_clock_ghz) {
    check_schema();
    Header header{machine_of(in, options.machine), file_name(in) + ": Nsight Systems" + version_,
                  options.sm_clock_ghz, options.counters};
    add_nic_metrics(header.counters);
    nic_metrics_ = header.counters.size() > options.counters.size();
    writer_ = std::make_unique<Writer>(out, header);
  }

  void import() {
    const std::string kernels = kernel_table();
    if (!kernels.empty()) import_kernels(kernels);
    import_ranges();
    if (runs_ == 0 && !nic_metrics_)
      throw InputError(database_.path(), "has no kernels, NVTX ranges or NIC metrics",
                       "profile with: nsys profile -t cuda,nvtx --nic-metrics=lf; then export "
                       "with: nsys export --type sqlite");
    writer_->close();
  }

 private:
  void check_schema() {
    const std::string table = "META_DATA_EXPORT";
    if (!database_.has(table, {"name", "value"})) return;  // of before there was one
    for (Query q(database_, table, "SELECT name, value FROM META_DATA_EXPORT"); q.next();) {
      const std::string name = q.text(0), value = q.text(1);
      if (name == "EXPORT_PRODUCT_VERSION") version_ = " " + value;
      if (name != "EXPORT_SCHEMA_VERSION" && name != "EXPORT_SCHEMA_VERSION_MAJOR") continue;
      const auto major = to_whole(std::string_view(value).substr(0, value.find('.')));
      if (!major || *major > kKnownSchema)
        throw InputError(database_.path() + ": table " + table,
                         fmt::format("schema version '{}' is not known", shown(value)),
                         fmt::format("known are 1 to {}: export with an older nsys", kKnownSchema));
    }
  }

  /// The table of kernels; empty: there is none.
  std::string kernel_table() {
    const std::string table = "CUPTI_ACTIVITY_KIND_KERNEL";
    if (database_.columns(table).empty()) return "";
    for (const char* column : {"start", "end"})
      if (database_.columns(table).count(column) == 0)
        throw InputError(database_.path() + ": table " + table,
                         fmt::format("has no column '{}'", column),
                         "export with: nsys export --type sqlite");
    return table;
  }

  /// An SQL expression for the text that one of the columns refers to or holds.
  std::string text_of(const std::string& table, std::initializer_list<const char*> ids,
                      std::initializer_list<const char*> texts) {
    std::string options;
    for (const char* text : texts)
      if (database_.columns(table).count(text) != 0) options += fmt::format("t.{}, ", text);
    if (database_.has("StringIds", {"id", "value"}))
      for (const char* id : ids)
        if (database_.columns(table).count(id) != 0)
          options += fmt::format("(SELECT value FROM StringIds WHERE id = t.{}), ", id);
    return fmt::format("coalesce({}'?', '?')", options);
  }
  /// The column, or 0 where there is none.
  std::string or_zero(const std::string& table, const char* column) {
    return database_.columns(table).count(column) != 0 ? fmt::format("coalesce(t.{}, 0)", column)
                                                       : "0";
  }

  void import_kernels(const std::string& table) {
    const std::string name = text_of(table, {"shortName", "demangledName", "mangledName"}, {});
    import_executions(table, "kernel", name, or_zero(table, "deviceId"), or_zero(table, "streamId"),
                      "");
  }

  void import_ranges() {
    const std::string table = "NVTX_EVENTS";
    if (!database_.has(table, {"start", "end"})) return;
    // A mark or a domain's creation has no end.
    std::string where = "t.\"end\" IS NOT NULL";
    if (database_.columns(table).count("eventType") != 0)
      where += fmt::format(" AND t.eventType IN ({}, {})", kRangePushPop, kRangeStartEnd);
    import_executions(table, "range", text_of(table, {"textId"}, {"text"}),
                      or_zero(table, "globalTid"), "0", where);
  }

  void import_executions(const std::string& table, const char* kind, const std::string& name,
                         const std::string& lane, const std::string& sub_lane,
                         const std::string& where) {
    const std::string from =
        fmt::format("FROM {} AS t {}", table, where.empty() ? "" : "WHERE " + where);
    // Which lanes and how long, before the executions themselves: neither is kept in memory.
    Query all(
        database_, table,
        fmt::format("SELECT {} AS name, {} AS lane, {} AS sub_lane, t.start, t.\"end\", t.rowid {} "
                    "ORDER BY name, t.start, lane, sub_lane",
                    name, lane, sub_lane, from));
    Query lanes(database_, table,
                fmt::format("SELECT DISTINCT {} AS name, {} AS lane, {} AS sub_lane {} "
                            "ORDER BY name, lane, sub_lane",
                            name, lane, sub_lane, from));
    Query durations(
        database_, table,
        fmt::format("SELECT {} AS name, t.start, t.\"end\", t.rowid {} ORDER BY name", name, from));
    const auto place = [&](std::int64_t row) {
      return fmt::format("{}: table {}, row {}", database_.path(), table, row);
    };
    bool more_lanes = lanes.next(), more_durations = durations.next(), more = all.next();
    while (more) {
      const std::string current = all.text(0);
      Run run;
      run.name = fmt::format("{} {}", kind, printable(current));
      run.not_replayable = std::string(kind) == "kernel"
                               ? "a kernel's time does not tell which messages it sent"
                               : "a range's time does not tell which messages it sent";
      std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> warps;
      for (; more_lanes && lanes.text(0) == current; more_lanes = lanes.next()) {
        const auto warp = static_cast<std::uint32_t>(warps.size());
        warps[{lanes.whole(1), lanes.whole(2)}] = warp;
        run.lanes.push_back({warp, std::nullopt, 0, 0, std::nullopt});
      }
      Quantiles took;
      std::int64_t first_ns = 0;
      for (; more_durations && durations.text(0) == current; more_durations = durations.next()) {
        const std::int64_t row = durations.whole(3);
        if (durations.null(1) || !durations.is_number(1) || durations.null(2) ||
            !durations.is_number(2))
          throw InputError(place(row), "start or end is no number", "export it again");
        const std::int64_t start = durations.whole(1), end = durations.whole(2);
        // Steps of a nanosecond must survive in a double.
        constexpr std::int64_t kMaxNs = 9'000'000'000'000'000;
        if (start < 0 || end < start || end > kMaxNs)
          throw InputError(place(row),
                           fmt::format("it starts at {} ns and ends at {} ns", start, end),
                           "export it again");
        first_ns = took.count() == 0 ? start : std::min(first_ns, start);
        took.add(static_cast<double>(end - start));
      }
      for (const auto& [statistic, value] :
           {std::pair("min", took.min()), std::pair("median", took.median()),
            std::pair("mean", took.mean()), std::pair("max", took.max())})
        run.summaries.push_back({"duration", statistic, value, "ns", took.count(), ""});
      run.puts_per_lane = 0;
      run.epoch_ns = static_cast<std::uint64_t>(first_ns);
      run.name = names_.unique(run.name);
      writer_->run(run);
      ++runs_;
      for (; more && all.text(0) == current; more = all.next()) {
        Op op;
        op.kind = OpKind::kCompute;
        op.warp = warps.at({all.whole(1), all.whole(2)});
        op.compute_cycles = static_cast<std::uint64_t>(
            static_cast<double>(all.whole(4) - all.whole(3)) * cycles_per_ns_ + 0.5);
        op.measured.emplace();
        op.measured->start_ns = static_cast<std::uint64_t>(all.whole(3) - first_ns);
        writer_->op(op);
      }
    }
  }

  static std::string printable(std::string text) {
    constexpr std::size_t kMostCharacters = 200;  // a template's name may be endless
    if (text.size() > kMostCharacters) text = text.substr(0, kMostCharacters) + "...";
    for (char& c : text)
      if (c < ' ' || c > '~') c = '?';
    return text;
  }

  void add_nic_metrics(std::vector<Counter>& counters) {
    const std::string table = "NET_NIC_METRIC";
    if (!database_.has(table, {"metricsListId", "metricsIdx", "value"})) return;
    const bool named =
        database_.has("TARGET_INFO_NETWORK_METRICS", {"metricsListId", "metricsIdx", "name"});
    const bool unit = named && database_.columns("TARGET_INFO_NETWORK_METRICS").count("unit") != 0;
    const bool nics = database_.has("NIC_ID_MAP", {"nicId", "globalId"}) &&
                      database_.has("TARGET_INFO_NIC_INFO", {"nicId", "name"}) &&
                      database_.columns(table).count("globalId") != 0;
    const std::string metric =
        named ? "(SELECT {} FROM TARGET_INFO_NETWORK_METRICS AS m WHERE m.metricsListId = "
                "t.metricsListId AND m.metricsIdx = t.metricsIdx)"
              : "NULL";
    const auto of_metric = [&](const char* column) {
      return named ? replaced(metric, "{}", column) : metric;
    };
    const std::string query = fmt::format(
        "SELECT coalesce({}, 'nic ' || {}), coalesce({}, 'metric ' || t.metricsIdx), coalesce({}, "
        "''), "
        "sum(t.value), avg(t.value), max(t.value), count(*), sum(typeof(t.value) NOT IN "
        "('integer', 'real')), {} FROM NET_NIC_METRIC AS t GROUP BY 1, 2, 9 ORDER BY 1, 9, 2",
        nics ? "(SELECT i.name FROM TARGET_INFO_NIC_INFO AS i JOIN NIC_ID_MAP AS j ON i.nicId = "
               "j.nicId WHERE j.globalId = t.globalId)"
             : "NULL",
        or_zero(table, "globalId"), of_metric("name"), unit ? of_metric("unit") : "NULL",
        or_zero(table, "portId"));
    for (Query q(database_, table, query); q.next();) {
      if (q.whole(7) != 0)
        throw InputError(fmt::format("{}: table {}", database_.path(), table),
                         fmt::format("a value of '{}' is no number", shown(q.text(1))),
                         "export it again");
      if (!std::isfinite(q.number(3)))
        throw InputError(fmt::format("{}: table {}", database_.path(), table),
                         fmt::format("the values of '{}' are out of range", shown(q.text(1))),
                         "export it again");
      Counter counter{printable(q.text(0)), printable(q.text(1)), 0, printable(q.text(2)), ""};
      if (q.whole(8) != 0) counter.device += fmt::format("/{}", q.whole(8));
      // Amounts add up; rates do not.
      if (counter.unit.find('/') == std::string::npos) {
        counter.value = q.number(3);
        counter.taken = "total";
        counters.push_back(counter);
        continue;
      }
      counter.value = q.number(4);
      counter.taken = "mean";
      counters.push_back(counter);
      counter.value = q.number(5);
      counter.taken = "max";
      counters.push_back(counter);
    }
  }

  static std::string replaced(std::string text, std::string_view from, std::string_view to) {
    return text.replace(text.find(from), from.size(), to);
  }

  Database database_;
  double cycles_per_ns_;
  std::string version_;
  Names names_;
  std::unique_ptr<Writer> writer_;
  std::uint64_t runs_ = 0;
  bool nic_metrics_ = false;
};

}  // namespace

void import_nsys_sqlite(const std::string& in, const std::string& out,
                        const ImportOptions& options) {
  // What is no database at all is told apart by its first bytes.
  std::array<char, kGuessBytes> head{};
  std::size_t got = 0;
  {
    Source source(in);
    try {
      got = source.read(head.data(), head.size());
    } catch (const Fault& f) {
      throw InputError(in, f.problem, f.mend);
    }
    if (source.gzipped())
      throw InputError(in, "is gzipped, and SQLite cannot read it so", "unpack it first: gunzip");
  }
  const std::string_view start(head.data(), got);
  if (!start.starts_with("SQLite format 3"))
    found_nothing(in, start, "nsys-sqlite", "is no SQLite database",
                  "export it with: nsys export --type sqlite");
  Importer(in, out, options).import();
}

}  // namespace marrow::trace
