#include "models/pcie/dma_engine.h"

#include <algorithm>
#include <cmath>

namespace marrow::pcie {

namespace {

/// Blocks of `unit` bytes, at multiples of it, that a range touches.
std::uint64_t blocks(std::uint64_t address, std::uint64_t bytes, std::uint64_t unit) {
  return (address + bytes - 1) / unit - address / unit + 1;
}

/// Bytes of a range in the first and in the last block that it touches.
std::uint64_t first_block(std::uint64_t address, std::uint64_t bytes, std::uint64_t unit) {
  return std::min(bytes, unit - address % unit);
}
std::uint64_t last_block(std::uint64_t address, std::uint64_t bytes, std::uint64_t unit) {
  return std::min(bytes, (address + bytes - 1) % unit + 1);
}

Ps bus_ps(double turn_ns, double beat_bytes, double beat_ns, std::uint64_t bytes) {
  return ps_from_ns(turn_ns + beat_ns * std::ceil(static_cast<double>(bytes) / beat_bytes));
}

/// The slowest link's time for a train.
Ps slowest_ps(const std::vector<Hop>& hops, const Train& train) {
  Ps longest_ps = 0;
  for (const Hop& hop : hops)
    if (hop.link) longest_ps = std::max(longest_ps, hop.link->length_ps(train));
  return longest_ps;
}

/// The time from the first byte's leaving until a lone train is there.
Ps alone_ps(const std::vector<Hop>& hops, const Train& train, std::uint64_t tlp_bytes) {
  Ps sum_ps = slowest_ps(hops, train) - slowest_ps(hops, {train.kind, 1, tlp_bytes});
  for (const Hop& hop : hops) {
    sum_ps += hop.latency_ps;
    if (hop.link && !hop.cuts_through) sum_ps += hop.link->length_ps({train.kind, 1, tlp_bytes});
  }
  return sum_ps;
}

}  // namespace

DmaEngine::DmaEngine(const DmaSpec& dma, const PcieSpec& pcie, Detail detail)
    : dma_(dma), pcie_(pcie), detail_(detail), mrrs_(static_cast<std::uint64_t>(pcie.mrrs_bytes)) {}

void DmaEngine::reset() {
  request_free_ps_ = intake_free_ps_ = deliver_free_ps_ = gather_free_ps_ = write_sent_ps_ = 0;
  done_ps_.clear();
  posted_.clear();
  behind_write_ = false;
}

std::uint64_t DmaEngine::window(std::uint64_t bytes) const {
  const double request = static_cast<double>(std::min(bytes, mrrs_));
  return static_cast<std::uint64_t>(
      std::max(1.0, std::min(dma_.tags_count, std::floor(dma_.outstanding_bytes / request))));
}

std::uint64_t DmaEngine::completion_unit(std::uint64_t request_bytes, bool behind_write) const {
  // Root complexes return a short request line by line. Long ones they fill up to MPS, unless a
  // write came between this read and the one before.
  const bool combined = static_cast<double>(request_bytes) >= pcie_.combine_bytes && !behind_write;
  return static_cast<std::uint64_t>(combined ? pcie_.mps_bytes : pcie_.rcb_bytes);
}

Ps DmaEngine::behind_writes_ps(const Path& path, Ps sent_ps, Ps there_ps) const {
  for (auto write = posted_.rbegin(); write != posted_.rend(); ++write)
    if (write->to == path.out.back().link && write->sent_ps <= sent_ps)
      return std::max(there_ps, write->placed_ps);
  return there_ps;
}

Ps DmaEngine::take_in(Ps first_ps, Ps last_ps, std::uint64_t completions) {
  const double ns = dma_.completion_ns;
  const Ps done_ps = std::max(last_ps, std::max(first_ps, intake_free_ps_) +
                                           ps_from_ns(ns * static_cast<double>(completions - 1)));
  intake_free_ps_ = done_ps + ps_from_ns(ns);
  return done_ps;
}

ReadTimes DmaEngine::read(const Path& path, Ps at_ps, std::uint64_t address, std::uint64_t bytes) {
  const Ps start_ps = at_ps + ps_from_ns(dma_.setup_ns);
  const Data data = detail_ == Detail::kTlps ? read_tlps(path, start_ps, address, bytes)
                                             : read_trains(path, start_ps, address, bytes);
  behind_write_ = false;
  const Ps bus_start_ps = std::max(data.last_ps, deliver_free_ps_);
  deliver_free_ps_ =
      bus_start_ps + bus_ps(dma_.read_turn_ns, dma_.read_beat_bytes, dma_.read_beat_ns, bytes);
  const Ps first_ps = dma_.read_beat_ns > 0
                          ? bus_start_ps + ps_from_ns(dma_.read_turn_ns + dma_.read_beat_ns)
                          : data.first_ps + ps_from_ns(dma_.read_turn_ns);
  return {data.memory_ps, first_ps, deliver_free_ps_};
}

DmaEngine::Data DmaEngine::read_tlps(const Path& path, Ps at_ps, std::uint64_t address,
                                     std::uint64_t bytes) {
  const std::uint64_t limit = window(bytes), end = address + bytes;
  Data data{0, 0, 0};
  bool behind_write = behind_write_;
  for (std::uint64_t from = address; from < end;) {
    const std::uint64_t length = first_block(from, end - from, mrrs_);
    Ps issue_ps = std::max(at_ps, request_free_ps_);
    for (; done_ps_.size() >= limit; done_ps_.pop_front())
      issue_ps = std::max(issue_ps, done_ps_.front());
    request_free_ps_ = issue_ps + ps_from_ns(dma_.request_ns);
    const Arrival request = travel(path.out, {{TlpKind::kMemRd, 1, 0}, 0, 0, issue_ps, issue_ps});
    const Ps memory_ps = behind_writes_ps(path, request.sent_ps, request.last_ps);
    if (from == address) data.memory_ps = memory_ps;
    const Ps ready_ps = memory_ps + path.read_latency(from, length);
    const std::uint64_t unit = completion_unit(length, behind_write);
    behind_write = false;
    for (std::uint64_t at = from; at < from + length;) {
      const std::uint64_t piece = first_block(at, from + length - at, unit);
      const Arrival arrival =
          travel(path.back, {{TlpKind::kCplD, 1, piece}, piece, piece, ready_ps, ready_ps});
      data.last_ps = take_in(arrival.last_ps, arrival.last_ps, 1);
      if (at == address) data.first_ps = data.last_ps;
      at += piece;
    }
    done_ps_.push_back(data.last_ps);
    from += length;
  }
  return data;
}

DmaEngine::Data DmaEngine::read_trains(const Path& path, Ps at_ps, std::uint64_t address,
                                       std::uint64_t bytes) {
  const std::uint64_t limit = window(bytes), requests = blocks(address, bytes, mrrs_);
  const std::uint64_t head = first_block(address, bytes, mrrs_);
  const std::uint64_t tail = last_block(address, bytes, mrrs_);
  const std::uint64_t tail_address = address + bytes - tail;
  const std::uint64_t head_unit = completion_unit(head, behind_write_);
  const std::uint64_t full_unit = std::min(completion_unit(mrrs_, false), mrrs_);
  const std::uint64_t tail_unit = requests > 1 ? completion_unit(tail, false) : head_unit;
  const std::uint64_t head_completions = blocks(address, head, head_unit);
  std::uint64_t completions = head_completions;
  if (requests > 1)
    completions += blocks(tail_address, tail, tail_unit) + (requests - 2) * (mrrs_ / full_unit);

  // How far apart requests are where nothing but the engine, or anything at all, holds them up.
  const std::uint64_t lone = requests > 1 ? mrrs_ : bytes;
  const std::uint64_t lone_pieces = requests > 1 ? mrrs_ / full_unit : completions;
  const Train lone_back{TlpKind::kCplD, lone_pieces, lone};
  const Ps pace_ps =
      std::max(ps_from_ns(dma_.request_ns), slowest_ps(path.out, {TlpKind::kMemRd, 1, 0}));
  const Ps drawn_ps = std::max({pace_ps, slowest_ps(path.back, lone_back),
                                ps_from_ns(dma_.completion_ns * static_cast<double>(lone_pieces))});

  // The first window of requests goes as earlier ones' tags come back.
  Ps first_issue_ps = std::max(at_ps, request_free_ps_);
  Ps last_issue_ps = first_issue_ps;
  const std::uint64_t at_once = std::min(requests, limit);
  tag_ps_.clear();
  for (std::uint64_t i = 0; i < at_once; ++i) {
    if (i > 0) last_issue_ps += pace_ps;
    for (; done_ps_.size() + i >= limit && !done_ps_.empty(); done_ps_.pop_front())
      last_issue_ps = std::max(last_issue_ps, done_ps_.front());
    if (i == 0) first_issue_ps = last_issue_ps;
    tag_ps_.push_back(last_issue_ps);
  }
  // Later ones go as the transfer's own come back: a round trip a window, or as drawn.
  const Ps round_trip_ps = alone_ps(path.out, {TlpKind::kMemRd, 1, 0}, 0) +
                           path.read_latency(address, lone) +
                           alone_ps(path.back, lone_back, std::min(lone, full_unit));
  if (requests > limit) {
    const auto window = static_cast<Ps>(limit), last = static_cast<Ps>(requests - 1);
    last_issue_ps = first_issue_ps + last / window * std::max(round_trip_ps, window * drawn_ps) +
                    last % window * drawn_ps;
  }
  request_free_ps_ = last_issue_ps + ps_from_ns(dma_.request_ns);

  const Arrival request =
      travel(path.out, {{TlpKind::kMemRd, requests, 0}, 0, 0, first_issue_ps, last_issue_ps});
  const Ps memory_ps = behind_writes_ps(path, request.sent_ps, request.first_ps);
  const Ps first_ready_ps = memory_ps + path.read_latency(address, head);
  const Ps last_ready_ps = std::max(behind_writes_ps(path, request.sent_ps, request.last_ps) +
                                        path.read_latency(tail_address, tail),
                                    first_ready_ps);
  const std::uint64_t first_piece = first_block(address, head, head_unit);
  const std::uint64_t last_piece = last_block(tail_address, tail, tail_unit);
  // The last request's completions, together, follow its data.
  const Ps last_piece_ready_ps =
      last_ready_ps +
      (requests == 1
           ? 0
           : slowest_ps(path.back, {TlpKind::kCplD, blocks(tail_address, tail, tail_unit), tail}) -
                 slowest_ps(path.back, {TlpKind::kCplD, 1, last_piece}));
  const Arrival arrival = travel(path.back, {{TlpKind::kCplD, completions, bytes},
                                             first_piece,
                                             last_piece,
                                             first_ready_ps,
                                             last_piece_ready_ps});
  const Data data{memory_ps, std::max(arrival.first_ps, intake_free_ps_),
                  take_in(arrival.first_ps, arrival.last_ps, completions)};
  // When tags come back. Where requests filled the window, as the link draws the last ones' data;
  // else no sooner than a round trip after each request, and what others' traffic adds in the end
  // has grown evenly.
  if (requests > limit) {
    for (std::uint64_t i = limit; i > 0; --i)
      done_ps_.push_back(data.last_ps - static_cast<Ps>(i - 1) * drawn_ps);
    return data;
  }
  tag_ps_[0] = arrival.first_ps +
               std::max(slowest_ps(path.back, {TlpKind::kCplD, head_completions, head}) -
                            slowest_ps(path.back, {TlpKind::kCplD, 1, first_piece}),
                        ps_from_ns(dma_.completion_ns * static_cast<double>(head_completions - 1)));
  for (std::uint64_t i = 1; i < requests; ++i)
    tag_ps_[i] =
        std::max(tag_ps_[i] + round_trip_ps, tag_ps_[i - 1] + (i + 1 < requests ? drawn_ps : 0));
  const Ps late_ps = data.last_ps - tag_ps_.back();
  for (std::uint64_t i = 0; i < requests; ++i)
    done_ps_.push_back(std::min(
        data.last_ps, tag_ps_[i] + late_ps * static_cast<Ps>(i + 1) / static_cast<Ps>(requests)));
  return data;
}

WriteTimes DmaEngine::write(const Path& path, Ps at_ps, std::uint64_t address, std::uint64_t bytes,
                            Ps rest_ps) {
  const auto mps = static_cast<std::uint64_t>(pcie_.mps_bytes);
  gather_free_ps_ = std::max(at_ps + ps_from_ns(dma_.setup_ns), gather_free_ps_) +
                    bus_ps(dma_.write_turn_ns, dma_.write_beat_bytes, dma_.write_beat_ns, bytes);
  const Ps gathered_ps = gather_free_ps_ + ps_from_ns(dma_.gather_ns);
  Ps ready_ps = std::max(gathered_ps, write_sent_ps_);
  const bool tlps = detail_ == Detail::kTlps;
  const std::uint64_t end = address + bytes;
  Posted write{0, 0};
  for (std::uint64_t from = address; from < end;) {
    const std::uint64_t length = tlps ? first_block(from, end - from, mps) : end - from;
    const auto come_ps = [&](std::uint64_t upto) {
      const double share = static_cast<double>(upto - address) / static_cast<double>(bytes);
      return gathered_ps + static_cast<Ps>(static_cast<double>(rest_ps) * share);
    };
    ready_ps = std::max(ready_ps, tlps ? come_ps(from + length) : gathered_ps);
    const Arrival arrival = travel(path.out, {{TlpKind::kMemWr, blocks(from, length, mps), length},
                                              first_block(from, length, mps),
                                              last_block(from, length, mps),
                                              ready_ps,
                                              std::max(ready_ps, come_ps(from + length))});
    write = {arrival.sent_ps, arrival.last_ps};
    if (path.buffer) {
      WriteBuffer& buffer = *path.buffer;
      // What is in memory last was drained behind everything before it; the sender may be ahead of
      // that by the buffer's size.
      buffer.drained_ps = std::max(
          arrival.last_ps, std::max(buffer.drained_ps, arrival.first_ps) +
                               static_cast<Ps>(static_cast<double>(length) * buffer.ps_per_byte));
      const Ps held_ps =
          buffer.drained_ps - static_cast<Ps>(buffer.bytes * buffer.ps_per_byte) - arrival.last_ps;
      write = {arrival.sent_ps + std::max<Ps>(held_ps, 0), buffer.drained_ps};
    }
    ready_ps = std::max(ready_ps, write.sent_ps);
    from += length;
  }
  // Posted writes keep their order on the way that they share, not with those to another memory.
  write.to = path.out.back().link;
  const auto before = std::find_if(posted_.rbegin(), posted_.rend(),
                                   [&](const Posted& other) { return other.to == write.to; });
  if (before != posted_.rend()) write.placed_ps = std::max(write.placed_ps, before->placed_ps);
  write_sent_ps_ = write.sent_ps;
  // The engine turns to its next transfer, and sends nothing meanwhile.
  path.out.front().link->hold(path.out.front().way, write.sent_ps, ps_from_ns(dma_.write_turn_ns));
  posted_.push_back(write);
  constexpr std::size_t kPosted = 64;
  if (posted_.size() > kPosted) posted_.pop_front();
  behind_write_ = true;
  return {write.sent_ps, write.placed_ps};
}

}  // namespace marrow::pcie
