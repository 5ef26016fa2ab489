// Captures of marrow-capture and of the stamping wrapper: JSON lines, a header, then for each run
// its description and a row a put, then the counts.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "models/common/error.h"
#include "traces/guess.h"
#include "traces/importers/importers.h"
#include "traces/rules.h"
#include "traces/source.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kRang = 1, kWaited = 2, kTimedOut = 128;
constexpr std::uint64_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kBeforeStages = 5, kAfterStages = 3;
const char* const kWhole = "take the whole file, as the program wrote it";

class Importer {
 public:
  Importer(const std::string& in, const std::string& out, const ImportOptions& options)
      : path_(in), out_(out), options_(options), lines_(in) {}

  void import() {
    read_header();
    std::string_view text;
    while (lines_.next(text)) {
      if (ended_) fail("a line behind the end", kWhole);
      const Json line = parse(text);
      if (line.is_array())
        put(line);
      else if (line.contains("run"))
        start(line);
      else if (line.contains("end"))
        end(line);
      else
        fail("is neither a run, nor a put, nor the end", kWhole);
    }
    if (!ended_)
      throw InputError(path_,
                       fmt::format("the file is cut short: it ends at line {}, without its "
                                   "counts",
                                   lines_.number()),
                       kWhole);
    writer_->close();
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& mend) const {
    throw InputError(fmt::format("{}:{}", path_, lines_.number()), what, mend);
  }
  Json parse(std::string_view text) const {
    Json line = Json::parse(text, nullptr, false);
    if (line.is_discarded() || !(line.is_object() || line.is_array()))
      fail(fmt::format("is no JSON: '{}'", shown(text)), kWhole);
    return line;
  }
  const Json& need(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key))
      fail(fmt::format("'{}' is missing", key), kWhole);
    return object[key];
  }
  std::uint64_t whole(const Json& value, const char* what, std::uint64_t max = kMaxU32) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max)
      fail(fmt::format("{}: {} is no whole number from 0 to {}", what, shown(value.dump()), max),
           kWhole);
    return value.get<std::uint64_t>();
  }
  std::uint32_t whole32(const Json& object, const char* key) const {
    return static_cast<std::uint32_t>(whole(need(object, key), key));
  }
  double number(const Json& value, const char* what) const {
    if (!value.is_number())
      fail(fmt::format("{}: {} is no number", what, shown(value.dump())), kWhole);
    return value.get<double>();
  }
  /// 0 where the key is missing or null.
  double number_or_zero(const Json& object, const char* key) const {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) return 0;
    const double value = number(*it, key);
    if (value < 0) fail(fmt::format("{}: {} is negative", key, value), kWhole);
    return value;
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = need(object, key);
    if (!value.is_string()) fail(fmt::format("'{}' is no text", key), kWhole);
    return value.get<std::string>();
  }
  const Json& list(const Json& object, const char* key) const {
    const Json& value = need(object, key);
    if (!value.is_array()) fail(fmt::format("'{}' is no list", key), kWhole);
    return value;
  }

  void read_header() {
    std::string_view first;
    const bool any = lines_.next(first);
    const Json line = any ? Json::parse(first, nullptr, false) : Json();
    const std::string schema =
        line.is_object() && line.contains("schema") && line["schema"].is_string()
            ? line["schema"].get<std::string>()
            : "";
    if (schema != "marrow.capture/1") {
      if (schema.starts_with("marrow.capture/"))
        fail(fmt::format("schema {} is from the future", shown(schema)), "use a later marrow");
      if (schema.starts_with("marrow.probe/"))
        fail("is a probe's measurements, not a capture", "take what marrow-capture wrote");
      const Guess g = guess(lines_.head(), path_);
      throw InputError(path_, "is no capture: it " + g.looks, g.mend);
    }
    Header header;
    const std::string file = std::filesystem::path(path_).filename().string();
    header.machine = options_.machine.value_or(file.substr(0, file.find(".jsonl")));
    header.origin = fmt::format("{}: puts captured by marrow's own tools", file);
    header.sm_clock_ghz = number(need(line, "sm_clock_ghz"), "sm_clock_ghz");
    if (!(header.sm_clock_ghz > 0 && header.sm_clock_ghz <= 100))
      fail("sm_clock_ghz is out of range", kWhole);
    header.l2_near_cycles = number_or_zero(line, "near_cycles");
    header.l2_far_cycles = number_or_zero(line, "far_cycles");
    add_facts(line, "", header.facts);
    writer_.emplace(out_, header, 9);
  }

  /// What the header says of the machine; measured values and lists have places of their own.
  static void add_facts(const Json& object, const std::string& prefix,
                        std::map<std::string, std::string>& facts) {
    constexpr std::string_view kNoFacts[] = {"schema", "name", "sm_clock_ghz", "near_cycles",
                                             "far_cycles"};
    for (const auto& [key, value] : object.items()) {
      if (std::find(std::begin(kNoFacts), std::end(kNoFacts), key) != std::end(kNoFacts)) continue;
      if (value.is_object())
        add_facts(value, prefix + key + ".", facts);
      else if (value.is_string())
        facts[prefix + key] = value.get<std::string>();
      else if (!value.is_null() && !value.is_array())
        facts[prefix + key] = value.dump();
    }
  }

  void start(const Json& line) {
    finish_run();
    run_ = {};
    run_.name = text(line, "run");
    run_.protocol = text(line, "protocol");
    const Json& choices = need(line, "choices");
    if (!choices.is_object()) fail("'choices' is no object", kWhole);
    for (const auto& [key, value] : choices.items()) {
      if (!value.is_string()) fail(fmt::format("choice '{}' is no text", key), kWhole);
      run_.choices[key] = value.get<std::string>();
    }
    run_.consumer = text(line, "consumer");
    if (line.contains("consumer_sm") && !line["consumer_sm"].is_null())
      run_.consumer_sm = whole32(line, "consumer_sm");
    run_.queues = whole32(line, "queues");
    run_.puts_per_lane = whole(need(line, "puts_per_warp"), "puts_per_warp");
    run_.epoch_ns = whole(need(line, "epoch_ns"), "epoch_ns", kMaxU64);
    run_.put_cycles = number_or_zero(line, "cycles_per_put");
    run_.put_unstamped_cycles = number_or_zero(line, "cycles_per_put_unstamped");
    run_.consumer_clock_bound_ns = number_or_zero(line, "consumer_clock_bound_ns");
    if (line.contains("clock_changed")) {
      const Json& changed = line["clock_changed"];
      if (!changed.is_boolean()) fail("'clock_changed' is neither true nor false", kWhole);
      run_.clock_changed = changed.get<bool>();
    }
    bytes_ = whole(need(line, "bytes"), "bytes", kMaxOpBytes);
    gap_cycles_ = whole(need(line, "gap_cycles"), "gap_cycles");
    for (const Json& stage : list(line, "stages")) {
      if (!stage.is_string()) fail("a stage's name is no text", kWhole);
      run_.measured_stages.push_back(stage.get<std::string>());
    }
    columns_ = kBeforeStages + run_.measured_stages.size() + kAfterStages;
    if (list(line, "columns").size() != columns_)
      fail(fmt::format("{} columns, but {} belong to {} stages", list(line, "columns").size(),
                       columns_, run_.measured_stages.size()),
           kWhole);
    for (const Json& lane : list(line, "lanes"))
      run_.lanes.push_back({whole32(lane, "warp"), whole32(lane, "sm"), whole32(lane, "queue")});
    for (const Json& word : list(line, "words")) run_.words.push_back(placed(word));
    if (run_.lanes.size() != whole(need(line, "warps"), "warps"))
      fail("not as many lanes as warps", kWhole);
    done_.clear();
    writer_->run(run_);
    ++runs_;
  }

  PlacedWord placed(const Json& json) const {
    PlacedWord word;
    word.word = text(json, "word");
    word.queue = whole32(json, "queue");
    word.first_entry = whole32(json, "first_entry");
    word.address = whole(need(json, "address"), "address", kMaxU64);
    const Json &warps = list(json, "warps"), &cycles = list(json, "cycles"),
               &far = list(json, "far");
    if (cycles.size() != warps.size() || far.size() != warps.size())
      fail(fmt::format("word '{}': warps, cycles and far differ in length", shown(word.word)),
           kWhole);
    for (std::size_t i = 0; i < warps.size(); ++i)
      word.seen.push_back({static_cast<std::uint32_t>(whole(warps[i], "warps")),
                           static_cast<std::uint32_t>(whole(cycles[i], "cycles")),
                           whole(far[i], "far", 1) != 0});
    if (json.contains("consumer_cycles"))
      word.from_consumer = {0, whole32(json, "consumer_cycles"),
                            whole(need(json, "consumer_far"), "consumer_far", 1) != 0};
    return word;
  }

  void put(const Json& row) {
    if (runs_ == 0) fail("a put before the first run", kWhole);
    if (row.size() != columns_)
      fail(fmt::format("{} values, but the run has {} columns", row.size(), columns_), kWhole);
    const std::uint64_t warp = whole(row[0], "warp"), flags = whole(row[2], "flags");
    if (flags & ~(kRang | kWaited | kTimedOut))
      fail(fmt::format("flags: {} has bits without a meaning", flags),
           "known are 1 (rang), 2 (waited) and 128 (timed out)");
    op_.kind = OpKind::kPut;
    op_.warp = static_cast<std::uint32_t>(warp);
    op_.bytes = bytes_;
    op_.flush = ++done_[op_.warp] == run_.puts_per_lane;
    if (done_[op_.warp] > run_.puts_per_lane)
      fail(fmt::format("warp {} has more than the run's {} puts of each warp", warp,
                       run_.puts_per_lane),
           kWhole);
    op_.wait = flags & kWaited;
    op_.compute_cycles = gap_cycles_;
    if (!op_.measured) op_.measured.emplace();
    Measured& m = *op_.measured;
    m.index = whole(row[1], "index");
    m.start_ns = whole(row[3], "start_ns", kMaxU64);
    m.polls = static_cast<std::uint32_t>(whole(row[4], "polls"));
    m.rang = flags & kRang;
    m.timed_out = flags & kTimedOut;
    m.stage_cycles.clear();
    std::size_t at = kBeforeStages;
    for (const std::string& stage : run_.measured_stages)
      m.stage_cycles.push_back(static_cast<std::uint32_t>(whole(row[at++], stage.c_str())));
    m.consumer_seen_ns = number(row[at], "seen_ns");
    m.consumer_read_ns = number(row[at + 1], "read_ns");
    m.consumer_done_ns = number(row[at + 2], "done_ns");
    try {
      writer_->op(op_);
    } catch (const InputError& error) {
      fail(error.what(), kWhole);
    }
    ++puts_;
  }

  void finish_run() const {
    if (runs_ == 0) return;
    for (const Lane& lane : run_.lanes) {
      const auto it = done_.find(lane.warp);
      const std::uint64_t puts = it == done_.end() ? 0 : it->second;
      if (puts != run_.puts_per_lane)
        fail(fmt::format("run '{}' ends here with {} puts of warp {}, but each warp made {}",
                         run_.name, puts, lane.warp, run_.puts_per_lane),
             kWhole);
    }
  }

  void end(const Json& line) {
    finish_run();
    if (whole(need(line, "runs"), "runs") != runs_ || whole(need(line, "puts"), "puts") != puts_)
      fail(fmt::format("{} runs and {} puts were read, but the end counts {} and {}", runs_, puts_,
                       line["runs"].dump(), line["puts"].dump()),
           kWhole);
    if (runs_ == 0) fail("the capture holds no run", "capture again");
    ended_ = true;
  }

  std::string path_, out_;
  const ImportOptions& options_;
  Lines lines_;
  std::optional<Writer> writer_;
  Run run_;
  std::uint64_t bytes_ = 0, gap_cycles_ = 0, runs_ = 0, puts_ = 0;
  std::size_t columns_ = 0;
  std::map<std::uint32_t, std::uint64_t> done_;  ///< puts of each warp so far
  bool ended_ = false;
  Op op_;
};

}  // namespace

void import_capture(const std::string& in, const std::string& out, const ImportOptions& options) {
  Importer(in, out, options).import();
}

}  // namespace marrow::trace
