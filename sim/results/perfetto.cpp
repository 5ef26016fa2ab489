#include "sim/results/perfetto.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/results/perfetto_trace.pb.h"

namespace marrow::results {
namespace {

namespace proto = ::perfetto::protos;

constexpr std::uint32_t kSequence = 1;  // all packets are of one writer
// Of the public schema: Trace.packet and TracePacket.compressed_packets, whose content should stay
// below 512 KB.
constexpr std::uint32_t kTracePacket = 1, kCompressedPackets = 50;
constexpr std::size_t kBatchBytes = 256 << 10;
constexpr int kDeflateLevel = 6;
// Of a block in a run; what it does beyond is in its counter of use alone. A viewer holds tens of
// millions of slices.
constexpr std::uint64_t kMostActivities = 100'000;
constexpr std::int32_t kRanksOfSide = 8;  // ranks of one processing element's groups

std::uint64_t ns(Ps ps) {
  return ps <= 0 ? 0 : static_cast<std::uint64_t>((ps + kPsPerNs / 2) / kPsPerNs);
}

/// Tracks of one name. Slices must nest within a track, so whatever begins before all tracks are
/// free gets a further one. Within a track, time never goes back.
class TrackGroup {
 public:
  struct Track {
    std::uint64_t free_ns;
    std::uint64_t uuid;
    bool operator>(const Track& o) const {
      return free_ns != o.free_ns ? free_ns > o.free_ns : uuid > o.uuid;
    }
  };

  TrackGroup(std::uint64_t parent, std::string name, std::int32_t rank)
      : parent_(parent), name_(std::move(name)), rank_(rank) {}
  std::uint64_t parent() const { return parent_; }
  const std::string& name() const { return name_; }
  std::int32_t rank() const { return rank_; }

  /// The track for [begin_ns, end_ns]; new_track() makes one and gives its uuid.
  template <typename NewTrack>
  std::uint64_t take(std::uint64_t begin_ns, std::uint64_t end_ns, NewTrack new_track) {
    Track track{0, 0};
    if (!free_.empty() && free_.front().free_ns <= begin_ns) {
      std::pop_heap(free_.begin(), free_.end(), std::greater<>());
      track = free_.back();
      free_.pop_back();
    } else {
      track.uuid = new_track();
    }
    track.free_ns = end_ns;
    free_.push_back(track);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
    return track.uuid;
  }

 private:
  std::uint64_t parent_;
  std::string name_;
  std::int32_t rank_;
  std::vector<Track> free_;  // heap, first free in front
};

/// Where a stage beyond the lane passes, as the timeline groups them.
enum class Place : std::uint8_t { kLane, kHost, kNic, kWire, kFar };
constexpr std::array<const char*, 5> kPlaces = {"", "host", "NIC", "wire of NIC",
                                                "far side of NIC"};

constexpr Place place_of(Stage stage) {
  switch (stage) {
    case Stage::kProxyNotice:
    case Stage::kProxyPost:
    case Stage::kProxyComplete:
    case Stage::kKernelEnd:
    case Stage::kHostNotice:
    case Stage::kLaunch:
      return Place::kHost;
    case Stage::kWire:
    case Stage::kAck:
      return Place::kWire;
    case Stage::kReceive:
    case Stage::kPayloadWrite:
    case Stage::kVisible:
      return Place::kFar;
    default:
      return is_issue_stage(stage) ? Place::kLane : Place::kNic;
  }
}

/// How many messages of a queue have left their lanes and are not yet complete. Messages of a queue
/// are told in its order, in which they were also announced: what is older than the last one's
/// beginning is final.
struct Depth {
  std::uint64_t uuid = 0;
  std::uint64_t last_ns = 0;
  std::int64_t value = 0;
  std::priority_queue<Ps, std::vector<Ps>, std::greater<>> ends_ps;
};

/// How busy a block was, by windows of time.
struct Use {
  static constexpr Ps kWindow = 1'000 * kPsPerNs;
  static constexpr Ps kOpen = 64;  ///< windows in which activities may still be told
  std::uint64_t uuid = 0;
  std::map<Ps, Ps> busy_ps;  ///< by window
  Ps latest = 0;             ///< window in which the latest activity began
  Ps next = 0;               ///< the window behind the last one written
  std::int64_t value = 0;    ///< as last written
};

/// One processing element: its SMs' lanes and the stages of their messages.
struct Side {
  std::uint64_t gpu = 0, queues = 0;  // uuids of groups; 0: not yet written, as below
  std::array<std::uint64_t, kPlaces.size()> places{};
  std::map<std::uint32_t, std::uint64_t> sms;
  std::map<std::uint32_t, TrackGroup> lanes;
  std::array<std::optional<TrackGroup>, kStageCount> stages;
  std::map<std::uint32_t, Depth> depths;  // by queue
};

struct Block {
  TrackGroup tracks;
  std::uint64_t activities = 0;
  Use use;
};

/// One process of the timeline.
struct Process {
  std::string name;
  std::int32_t pid = 0;
  std::uint64_t uuid = 0;
  std::map<std::uint32_t, Side> sides;
  std::map<std::string, Block, std::less<>> blocks;
};

using Names = std::map<std::string, std::uint64_t, std::less<>>;

}  // namespace

struct PerfettoWriter::Impl {
  explicit Impl(std::ostream& stream) : out(stream) {}

  std::ostream& out;
  Process simulated, measured;
  std::uint64_t uuids = 0;
  std::uint64_t flows = 0;
  Names event_names, annotation_names;
  bool first = true;
  // Reused, so that a packet costs no allocation.
  proto::TracePacket packet;
  std::string bytes, batch, deflated;

  /// A field `number`, length-delimited, as the wire has it.
  static void append_field(std::string& to, std::uint32_t number, const std::string& content) {
    const auto varint = [&to](std::uint64_t value) {
      for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7F) | 0x80);
      to += static_cast<char>(value);
    };
    varint(number << 3 | 2);
    varint(content.size());
    to += content;
  }

  void write() {
    packet.set_trusted_packet_sequence_id(kSequence);
    if (first) packet.set_sequence_flags(proto::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    first = false;
    packet.SerializeToString(&bytes);
    append_field(batch, kTracePacket, bytes);
    packet.Clear();
    if (batch.size() >= kBatchBytes) deflate_batch();
  }

  /// Packets are much alike: deflated, they take a tenth.
  void deflate_batch() {
    if (batch.empty()) return;
    uLongf size = compressBound(batch.size());
    deflated.resize(size);
    if (compress2(reinterpret_cast<Bytef*>(deflated.data()), &size,
                  reinterpret_cast<const Bytef*>(batch.data()), batch.size(),
                  kDeflateLevel) != Z_OK)
      throw std::runtime_error("zlib cannot deflate");
    deflated.resize(size);
    bytes.clear();
    append_field(bytes, kCompressedPackets, deflated);
    batch.clear();
    append_field(batch, kTracePacket, bytes);
    out.write(batch.data(), static_cast<std::streamsize>(batch.size()));
    batch.clear();
  }

  std::uint64_t process_uuid(Process& process) {
    if (process.uuid != 0) return process.uuid;
    process.uuid = ++uuids;
    auto& descriptor = *packet.mutable_track_descriptor();
    descriptor.set_uuid(process.uuid);
    descriptor.set_child_ordering(proto::TrackDescriptor::EXPLICIT);
    descriptor.mutable_process()->set_pid(process.pid);
    descriptor.mutable_process()->set_process_name(process.name);
    write();
    return process.uuid;
  }

  proto::TrackDescriptor& describe(std::uint64_t parent, const std::string& name,
                                   std::int32_t rank) {
    auto& descriptor = *packet.mutable_track_descriptor();
    descriptor.set_uuid(++uuids);
    descriptor.set_parent_uuid(parent);
    descriptor.set_name(name);
    descriptor.set_sibling_order_rank(rank);
    return descriptor;
  }
  /// A track that others stand in.
  std::uint64_t new_group(std::uint64_t parent, const std::string& name, std::int32_t rank) {
    describe(parent, name, rank).set_child_ordering(proto::TrackDescriptor::EXPLICIT);
    write();
    return uuids;
  }
  std::uint64_t new_counter(std::uint64_t parent, const std::string& name, std::int32_t rank) {
    describe(parent, name, rank).mutable_counter()->set_unit(proto::CounterDescriptor::UNIT_COUNT);
    write();
    return uuids;
  }

  void count(std::uint64_t track, std::uint64_t at_ns, std::int64_t value) {
    packet.set_timestamp(at_ns);
    auto& event = *packet.mutable_track_event();
    event.set_type(proto::TrackEvent::TYPE_COUNTER);
    event.set_track_uuid(track);
    event.set_counter_value(value);
    write();
  }

  std::uint64_t take(TrackGroup& group, std::uint64_t begin, std::uint64_t end) {
    return group.take(begin, end, [&] {
      describe(group.parent(), group.name(), group.rank());
      write();
      return uuids;
    });
  }

  /// Fills the packet with a slice's begin; the caller may add to it before write().
  proto::TrackEvent& begin_slice(std::uint64_t track, std::string_view name, std::uint64_t at_ns) {
    auto known = event_names.find(name);
    if (known == event_names.end()) {
      known = event_names.emplace(name, event_names.size() + 1).first;
      auto& interned = *packet.mutable_interned_data()->add_event_names();
      interned.set_iid(known->second);
      interned.set_name(known->first);
    }
    packet.set_timestamp(at_ns);
    packet.set_sequence_flags(proto::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
    auto& event = *packet.mutable_track_event();
    event.set_type(proto::TrackEvent::TYPE_SLICE_BEGIN);
    event.set_track_uuid(track);
    event.set_name_iid(known->second);
    return event;
  }

  void annotate(std::string_view name, std::uint64_t value) {
    auto known = annotation_names.find(name);
    if (known == annotation_names.end()) {
      known = annotation_names.emplace(name, annotation_names.size() + 1).first;
      auto& interned = *packet.mutable_interned_data()->add_debug_annotation_names();
      interned.set_iid(known->second);
      interned.set_name(known->first);
    }
    auto& annotation = *packet.mutable_track_event()->add_debug_annotations();
    annotation.set_name_iid(known->second);
    annotation.set_uint_value(value);
  }

  void end_slice(std::uint64_t track, std::uint64_t at_ns) {
    packet.set_timestamp(at_ns);
    packet.mutable_track_event()->set_type(proto::TrackEvent::TYPE_SLICE_END);
    packet.mutable_track_event()->set_track_uuid(track);
    write();
  }

  void slice(std::uint64_t track, std::string_view name, std::uint64_t begin, std::uint64_t end) {
    begin_slice(track, name, begin);
    write();
    end_slice(track, end);
  }

  TrackGroup& lane_of(Process& process, Side& side, const Journey& journey) {
    auto lane = side.lanes.find(journey.warp);
    if (lane != side.lanes.end()) return lane->second;
    const auto rank = kRanksOfSide * static_cast<std::int32_t>(journey.pe);
    if (side.gpu == 0)
      side.gpu = new_group(process_uuid(process), fmt::format("GPU {}", journey.pe), rank);
    auto& sm = side.sms[journey.sm];
    if (sm == 0)
      sm = new_group(side.gpu, fmt::format("SM {}", journey.sm),
                     static_cast<std::int32_t>(journey.sm));
    return side.lanes
        .try_emplace(journey.warp, sm, fmt::format("warp {}", journey.warp),
                     static_cast<std::int32_t>(journey.warp))
        .first->second;
  }

  TrackGroup& stage_of(Process& process, Side& side, std::uint32_t pe, Stage stage) {
    const auto s = static_cast<std::size_t>(stage);
    if (side.stages[s]) return *side.stages[s];
    const auto place = static_cast<std::size_t>(place_of(stage));
    std::uint64_t& group = side.places[place];
    if (group == 0)
      group = new_group(
          process_uuid(process), fmt::format("{} {}", kPlaces[place], pe),
          kRanksOfSide * static_cast<std::int32_t>(pe) + static_cast<std::int32_t>(place));
    return side.stages[s].emplace(group, std::string(kStageNames[s]), static_cast<std::int32_t>(s));
  }

  void draw(Process& process, const Journey& journey) {
    constexpr std::size_t kIssueEnd = static_cast<std::size_t>(Stage::kDoorbellRegister) + 1;
    Side& side = process.sides[journey.pe];
    const Ps issued_ps = journey.start_ps + journey.issue_ps();
    const Ps end_ps = journey.start_ps + journey.end_to_end_ps();
    const std::uint64_t begin = ns(journey.start_ps);
    const std::uint64_t end = ns(journey.start_ps + journey.put_ps());

    // The lane's own view.
    const std::uint64_t lane = take(lane_of(process, side, journey), begin, end);
    auto& put = begin_slice(lane, "put", begin);
    if (end_ps > issued_ps) put.add_flow_ids(++flows);
    annotate("queue", journey.queue);
    annotate("index", journey.index);
    annotate("op", journey.op);
    annotate("bytes", journey.bytes);
    annotate("rang", journey.rang ? 1 : 0);
    if (journey.waited) annotate("polls", journey.polls);
    write();
    Ps at_ps = journey.start_ps;
    for (std::size_t s = 0; s < kIssueEnd; ++s) {
      if (journey.stage_ps[s] <= 0) continue;
      slice(lane, kStageNames[s], ns(at_ps), ns(at_ps + journey.stage_ps[s]));
      at_ps += journey.stage_ps[s];
    }
    if (journey.waited_ps > 0) slice(lane, "completion", ns(issued_ps), end);
    end_slice(lane, end);

    // The message's, place by place, an arrow from each to the next.
    for (std::size_t s = kIssueEnd; s < kStageCount; ++s) {
      if (journey.stage_ps[s] <= 0) continue;
      const Ps next_ps = at_ps + journey.stage_ps[s];
      const std::uint64_t track =
          take(stage_of(process, side, journey.pe, static_cast<Stage>(s)), ns(at_ps), ns(next_ps));
      auto& event = begin_slice(track, kStageNames[s], ns(at_ps));
      if (next_ps < end_ps)
        event.add_flow_ids(flows);
      else
        event.add_terminating_flow_ids(flows);
      write();
      end_slice(track, ns(next_ps));
      at_ps = next_ps;
    }
    if (end_ps > issued_ps) enter(process, side, journey, issued_ps, end_ps);
  }

  void step(Depth& depth, Ps at_ps, std::int64_t by) {
    depth.last_ns = std::max(depth.last_ns, ns(at_ps));
    depth.value += by;
    count(depth.uuid, depth.last_ns, depth.value);
  }

  void enter(Process& process, Side& side, const Journey& journey, Ps at_ps, Ps end_ps) {
    Depth& depth = side.depths[journey.queue];
    if (depth.uuid == 0) {
      if (side.queues == 0)
        side.queues = new_group(process_uuid(process), fmt::format("queues of GPU {}", journey.pe),
                                kRanksOfSide * static_cast<std::int32_t>(journey.pe) +
                                    static_cast<std::int32_t>(kPlaces.size()));
      depth.uuid = new_counter(side.queues, fmt::format("queue {}: in flight", journey.queue),
                               static_cast<std::int32_t>(journey.queue));
    }
    for (; !depth.ends_ps.empty() && depth.ends_ps.top() <= at_ps; depth.ends_ps.pop())
      step(depth, depth.ends_ps.top(), -1);
    step(depth, at_ps, +1);
    depth.ends_ps.push(end_ps);
  }

  void add_use(Process& process, Block& block, const Activity& activity) {
    Use& use = block.use;
    if (use.uuid == 0)
      use.uuid = new_counter(process_uuid(process), block.tracks.name() + ": busy, %",
                             block.tracks.rank());
    for (Ps at_ps = activity.begin_ps; at_ps < activity.end_ps;) {
      const Ps window = at_ps / Use::kWindow;
      const Ps to_ps = std::min(activity.end_ps, (window + 1) * Use::kWindow);
      // What is told too late counts where there is still room: never twice, never lost.
      use.busy_ps[std::max(window, use.next)] += to_ps - at_ps;
      at_ps = to_ps;
    }
    use.latest = std::max(use.latest, activity.begin_ps / Use::kWindow);
    write_use(use, use.latest - Use::kOpen);
  }

  /// Windows before `end`.
  void write_use(Use& use, Ps end) {
    const auto say = [&](Ps window, Ps busy_ps) {
      const std::int64_t percent = (100 * busy_ps + Use::kWindow / 2) / Use::kWindow;
      if (percent == use.value) return;
      use.value = percent;
      count(use.uuid, ns(window * Use::kWindow), percent);
    };
    while (!use.busy_ps.empty() && use.busy_ps.begin()->first < end) {
      const auto [window, busy_ps] = *use.busy_ps.begin();
      if (window > use.next) say(use.next, 0);
      say(window, busy_ps);
      use.next = window + 1;
      use.busy_ps.erase(use.busy_ps.begin());
    }
  }

  /// What waits for later events is final.
  void close(Process& process) {
    for (auto& [pe, side] : process.sides)
      for (auto& [queue, depth] : side.depths)
        for (; !depth.ends_ps.empty(); depth.ends_ps.pop()) step(depth, depth.ends_ps.top(), -1);
    for (auto& [name, block] : process.blocks) {
      Use& use = block.use;
      if (use.uuid == 0) continue;
      write_use(use, std::numeric_limits<Ps>::max());
      if (use.value != 0) count(use.uuid, ns(use.next * Use::kWindow), 0);
    }
    process = Process{};
  }
};

PerfettoWriter::PerfettoWriter(std::ostream& out) : impl_(std::make_unique<Impl>(out)) {
  begin_run(0, "run 0");  // for callers that have but one; written only if something happens in it
}
PerfettoWriter::~PerfettoWriter() = default;

void PerfettoWriter::begin_run(std::uint32_t index, std::string_view name) {
  impl_->close(impl_->simulated);
  impl_->close(impl_->measured);
  const auto pid = static_cast<std::int32_t>(2 * index + 1);
  impl_->simulated.name = fmt::format("marrow: {}", name);
  impl_->simulated.pid = pid;
  impl_->measured.name = fmt::format("measured: {}", name);
  impl_->measured.pid = pid + 1;
}

void PerfettoWriter::on_journey(const Journey& journey) { impl_->draw(impl_->simulated, journey); }

void PerfettoWriter::measured(const Journey& journey) { impl_->draw(impl_->measured, journey); }

void PerfettoWriter::on_activity(const Activity& activity) {
  // Below all GPUs.
  constexpr std::int32_t kFirstBlock = std::numeric_limits<std::int32_t>::max() / 2;
  Process& process = impl_->simulated;
  auto block = process.blocks.find(activity.block);
  if (block == process.blocks.end()) {
    const std::string name(activity.block);
    const auto rank = kFirstBlock + static_cast<std::int32_t>(process.blocks.size());
    block =
        process.blocks
            .try_emplace(name, Block{TrackGroup(impl_->process_uuid(process), name, rank), 0, {}})
            .first;
  }
  const std::uint64_t begin = ns(activity.begin_ps);
  const std::uint64_t end = std::max(begin, ns(activity.end_ps));
  if (block->second.activities++ < kMostActivities) {
    const std::uint64_t track = impl_->take(block->second.tracks, begin, end);
    impl_->slice(track, activity.what, begin, end);
  }
  impl_->add_use(process, block->second, activity);
}

void PerfettoWriter::finish() {
  impl_->close(impl_->simulated);
  impl_->close(impl_->measured);
  impl_->deflate_batch();
  impl_->out.flush();
}

}  // namespace marrow::results
