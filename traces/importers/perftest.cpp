// linux-rdma perftest: the tables of ib_write_lat, ib_read_bw and their kin, or their JSON files.
//
// A row becomes a run: the same requests by the recipe `perftest`, and what the row says of them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/common/error.h"
#include "traces/guess.h"
#include "traces/importers/importers.h"
#include "traces/importers/log.h"
#include "traces/importers/quantiles.h"
#include "traces/importers/work.h"
#include "traces/rules.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

using Json = nlohmann::json;
using enum OpKind;

constexpr std::size_t kMaxJsonBytes = 1 << 20;  // perftest writes one result a file
constexpr std::uint64_t kMaxQueues = 16384;     // perftest's own limit

/// What the lines before a table tell of a test.
struct Test {
  std::string title;  ///< "RDMA_Write Latency Test"
  std::uint64_t queues = 1;
  std::uint64_t inline_bytes = 0;
  bool inline_told = false;
  std::string connection = "RC";
  bool gpu = false;  ///< buffers in GPU memory

  bool says(std::string_view word) const { return title.find(word) != std::string::npos; }
  bool latency() const { return says("Latency"); }
};

enum class Cell : std::uint8_t {
  kBytes,
  kIterations,
  kPeak,
  kAverage,
  kRate,
  kMin,
  kMax,
  kTypical,
  kMean,
  kStdev,
  kP99,
  kP999,
  kOther
};

struct Column {
  std::string_view head;  ///< a trailing '[': a unit follows
  std::string_view key;   ///< in JSON
  Cell cell;
};
constexpr std::array kColumns = {
    Column{"#bytes", "MsgSize", Cell::kBytes},
    Column{"#iterations", "n_iterations", Cell::kIterations},
    Column{"#sl", "sl", Cell::kOther},
    Column{"BW peak[", "BW_peak", Cell::kPeak},
    Column{"BW average[", "BW_average", Cell::kAverage},
    Column{"MsgRate[", "MsgRate", Cell::kRate},
    Column{"BW Port1[", "", Cell::kOther},
    Column{"MsgRate Port1[", "", Cell::kOther},
    Column{"BW Port2[", "", Cell::kOther},
    Column{"MsgRate Port2[", "", Cell::kOther},
    Column{"t_min[", "t_min", Cell::kMin},
    Column{"t_max[", "t_max", Cell::kMax},
    Column{"t_typical[", "t_typical", Cell::kTypical},
    Column{"t_avg[", "t_avg", Cell::kMean},
    Column{"t_stdev[", "t_stdev", Cell::kStdev},
    Column{"99.9% percentile[", "percentile_99.9", Cell::kP999},
    Column{"99% percentile[", "percentile_99", Cell::kP99},
    Column{"tps average", "tps_average", Cell::kOther},
    Column{"CPU_Util[", "CPU_util", Cell::kOther},
};

/// A table's header, or a JSON object's keys.
struct Columns {
  std::vector<Cell> cells;
  std::string bandwidth_unit, time_unit;
  bool operator==(const Columns&) const = default;
};

using Values = std::vector<std::pair<Cell, double>>;

double value(const Values& values, Cell cell) {
  for (const auto& [c, v] : values)
    if (c == cell) return v;
  return 0;
}

class Importer {
 public:
  Importer(const std::string& in, const std::string& out, const ImportOptions& options)
      : log_(in), writer_(out, header(in, options)) {}

  void import() {
    while (log_.next()) take_line();
    if (in_list_ || list_.count() > 0)
      log_.fail("the file ends after a list of iterations, before their table", kWholeLog);
    if (open_ > 0 && rows_ == 0)
      throw InputError(log_.place(header_line_), "a header but no rows", kWholeLog);
    if (open_ > 0 && lined_)
      log_.fail("the table has no end: the line of dashes below it is missing", kWholeLog);
    if (runs_ == 0)
      found_nothing(log_.path(), log_.head(), "perftest", "holds no results of perftest",
                    "take the output of ib_write_lat, ib_read_bw or the like, or the file of "
                    "--out_json");
    writer_.close();
  }

 private:
  static constexpr const char* kWholeLog = "take the whole log";

  static Header header(const std::string& in, const ImportOptions& options) {
    return {machine_of(in, options.machine), file_name(in) + ": linux-rdma perftest", 0,
            options.counters};
  }

  void take_line() {
    const std::string_view line = log_.line();
    const std::string_view text = trimmed(line);
    if (text.starts_with('{')) return take_json();
    if (in_list_ && take_iteration(text)) return;
    if (text.starts_with("#, ")) {
      if (text != "#, usec" && text != "#, cycles")
        log_.fail(fmt::format("unknown unit of iterations '{}'", shown(text.substr(3))),
                  "known are usec and cycles");
      list_unit_ = text.substr(3) == "usec" ? "us" : "cycles";
      list_ = {};
      in_list_ = true;
      return;
    }
    if (text.starts_with("#bytes")) return take_header(text);
    if (text.starts_with("#flows"))
      log_.fail("a table of flow steering rates: no messages", "take a bandwidth or latency test");
    if (text.size() >= 20 && text.find_first_not_of('-') == std::string_view::npos)
      return line_end();
    if (!take_row(text)) take_note(line, text);
  }

  void line_end() {
    if (open_ == 0 || rows_ == 0) {
      dashes_ = true;
      return;
    }
    if (--open_ > 0) return;
    gpu_seen_ = false;
    dashes_ = false;
  }

  /// What tells of the test to come.
  void take_note(std::string_view line, std::string_view text) {
    if (text.ends_with(" Test") &&
        (text.starts_with("RDMA_") || text.starts_with("Send") || text.starts_with("Atomic"))) {
      next_ = {};
      next_.gpu = gpu_seen_;
      next_.title = text;
      return;
    }
    if (const std::string_view queues = value_of(line, "Number of qps"); !queues.empty()) {
      const auto count = to_whole(queues);
      if (!count || *count < 1 || *count > kMaxQueues)
        log_.fail(fmt::format("'{}' is no number of queue pairs", shown(queues)),
                  fmt::format("1 to {}", kMaxQueues));
      next_.queues = *count;
    }
    if (const std::string_view type = value_of(line, "Connection type"); !type.empty())
      next_.connection = type;
    if (const std::string_view most = value_of(line, "Max inline data"); !most.empty()) {
      const auto bytes = to_whole(most.substr(0, most.find('[')));
      if (!bytes) log_.fail(fmt::format("'{}' is no size", shown(most)), "perftest writes 220[B]");
      next_.inline_bytes = *bytes;
      next_.inline_told = true;
    }
    // Freeing the buffer of the test before is no sign.
    const bool freed = line.find("dealloc") != std::string_view::npos ||
                       line.find("destroy") != std::string_view::npos;
    for (const std::string_view sign :
         {"GPU buffer", "CUDA Device with ID", "CUDA Ctx", "--use_cuda", "--use_rocm"})
      if (!freed && line.find(sign) != std::string_view::npos) gpu_seen_ = true;
    if (value_of(line, "Use ROCm memory") == "ON") gpu_seen_ = true;
    if (gpu_seen_) next_.gpu = true;
  }

  /// A line "7, 1.52" of -U or -H; false where the list is over.
  bool take_iteration(std::string_view text) {
    const std::size_t comma = text.find(", ");
    if (comma == std::string_view::npos || !numeric(text.substr(0, comma))) {
      in_list_ = false;
      if (list_.count() == 0) log_.fail("a list of iterations without any", kWholeLog);
      return false;
    }
    log_.must_be_whole();
    if (to_whole(text.substr(0, comma)) != list_.count() + 1)
      log_.fail(
          fmt::format("iteration {} follows on {}", shown(text.substr(0, comma)), list_.count()),
          kWholeLog);
    const auto time = to_number(text.substr(comma + 2));
    if (!time || *time < 0)
      log_.fail(fmt::format("'{}' is no time", shown(text.substr(comma + 2))), kWholeLog);
    list_.add(*time);
    return true;
  }

  void take_header(std::string_view text) {
    Columns columns;
    for (std::string_view rest = text; !rest.empty(); rest = trimmed(rest)) {
      const auto* const column =
          std::find_if(kColumns.begin(), kColumns.end(),
                       [&](const Column& c) { return rest.starts_with(c.head); });
      if (column == kColumns.end())
        log_.fail(fmt::format("column '{}' is not known", shown(rest)),
                  "is the header cut off or mixed with another line?");
      rest.remove_prefix(column->head.size());
      std::string unit;
      if (column->head.ends_with('[')) {
        const std::size_t close = rest.find(']');
        if (close == std::string_view::npos)
          log_.fail("a column's unit does not end", "is the header cut off?");
        unit = rest.substr(0, close);
        rest.remove_prefix(close + 1);
      }
      if (column->cell == Cell::kAverage) columns.bandwidth_unit = bandwidth_unit(unit);
      if (column->cell == Cell::kMean || column->cell == Cell::kTypical) {
        if (unit != "usec" && unit != "cycles")
          log_.fail(fmt::format("unknown unit of time '{}'", shown(unit)),
                    "known are usec and cycles");
        columns.time_unit = unit == "usec" ? "us" : unit;
      }
      columns.cells.push_back(column->cell);
    }
    const auto has = [&](Cell cell) {
      return std::find(columns.cells.begin(), columns.cells.end(), cell) != columns.cells.end();
    };
    if (!has(Cell::kBytes) || !has(Cell::kIterations) ||
        !(has(Cell::kAverage) || has(Cell::kTypical) || has(Cell::kMean)))
      log_.fail("the header lacks #iterations or any result", "is the header cut off?");
    if (open_ > 0 && rows_ == 0 && columns == columns_) {
      // A list of iterations stands between a header and its like. Else client and server write
      // into one log: two headers, then two rows.
      if (list_.count() > 0)
        columns_.time_unit = list_unit_;
      else
        ++open_;
      return;
    }
    if (open_ > 0 && rows_ == 0)
      throw InputError(log_.place(header_line_), "a header but no rows", kWholeLog);
    if (next_.title.empty())
      log_.fail("a table whose test is not named, so that nobody knows what its numbers are",
                "keep the lines above it, from the one that ends with 'Test' on");
    columns_ = columns;
    test_ = next_;
    if (list_.count() > 0) columns_.time_unit = list_unit_;
    open_ = 1;
    rows_ = 0;
    lined_ = dashes_;
    header_line_ = log_.number();
  }

  std::string bandwidth_unit(const std::string& unit) const {
    // Older versions print MB/sec and mean 2^20 bytes as well.
    if (unit == "MiB/sec" || unit == "MB/sec") return "MiB/s";
    if (unit == "Gb/sec") return "Gb/s";
    log_.fail(fmt::format("unknown unit of bandwidth '{}'", shown(unit)),
              "known are MiB/sec, MB/sec and Gb/sec");
  }

  /// False where the line is none.
  bool take_row(std::string_view text) {
    const std::vector<std::string_view> cells = words(text);
    if (cells.empty() || !numeric(cells.front())) return false;
    const auto numbers =
        static_cast<std::size_t>(std::count_if(cells.begin(), cells.end(), numeric));
    if (open_ == 0) {
      if (numbers < 4 || numbers != cells.size()) return false;
      log_.fail("a row without a header above it", kWholeLog);
    }
    // A warning may begin with a number too.
    const bool meant = numbers == cells.size() || cells.size() == columns_.cells.size() ||
                       begins_with_column(text) || (cells.size() > 1 && numeric(cells[1]));
    if (!meant) return false;
    log_.must_be_whole();
    if (cells.size() != columns_.cells.size())
      log_.fail(
          fmt::format("the row has {} columns, the header {}", cells.size(), columns_.cells.size()),
          cells.size() < columns_.cells.size() ? "is the row cut off?" : "remove the rest");
    Values values;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto number = to_number(cells[i]);
      if (!number || *number < 0)
        log_.fail(fmt::format("'{}' is no number from 0 on", shown(cells[i])),
                  "is the row mixed with another line?");
      values.emplace_back(columns_.cells[i], *number);
    }
    ++rows_;
    take_result(values);
    list_ = {};
    return true;
  }

  void take_json() {
    const std::size_t first_line = log_.number();
    std::string text;
    int depth = 0;
    bool quoted = false, ended = false;
    std::string_view line = log_.line();
    do {
      // perftest forgets the quotes of this key.
      if (trimmed(line).starts_with("sl:")) {
        text += "\"sl\"";
        line = trimmed(line).substr(2);
      }
      for (std::size_t i = 0; i < line.size() && !ended; ++i) {
        const char c = line[i];
        text += c;
        if (quoted) {
          if (c == '\\' && i + 1 < line.size()) text += line[++i];
          quoted = c != '"';
        } else if (c == '"') {
          quoted = true;
        } else if (c == '{') {
          ++depth;
        } else if (c == '}') {
          ended = --depth == 0;
        }
      }
      text += '\n';
      if (text.size() > kMaxJsonBytes)
        throw InputError(log_.place(first_line), "a JSON object of more than 1 MiB",
                         "perftest writes a short one");
    } while (!ended && log_.next() && (line = log_.whole(), true));
    const auto place = [&](std::size_t at) {
      return log_.place(
          first_line +
          static_cast<std::size_t>(std::count(
              text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())),
              '\n')));
    };
    if (!ended)
      throw InputError(log_.place(),
                       fmt::format("the JSON that begins in line {} is cut off", first_line),
                       "take the whole file");
    Json json;
    try {
      json = Json::parse(text);
    } catch (const Json::exception& e) {
      const auto* const wrong = dynamic_cast<const Json::parse_error*>(&e);
      throw InputError(place(wrong ? wrong->byte : 0),
                       wrong ? "is no JSON here" : "the JSON has a number out of range",
                       "take perftest's file as it was");
    }
    take_json_result(json, log_.place(first_line));
  }

  void take_json_result(const Json& json, const std::string& place) {
    if (!json.contains("test_info") && !json.contains("results")) return;  // another program's
    const auto object = [&](const char* key) -> const Json& {
      const auto at = json.find(key);
      if (at == json.end() || !at->is_object())
        throw InputError(place, fmt::format("the JSON has no '{}'", key),
                         "take the file that perftest wrote with --out_json");
      return *at;
    };
    const Json& info = object("test_info");
    const Json& results = object("results");
    const auto text = [&](const char* key) {
      const auto at = info.find(key);
      return at != info.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    const auto whole = [&](const char* key, std::uint64_t otherwise) {
      const auto at = info.find(key);
      if (at == info.end()) return otherwise;
      if (!at->is_number_unsigned())
        throw InputError(place, fmt::format("'{}' is no whole number", key), "write 0 or more");
      return at->get<std::uint64_t>();
    };
    test_ = {};
    test_.title = text("test");
    if (test_.title.empty())
      throw InputError(place, "'test_info' does not name the test", "as \"RDMA_Write_BW_Test\"");
    // As in the table's title: the words apart, but RDMA_Write together.
    for (std::size_t i = 0; i < test_.title.size(); ++i)
      if (test_.title[i] == '_' && !std::string_view(test_.title).substr(0, i).ends_with("RDMA") &&
          !std::string_view(test_.title).substr(i).starts_with("_imm"))
        test_.title[i] = ' ';
    test_.queues = whole("Number_of_qps", 1);
    if (test_.queues < 1 || test_.queues > kMaxQueues)
      throw InputError(place, fmt::format("{} queue pairs", test_.queues),
                       fmt::format("1 to {}", kMaxQueues));
    if (const std::string type = text("Connection_type"); !type.empty()) test_.connection = type;
    test_.inline_told = info.contains("Max_inline_data");
    test_.inline_bytes = whole("Max_inline_data", 0);
    test_.gpu = info.contains("cuda_device") || text("Use_ROCm_memory") == "ON" || gpu_seen_;

    columns_ = {};
    columns_.time_unit = "us";
    Values values;
    for (const auto& [key, cell] : results.items()) {
      const auto* const column = std::find_if(kColumns.begin(), kColumns.end(),
                                              [&](const Column& c) { return c.key == key; });
      if (column == kColumns.end() || column->key.empty()) continue;
      if (!cell.is_number() || cell.get<double>() < 0)
        throw InputError(place, fmt::format("result '{}' is no number from 0 on", key),
                         "take perftest's file as it was");
      values.emplace_back(column->cell, cell.get<double>());
    }
    for (const auto& [cell, key] :
         {std::pair(Cell::kBytes, "MsgSize"), std::pair(Cell::kIterations, "n_iterations")})
      if (!results.contains(key))
        throw InputError(place, fmt::format("the results have no '{}'", key),
                         "run perftest without --output");
    columns_.bandwidth_unit = told_bandwidth_unit(values);
    std::sort(values.begin(), values.end());  // JSON's keys have no order
    take_result(values);
  }

  /// The JSON does not tell the unit, but the rate does: MiB or Gb a second.
  static std::string told_bandwidth_unit(const Values& values) {
    const double bytes_per_s = value(values, Cell::kRate) * 1e6 * value(values, Cell::kBytes);
    const double average = value(values, Cell::kAverage);
    if (bytes_per_s == 0 || average == 0) return "MiB/s";
    return std::abs(std::log(average / (bytes_per_s / 1048576))) <
                   std::abs(std::log(average / (bytes_per_s / 125e6)))
               ? "MiB/s"
               : "Gb/s";
  }

  void take_result(const Values& values) {
    const double bytes = value(values, Cell::kBytes), iterations = value(values, Cell::kIterations);
    for (const auto& [what, number, most] :
         {std::tuple("a message", bytes, static_cast<double>(kMaxOpBytes)),
          std::tuple("a number of iterations", iterations, 1e15)})
      if (number < 1 || number > most || number != std::floor(number))
        log_.fail(fmt::format("{} of {}", what, number),
                  fmt::format("perftest writes a whole number from 1 on, at most {}: is the row "
                              "mixed with another line?",
                              most));
    Run run;
    run.name = names_.unique(name(static_cast<std::uint64_t>(bytes)));
    run.queues = static_cast<std::uint32_t>(test_.queues);
    summarise(values, static_cast<std::uint64_t>(iterations), run);
    run.not_replayable = why_not();
    run.protocol = run.not_replayable.empty() ? "perftest" : "";
    write(run, static_cast<std::uint64_t>(bytes), static_cast<std::uint64_t>(iterations));
    ++runs_;
  }

  std::string name(std::uint64_t bytes) const {
    std::string text = test_.says("Write_imm") ? "write_imm"
                       : test_.says("Write")   ? "write"
                       : test_.says("Read")    ? "read"
                       : test_.says("Atomic")  ? "atomic"
                                               : "send";
    text += test_.latency() ? "_lat" : "_bw";
    if (test_.says("Bidirectional")) text += " both ways";
    if (test_.gpu) text += " gpu";
    if (test_.queues > 1) text += fmt::format(" {} qps", test_.queues);
    return fmt::format("{} {} B", text, bytes);
  }

  void summarise(const Values& values, std::uint64_t iterations, Run& run) const {
    const bool reads = test_.says("Read") || test_.says("Atomic");
    // Both directions' sum, of which one element's lanes do half.
    const bool both = test_.says("Bidirectional");
    const std::string time_metric = reads ? "put_completion" : "one_way";
    const std::string time_note = reads ? "a whole round trip" : "half of a round trip";
    const auto add = [&](const std::string& metric, const char* statistic, double number,
                         const std::string& unit, const std::string& note) {
      run.summaries.push_back({metric, statistic, number, unit, iterations, note});
    };
    for (const auto& [cell, number] : values) {
      const auto time = [&](const char* statistic) {
        add(time_metric, statistic, number, columns_.time_unit, time_note);
      };
      const std::string rate_note = both ? "half of what both ways gave together" : "";
      const double share = both ? number / 2 : number;
      switch (cell) {
        case Cell::kMin:
          time("min");
          break;
        case Cell::kMax:
          time("max");
          break;
        case Cell::kTypical:
          time("median");
          break;
        case Cell::kMean:
          time("mean");
          break;
        case Cell::kStdev:
          time("stdev");
          break;
        case Cell::kP99:
          time("p99");
          break;
        case Cell::kP999:
          time("p99.9");
          break;
        case Cell::kPeak:  // 0 where it was not asked for
          if (number > 0) add("goodput", "peak", share, columns_.bandwidth_unit, rate_note);
          break;
        case Cell::kAverage:
          add("goodput", "mean", share, columns_.bandwidth_unit, rate_note);
          break;
        case Cell::kRate:
          add("rate", "mean", share, "Mmsg/s", rate_note);
          break;
        default:
          break;
      }
    }
    if (list_.count() > 0)
      for (const auto& [statistic, p] : {std::pair("p10", 0.1), std::pair("p90", 0.9)})
        run.summaries.push_back({time_metric, statistic, list_.quantile(p), columns_.time_unit,
                                 list_.count(), time_note});
  }

  /// Why the recipe cannot do what the test did; empty: it can.
  std::string why_not() const {
    if (test_.says("Atomic")) return "the perftest recipe has no atomics";
    if (!test_.says("Write") && !test_.says("Read"))
      return "send and receive are not simulated (write_imm comes nearest)";
    if (test_.connection != "RC")
      return fmt::format("the perftest recipe posts on RC queue pairs, the test on {}",
                         test_.connection);
    return "";
  }

  void write(Run& run, std::uint64_t bytes, std::uint64_t iterations) {
    const bool read = test_.says("Read"), latency = test_.latency();
    if (!run.not_replayable.empty()) {
      run.queues = 1;
      add_lanes(run, 1);
      writer_.run(run);
      return;
    }
    if (test_.gpu) run.choices = {{"source", "gpu"}, {"target", "gpu"}};
    if (!read) {
      // Nothing told: as perftest itself, which inlines in latency tests up to 220 B.
      const std::uint64_t most = test_.inline_told ? test_.inline_bytes : latency ? 220 : 0;
      run.choices["payload"] = !test_.gpu && bytes <= most ? "write_inline" : "write";
    }
    if (test_.says("Write_imm")) run.choices["immediate"] = "yes";
    add_lanes(run, run.queues);
    Script script;
    script.bytes = bytes;
    script.rounds = std::clamp<std::uint64_t>(iterations / run.queues, 1, kMostBenchmarkRounds);
    const OpKind op = read ? kGet : kPut;
    if (!latency) {
      script.does = {op};
      if (test_.says("Bidirectional")) script.peer_does = {op};
    } else if (read) {
      script.does = {op, kQuiet};
    } else {
      script.does = {op, kQuiet, kWait};
      script.peer_does = {kWait, op, kQuiet};
    }
    write_script(writer_, run, script);
  }

  Log log_;
  Writer writer_;
  Names names_;
  Test next_, test_;
  Columns columns_;
  int open_ = 0;            ///< headers whose table has not ended
  std::uint64_t rows_ = 0;  ///< of the open table
  std::uint64_t runs_ = 0;
  std::size_t header_line_ = 0;
  bool dashes_ = false, lined_ = false;  ///< seen above; the open table began with dashes
  bool gpu_seen_ = false;                ///< since the last table
  bool in_list_ = false;
  Quantiles list_;  ///< of -U or -H, for the row to come
  std::string list_unit_;
};

}  // namespace

void import_perftest(const std::string& in, const std::string& out, const ImportOptions& options) {
  Importer(in, out, options).import();
}

}  // namespace marrow::trace
