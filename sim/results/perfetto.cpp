#include "sim/results/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "sim/results/perfetto_trace.pb.h"

namespace marrow::results {
namespace {

namespace proto = ::perfetto::protos;

constexpr std::uint32_t kSequence = 1;  // all packets are of one writer

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

  TrackGroup(std::string name, std::int32_t rank) : name_(std::move(name)), rank_(rank) {}
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
  std::string name_;
  std::int32_t rank_;
  std::vector<Track> free_;  // heap, first free in front
};

/// One process of the timeline.
struct Process {
  std::string name;
  std::int32_t pid = 0;
  std::uint64_t uuid = 0;  // 0: not yet written
  std::map<std::uint32_t, TrackGroup> lanes;
  std::map<std::uint32_t, TrackGroup> messages;
  std::map<std::string, TrackGroup, std::less<>> blocks;
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
  std::string bytes;

  void write() {
    packet.set_trusted_packet_sequence_id(kSequence);
    if (first) packet.set_sequence_flags(proto::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    first = false;
    // A file is a Trace: the field `packet` (1, length-delimited) again and again.
    packet.SerializeToString(&bytes);
    char head[11] = {0x0A};
    std::size_t n = 1;
    std::size_t size = bytes.size();
    for (; size >= 0x80; size >>= 7) head[n++] = static_cast<char>((size & 0x7F) | 0x80);
    head[n++] = static_cast<char>(size);
    out.write(head, static_cast<std::streamsize>(n));
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    packet.Clear();
  }

  std::uint64_t new_track(Process& process, const TrackGroup& group) {
    if (process.uuid == 0) {
      process.uuid = ++uuids;
      auto& descriptor = *packet.mutable_track_descriptor();
      descriptor.set_uuid(process.uuid);
      descriptor.set_child_ordering(proto::TrackDescriptor::EXPLICIT);
      descriptor.mutable_process()->set_pid(process.pid);
      descriptor.mutable_process()->set_process_name(process.name);
      write();
    }
    auto& descriptor = *packet.mutable_track_descriptor();
    descriptor.set_uuid(++uuids);
    descriptor.set_parent_uuid(process.uuid);
    descriptor.set_name(group.name());
    descriptor.set_sibling_order_rank(group.rank());
    write();
    return uuids;
  }

  std::uint64_t take(Process& process, TrackGroup& group, std::uint64_t begin, std::uint64_t end) {
    return group.take(begin, end, [&] { return new_track(process, group); });
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

  /// Stages [from, to) one after the other from at_ps on; gives the time at which the last ends.
  Ps stages(std::uint64_t track, const Journey& journey, std::size_t from, std::size_t to,
            Ps at_ps) {
    for (std::size_t s = from; s < to; ++s) {
      if (journey.stage_ps[s] <= 0) continue;
      const Ps end_ps = at_ps + journey.stage_ps[s];
      slice(track, kStageNames[s], ns(at_ps), ns(end_ps));
      at_ps = end_ps;
    }
    return at_ps;
  }

  void draw(Process& process, const Journey& journey) {
    constexpr std::size_t kIssueEnd = static_cast<std::size_t>(Stage::kDoorbellRegister) + 1;
    const auto rank = static_cast<std::int32_t>(2 * journey.warp);
    const Ps issued_ps = journey.start_ps + journey.issue_ps();
    const Ps end_ps = journey.start_ps + journey.end_to_end_ps();
    const bool leaves = end_ps > issued_ps;

    auto lane = process.lanes.find(journey.warp);
    if (lane == process.lanes.end()) {
      const std::string name = fmt::format("warp {} (SM {})", journey.warp, journey.sm);
      lane = process.lanes.try_emplace(journey.warp, name, rank).first;
    }
    const std::uint64_t begin = ns(journey.start_ps);
    const std::uint64_t end = ns(journey.start_ps + journey.put_ps());
    std::uint64_t track = take(process, lane->second, begin, end);
    auto& put = begin_slice(track, "put", begin);
    if (leaves) put.add_flow_ids(++flows);
    annotate("queue", journey.queue);
    annotate("index", journey.index);
    annotate("op", journey.op);
    annotate("rang", journey.rang ? 1 : 0);
    if (journey.waited) annotate("polls", journey.polls);
    write();
    stages(track, journey, 0, kIssueEnd, journey.start_ps);
    if (journey.waited_ps > 0) slice(track, "completion", ns(issued_ps), end);
    end_slice(track, end);

    if (!leaves) return;
    auto messages = process.messages.find(journey.warp);
    if (messages == process.messages.end()) {
      const std::string name = fmt::format("warp {} messages", journey.warp);
      messages = process.messages.try_emplace(journey.warp, name, rank + 1).first;
    }
    track = take(process, messages->second, ns(issued_ps), ns(end_ps));
    begin_slice(track, "message", ns(issued_ps)).add_terminating_flow_ids(flows);
    annotate("index", journey.index);
    write();
    stages(track, journey, kIssueEnd, kStageCount, issued_ps);
    end_slice(track, ns(end_ps));
  }
};

PerfettoWriter::PerfettoWriter(std::ostream& out) : impl_(std::make_unique<Impl>(out)) {
  begin_run(0, "run 0");  // for callers that have but one; written only if something happens in it
}
PerfettoWriter::~PerfettoWriter() = default;

void PerfettoWriter::begin_run(std::uint32_t index, std::string_view name) {
  const auto pid = static_cast<std::int32_t>(2 * index + 1);
  impl_->simulated = Process{fmt::format("marrow: {}", name), pid, 0, {}, {}, {}};
  impl_->measured = Process{fmt::format("measured: {}", name), pid + 1, 0, {}, {}, {}};
}

void PerfettoWriter::on_journey(const Journey& journey) { impl_->draw(impl_->simulated, journey); }

void PerfettoWriter::measured(const Journey& journey) { impl_->draw(impl_->measured, journey); }

void PerfettoWriter::on_activity(const Activity& activity) {
  // Below all warps.
  constexpr std::int32_t kFirstBlock = std::numeric_limits<std::int32_t>::max() / 2;
  Process& process = impl_->simulated;
  auto block = process.blocks.find(activity.block);
  if (block == process.blocks.end()) {
    const std::string name(activity.block);
    const auto rank = kFirstBlock + static_cast<std::int32_t>(process.blocks.size());
    block = process.blocks.try_emplace(name, name, rank).first;
  }
  const std::uint64_t begin = ns(activity.begin_ps);
  const std::uint64_t end = std::max(begin, ns(activity.end_ps));
  const std::uint64_t track = impl_->take(process, block->second, begin, end);
  impl_->slice(track, activity.what, begin, end);
}

void PerfettoWriter::finish() { impl_->out.flush(); }

}  // namespace marrow::results
