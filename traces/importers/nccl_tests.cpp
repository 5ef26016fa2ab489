// nccl-tests: the tables of all_reduce_perf and its kin, of any version, or the file of -J.
//
// A row becomes a run that says what was measured; collectives are not simulated.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

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

using Json = nlohmann::json;

const char* const kNotSimulated = "collectives are not simulated";

/// A file's bytes one by one, for a parser that wants iterators.
class Bytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Bytes() = default;  ///< the end
  explicit Bytes(const std::string& path) : state_(std::make_shared<State>(path)) { fill(); }
  char operator*() const { return state_->buffer[state_->at]; }
  Bytes& operator++() {
    if (state_->buffer[state_->at] == '\n') ++state_->line;
    if (++state_->at == state_->filled) fill();
    return *this;
  }
  Bytes operator++(int) {
    Bytes before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Bytes& other) const { return ended() == other.ended(); }
  /// Where a copy of this has come to.
  std::string place() const { return fmt::format("{}:{}", state_->path, state_->line); }

 private:
  struct State {
    explicit State(const std::string& file) : source(file), path(file) {}
    Source source;
    std::string path;
    std::size_t at = 0, filled = 0, line = 1;
    std::array<char, 1 << 14> buffer{};
  };
  void fill() {
    state_->at = 0;
    try {
      state_->filled = state_->source.read(state_->buffer.data(), state_->buffer.size());
    } catch (const Fault& f) {
      throw InputError(place(), f.problem, f.mend);
    }
  }
  bool ended() const { return !state_ || state_->filled == 0; }

  std::shared_ptr<State> state_;
};

/// "all_reduce_perf" of "/opt/nccl-tests/build/all_reduce_perf".
std::string program(std::string_view path) {
  return std::string(path.substr(path.find_last_of('/') + 1));
}

class Results {
 public:
  Results(const std::string& in, const std::string& out, const ImportOptions& options)
      : writer_(out, {machine_of(in, options.machine), file_name(in) + ": nccl-tests", 0,
                      options.counters}) {}

  /// A row's run; what: type, operation and root.
  void write(const std::string& test, std::uint64_t bytes, const std::string& what,
             std::vector<Summary> summaries) {
    Run run;
    run.name =
        names_.unique(fmt::format("{}{} {} B", test.empty() ? "collective" : test, what, bytes));
    run.not_replayable = kNotSimulated;
    run.summaries = std::move(summaries);
    add_lanes(run, 1);
    writer_.run(run);
    ++runs_;
  }
  std::uint64_t runs() const { return runs_; }
  void close() { writer_.close(); }

 private:
  Writer writer_;
  Names names_;
  std::uint64_t runs_ = 0;
};

// ------------------------------------------------------------------------------------------ Text

/// A column of one half (out of place, in place) of a row.
struct Half {
  std::string_view head, metric, statistic, unit;
};
constexpr std::array kHalf = {
    Half{"time", "time", "mean", "us"},
    Half{"cputime", "cpu_time", "mean", "us"},
    Half{"algbw", "algbw", "mean", "GB/s"},
    Half{"busbw", "busbw", "mean", "GB/s"},
    Half{"#wrong", "", "", ""},
    Half{"error", "", "", ""},
    Half{"i_min", "iteration", "min", "us"},
    Half{"i_max", "iteration", "max", "us"},
    Half{"i_p99", "iteration", "p99", "us"},
    Half{"i_cv%", "iteration", "cv", "%"},
};

class TextImporter {
 public:
  TextImporter(const std::string& in, const std::string& out, const ImportOptions& options)
      : log_(in), results_(in, out, options) {}

  void import() {
    while (log_.next()) take_line();
    if (in_table_ && rows_ == 0)
      throw InputError(log_.place(header_line_), "a header but no rows", kWholeLog);
    if (in_table_)
      log_.fail("the table has no end: the line '# Out of bounds values' is missing",
                "take the whole log; if the test died, remove its table");
    if (results_.runs() == 0)
      found_nothing(log_.path(), log_.head(), "nccl-tests", "holds no results of nccl-tests",
                    "take the output of all_reduce_perf or the like, or the file of -J");
    results_.close();
  }

 private:
  static constexpr const char* kWholeLog = "take the whole log";

  void take_line() {
    const std::string_view text = trimmed(log_.line());
    if (!text.starts_with('#')) {
      take_row(text);
      return;
    }
    const std::string_view note = trimmed(text.substr(1));
    if (constexpr std::string_view kStarts = "Collective test starting:";
        note.starts_with(kStarts)) {
      test_ = program(trimmed(note.substr(kStarts.size())));
    } else if (note.starts_with("nThread")) {
      // "... warmup iters: 5 iters: 20 ..."
      const std::size_t at = note.find(" iters: ", note.find("warmup iters: ") + 14);
      if (at != std::string_view::npos) {
        const auto found = words(note.substr(at + 8));
        const auto count = found.empty() ? std::nullopt : to_whole(found.front());
        if (!count)
          log_.fail(fmt::format("'{}' is no number of iterations",
                                shown(found.empty() ? "" : found.front())),
                    "is the line cut off or mixed with another?");
        iterations_ = *count;
      }
    } else if (note.starts_with("size") && words(note).size() > 2) {
      take_header(note);
    } else if (note.starts_with("Out of bounds values") || note.starts_with("Avg bus bandwidth")) {
      if (in_table_ && rows_ == 0)
        throw InputError(log_.place(header_line_), "a header but no rows", kWholeLog);
      in_table_ = false;
    }
  }

  void take_header(std::string_view text) {
    if (in_table_ && rows_ == 0)
      throw InputError(log_.place(header_line_), "a header but no rows", kWholeLog);
    before_ = 0;
    half_.clear();
    columns_ = 0;
    stamped_ = false;
    for (const std::string_view head : words(text)) {
      const auto* const found =
          std::find_if(kHalf.begin(), kHalf.end(), [&](const Half& h) { return h.head == head; });
      if (found != kHalf.end()) {
        half_.push_back(found);
        ++columns_;
      } else if (head == "timestamp") {
        stamped_ = true;
      } else if (half_.empty() && (head == "size" || head == "count" || head == "type" ||
                                   head == "redop" || head == "root")) {
        ++before_;
      } else {
        log_.fail(fmt::format("column '{}' is not known", shown(head)),
                  "is the header cut off or mixed with another line?");
      }
    }
    // Both halves have the same columns.
    const std::size_t n = half_.size() / 2;
    if (n == 0 || half_.size() % 2 != 0 ||
        !std::equal(half_.begin(), half_.begin() + n, half_.begin() + n))
      log_.fail("the header does not name the same columns out of place and in place",
                "is it cut off?");
    half_.resize(n);
    in_table_ = true;
    rows_ = 0;
    header_line_ = log_.number();
  }

  void take_row(std::string_view text) {
    std::vector<std::string_view> cells = words(text);
    if (cells.empty() || !numeric(cells.front())) return;
    const bool meant = (cells.size() > 1 && numeric(cells[1])) ||
                       (in_table_ && (log_.cut() || begins_with_column(text)));
    if (!in_table_) {
      if (meant && cells.size() > 8) log_.fail("a row without a header above it", kWholeLog);
      return;
    }
    if (!meant) return;
    log_.must_be_whole();
    if (stamped_ && cells.size() > 2 && cells.back().find(':') != std::string_view::npos)
      cells.resize(cells.size() - 2);  // date and time
    // A trace's replay leaves the first half blank.
    const bool in_place_only = cells.size() == before_ + half_.size();
    if (!in_place_only && cells.size() != before_ + 2 * half_.size())
      log_.fail(
          fmt::format("the row has {} columns, the header {}", cells.size(),
                      before_ + 2 * half_.size()),
          cells.size() < before_ + 2 * half_.size() ? "is the row cut off?" : "remove the rest");
    const auto bytes = to_whole(cells.front());
    if (!bytes || *bytes > kMaxOpBytes)
      log_.fail(fmt::format("a size of {} bytes is out of range", shown(cells.front())),
                "it is a whole number from 0 to 2^40: is the row mixed with another line?");
    std::string what;
    for (std::size_t i = 2; i < before_; ++i)
      if (cells[i] != "none" && cells[i] != "-1")
        what += fmt::format(" {}{}", i == 4 ? "root " : "", cells[i]);
    std::vector<Summary> summaries;
    for (std::size_t i = 0; i + before_ < cells.size(); ++i) {
      const Half& column = *half_[i % half_.size()];
      const std::string_view cell = cells[before_ + i];
      if (cell == "N/A" || cell == "nan") continue;
      const auto number = to_number(cell);
      if (!number || *number < 0)
        log_.fail(fmt::format("'{}' is no number from 0 on", shown(cell)),
                  "is the row mixed with another line?");
      if (column.metric.empty()) continue;
      const bool in_place = in_place_only || i >= half_.size();
      summaries.push_back({std::string(column.metric), std::string(column.statistic), *number,
                           std::string(column.unit), iterations_,
                           in_place ? "in place" : "out of place"});
    }
    ++rows_;
    results_.write(test_, *bytes, what, std::move(summaries));
  }

  Log log_;
  Results results_;
  std::string test_;
  std::size_t before_ = 0, columns_ = 0, header_line_ = 0;
  std::vector<const Half*> half_;
  bool in_table_ = false, stamped_ = false;
  std::uint64_t rows_ = 0, iterations_ = 0;
};

// ------------------------------------------------------------------------------------------ JSON

struct JsonColumn {
  const char *key, *metric, *statistic, *unit;
};
constexpr std::array kResultKeys = {
    JsonColumn{"time", "time", "mean", "us"}, JsonColumn{"cpu_time", "cpu_time", "mean", "us"},
    JsonColumn{"alg_bw", "algbw", "mean", "GB/s"}, JsonColumn{"bus_bw", "busbw", "mean", "GB/s"}};
constexpr std::array kIterationKeys = {JsonColumn{"min_us", "iteration", "min", "us"},
                                       JsonColumn{"max_us", "iteration", "max", "us"},
                                       JsonColumn{"avg_us", "iteration", "mean", "us"},
                                       JsonColumn{"p50_us", "iteration", "median", "us"},
                                       JsonColumn{"p95_us", "iteration", "p95", "us"},
                                       JsonColumn{"p99_us", "iteration", "p99", "us"},
                                       JsonColumn{"stdev_us", "iteration", "stdev", "us"}};

class JsonImporter {
 public:
  JsonImporter(const std::string& in, const std::string& out, const ImportOptions& options)
      : bytes_(in), results_(in, out, options), path_(in) {}

  void import() {
    // Each result is taken as it ends and forgotten: memory does not grow with the file.
    const auto take = [this](int depth, Json::parse_event_t event, Json& value) {
      if (depth == 1 && event == Json::parse_event_t::key) key_ = value.get<std::string>();
      if (depth == 1 && event != Json::parse_event_t::key) return take_top(event, value);
      if (depth == 2 && key_ == "args" && event == Json::parse_event_t::value && test_.empty()) {
        if (value.is_string()) test_ = program(value.get<std::string>());
        return false;
      }
      if (depth == 2 && key_ == "results" && event == Json::parse_event_t::object_end) {
        take_result(value);
        return false;
      }
      return key_ != "env";
    };
    try {
      const Json rest = Json::parse(bytes_, Bytes(), take);
    } catch (const Json::exception& e) {
      const bool cut = bytes_ == Bytes();
      const auto* const wrong = dynamic_cast<const Json::parse_error*>(&e);
      throw InputError(bytes_.place(),
                       cut     ? std::string("the JSON is cut off")
                       : wrong ? fmt::format("is no JSON, at byte {}", wrong->byte)
                               : std::string("a number is out of range"),
                       cut ? "take the whole file" : "take the file that -J wrote, as it was");
    }
    if (results_.runs() == 0)
      throw InputError(path_, "the JSON has no results", "take the file that nccl-tests -J wrote");
    results_.close();
  }

 private:
  bool take_top(Json::parse_event_t event, const Json& value) {
    if (key_ == "version" && event == Json::parse_event_t::value) {
      constexpr int kNewest = 3;
      if (!value.is_number_integer() || value.get<std::int64_t>() < 1)
        throw InputError(bytes_.place(), "'version' is no whole number",
                         "take the file that nccl-tests -J wrote");
      if (value.get<std::int64_t>() > kNewest)
        throw InputError(bytes_.place(),
                         fmt::format("version {} of the file is not known", value.dump()),
                         fmt::format("known are 1 to {}; use the table of the log", kNewest));
    }
    return true;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(bytes_.place(), fmt::format("result {}: {}", results_.runs() + 1, problem),
                     "take the file that nccl-tests -J wrote, as it was");
  }

  void take_result(const Json& result) {
    const auto size = result.find("size");
    if (size == result.end() || !size->is_number_unsigned() ||
        size->get<std::uint64_t>() > kMaxOpBytes)
      fail("'size' is missing or out of range");
    std::string what;
    for (const char* key : {"type", "redop", "root"}) {
      const auto at = result.find(key);
      if (at == result.end() || !at->is_string()) continue;
      const std::string text = at->get<std::string>();
      const std::string_view word = trimmed(text);
      if (word != "none" && word != "-1" && !word.empty())
        what += fmt::format(" {}{}", std::string_view(key) == "root" ? "root " : "", word);
    }
    std::uint64_t iterations = 0;
    if (const auto at = result.find("actual_iterations"); at != result.end() && !at->is_null()) {
      if (!at->is_number_unsigned()) fail("'actual_iterations' is no whole number from 0 on");
      iterations = at->get<std::uint64_t>();
    }
    std::vector<Summary> summaries;
    const auto take = [&](const char* key, std::span<const JsonColumn> columns, const char* note) {
      const auto half = result.find(key);
      if (half == result.end() || half->is_null()) return;
      if (!half->is_object()) fail(fmt::format("'{}' is no object", key));
      for (const JsonColumn& column : columns) {
        const auto at = half->find(column.key);
        if (at == half->end() || at->is_null() || *at == "nan") continue;
        if (!at->is_number() || at->get<double>() < 0)
          fail(fmt::format("'{}' is no number from 0 on", column.key));
        summaries.push_back(
            {column.metric, column.statistic, at->get<double>(), column.unit, iterations, note});
      }
    };
    take("out_of_place", kResultKeys, "out of place");
    take("out_of_place_per_iter", kIterationKeys, "out of place");
    take("in_place", kResultKeys, "in place");
    take("in_place_per_iter", kIterationKeys, "in place");
    if (summaries.empty()) fail("neither 'out_of_place' nor 'in_place' with a number");
    const auto name = result.find("experiment_name");
    results_.write(test_.empty() && name != result.end() && name->is_string()
                       ? name->get<std::string>()
                       : test_,
                   size->get<std::uint64_t>(), what, std::move(summaries));
  }

  Bytes bytes_;
  Results results_;
  std::string path_, key_, test_;
};

}  // namespace

void import_nccl_tests(const std::string& in, const std::string& out,
                       const ImportOptions& options) {
  // The file of -J is one line, however long.
  bool json = false;
  for (Bytes byte(in); byte != Bytes(); ++byte) {
    if (std::string_view(" \t\r\n").find(*byte) != std::string_view::npos) continue;
    json = *byte == '{';
    break;
  }
  if (json)
    JsonImporter(in, out, options).import();
  else
    TextImporter(in, out, options).import();
}

}  // namespace marrow::trace
