// Would a reader of Perfetto's public format see what happened? Nothing here uses the writer's own
// schema: the numbers below are those of the public one
// (protos/perfetto/trace/perfetto_trace.proto) and the bytes are decoded by hand, so that a wrong
// number in the writer's schema is caught.
#include "sim/results/perfetto.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>

#include "tests/results/journeys.h"

namespace marrow::results {
namespace {

/// The fields of one message: number, then varint, fixed64 or bytes.
struct Field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;
  std::string bytes;
};

std::vector<Field> decode(const std::string& bytes) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<Field> fields;
  while (at < bytes.size()) {
    const std::uint64_t key = varint();
    Field field;
    field.number = static_cast<std::uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        if (at + 8 > bytes.size()) throw std::out_of_range("fixed64");
        std::memcpy(&field.value, bytes.data() + at, 8);
        at += 8;
        break;
      case 2: {
        const std::uint64_t size = varint();
        if (at + size > bytes.size()) throw std::out_of_range("bytes");
        field.bytes = bytes.substr(at, size);
        at += size;
        break;
      }
      default:
        throw std::out_of_range("wire type");
    }
    fields.push_back(field);
  }
  return fields;
}

const Field* find(const std::vector<Field>& fields, std::uint32_t number) {
  for (const Field& f : fields)
    if (f.number == number) return &f;
  return nullptr;
}
std::uint64_t value(const std::vector<Field>& fields, std::uint32_t number) {
  const Field* f = find(fields, number);
  return f == nullptr ? 0 : f->value;
}
std::string text(const std::vector<Field>& fields, std::uint32_t number) {
  const Field* f = find(fields, number);
  return f == nullptr ? "" : f->bytes;
}

/// The packets of a trace, out of those that hold others deflated (TracePacket.compressed_packets,
/// 50: a Trace, in zlib's format, less than 512 KB).
std::string unpacked(const std::string& trace) {
  std::string all;
  for (const Field& outer : decode(trace)) {
    if (outer.number != 1) throw std::runtime_error("Trace.packet");
    const auto packet = decode(outer.bytes);
    if (packet.size() != 1 || packet[0].number != 50)
      throw std::runtime_error("a packet that is not packed");
    if (packet[0].bytes.size() >= 512 << 10) throw std::runtime_error("too large a packet");
    std::string inflated(1 << 20, '\0');
    uLongf size = inflated.size();
    if (uncompress(reinterpret_cast<Bytef*>(inflated.data()), &size,
                   reinterpret_cast<const Bytef*>(packet[0].bytes.data()),
                   packet[0].bytes.size()) != Z_OK)
      throw std::runtime_error("zlib");
    all += inflated.substr(0, size);
  }
  return all;
}

struct Slice {
  std::string process, track, name, parent;
  std::uint64_t track_uuid = 0, begin_ns = 0, end_ns = 0;
  std::map<std::string, std::uint64_t> notes;
  std::vector<std::uint64_t> flows, ended_flows;

  bool operator==(const Slice& o) const {
    return process == o.process && track == o.track && name == o.name && parent == o.parent &&
           begin_ns == o.begin_ns && end_ns == o.end_ns;
  }
};

void PrintTo(const Slice& s, std::ostream* out) {
  *out << s.process << " / " << s.track << " / " << s.parent << " > " << s.name << " ["
       << s.begin_ns << ", " << s.end_ns << "]";
}

struct Value {
  std::uint64_t at_ns = 0;
  std::int64_t value = 0;
  bool operator==(const Value& o) const { return at_ns == o.at_ns && value == o.value; }
};
using Counters = std::map<std::string, std::vector<Value>>;
void PrintTo(const Value& v, std::ostream* out) { *out << v.value << " at " << v.at_ns; }

/// Reads a trace as a viewer does; throws on whatever a viewer could not make sense of. A track is
/// named with those that it stands in: "GPU 0/SM 125/warp 3".
std::vector<Slice> read(const std::string& trace, Counters* counters = nullptr) {
  struct Track {
    std::string name, process;
    bool counter = false;
  };
  std::map<std::uint64_t, Track> tracks;
  std::map<std::uint64_t, std::string> event_names, note_names;
  std::map<std::uint64_t, std::vector<std::size_t>> open;
  std::map<std::uint64_t, std::uint64_t> last_ns;
  std::vector<Slice> slices;
  const auto must = [](bool good, const char* what) {
    if (!good) throw std::runtime_error(what);
  };
  bool first = true;
  for (const Field& outer : decode(unpacked(trace))) {
    must(outer.number == 1, "Trace.packet");
    const auto packet = decode(outer.bytes);
    must(value(packet, 10) == 1, "trusted_packet_sequence_id");
    if (first) must(value(packet, 13) == 1, "SEQ_INCREMENTAL_STATE_CLEARED first");
    first = false;
    if (const Field* interned = find(packet, 12)) {
      for (const Field& entry : decode(interned->bytes)) {
        must(entry.number == 2 || entry.number == 3, "interned data");
        auto& names = entry.number == 2 ? event_names : note_names;
        const auto pair = decode(entry.bytes);
        must(value(pair, 1) != 0, "iid 0");
        must(names.emplace(value(pair, 1), text(pair, 2)).second, "interned twice");
      }
    }
    if (const Field* descriptor = find(packet, 60)) {
      const auto d = decode(descriptor->bytes);
      Track track;
      if (const Field* process = find(d, 3)) {
        must(value(decode(process->bytes), 1) > 0, "pid");
        must(value(d, 11) == 3, "child_ordering EXPLICIT");
        track.process = text(decode(process->bytes), 6);
      } else {
        const Track& parent = tracks.at(value(d, 5));
        track.name = (parent.name.empty() ? "" : parent.name + "/") + text(d, 2);
        track.process = parent.process;
        if (const Field* counter = find(d, 8)) {
          must(value(decode(counter->bytes), 3) == 2, "UNIT_COUNT");
          track.counter = true;
        }
      }
      must(value(d, 1) != 0 && tracks.emplace(value(d, 1), track).second, "uuid");
    }
    const Field* event = find(packet, 11);
    if (event == nullptr) continue;
    const auto e = decode(event->bytes);
    const std::uint64_t uuid = value(e, 11);
    const std::uint64_t at_ns = value(packet, 8);
    must(at_ns >= last_ns[uuid], "time goes back on a track");
    last_ns[uuid] = at_ns;
    must(tracks.at(uuid).counter == (value(e, 9) == 4), "TYPE_COUNTER on counters alone");
    if (value(e, 9) == 4) {
      must(find(e, 30) != nullptr, "counter_value");
      if (counters != nullptr)
        (*counters)[tracks.at(uuid).name].push_back(
            {at_ns, static_cast<std::int64_t>(value(e, 30))});
      continue;
    }
    auto& stack = open[uuid];
    if (value(e, 9) == 1) {
      must(value(packet, 13) == 2, "SEQ_NEEDS_INCREMENTAL_STATE where names are interned");
      Slice s;
      s.process = tracks.at(uuid).process;
      s.track = tracks.at(uuid).name;
      s.track_uuid = uuid;
      s.name = event_names.at(value(e, 10));
      s.parent = stack.empty() ? "" : slices[stack.back()].name;
      s.begin_ns = at_ns;
      for (const Field& f : e) {
        if (f.number == 47) s.flows.push_back(f.value);
        if (f.number == 48) s.ended_flows.push_back(f.value);
        if (f.number == 4) {
          const auto note = decode(f.bytes);
          s.notes[note_names.at(value(note, 1))] = value(note, 3);
        }
      }
      stack.push_back(slices.size());
      slices.push_back(s);
    } else {
      must(value(e, 9) == 2, "TrackEvent.type");
      must(!stack.empty(), "an end without a begin");
      slices[stack.back()].end_ns = at_ns;
      stack.pop_back();
    }
  }
  for (const auto& [uuid, stack] : open) must(stack.empty(), "a slice without an end");
  return slices;
}

TEST(Perfetto, BytesByHand) {
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  writer.on_activity({"l2", "at", 1'000, 300'000});
  writer.finish();
  // clang-format off
  const unsigned char right[] = {
      0x0A, 26,                            // Trace.packet (1): the process
      0x50, 1,                             //   trusted_packet_sequence_id (10)
      0x68, 1,                             //   sequence_flags (13): incremental state cleared
      0xE2, 0x03, 19,                      //   track_descriptor (60)
      0x08, 1,                             //     uuid (1)
      0x1A, 13,                            //     process (3)
      0x08, 1,                             //       pid (1)
      0x32, 9, 'm', 'a', 'r', 'r', 'o', 'w', ':', ' ', 'r',  // process_name (6)
      0x58, 3,                             //     child_ordering (11): explicit
      0x0A, 19,                            // Trace.packet: the block's track
      0x50, 1,                             //   trusted_packet_sequence_id
      0xE2, 0x03, 14,                      //   track_descriptor
      0x08, 2,                             //     uuid
      0x12, 2, 'l', '2',                   //     name (2)
      0x28, 1,                             //     parent_uuid (5)
      0x60, 0xFF, 0xFF, 0xFF, 0xFF, 0x03,  //     sibling_order_rank (12): 2^30 - 1
      0x0A, 24,                            // Trace.packet: begin
      0x40, 1,                             //   timestamp (8): 1 ns
      0x50, 1,                             //   trusted_packet_sequence_id
      0x5A, 6,                             //   track_event (11)
      0x48, 1,                             //     type (9): slice begin
      0x50, 1,                             //     name_iid (10)
      0x58, 2,                             //     track_uuid (11)
      0x62, 8,                             //   interned_data (12)
      0x12, 6,                             //     event_names (2)
      0x08, 1,                             //       iid (1)
      0x12, 2, 'a', 't',                   //       name (2)
      0x68, 2,                             //   sequence_flags: needs incremental state
      0x0A, 11,                            // Trace.packet: end
      0x40, 0xAC, 0x02,                    //   timestamp: 300 ns
      0x50, 1,                             //   trusted_packet_sequence_id
      0x5A, 4,                             //   track_event
      0x48, 2,                             //     type: slice end
      0x58, 2,                             //     track_uuid
      0x0A, 32,                            // Trace.packet: how busy the block was
      0x50, 1,                             //   trusted_packet_sequence_id
      0xE2, 0x03, 27,                      //   track_descriptor
      0x08, 3,                             //     uuid
      0x12, 11, 'l', '2', ':', ' ', 'b', 'u', 's', 'y', ',', ' ', '%',
      0x28, 1,                             //     parent_uuid
      0x42, 2, 0x18, 2,                    //     counter (8): unit (3): count
      0x60, 0xFF, 0xFF, 0xFF, 0xFF, 0x03,  //     sibling_order_rank
      0x0A, 13,                            // Trace.packet: 299 of 1000 ns
      0x40, 0,                             //   timestamp
      0x50, 1,                             //   trusted_packet_sequence_id
      0x5A, 7,                             //   track_event
      0x48, 4,                             //     type: counter
      0x58, 3,                             //     track_uuid
      0xF0, 0x01, 30,                      //     counter_value (30)
      0x0A, 14,                            // Trace.packet: nothing from 1000 ns on
      0x40, 0xE8, 0x07,                    //   timestamp
      0x50, 1,                             //   trusted_packet_sequence_id
      0x5A, 7,                             //   track_event
      0x48, 4,                             //     type: counter
      0x58, 3,                             //     track_uuid
      0xF0, 0x01, 0,                       //     counter_value
  };
  // clang-format on
  EXPECT_EQ(unpacked(out.str()), std::string(reinterpret_cast<const char*>(right), sizeof right));
  EXPECT_EQ(out.str()[0], 0x0A);  // by which a reader knows the format
}

TEST(Perfetto, AMessageFromItsLaneToItsPlaces) {
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  Journey j = waited_message();
  j.bytes = 8;
  j.at(Stage::kWire) = 30'000;
  j.at(Stage::kReceive) = 20'000;
  writer.on_journey(j);
  writer.finish();
  const auto slices = read(out.str());
  const std::string run = "marrow: r", lane = "GPU 0/SM 125/warp 3";
  // Starts at 1000 ns; leaves the lane at 1150.
  const std::vector<Slice> right = {
      {run, lane, "put", "", 0, 1000, 1850, {}, {}, {}},
      {run, lane, "wqe", "put", 0, 1000, 1100, {}, {}, {}},
      {run, lane, "doorbell.register", "put", 0, 1100, 1150, {}, {}, {}},
      {run, lane, "completion", "put", 0, 1150, 1850, {}, {}, {}},
      {run, "NIC 0/mmio", "mmio", "", 0, 1150, 1550, {}, {}, {}},
      {run, "wire of NIC 0/wire", "wire", "", 0, 1550, 1580, {}, {}, {}},
      {run, "far side of NIC 0/receive", "receive", "", 0, 1580, 1600, {}, {}, {}},
      {run, "NIC 0/poll", "poll", "", 0, 1600, 1850, {}, {}, {}},
  };
  EXPECT_EQ(slices, right);
  EXPECT_EQ(slices[0].notes,
            (std::map<std::string, std::uint64_t>{
                {"queue", 1}, {"index", 7}, {"op", 9}, {"bytes", 8}, {"rang", 1}, {"polls", 4}}));
  // One arrow along all of them, which ends with the last.
  ASSERT_EQ(slices[0].flows.size(), 1u);
  for (std::size_t i = 4; i < 7; ++i) EXPECT_EQ(slices[i].flows, slices[0].flows);
  EXPECT_EQ(slices[7].ended_flows, slices[0].flows);
}

TEST(Perfetto, AQueuesDepthIsWhatIsInFlight) {
  // Three messages leave their lane at 200, 400 and 600 ns and are under way for 500 ns.
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  for (int i = 0; i < 3; ++i) {
    Journey j = unwaited_message();  // wqe 200 ns
    j.start_ps = i * 200'000;
    j.at(Stage::kMmio) = 500'000;
    writer.on_journey(j);
  }
  writer.finish();
  Counters counters;
  read(out.str(), &counters);
  EXPECT_EQ(counters["queues of GPU 0/queue 1: in flight"],
            (std::vector<Value>{{200, 1}, {400, 2}, {600, 3}, {700, 2}, {900, 1}, {1100, 0}}));
}

TEST(Perfetto, ALinksUseIsItsBusyTime) {
  // 250 ns in the first us, the second idle, 1500 ns over the third and fourth; told out of order.
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  writer.on_activity({"pcie.up", "MemRd", 2'500'000, 4'000'000});
  writer.on_activity({"pcie.up", "MemWr", 100'000, 350'000});
  writer.begin_run(1, "next");
  writer.finish();
  Counters counters;
  read(out.str(), &counters);
  EXPECT_EQ(counters["pcie.up: busy, %"],
            (std::vector<Value>{{0, 25}, {1000, 0}, {2000, 50}, {3000, 100}, {4000, 0}}));
}

TEST(Perfetto, MeasuredStandsBesidePredicted) {
  std::ostringstream out;
  PerfettoWriter writer(out);
  for (std::uint32_t run = 0; run < 2; ++run) {
    writer.begin_run(run, run == 0 ? "a" : "b");
    writer.on_journey(waited_message());
    if (run == 0) writer.measured(unwaited_message());
  }
  writer.finish();
  std::map<std::string, int> slices;
  std::map<std::uint64_t, std::string> process_of;
  for (const Slice& s : read(out.str())) {
    ++slices[s.process];
    EXPECT_EQ(process_of.try_emplace(s.track_uuid, s.process).first->second, s.process);
  }
  EXPECT_EQ(slices,
            (std::map<std::string, int>{{"marrow: a", 6}, {"measured: a", 3}, {"marrow: b", 6}}));
}

TEST(Perfetto, WhatOverlapsGetsTracksOfItsOwn) {
  // Three messages of a warp, issued every 200 ns and under way for 1000 ns each; then one that
  // finds all of them gone. They complete last first.
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  for (int i : {2, 1, 0, 10}) {
    Journey j = unwaited_message();
    j.start_ps = i * 200'000;
    writer.on_journey(j);
  }
  writer.finish();
  std::map<std::string, std::map<std::uint64_t, int>> tracks;
  for (const Slice& s : read(out.str())) {
    EXPECT_EQ(s.parent, s.name == "wqe" ? "put" : "");
    if (s.parent.empty()) ++tracks[s.track][s.track_uuid];
  }
  EXPECT_EQ(tracks["NIC 0/mmio"].size(), 3u);
  // Puts told of backwards: never two on a track in the wrong order, which read() checks.
  int puts = 0;
  for (const auto& [uuid, n] : tracks["GPU 0/SM 125/warp 3"]) puts += n;
  EXPECT_EQ(puts, 4);
}

TEST(Perfetto, OneTrackIsEnoughForWhatFollowsOnAnother) {
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  for (Ps t = 0; t < 10; ++t)
    writer.on_activity({"gpu0.l2", "atomic", t * 5'000, t * 5'000 + 5'000});
  writer.finish();
  const auto slices = read(out.str());
  ASSERT_EQ(slices.size(), 10u);
  for (const Slice& s : slices) {
    EXPECT_EQ(s.track, "gpu0.l2");
    EXPECT_EQ(s.name, "atomic");
    EXPECT_EQ(s.track_uuid, slices[0].track_uuid);
    EXPECT_EQ(s.end_ns - s.begin_ns, 5u);
  }
}

TEST(Perfetto, RoundingKeepsTheOrder) {
  // Stages below a nanosecond: every boundary is rounded by itself, from the start on, so that
  // errors do not add up and nothing ends before it begins or outside of what it is part of.
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  Journey j;
  j.start_ps = 499;
  for (Ps& ps : j.stage_ps) ps = 333;
  writer.on_journey(j);
  writer.finish();
  const auto slices = read(out.str());
  ASSERT_EQ(slices.size(), kStageCount + 1);
  std::uint64_t at_ns = 0;
  for (const Slice& s : slices) {
    EXPECT_LE(s.begin_ns, s.end_ns);
    if (s.name == "put") continue;
    EXPECT_EQ(s.begin_ns, at_ns) << s.name;
    at_ns = s.end_ns;
  }
  EXPECT_EQ(at_ns, (499u + kStageCount * 333 + 500) / 1000);
}

TEST(Perfetto, Small) {
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "r");
  Journey j = waited_message();
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    j.warp = i % 64;
    j.op = j.index = i / 64;
    j.start_ps = 3'600'000'000'000'000 + Ps{i} * 1'000'000;  // an hour in: long timestamps
    writer.on_journey(j);
  }
  writer.finish();
  const auto slices = read(out.str());
  EXPECT_EQ(slices.size(), 60'000u);
  // A million such messages take less than 100 MB.
  EXPECT_LT(out.str().size() / 10'000, 100u);
  RecordProperty("bytes_per_message", static_cast<int>(out.str().size() / 10'000));
}

TEST(Perfetto, NothingHappenedNothingWritten) {
  std::ostringstream out;
  PerfettoWriter writer(out);
  writer.begin_run(0, "idle");
  writer.finish();
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace marrow::results
