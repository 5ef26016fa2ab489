// NVSHMEM's perftest: tables for people (of today, with repetitions, or the ruled ones of version
// 2) and the lines of NVSHMEM_MACHINE_READABLE_OUTPUT.
//
// A row becomes a run: what the test's kernel does by the recipe `nvshmem-ibgda`, as far as the
// test is known and the recipe can do it, and the row's numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "models/common/error.h"
#include "traces/guess.h"
#include "traces/importers/importers.h"
#include "traces/importers/log.h"
#include "traces/importers/work.h"
#include "traces/rules.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

using enum OpKind;

/// What a test's kernel does in an iteration, as the sources of NVSHMEM's perftest have it.
struct Job {
  std::string_view name;
  std::vector<OpKind> does, peer_does;
  std::string_view choice, chosen;  ///< of the recipe
  std::uint64_t most_bytes;         ///< beyond: threads post one operation for each element
};

const std::vector<Job>& jobs() {
  constexpr std::uint64_t kAny = kMaxOpBytes, kOne = 8;
  static const std::vector<Job> all = {
      {"shmem_put_latency", {kPut, kQuiet}, {}, "", "", kAny},
      {"shmem_get_latency", {kGet}, {}, "", "", kAny},
      {"shmem_p_latency", {kPut, kQuiet}, {}, "payload", "write_inline", kOne},
      {"shmem_g_latency", {kGet}, {}, "", "", kOne},
      {"shmem_put_ping_lat",
       {kPut, kFence, kAtomic, kWait},
       {kWait, kPut, kFence, kAtomic},
       "signal",
       "set",
       kAny},
      {"shmem_sig_ping_lat", {kAtomic, kWait}, {kWait, kAtomic}, "signal", "set", kOne},
      {"shmem_at_ping_lat", {kAtomic, kWait}, {kWait, kAtomic}, "", "", kOne},
      {"shmem_put_bw", {kPut}, {}, "", "", kAny},
  };
  return all;
}

enum class Cell : std::uint8_t {
  kBytes,
  kLatency,
  kBandwidth,
  kMessageRate,
  kAlgorithmBandwidth,
  kBusBandwidth,
  kStdev,
  kMin,
  kMax,
  kRepetitions,
  kScope,
  kWord,  ///< type, operation
  kCount
};

struct Column {
  Cell cell;
  std::string unit;
};

/// "us", "GB/s", "Mmsg/s" for what perftest writes.
std::string unit_of(std::string_view unit) {
  if (unit == "GB/sec") return "GB/s";
  if (unit == "MB/sec") return "MB/s";
  if (unit == "MMPS" || unit == "MOPS") return "Mmsg/s";
  return std::string(unit);
}

bool is_bandwidth(std::string_view unit) {
  return unit.starts_with("GB/") || unit.starts_with("MB/");
}
bool is_rate(std::string_view unit) { return unit == "MMPS" || unit == "MOPS"; }

struct Row {
  std::uint64_t bytes = 0, repetitions = 0;
  std::string scope, kind;  ///< kind: type and operation of a collective
  std::vector<Summary> summaries;
};

class Importer {
 public:
  Importer(const std::string& in, const std::string& out, const ImportOptions& options)
      : log_(in), writer_(out, header(in, options)) {}

  void import() {
    while (log_.next()) take_line();
    end_table();
    if (runs_ == 0)
      found_nothing(log_.path(), log_.head(), "nvshmem-perftest",
                    "holds no results of NVSHMEM's perftest",
                    "take the output of shmem_put_latency or the like");
    writer_.close();
  }

 private:
  static Header header(const std::string& in, const ImportOptions& options) {
    return {machine_of(in, options.machine), file_name(in) + ": NVSHMEM perftest", 0,
            options.counters};
  }

  void take_line() {
    const std::string_view text = trimmed(log_.line());
    if (text.empty()) return;
    if (text.starts_with("&&&& PERF")) return take_machine_row(text);
    if (log_.whole().find("number of ctas:") != std::string_view::npos) return take_options();
    if (text.starts_with("+--")) return;  // version 2's rules
    if (text.starts_with('#') && words(text).size() <= 2 && text.size() > 1) {
      end_table();
      job_ = words(text).back();
      if (job_.starts_with('#')) job_.erase(0, 1);
      return;
    }
    if (text.starts_with("size") ||
        (text.starts_with('|') && trimmed(text.substr(1)).starts_with("size")))
      return take_header(text);
    take_row(text);
  }

  /// "min_size: 4, ..., iterations: 50, ..., number of ctas: 128, threads per cta: 512 stride: 1"
  void take_options() {
    const auto number = [&](std::string_view name, std::uint64_t otherwise) {
      const std::string_view word = value_of(log_.whole(), name);
      if (word.empty()) return otherwise;
      const auto value = to_whole(word.substr(0, word.find(',')));
      if (!value)
        log_.fail(fmt::format("'{}' behind '{}' is no whole number from 0 on", shown(word), name),
                  "is the line cut off or mixed with another?");
      return *value;
    };
    iterations_ = number(", iterations", iterations_);
    ctas_ = number("number of ctas", ctas_);
    both_ways_ = number("bidirectional", 0) != 0;
  }

  static std::vector<std::string_view> split(std::string_view text, bool ruled) {
    std::vector<std::string_view> cells;
    if (ruled) {
      for (text.remove_prefix(1); !text.empty();) {
        const std::size_t bar = std::min(text.find('|'), text.size());
        cells.push_back(trimmed(text.substr(0, bar)));
        text.remove_prefix(std::min(bar + 1, text.size()));
      }
      return cells;
    }
    // Columns are two blanks apart: "latency (us)" is one.
    while (!(text = trimmed(text)).empty()) {
      const std::size_t gap = std::min({text.find("  "), text.find('\t'), text.size()});
      cells.push_back(text.substr(0, gap));
      text.remove_prefix(gap);
    }
    return cells;
  }

  void take_header(std::string_view text) {
    end_table();
    if (job_.empty())
      log_.fail("a table whose test is not named", "keep the line '# shmem_...' above it");
    ruled_ = text.starts_with('|');
    columns_.clear();
    for (std::string_view cell : split(text, ruled_)) {
      std::string name(cell), unit;
      if (const std::size_t open = cell.find('('); open != std::string_view::npos) {
        name = trimmed(cell.substr(0, open));
        unit = cell.substr(open + 1, std::min(cell.find(')', open), cell.size()) - open - 1);
      } else if (const std::size_t blank = cell.rfind(' '); blank != std::string_view::npos) {
        name = cell.substr(0, blank);  // version 2: "BW GB/sec"
        unit = cell.substr(blank + 1);
      }
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      columns_.push_back({cell_of(name, unit, columns_.empty()), unit_of(unit)});
    }
    const auto has = [&](Cell cell) {
      return std::any_of(columns_.begin(), columns_.end(),
                         [&](const Column& c) { return c.cell == cell; });
    };
    if (!has(Cell::kLatency) && !has(Cell::kBandwidth) && !has(Cell::kMessageRate))
      log_.fail("the header has no column of results", "is it cut off?");
    in_table_ = true;
    rows_ = 0;
    header_line_ = log_.number();
  }

  Cell cell_of(std::string_view name, std::string_view unit, bool first) const {
    if (first) return Cell::kBytes;
    if (name == "scope") return Cell::kScope;
    if (name == "type" || name == "redop") return Cell::kWord;
    if (name == "count") return Cell::kCount;
    if (name == "repetitions") return Cell::kRepetitions;
    if (name == "algbw") return Cell::kAlgorithmBandwidth;
    if (name == "busbw") return Cell::kBusBandwidth;
    if (name == "stddev") return Cell::kStdev;
    if (name == "min" || name == "min_lat") return Cell::kMin;
    if (name == "max" || name == "max_lat") return Cell::kMax;
    if (unit == "us") return Cell::kLatency;
    if (is_bandwidth(unit)) return Cell::kBandwidth;
    if (is_rate(unit)) return Cell::kMessageRate;
    log_.fail(fmt::format("column '{}' is not known", shown(name)),
              "is the header mixed with another line?");
  }

  void end_table() {
    if (in_table_ && rows_ == 0)
      throw InputError(log_.place(header_line_), "a header but no rows", "take the whole log");
    in_table_ = false;
  }

  void take_row(std::string_view text) {
    const bool bar = text.starts_with('|');
    const std::vector<std::string_view> cells = bar ? split(text, true) : words(text);
    if (cells.empty() || !numeric(cells.front())) return;
    if (text.find(':') != std::string_view::npos) return;  // "mype: 0 ... bus id: 27", a warning
    if (!in_table_) {
      const bool row = !job_.empty() && (cells.size() >= 3 || bar);
      if (row && to_number(cells.back()))
        log_.fail("a row without a header above it", "take the whole log");
      return;
    }
    // A warning may begin with a number too.
    const bool meant =
        bar == ruled_ && (bar || begins_with_column(text) || cells.size() == columns_.size() ||
                          to_number(cells.back()) || log_.cut());
    if (!meant) return;
    log_.must_be_whole();
    if (cells.size() != columns_.size())
      log_.fail(fmt::format("the row has {} columns, the header {}", cells.size(), columns_.size()),
                cells.size() < columns_.size() ? "is the row cut off?" : "remove the rest");
    Row row;
    const std::string metric = metric_of_time();
    for (std::size_t i = 0; i < cells.size(); ++i) take_cell(columns_[i], cells[i], metric, row);
    ++rows_;
    write(row);
  }

  void take_cell(const Column& column, std::string_view text, const std::string& metric, Row& row) {
    if (column.cell == Cell::kScope) {
      row.scope = text;
      return;
    }
    if (column.cell == Cell::kWord) {
      row.kind += fmt::format("{}{}", row.kind.empty() ? "" : " ", text);
      return;
    }
    if (column.cell == Cell::kBytes || column.cell == Cell::kCount ||
        column.cell == Cell::kRepetitions) {
      const auto number = to_whole(text);
      if (!number || *number > kMaxOpBytes)
        log_.fail(fmt::format("'{}' is no whole number, or out of range", shown(text)),
                  "is the row mixed with another line?");
      if (column.cell == Cell::kBytes) row.bytes = *number;
      if (column.cell == Cell::kRepetitions) row.repetitions = *number;
      return;
    }
    if (text == "NA" || text == "nan") return;  // one repetition has no deviation
    const auto number = to_number(text);
    if (!number || *number < 0)
      log_.fail(fmt::format("'{}' is no number from 0 on", shown(text)),
                "is the row mixed with another line?");
    const auto add = [&](std::string_view what, const char* statistic) {
      row.summaries.push_back(
          {std::string(what), statistic, *number, column.unit, iterations_, note(what)});
    };
    switch (column.cell) {
      case Cell::kLatency:
        add(metric, "mean");
        break;
      case Cell::kBandwidth:
        add("goodput", "mean");
        break;
      case Cell::kMessageRate:
        add("rate", "mean");
        break;
      case Cell::kAlgorithmBandwidth:
        add("algbw", "mean");
        break;
      case Cell::kBusBandwidth:
        add("busbw", "mean");
        break;
      // Of the repetitions' means, or of the ranks': not of single operations.
      case Cell::kStdev:
        add(of_means(metric), "stdev");
        break;
      case Cell::kMin:
        add(of_means(metric), "min");
        break;
      default:
        add(of_means(metric), "max");
        break;
    }
  }

  static std::string of_means(const std::string& metric) { return metric + " of a repetition"; }

  bool collective() const { return !job_.starts_with("shmem_"); }
  bool ping_pong() const { return job_.find("ping") != std::string::npos; }
  std::string metric_of_time() const { return collective() ? "time" : "iteration"; }
  std::string note(std::string_view metric) const {
    if (metric == "iteration")
      return ping_pong() ? "a whole round trip: time of the kernel by its iterations"
                         : "time of the kernel by its iterations";
    return "";
  }

  /// "&&&& PERF job___scope___size__8___latency 7.1 -us", "&&&& PERF_STATS job___... -us mean=..."
  void take_machine_row(std::string_view text) {
    log_.must_be_whole();
    const std::vector<std::string_view> cells = words(text);
    const auto bad = [&](std::string_view what) {
      log_.fail(fmt::format("the line has no {}", what),
                "it reads '&&&& PERF JOB___SCOPE___size__BYTES___latency VALUE -us'");
    };
    const bool stats = cells[1] == "PERF_STATS";
    if (!stats && cells[1] != "PERF") bad("word PERF or PERF_STATS");
    if (cells.size() < 5) bad("value and unit");
    std::vector<std::string_view> parts;
    for (std::string_view rest = cells[2];;) {
      const std::size_t bars = rest.find("___");
      parts.push_back(rest.substr(0, bars));
      if (bars == std::string_view::npos) break;
      rest.remove_prefix(bars + 3);
    }
    if (parts.size() < 4 || !parts[parts.size() - 2].starts_with("size__")) bad("size");
    const auto bytes = to_whole(parts[parts.size() - 2].substr(6));
    if (!bytes || *bytes > kMaxOpBytes) bad("whole size");
    job_ = parts.front();
    Row row;
    row.bytes = *bytes;
    (collective() ? row.kind : row.scope) = parts[1];
    std::string_view unit = stats ? cells[3] : cells[4];
    if (!unit.starts_with('-') && !unit.starts_with('+')) bad("unit with its sign");
    unit.remove_prefix(1);
    const std::string metric = metric_of_time();
    const Cell cell = cell_of(parts.back(), unit, false);
    if (!stats) {
      take_cell({cell, unit_of(unit)}, cells[3], metric, row);
    } else {
      for (std::size_t i = 4; i < cells.size(); ++i) {
        const std::size_t equals = cells[i].find('=');
        if (equals == std::string_view::npos) bad("value behind " + std::string(cells[i]));
        const std::string_view key = cells[i].substr(0, equals);
        take_cell({key == "mean"          ? cell
                   : key == "stddev"      ? Cell::kStdev
                   : key == "min"         ? Cell::kMin
                   : key == "max"         ? Cell::kMax
                   : key == "repetitions" ? Cell::kRepetitions
                                          : cell_of(key, "", false),
                   unit_of(unit)},
                  cells[i].substr(equals + 1), metric, row);
      }
    }
    write(row);
  }

  void write(const Row& row) {
    if (row.bytes == 0) log_.fail("a message of 0 bytes", "is the row mixed with another line?");
    ++runs_;
    Run run;
    run.name =
        names_.unique(fmt::format("{}{}{}{}{} {} B", job_, row.scope.empty() ? "" : " ", row.scope,
                                  row.kind.empty() ? "" : " ", row.kind, row.bytes));
    run.summaries = row.summaries;
    const auto job =
        std::find_if(jobs().begin(), jobs().end(), [&](const Job& j) { return j.name == job_; });
    const bool bandwidth = job_ == "shmem_put_bw";
    // Each CTA puts its part, in whole doubles.
    const std::uint64_t ctas = bandwidth ? std::max<std::uint64_t>(ctas_, 1) : 1;
    const std::uint64_t bytes = bandwidth ? row.bytes / 8 / ctas * 8 : row.bytes;
    run.not_replayable = why_not(job == jobs().end() ? nullptr : &*job, row.bytes, bytes, ctas);
    if (!run.not_replayable.empty()) {
      add_lanes(run, 1);
      writer_.run(run);
      return;
    }
    run.protocol = "nvshmem-ibgda";
    run.queues = 2;  // NVSHMEM's default: two RC queue pairs, in turn
    if (!job->choice.empty()) run.choices[std::string(job->choice)] = job->chosen;
    add_lanes(run, static_cast<std::uint32_t>(ctas));
    Script script;
    script.does = job->does;
    script.peer_does = job->peer_does;
    // Warp and block scope call the put that waits, and then quiet.
    if (job_ == "shmem_put_latency" && (row.scope == "Warp" || row.scope == "Block"))
      script.does.push_back(kQuiet);
    if (bandwidth) script.at_the_end = {kQuiet};
    script.bytes = bytes;
    script.rounds =
        std::clamp<std::uint64_t>(iterations_ == 0 ? 200 : iterations_, 1, kMostBenchmarkRounds);
    write_script(writer_, run, script);
  }

  /// Why the run cannot be simulated; empty: it can.
  std::string why_not(const Job* job, std::uint64_t told_bytes, std::uint64_t bytes,
                      std::uint64_t ctas) const {
    constexpr std::uint64_t kMostCtas = 1024;
    if (collective()) return "collectives are not simulated";
    if (job == nullptr) return fmt::format("what the test {} does is not known here", job_);
    if (told_bytes > job->most_bytes)
      return "the test posts one operation for each element, from all threads of a block";
    if (ctas > kMostCtas) return fmt::format("{} CTAs, more than fit a GPU at once", ctas);
    if (bytes == 0) return fmt::format("less than one element for each of the {} CTAs", ctas);
    if (both_ways_) return "traffic both ways is not simulated for this test";
    return "";
  }

  Log log_;
  Writer writer_;
  Names names_;
  std::string job_;
  std::vector<Column> columns_;
  bool in_table_ = false, ruled_ = false, both_ways_ = false;
  std::uint64_t rows_ = 0, runs_ = 0, iterations_ = 0, ctas_ = 32;
  std::size_t header_line_ = 0;
};

}  // namespace

void import_nvshmem_perftest(const std::string& in, const std::string& out,
                             const ImportOptions& options) {
  Importer(in, out, options).import();
}

}  // namespace marrow::trace
