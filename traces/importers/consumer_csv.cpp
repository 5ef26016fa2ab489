// The consumer captures: one CSV row a put, one configuration after the other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <span>
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

using Words = std::span<const std::string_view>;

/// Every column of stage times that a layout may have, in the order in which a put passes them.
struct StageColumn {
  std::string_view column, stage;
};
constexpr std::array<StageColumn, 9> kStageColumns = {{{"lookup_cy", "lookup"},
                                                       {"slot_cy", "slot"},
                                                       {"wqe_cy", "wqe"},
                                                       {"fence_cy", "order.fence"},
                                                       {"order_cy", "order.publish"},
                                                       {"lock_cy", "order.lock"},
                                                       {"dbr_cy", "doorbell.record"},
                                                       {"db_cy", "doorbell.register"},
                                                       {"cqe_cy", "completion"}}};

/// Columns that hold for a whole configuration, as far as a layout has them.
constexpr std::array<std::string_view, 10> kConfigColumns = {
    "proto", "fence_wqe", "fence_db",    "doorbell_in", "warps",
    "nqp",   "batch",     "quiet_every", "bytes",       "gap_cycles"};

struct Layout {
  std::string_view format;
  std::string_view about;
  std::string_view header;
  std::string_view protocol_prefix;
  Words protocols;
  Words doorbells;  ///< values of doorbell_in; none: the layout has no such column
};

constexpr std::string_view kHostProtocols[] = {"gdaki", "proxy"};
constexpr std::string_view kGpuProtocols[] = {"ibgda", "gdaki"};
constexpr std::string_view kDeviceDoorbells[] = {"gpu", "host"};
constexpr std::string_view kPeerDoorbells[] = {"peer"};

constexpr Layout kHost = {
    "host-consumer-csv",
    "puts into queues in host memory, a CPU thread consumes",
    "cfg,proto,fence_wqe,fence_db,warps,nqp,batch,quiet_every,bytes,gap_cycles,sm,warp,qp,idx,"
    "flags,"
    "gpu_start_ns,slot_cy,wqe_cy,fence_cy,order_cy,dbr_cy,db_cy,cqe_cy,polls,cpu_seen_ns,"
    "cpu_read_ns,cpu_done_ns",
    "capture-host-",
    kHostProtocols,
    {}};
constexpr Layout kDevice = {
    "device-consumer-csv",
    "puts into queues in GPU memory, a warp on another SM consumes",
    "cfg,proto,doorbell_in,warps,nqp,batch,quiet_every,gap_cycles,sm,warp,qp,idx,flags,gpu_start_"
    "ns,"
    "lookup_cy,slot_cy,wqe_cy,fence_cy,order_cy,lock_cy,dbr_cy,db_cy,cqe_cy,polls,nic_seen_ns,"
    "nic_read_cy,nic_done_cy",
    "capture-",
    kGpuProtocols,
    kDeviceDoorbells};
constexpr Layout kPeer = {
    "peer-consumer-csv",
    "puts into queues in GPU memory, a warp on another GPU consumes",
    "cfg,proto,doorbell_in,warps,nqp,batch,quiet_every,gap_cycles,bytes,sm,warp,qp,idx,flags,"
    "gpu_start_ns,lookup_cy,slot_cy,wqe_cy,fence_cy,order_cy,lock_cy,dbr_cy,db_cy,cqe_cy,polls,"
    "nic_seen_ns,nic_read_cy,nic_done_cy",
    "capture-",
    kGpuProtocols,
    kPeerDoorbells};
constexpr const Layout* kLayouts[] = {&kHost, &kDevice, &kPeer};

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t comma; (comma = line.find(',')) != std::string_view::npos;
       line.remove_prefix(comma + 1))
    cells.push_back(line.substr(0, comma));
  cells.push_back(line);
  return cells;
}

/// The file's rows, their cells by column.
class Table {
 public:
  Table(const std::string& path, const Layout& layout)
      : path_(path), lines_(path), columns_(split(layout.header)) {
    std::string_view line;
    lines_.next(line);
    header_ = line;
    const std::vector<std::string_view> found = split(header_);
    const std::string place = fmt::format("{}:1", path);
    const auto other_layout = [&](const std::string& otherwise) {
      const std::string other = csv_format_of(header_);
      return other.empty() ? otherwise
                           : fmt::format("the header is that of {}: import it as such", other);
    };
    if (found.size() < 2) {
      const Guess g = guess(lines_.head(), path);
      throw InputError(place, fmt::format("no CSV header: the file {}", g.looks), g.mend);
    }
    for (const std::string_view column : columns_) {
      const auto at = std::find(found.begin(), found.end(), column);
      if (at == found.end())
        throw InputError(
            place, fmt::format("column '{}' is missing", column),
            other_layout(fmt::format("{} needs the columns {}", layout.format, layout.header)));
      position_.push_back(static_cast<std::size_t>(at - found.begin()));
    }
    for (auto at = found.begin(); at != found.end(); ++at) {
      if (std::find(columns_.begin(), columns_.end(), *at) == columns_.end())
        throw InputError(place, fmt::format("column '{}' is not known", shown(*at)),
                         other_layout(choose_from(*at, columns_)));
      if (std::find(found.begin(), at, *at) != at)
        throw InputError(place, fmt::format("column '{}' stands twice", *at), "remove one of them");
    }
  }

  /// The column's handle, or -1 where the layout has no such column.
  int column(std::string_view name) const {
    const auto at = std::find(columns_.begin(), columns_.end(), name);
    return at == columns_.end() ? -1 : static_cast<int>(at - columns_.begin());
  }

  bool next() {
    std::string_view line;
    do {
      if (!lines_.next(line)) return false;
    } while (line.empty());
    if (!lines_.ended_by_newline())
      throw InputError(place(), "the file ends in the middle of this line",
                       "take the whole file, or end a complete last line with a newline");
    cells_.clear();
    for (std::size_t comma; (comma = line.find(',')) != std::string_view::npos;
         line.remove_prefix(comma + 1))
      cells_.push_back(line.substr(0, comma));
    cells_.push_back(line);
    if (cells_.size() != columns_.size())
      throw InputError(
          place(),
          fmt::format("the row has {} columns, the header {}", cells_.size(), columns_.size()),
          cells_.size() < columns_.size() ? "is the row cut off?" : "remove the rest");
    return true;
  }

  std::string_view cell(int column) const { return cells_[position_[column]]; }
  std::size_t line() const { return lines_.number(); }
  std::string place(std::size_t line) const { return fmt::format("{}:{}", path_, line); }
  std::string place() const { return place(line()); }

  [[noreturn]] void fail(int column, const std::string& problem, const std::string& mend) const {
    throw InputError(place(), fmt::format("column '{}': {}", columns_[column], problem), mend);
  }

  std::uint64_t whole(int column, std::uint64_t min, std::uint64_t max) const {
    const std::string_view text = cell(column);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool all = end == text.data() + text.size();
    const std::string range = fmt::format("write {} to {}", min, max);
    if (error == std::errc::invalid_argument || (error == std::errc() && !all)) {
      const bool negative = text.size() > 1 && text[0] == '-' && text[1] >= '0' && text[1] <= '9';
      fail(column,
           text.empty() ? "is empty"
                        : fmt::format("'{}' is {}", shown(text),
                                      negative ? "negative" : "not a whole number"),
           range);
    }
    if (error != std::errc() || value < min || value > max)
      fail(column, fmt::format("{} is out of range", shown(text)), range);
    return value;
  }

  double decimal(int column) const {
    const std::string_view text = cell(column);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
      fail(column, text.empty() ? "is empty" : fmt::format("'{}' is not a number", shown(text)),
           "write a time in ns");
    if (value < 0) fail(column, fmt::format("'{}' is negative", shown(text)), "times start at 0");
    // Steps of a nanosecond must survive in a double.
    if (value > 9e15)
      fail(column, fmt::format("{} is out of range", shown(text)), "at most 9e15 ns");
    return value;
  }

  std::string_view word(int column, Words words) const {
    const auto at = std::find(words.begin(), words.end(), cell(column));
    if (at == words.end())
      fail(column, fmt::format("'{}' is not known", shown(cell(column))),
           choose_from(cell(column), words));
    return *at;
  }

 private:
  std::string path_;
  Lines lines_;
  std::string header_;
  std::vector<std::string_view> columns_;
  std::vector<std::size_t> position_;  ///< in the file, by layout column
  std::vector<std::string_view> cells_;
};

struct Columns {
  explicit Columns(const Table& t, bool cpu)
      : cfg(t.column("cfg")),
        proto(t.column("proto")),
        fence_wqe(t.column("fence_wqe")),
        fence_db(t.column("fence_db")),
        doorbell_in(t.column("doorbell_in")),
        warps(t.column("warps")),
        nqp(t.column("nqp")),
        batch(t.column("batch")),
        quiet_every(t.column("quiet_every")),
        bytes(t.column("bytes")),
        gap_cycles(t.column("gap_cycles")),
        sm(t.column("sm")),
        warp(t.column("warp")),
        qp(t.column("qp")),
        idx(t.column("idx")),
        flags(t.column("flags")),
        start(t.column("gpu_start_ns")),
        polls(t.column("polls")),
        seen(t.column(cpu ? "cpu_seen_ns" : "nic_seen_ns")),
        read(t.column(cpu ? "cpu_read_ns" : "nic_read_cy")),
        done(t.column(cpu ? "cpu_done_ns" : "nic_done_cy")) {
    for (const StageColumn& s : kStageColumns)
      if (const int column = t.column(s.column); column >= 0) stages.push_back(column);
    for (const std::string_view name : kConfigColumns)
      if (const int column = t.column(name); column >= 0) config.push_back(column);
  }

  int cfg, proto, fence_wqe, fence_db, doorbell_in, warps, nqp, batch, quiet_every, bytes,
      gap_cycles, sm, warp, qp, idx, flags, start, polls, seen, read, done;
  std::vector<int> stages, config;
};

struct Row {
  std::size_t line;
  std::uint32_t warp, queue, idx;
  std::uint64_t order_ns;  ///< start, but never before the same warp's last
  std::uint64_t start_ns;
  std::uint64_t gpu_seen_ns;  ///< consumer on a GPU: its globaltimer
  double cpu_seen_ns;         ///< consumer on a CPU: its clock
  double read_ns, done_ns;
  std::uint32_t polls;
  std::uint8_t flags;
  std::array<std::uint32_t, kStageColumns.size()> stages;
};

constexpr std::uint64_t kRang = 1, kWaited = 2, kTimedOut = 128;
constexpr std::uint64_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMaxTimeNs = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMaxLanes = 1 << 16;

/// Gathers a configuration's rows, checks what can only be seen in all of them, writes them.
class Importer {
 public:
  Importer(const std::string& in, const std::string& out, const Layout& layout,
           const ImportOptions& options)
      : table_(in, layout),
        layout_(layout),
        cpu_(&layout == &kHost),
        at_(table_, cpu_),
        ns_per_cycle_(1 / options.sm_clock_ghz),
        writer_(out, header(in, layout, options), 9) {}

  void import() {
    while (table_.next()) {
      const std::uint64_t cfg = table_.whole(at_.cfg, 0, kMaxU32);
      if (rows_.empty() || cfg != cfg_) {
        finish();
        start(cfg);
      }
      add_row();
    }
    if (seen_.empty())
      throw InputError(table_.place(1), "a header but no rows", "take the whole file");
    finish();
    writer_.close();
  }

 private:
  static Header header(const std::string& in, const Layout& layout, const ImportOptions& options) {
    const std::string file = std::filesystem::path(in).filename().string();
    const std::string tail = "-" + std::string(layout.format.substr(0, layout.format.size() - 4));
    std::string machine = file.substr(0, file.find(".csv"));
    if (machine.ends_with(tail)) machine.resize(machine.size() - tail.size());
    return {options.machine.value_or(machine), fmt::format("{}: {}", file, layout.about),
            options.sm_clock_ghz, options.counters};
  }

  /// A new configuration begins with the table's row.
  void start(std::uint64_t cfg) {
    if (!seen_.insert(cfg).second)
      table_.fail(at_.cfg, fmt::format("cfg {} has already ended above", cfg),
                  "let all rows of a cfg stand together");
    cfg_ = cfg;
    run_ = {};
    run_.name = fmt::format("cfg {}", cfg);
    run_.protocol =
        fmt::format("{}{}", layout_.protocol_prefix, table_.word(at_.proto, layout_.protocols));
    if (at_.fence_wqe >= 0) {
      run_.choices["fence_wqe"] = fence(at_.fence_wqe);
      run_.choices["fence_db"] = fence(at_.fence_db);
    }
    if (at_.doorbell_in >= 0)
      run_.choices["doorbell_in"] = table_.word(at_.doorbell_in, layout_.doorbells);
    run_.choices["batch"] = std::to_string(table_.whole(at_.batch, 1, kMaxU32));
    table_.whole(at_.quiet_every, 0, kMaxU32);
    warps_ = table_.whole(at_.warps, 1, kMaxLanes);
    run_.queues = static_cast<std::uint32_t>(table_.whole(at_.nqp, 1, kMaxLanes));
    bytes_ = at_.bytes < 0 ? 0 : table_.whole(at_.bytes, 0, kMaxOpBytes);
    gap_cycles_ = table_.whole(at_.gap_cycles, 0, kMaxU32);
    for (const StageColumn& s : kStageColumns)
      if (table_.column(s.column) >= 0) run_.measured_stages.emplace_back(s.stage);
    config_.clear();
    for (const int column : at_.config) config_.emplace_back(table_.cell(column));
    lanes_.clear();
  }

  std::string fence(int column) const {
    constexpr std::string_view kScopes[] = {"0", "2", "3"};
    const std::string_view scope = table_.cell(column);
    if (std::find(std::begin(kScopes), std::end(kScopes), scope) == std::end(kScopes))
      table_.fail(column, fmt::format("'{}' is no fence", shown(scope)),
                  "write 0 (none), 2 (gpu) or 3 (system)");
    return scope == "0" ? "none" : scope == "2" ? "gpu" : "sys";
  }

  void add_row() {
    for (std::size_t i = 0; i < config_.size(); ++i)
      if (table_.cell(at_.config[i]) != config_[i])
        table_.fail(at_.config[i],
                    fmt::format("'{}', but '{}' in the first row of cfg {}",
                                shown(table_.cell(at_.config[i])), shown(config_[i]), cfg_),
                    "it must not change inside a cfg");
    Row row;
    row.line = table_.line();
    row.warp = static_cast<std::uint32_t>(table_.whole(at_.warp, 0, warps_ - 1));
    row.queue = static_cast<std::uint32_t>(table_.whole(at_.qp, 0, run_.queues - 1));
    const auto sm = static_cast<std::uint32_t>(table_.whole(at_.sm, 0, 65535));
    row.idx = static_cast<std::uint32_t>(table_.whole(at_.idx, 0, kMaxU32));
    const std::uint64_t flags = table_.whole(at_.flags, 0, 255);
    if (flags & ~(kRang | kWaited | kTimedOut))
      table_.fail(at_.flags, fmt::format("{} has bits without a meaning", flags),
                  "known are 1 (rang), 2 (waited) and 128 (timed out)");
    row.flags = static_cast<std::uint8_t>(flags);
    row.start_ns = table_.whole(at_.start, 1, kMaxTimeNs);
    row.polls = static_cast<std::uint32_t>(table_.whole(at_.polls, 0, kMaxU32));
    row.stages.fill(0);
    for (std::size_t i = 0; i < at_.stages.size(); ++i)
      row.stages[i] = static_cast<std::uint32_t>(table_.whole(at_.stages[i], 0, kMaxU32));
    read_consumer(row);

    auto [at, first] = lanes_.try_emplace(row.warp);
    LaneState& lane = at->second;
    if (first) lane = {sm, row.queue, 0, 0, 0};
    if (lane.sm != sm)
      table_.fail(at_.sm, fmt::format("warp {} was on SM {} before", row.warp, lane.sm),
                  "a warp stays where it is");
    if (lane.queue != row.queue)
      table_.fail(at_.qp, fmt::format("warp {} used queue {} before", row.warp, lane.queue),
                  "a warp keeps its queue");
    if (!first && row.idx <= rows_[lane.last_row].idx)
      table_.fail(at_.idx,
                  fmt::format("{} after {}: a warp's places in its queue only grow", row.idx,
                              rows_[lane.last_row].idx),
                  "keep a warp's rows in the order of its puts");
    row.order_ns = lane.order_ns = std::max(lane.order_ns, row.start_ns);
    lane.last_row = rows_.size();
    ++lane.puts;
    rows_.push_back(row);
  }

  /// Both layouts count `read` from the moment at which the doorbell that announced the entry was
  /// seen: in a burst it holds the reading and completing of the entries before.
  void read_consumer(Row& row) const {
    if (!cpu_) {
      row.cpu_seen_ns = 0;
      row.gpu_seen_ns = table_.whole(at_.seen, 0, kMaxTimeNs);
      row.read_ns = static_cast<double>(table_.whole(at_.read, 0, kMaxU32)) * ns_per_cycle_;
      row.done_ns = static_cast<double>(table_.whole(at_.done, 0, kMaxU32)) * ns_per_cycle_;
      return;
    }
    row.gpu_seen_ns = 0;
    row.cpu_seen_ns = table_.decimal(at_.seen);
    const double read = table_.decimal(at_.read), done = table_.decimal(at_.done);
    if (read < row.cpu_seen_ns)
      table_.fail(at_.read, "the entry is read before it is seen", "times of one entry only grow");
    if (done < read)
      table_.fail(at_.done, "the entry is completed before it is read",
                  "times of one entry only grow");
    // The file has tenths of nanoseconds; what a subtraction adds beyond them is noise.
    const auto tidy = [](double ns) { return std::round(ns * 1000) / 1000; };
    row.read_ns = tidy(read - row.cpu_seen_ns);
    row.done_ns = tidy(done - read);
  }

  void finish() {
    if (rows_.empty()) return;
    check_complete();
    for (const auto& [warp, lane] : lanes_) run_.lanes.push_back({warp, lane.sm, lane.queue});
    run_.puts_per_lane = rows_.size() / lanes_.size();
    for (const auto& [warp, lane] : lanes_) rows_[lane.last_row].flags |= kLast;

    // Warps progress together; stable, and order_ns never falls within a warp: each keeps its
    // order.
    std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return std::pair(a.order_ns, a.warp) < std::pair(b.order_ns, b.warp);
    });
    run_.epoch_ns = rows_.front().start_ns;
    for (const Row& row : rows_) run_.epoch_ns = std::min(run_.epoch_ns, row.start_ns);
    writer_.run(run_);
    for (const Row& row : rows_) write(row);
    rows_.clear();
  }

  /// All warps, as many puts of each, every place of every queue once, and each warp's last put.
  void check_complete() const {
    const std::string place = table_.place(rows_.front().line);
    if (lanes_.size() != warps_)
      throw InputError(place,
                       fmt::format("column 'warps': cfg {} says {}, but rows of {} warps follow",
                                   cfg_, warps_, lanes_.size()),
                       "take the whole file");
    for (const auto& [warp, lane] : lanes_) {
      if (lane.puts != lanes_.begin()->second.puts)
        throw InputError(
            table_.place(rows_[lane.last_row].line),
            fmt::format("column 'warp': cfg {} has {} rows of warp {}, but {} of warp "
                        "{}",
                        cfg_, lane.puts, warp, lanes_.begin()->second.puts, lanes_.begin()->first),
            "take the whole file");
      if (!(rows_[lane.last_row].flags & kWaited))
        throw InputError(table_.place(rows_[lane.last_row].line),
                         fmt::format("column 'flags': the last put of warp {} in cfg {} did not "
                                     "wait, so rows are missing after it",
                                     warp, cfg_),
                         "take the whole file");
    }
    std::vector<const Row*> by_place;
    by_place.reserve(rows_.size());
    for (const Row& row : rows_) by_place.push_back(&row);
    std::sort(by_place.begin(), by_place.end(), [](const Row* a, const Row* b) {
      return std::tuple(a->queue, a->idx, a->line) < std::tuple(b->queue, b->idx, b->line);
    });
    std::uint32_t queue = 0, expected = 0;
    for (const Row* row : by_place) {
      if (row->queue != queue) expected = 0;
      queue = row->queue;
      if (row->idx < expected)
        throw InputError(table_.place(row->line),
                         fmt::format("column 'idx': place {} of queue {} stands twice in cfg {}",
                                     row->idx, queue, cfg_),
                         "remove the row that was added");
      if (row->idx > expected)
        throw InputError(
            table_.place(row->line),
            fmt::format("column 'idx': a gap before {}: place {} of queue {} is missing in cfg {}",
                        row->idx, expected, queue, cfg_),
            "take the whole file");
      ++expected;
    }
  }

  void write(const Row& row) {
    op_.kind = OpKind::kPut;
    op_.warp = row.warp;
    op_.bytes = bytes_;
    op_.flush = row.flags & kLast;
    op_.wait = row.flags & kWaited;
    op_.compute_cycles = gap_cycles_;
    if (!op_.measured) op_.measured.emplace();
    Measured& m = *op_.measured;
    m.start_ns = row.start_ns - run_.epoch_ns;
    m.stage_cycles.assign(row.stages.begin(), row.stages.begin() + at_.stages.size());
    m.polls = row.polls;
    m.index = row.idx;
    m.rang = row.flags & kRang;
    m.timed_out = row.flags & kTimedOut;
    m.consumer_seen_ns = row.cpu_seen_ns;
    if (row.gpu_seen_ns != 0)
      m.consumer_seen_ns = static_cast<double>(static_cast<std::int64_t>(row.gpu_seen_ns) -
                                               static_cast<std::int64_t>(run_.epoch_ns));
    m.consumer_read_ns = row.read_ns;
    m.consumer_done_ns = row.done_ns;
    writer_.op(op_);
  }

  static constexpr std::uint8_t kLast = 64;  // marks a warp's last row; not a bit of the file

  struct LaneState {
    std::uint32_t sm, queue;
    std::uint64_t puts, order_ns;
    std::size_t last_row;
  };

  Table table_;
  const Layout& layout_;
  bool cpu_;
  Columns at_;
  double ns_per_cycle_;
  Writer writer_;

  std::set<std::uint64_t> seen_;  ///< configurations
  std::uint64_t cfg_ = 0;
  Run run_;
  std::uint64_t warps_ = 0, bytes_ = 0, gap_cycles_ = 0;
  std::vector<std::string> config_;  ///< cells of the configuration columns
  std::map<std::uint32_t, LaneState> lanes_;
  std::vector<Row> rows_;
  Op op_;
};

}  // namespace

std::string csv_format_of(std::string_view header_line) {
  std::vector<std::string_view> found = split(header_line);
  std::sort(found.begin(), found.end());
  for (const Layout* layout : kLayouts) {
    std::vector<std::string_view> columns = split(layout->header);
    std::sort(columns.begin(), columns.end());
    if (found == columns) return std::string(layout->format);
  }
  return "";
}

void import_host_consumer_csv(const std::string& in, const std::string& out,
                              const ImportOptions& options) {
  Importer(in, out, kHost, options).import();
}

void import_device_consumer_csv(const std::string& in, const std::string& out,
                                const ImportOptions& options) {
  Importer(in, out, kDevice, options).import();
}

void import_peer_consumer_csv(const std::string& in, const std::string& out,
                              const ImportOptions& options) {
  Importer(in, out, kPeer, options).import();
}

}  // namespace marrow::trace
