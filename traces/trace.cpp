#include "traces/trace.h"

#include <fmt/format.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <boost/iostreams/concepts.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <cmath>
#include <cstring>

#include "models/common/error.h"
#include "traces/atomic_file.h"
#include "traces/format/trace.pb.h"
#include "traces/guess.h"
#include "traces/rules.h"
#include "traces/source.h"
#include "traces/text.h"

namespace marrow::trace {

namespace bio = boost::iostreams;

namespace {

constexpr int kMaxVarintBytes = 5;
constexpr int kRecordsInArena = 256;  // what fits into its first block, measured times included
const char* const kAgain = "make or fetch it again";

// Protobuf prints to stderr what it also returns; users get it once, as an InputError.
void silence_protobuf() {
  static const bool once = [] {
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  (void)once;
}

Run run_from(const v1::Run& in) {
  Run out;
  out.name = in.name();
  out.protocol = in.protocol();
  out.choices.insert(in.choices().begin(), in.choices().end());
  out.lanes.reserve(static_cast<std::size_t>(in.lanes_size()));
  for (const v1::Lane& lane : in.lanes())
    out.lanes.push_back({lane.warp(), lane.sm_known() ? std::optional(lane.sm()) : std::nullopt,
                         lane.queue(), lane.pe(),
                         lane.peer_known() ? std::optional(lane.peer()) : std::nullopt,
                         lane.background(), lane.period_ns(), lane.visits(), lane.visit_stride(),
                         lane.puts_per_visit()});
  for (const v1::Traffic& traffic : in.traffic())
    out.traffic.push_back({static_cast<Traffic::Place>(traffic.place()), traffic.pe(),
                           traffic.gbps(), traffic.bytes()});
  out.peers = std::max(in.peers(), 1u);
  out.queues = in.queues();
  out.puts_per_lane = in.puts_per_lane();
  out.measured_stages.assign(in.measured_stages().begin(), in.measured_stages().end());
  out.epoch_ns = in.epoch_ns();
  for (const v1::Summary& s : in.summaries())
    out.summaries.push_back({s.metric(), s.statistic(), s.value(), s.unit(), s.count(), s.note()});
  out.not_replayable = in.not_replayable();
  for (const v1::NvlinkCopy& copy : in.nvlink_copies())
    out.nvlink_copies.push_back({copy.from(), copy.to()});
  out.l2_readers.assign(in.l2_readers().begin(), in.l2_readers().end());
  out.words.reserve(static_cast<std::size_t>(in.words_size()));
  for (const v1::PlacedWord& word : in.words()) {
    PlacedWord& w = out.words.emplace_back();
    w = {word.word(), word.queue(), word.first_entry(), word.address(), {}, std::nullopt};
    if (word.has_from_consumer())
      w.from_consumer = {0, word.from_consumer().cycles(), word.from_consumer().far()};
    for (const v1::Sight& sight : word.seen())
      w.seen.push_back({sight.warp(), sight.cycles(), sight.far()});
  }
  out.put_cycles = in.put_cycles();
  out.put_unstamped_cycles = in.put_unstamped_cycles();
  out.consumer = in.consumer();
  if (in.consumer_sm_known()) out.consumer_sm = in.consumer_sm();
  out.consumer_clock_bound_ns = in.consumer_clock_bound_ns();
  out.clock_changed = in.clock_changed();
  return out;
}

Header header_from(const v1::Header& in) {
  Header out{in.machine(), in.origin(), in.sm_clock_ghz()};
  out.facts.insert(in.facts().begin(), in.facts().end());
  out.l2_near_cycles = in.l2_near_cycles();
  out.l2_far_cycles = in.l2_far_cycles();
  for (const v1::Counter& c : in.counters()) {
    if (!std::isfinite(c.value()))
      throw Fault{fmt::format("counter '{}' is no number", shown(c.name())), kAgain};
    out.counters.push_back({c.device(), c.name(), c.value(), c.unit(), c.taken()});
  }
  return out;
}

void fill(Op& out, const v1::Op& in) {
  if (in.kind() < v1::OP_PUT || in.kind() > v1::OP_COMPUTE)
    throw Fault{fmt::format("unknown operation kind {}", static_cast<int>(in.kind())),
                "the file may be from a later marrow"};
  out.kind = static_cast<OpKind>(in.kind());
  out.warp = in.warp();
  out.bytes = in.bytes();
  out.flush = in.flush();
  out.wait = in.wait();
  out.compute_cycles = in.compute_cycles();
  out.count = std::max<std::uint64_t>(in.count(), 1);
  if (!in.has_measured()) {
    out.measured.reset();
    return;
  }
  if (!out.measured) out.measured.emplace();
  const v1::Measured& from = in.measured();
  Measured& m = *out.measured;
  m.start_ns = from.start_ns();
  m.stage_cycles.assign(from.stage_cycles().begin(), from.stage_cycles().end());
  m.polls = from.polls();
  m.index = from.index();
  m.rang = from.rang();
  m.timed_out = from.timed_out();
  m.consumer_seen_ns = from.consumer_seen_ns();
  m.consumer_read_ns = from.consumer_read_ns();
  m.consumer_done_ns = from.consumer_done_ns();
}

void fill(v1::Op& out, const Op& in) {
  out.Clear();
  out.set_kind(static_cast<v1::OpKind>(in.kind));
  out.set_warp(in.warp);
  out.set_bytes(in.bytes);
  out.set_flush(in.flush);
  out.set_wait(in.wait);
  out.set_compute_cycles(in.compute_cycles);
  if (in.count > 1) out.set_count(in.count);
  if (!in.measured) return;
  const Measured& from = *in.measured;
  v1::Measured& m = *out.mutable_measured();
  m.set_start_ns(from.start_ns);
  m.mutable_stage_cycles()->Assign(from.stage_cycles.begin(), from.stage_cycles.end());
  m.set_polls(from.polls);
  m.set_index(from.index);
  m.set_rang(from.rang);
  m.set_timed_out(from.timed_out);
  m.set_consumer_seen_ns(from.consumer_seen_ns);
  m.set_consumer_read_ns(from.consumer_read_ns);
  m.set_consumer_done_ns(from.consumer_done_ns);
}

}  // namespace

std::string_view name(OpKind kind) {
  constexpr std::string_view kNames[] = {"",      "put",   "put_signal", "get",     "atomic",
                                         "fence", "quiet", "wait",       "barrier", "compute"};
  const auto i = static_cast<std::size_t>(kind);
  return i < std::size(kNames) ? kNames[i] : std::string_view();
}

// ---------------------------------------------------------------------------------------- Reader

struct Reader::Impl {
  explicit Impl(std::string file) : path(std::move(file)) { open(); }

  void open();
  bool ensure(std::size_t n);
  bool read_record();
  void load();
  const v1::Record& peek() {
    if (!loaded) load();
    return *record;
  }
  [[noreturn]] void fail(const Fault& f) const;

  std::string path;
  std::optional<Source> source;
  std::vector<char> buffer;
  std::size_t begin = 0, end = 0;  // what of the buffer is filled and not yet used

  // Messages live in an arena that is emptied now and then: no allocation for an operation.
  std::vector<char> arena_block = std::vector<char>(1 << 17);
  google::protobuf::Arena arena{arena_block.data(), arena_block.size()};
  v1::Record* record = nullptr;
  int records_in_arena = 0;
  bool loaded = false;  // record was read and not yet handed out

  std::uint64_t records = 0, runs = 0, ops = 0;
  Header header;
  Run run;  // the current one
  RunRules rules;
  Op checked;  // the record's operation where it is one
};

void Reader::Impl::fail(const Fault& f) const {
  if (records == 0) throw InputError(path, f.problem, f.mend);
  throw InputError(path,
                   fmt::format("record {}{}: {}", records,
                               runs == 0 ? "" : fmt::format(" (run '{}')", run.name), f.problem),
                   f.mend);
}

void Reader::Impl::open() {
  silence_protobuf();
  source.emplace(path);
  buffer.resize(1 << 18);
  begin = end = 0;
  records = runs = ops = 0;
  loaded = false;
  run = {};

  // A foreign file is told apart before anything is parsed.
  try {
    ensure(kGuessBytes);
  } catch (const Fault& f) {
    fail(f);
  }
  const std::string_view head(buffer.data() + begin, std::min(end - begin, kGuessBytes));
  if (head.empty()) throw InputError(path, "holds nothing once unpacked", kAgain);
  if (!source->gzipped() || !starts_like_trace(head)) {
    const Guess g = guess(head, path);
    throw InputError(
        path, fmt::format("is not a trace: it {}{}", g.looks, source->gzipped() ? ", gzipped" : ""),
        g.mend);
  }
  load();
  if (!record->has_header()) fail({"the first record is no header", kAgain});
  try {
    header = header_from(record->header());
  } catch (const Fault& f) {
    fail(f);
  }
  loaded = false;
}

/// Makes n bytes stand together in the buffer, or what is left of the file; true if all n do.
bool Reader::Impl::ensure(std::size_t n) {
  if (end - begin >= n) return true;
  std::memmove(buffer.data(), buffer.data() + begin, end - begin);
  end -= begin;
  begin = 0;
  if (buffer.size() < n) buffer.resize(n);
  end += source->read(buffer.data() + end, buffer.size() - end);
  return end - begin >= n;
}

/// False at the file's end.
bool Reader::Impl::read_record() {
  ensure(kMaxVarintBytes);
  if (begin == end) return false;
  ++records;
  std::uint64_t length = 0;
  int shift = 0;
  for (bool more = true; more; shift += 7) {
    if (begin == end) throw Fault{"the file is truncated: it ends inside a record", kAgain};
    if (shift >= 7 * kMaxVarintBytes)
      throw Fault{"the file is corrupt: a record has no length", kAgain};
    const auto byte = static_cast<unsigned char>(buffer[begin++]);
    length |= std::uint64_t{byte & 0x7fu} << shift;
    more = byte & 0x80;
  }
  if (length > kMaxRecordBytes)
    throw Fault{fmt::format("the file is corrupt: a record of {} bytes (at most 16 MiB)", length),
                kAgain};
  if (!ensure(length)) throw Fault{"the file is truncated: it ends inside a record", kAgain};

  if (record == nullptr || ++records_in_arena > kRecordsInArena) {
    arena.Reset();
    record = google::protobuf::Arena::CreateMessage<v1::Record>(&arena);
    records_in_arena = 0;
  }
  if (!record->ParseFromArray(buffer.data() + begin, static_cast<int>(length)))
    throw Fault{"the file is corrupt: the record cannot be parsed", kAgain};
  begin += length;
  return true;
}

/// Reads the next record and holds it to the rules.
void Reader::Impl::load() {
  try {
    if (!read_record()) {
      ++records;
      throw Fault{"the file is truncated: the end record is missing", kAgain};
    }
    switch (record->kind_case()) {
      case v1::Record::kHeader: {
        const std::uint32_t version = record->header().format_version();
        if (records != 1) throw Fault{"a second header", kAgain};
        if (version > kFormatVersion)
          throw Fault{fmt::format("format version {} is from the future (this marrow reads {})",
                                  version, kFormatVersion),
                      "use a later marrow"};
        if (version == 0) throw Fault{"the header has no format version", kAgain};
        break;
      }
      case v1::Record::kRun:
        run = run_from(record->run());
        ++runs;
        rules = RunRules(run);
        break;
      case v1::Record::kOp:
        ++ops;
        if (runs == 0) throw Fault{"an operation before the first run", kAgain};
        fill(checked, record->op());
        rules.check(checked);
        break;
      case v1::Record::kEnd:
        if (record->end().runs() != runs || record->end().ops() != ops)
          throw Fault{
              fmt::format("{} runs and {} operations were read, but the end record counts {} "
                          "and {}: the file is truncated or spliced",
                          runs, ops, record->end().runs(), record->end().ops()),
              kAgain};
        if (ensure(1)) throw Fault{"data after the end record", kAgain};
        break;
      case v1::Record::KIND_NOT_SET:
        throw Fault{"a record of unknown kind", "the file may be from a later marrow"};
    }
  } catch (const Fault& f) {
    if (records == 0) ++records;  // the first one could not be read
    fail(f);
  }
  loaded = true;
}

Reader::Reader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
Reader::~Reader() = default;

const Header& Reader::header() const { return impl_->header; }

std::optional<Run> Reader::next_run() {
  while (impl_->peek().has_op()) impl_->loaded = false;
  if (impl_->record->has_end()) return std::nullopt;
  impl_->loaded = false;
  return impl_->run;
}

bool Reader::next_op(Op& op) {
  if (!impl_->peek().has_op()) return false;
  op = impl_->checked;
  impl_->loaded = false;
  return true;
}

void Reader::rewind() { impl_->open(); }

// ---------------------------------------------------------------------------------------- Writer

namespace {

/// Lets write errors through, where Boost's own adapter loses them.
struct Sink : bio::sink {
  std::ostream* out;

  explicit Sink(std::ostream& stream) : out(&stream) {}
  std::streamsize write(const char* bytes, std::streamsize n) {
    out->write(bytes, n);
    return n;
  }
};

}  // namespace

struct Writer::Impl {
  Impl(const std::string& file, int gzip_level) : path(file), file_out(file) {
    silence_protobuf();
    deflated.push(bio::gzip_compressor(bio::gzip_params(gzip_level), 1 << 16));
    deflated.push(Sink(file_out.stream()), 1 << 16);
  }

  void put(bool check_text);
  [[noreturn]] void fail(const Fault& f) const {
    throw InputError(path,
                     fmt::format("record {}{}: {}", records + 1,
                                 runs == 0 ? "" : fmt::format(" (run '{}')", run_name), f.problem),
                     f.mend);
  }

  std::string path;
  AtomicFile file_out;
  bio::filtering_streambuf<bio::output> deflated;
  v1::Record record;
  std::string buffer;
  RunRules rules;
  std::string run_name;
  std::uint64_t records = 0, runs = 0, ops = 0;
  bool closed = false;
};

void Writer::Impl::put(bool check_text) {
  const std::size_t length = record.ByteSizeLong();
  if (length > kMaxRecordBytes)
    fail({fmt::format("a record of {} bytes (at most 16 MiB)", length), "use fewer lanes"});
  buffer.clear();
  {
    google::protobuf::io::StringOutputStream stream(&buffer);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps in a fixed order: same input, same bytes
    coded.WriteVarint32(static_cast<std::uint32_t>(length));
    record.SerializeWithCachedSizes(&coded);
  }
  if (check_text && !v1::Record().ParseFromArray(buffer.data() + (buffer.size() - length),
                                                 static_cast<int>(length)))
    fail({"a name or text is not UTF-8", "write it in UTF-8"});
  deflated.sputn(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  ++records;
}

Writer::Writer(const std::string& path, const Header& header, int gzip_level)
    : impl_(std::make_unique<Impl>(path, gzip_level)) {
  v1::Header& out = *impl_->record.mutable_header();
  out.set_format_version(kFormatVersion);
  out.set_machine(header.machine);
  out.set_origin(header.origin);
  out.set_sm_clock_ghz(header.sm_clock_ghz);
  for (const auto& [key, value] : header.facts) (*out.mutable_facts())[key] = value;
  out.set_l2_near_cycles(header.l2_near_cycles);
  out.set_l2_far_cycles(header.l2_far_cycles);
  for (const Counter& counter : header.counters) {
    v1::Counter& c = *out.add_counters();
    c.set_device(counter.device);
    c.set_name(counter.name);
    c.set_value(counter.value);
    c.set_unit(counter.unit);
    c.set_taken(counter.taken);
  }
  impl_->put(true);
}

Writer::~Writer() = default;

void Writer::run(const Run& run) {
  ++impl_->runs;
  impl_->run_name = run.name;
  try {
    impl_->rules = RunRules(run);
  } catch (const Fault& f) {
    impl_->fail(f);
  }
  v1::Run& out = *impl_->record.mutable_run();
  out.Clear();
  out.set_name(run.name);
  out.set_protocol(run.protocol);
  for (const auto& [key, value] : run.choices) (*out.mutable_choices())[key] = value;
  for (const Lane& lane : run.lanes) {
    v1::Lane& l = *out.add_lanes();
    l.set_warp(lane.warp);
    l.set_sm(lane.sm.value_or(0));
    l.set_sm_known(lane.sm.has_value());
    l.set_queue(lane.queue);
    l.set_pe(lane.pe);
    l.set_peer(lane.peer.value_or(0));
    l.set_peer_known(lane.peer.has_value());
    l.set_background(lane.background);
    l.set_period_ns(lane.period_ns);
    l.set_visits(lane.visits);
    l.set_visit_stride(lane.visit_stride);
    l.set_puts_per_visit(lane.puts_per_visit);
  }
  out.set_queues(run.queues);
  out.set_puts_per_lane(run.puts_per_lane);
  for (const std::string& stage : run.measured_stages) out.add_measured_stages(stage);
  out.set_epoch_ns(run.epoch_ns);
  for (const Summary& summary : run.summaries) {
    v1::Summary& s = *out.add_summaries();
    s.set_metric(summary.metric);
    s.set_statistic(summary.statistic);
    s.set_value(summary.value);
    s.set_unit(summary.unit);
    s.set_count(summary.count);
    s.set_note(summary.note);
  }
  out.set_not_replayable(run.not_replayable);
  for (const NvlinkCopy& copy : run.nvlink_copies) {
    v1::NvlinkCopy& c = *out.add_nvlink_copies();
    c.set_from(copy.from);
    c.set_to(copy.to);
  }
  for (const std::uint32_t gpu : run.l2_readers) out.add_l2_readers(gpu);
  for (const PlacedWord& word : run.words) {
    v1::PlacedWord& w = *out.add_words();
    w.set_word(word.word);
    w.set_queue(word.queue);
    w.set_first_entry(word.first_entry);
    w.set_address(word.address);
    if (word.from_consumer) {
      w.mutable_from_consumer()->set_cycles(word.from_consumer->cycles);
      w.mutable_from_consumer()->set_far(word.from_consumer->far);
    }
    for (const Sight& sight : word.seen) {
      v1::Sight& s = *w.add_seen();
      s.set_warp(sight.warp);
      s.set_cycles(sight.cycles);
      s.set_far(sight.far);
    }
  }
  out.set_put_cycles(run.put_cycles);
  out.set_put_unstamped_cycles(run.put_unstamped_cycles);
  out.set_consumer(run.consumer);
  out.set_consumer_sm(run.consumer_sm.value_or(0));
  out.set_consumer_sm_known(run.consumer_sm.has_value());
  out.set_consumer_clock_bound_ns(run.consumer_clock_bound_ns);
  out.set_clock_changed(run.clock_changed);
  if (run.peers > 1) out.set_peers(run.peers);
  for (const Traffic& traffic : run.traffic) {
    v1::Traffic& t = *out.add_traffic();
    t.set_place(static_cast<v1::Traffic::Place>(traffic.place));
    t.set_pe(traffic.pe);
    t.set_gbps(traffic.gbps);
    t.set_bytes(traffic.bytes);
  }
  impl_->put(true);
}

void Writer::op(const Op& op) {
  try {
    if (impl_->runs == 0) throw Fault{"an operation before the first run", "write its run first"};
    impl_->rules.check(op);
  } catch (const Fault& f) {
    impl_->fail(f);
  }
  fill(*impl_->record.mutable_op(), op);
  impl_->put(false);
  ++impl_->ops;
}

void Writer::close() {
  if (impl_->closed) return;
  v1::End& out = *impl_->record.mutable_end();
  out.set_runs(impl_->runs);
  out.set_ops(impl_->ops);
  impl_->put(false);
  impl_->deflated.reset();
  impl_->file_out.commit();
  impl_->closed = true;
}

}  // namespace marrow::trace
