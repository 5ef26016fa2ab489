#include "models/gpu/peer_port.h"

#include <algorithm>
#include <cmath>

namespace marrow::gpu {

namespace {

constexpr std::uint64_t kLaneBytes = 16, kWarpLanes = 32;

template <class T>
std::uint32_t take(std::vector<T>& all, std::vector<std::uint32_t>& free, T item) {
  if (free.empty()) {
    all.push_back(std::move(item));
    return static_cast<std::uint32_t>(all.size() - 1);
  }
  const std::uint32_t number = free.back();
  free.pop_back();
  all[number] = std::move(item);
  return number;
}

}  // namespace

PeerPort::PeerPort(sc_core::sc_module_name name, const GpuSpec& spec, const NvlinkSpec& nvlink,
                   std::uint32_t gpu, std::vector<Gpu> gpus)
    : sc_module(name),
      spec_(spec),
      nvlink_(nvlink),
      gpu_(gpu),
      gpus_(std::move(gpus)),
      events_("events", [this](Event& event, Ps at_ps) { handle(event, at_ps); }) {}

void PeerPort::reset(std::uint64_t seed) {
  const auto sms = static_cast<std::size_t>(spec_.sm_count);
  works_.clear();
  free_works_.clear();
  fences_.clear();
  free_fences_.clear();
  outs_.assign(sms + 1, {});  // the last one: where fences ask for a flush
  flushing_.clear();
  waiting_.clear();
  flush_runs_ = false;
  unsent_ = 0;
  flush_end_ps_ = 0;
  all_acknowledged_ps_ = 0;
  random_ = Random(seed);
  for (std::size_t sm = 0; sm < sms; ++sm) {
    outs_[sm].way_ps = l2_ps(random_.around(nvlink_.sm_way_cycles));
    // The two SMs of a cluster share their way.
    outs_[sm].turn_bytes =
        sm % 2 == 1 ? outs_[sm - 1].turn_bytes
                    : static_cast<std::uint64_t>(nvlink_.turn_bytes *
                                                 (1 + random_.around(nvlink_.turn_spread_ratio)));
  }
  copies_ = false;
  l2_busy_ = false;
}

void PeerPort::copy(PeerCopy copy, Ps at_ps) {
  ++counters_.copies;
  counters_.bytes += copy.bytes;
  if (copy.bytes == 0) {
    copy.done(at_ps);
    return;
  }
  Work work;
  static_cast<PeerCopy&>(work) = std::move(copy);
  events_.push(at_ps, {What::kLoad, take(works_, free_works_, std::move(work))});
}

void PeerPort::fence(std::uint32_t sm, Ps least_ps, Ps at_ps, std::function<void(Ps)> done) {
  ++counters_.fences;
  // Fences are taken one by one, as atomics on one word are.
  Ps& taken_ps = outs_.back().port_free_ps;
  const Ps asks_ps = std::max(at_ps + l2_ps(nvlink_.fence_cycles) + outs_[sm].way_ps, taken_ps);
  taken_ps = asks_ps + l2_ps(spec_.atomic_interval_cycles);
  Fence fence{sm, at_ps + least_ps + outs_[sm].way_ps, std::move(done)};
  events_.push(asks_ps, {What::kFence, take(fences_, free_fences_, std::move(fence))});
}

void PeerPort::stored(std::uint32_t sm, Ps issued_ps) {
  events_.push(std::max(issued_ps + l2_ps(spec_.load_cycles / 2), now_ps()),
               {What::kStored, sm, issued_ps + store_ps(sm)});
}

void PeerPort::copy_without_end(std::uint32_t peer) {
  copies_ = true;
  gpus_[gpu_].link->copies_out(true);
  gpus_[peer].link->copies_in(true);
}

void PeerPort::handle(const Event& event, Ps at_ps) {
  switch (event.what) {
    case What::kLoad:
      return load(works_[event.number], event.number, at_ps);
    case What::kStore:
      return store(works_[event.number], event.number, at_ps);
    case What::kTrain:
      return send(outs_[event.number], event.number, at_ps);
    case What::kStored:
      return acknowledged(event.ps);
    case What::kFence:
      waiting_.push_back(event.number);
      if (!flush_runs_) flush(at_ps);
      return;
    case What::kFlushed: {
      const std::vector<std::uint32_t> through = std::exchange(flushing_, {});
      flush(at_ps);
      for (const std::uint32_t number : through) {
        const auto done = std::move(fences_[number].done);
        free_fences_.push_back(number);
        done(std::max(at_ps + back_ps(), fences_[number].end_ps));
      }
      return;
    }
  }
}

void PeerPort::load(Work& work, std::uint32_t number, Ps at_ps) {
  const bool bulk = work.form == PeerCopy::Form::kBulk;
  const auto most = bulk ? static_cast<std::uint64_t>(nvlink_.chunk_bytes)
                         : std::uint64_t{work.threads} * work.unroll * kLaneBytes;
  const std::uint64_t bytes = std::min(most, work.bytes - work.loaded);
  const std::uint64_t from = work.source + work.loaded % work.wrap_bytes;
  Ps ready_ps = gpus_[gpu_].l2->block_load_ps(work.sm, from, bytes);
  if (l2_busy_) ready_ps += busy_ps((bytes + Placement::kLineBytes - 1) / Placement::kLineBytes);
  ready_ps += sm_ps(bulk ? nvlink_.chunk_cycles : nvlink_.round_cycles);
  // Warps without a part in the last round are at the next copy already.
  if (!bulk && !work.joins)
    ready_ps = static_cast<Ps>(static_cast<double>(ready_ps) * static_cast<double>(bytes) /
                               static_cast<double>(most));
  work.loaded += bytes;
  events_.push(at_ps + ready_ps, {What::kStore, number});
}

Ps PeerPort::busy_ps(std::uint64_t lines) {
  // The slowest of so many, each of which waits as long as it happens to.
  const double slowest = std::pow(random_.unit(), 1.0 / static_cast<double>(lines));
  return l2_ps(-std::log1p(-slowest) * nvlink_.busy_line_cycles);
}

std::uint64_t PeerPort::next_bytes(const Work& work, const Out& out) const {
  const std::uint64_t rest = work.loaded - work.stored;
  const auto most = static_cast<std::uint64_t>(nvlink_.queue_bytes);
  const std::uint64_t room = std::max(most, out.bytes) - out.bytes;
  // A round's stores are issued together, a chunk as there is room.
  if (work.form == PeerCopy::Form::kStores) return rest <= room || out.bytes == 0 ? rest : 0;
  return room >= std::min(rest, out.turn_bytes) || out.bytes == 0
             ? std::min(rest, std::max(room, out.turn_bytes))
             : 0;
}

void PeerPort::store(Work& work, std::uint32_t number, Ps at_ps) {
  const bool bulk = work.form == PeerCopy::Form::kBulk;
  Out& out = outs_[work.sm];
  const std::uint64_t bytes = next_bytes(work, out);
  if (bytes == 0) {
    out.waiting.push_back(number);
    return;
  }
  const auto bits = static_cast<double>(bytes) * 8;
  const Ps from_ps = std::max(at_ps, out.port_free_ps);
  Ps issued_ps = 0;
  if (bulk) {
    out.port_free_ps = from_ps + ps_from_ns(bits / nvlink_.bulk_gbps);
    issued_ps = out.port_free_ps;
    if (work.stored + bytes == work.loaded) issued_ps += sm_ps(nvlink_.bulk_cycles);
  } else {
    const auto warps =
        static_cast<double>((bytes + kWarpLanes * kLaneBytes - 1) / (kWarpLanes * kLaneBytes));
    // The warps' stores overlap the first one's latency; the port passes one after the other.
    out.port_free_ps = from_ps + ps_from_ns(bits / nvlink_.sm_store_gbps);
    issued_ps = from_ps + sm_ps(warps * nvlink_.warp_cycles);
  }
  out.bytes += bytes;
  out.stored += bytes;
  out.queue.push_back({work.peer, work.target + work.stored % work.wrap_bytes, bytes, 0, from_ps,
                       out.port_free_ps});
  work.stored += bytes;
  if (!out.sends) {
    out.sends = true;
    events_.push(std::max(passed_ps(out), at_ps), {What::kTrain, work.sm});
  }
  if (work.stored < work.bytes) {
    events_.push(issued_ps, {work.stored < work.loaded ? What::kStore : What::kLoad, number});
    return;
  }
  const auto done = std::move(work.done);
  free_works_.push_back(number);
  done(issued_ps);
}

std::uint64_t PeerPort::part(const Out& out) const {
  const Segment& next = out.queue.front();
  return std::min(out.turn_bytes, next.bytes - next.sent);
}

Ps PeerPort::passed_ps(const Out& out) const {
  const Segment& next = out.queue.front();
  const double share = static_cast<double>(next.sent + part(out)) / static_cast<double>(next.bytes);
  return next.from_ps + l2_ps(spec_.load_cycles / 2) +
         static_cast<Ps>(share * static_cast<double>(next.until_ps - next.from_ps));
}

void PeerPort::send(Out& out, std::uint32_t sm, Ps at_ps) {
  const std::uint64_t part = this->part(out);
  Segment& next = out.queue.front();
  const Gpu& peer = gpus_[next.peer];
  nvlink::Link& link = *gpus_[gpu_].link;
  const Ps half_ps = l2_ps(spec_.load_cycles / 2);
  const Ps length_ps = ps_from_ns(nvlink::train_ns(nvlink_, part));
  const Ps taken_ps = std::max(at_ps, link.free_out_ps()) + length_ps;
  const Ps start_ps = link.send_out(at_ps, part, "copy");
  const Ps in_ps = peer.link->send_in(start_ps, part, "copy");
  counters_.held_up_ps += in_ps - at_ps;
  peer.l2->written_from_peer(next.target + next.sent, part);
  const Ps ack_ps =
      static_cast<Ps>(static_cast<double>(peer.link->waits_out_ps(in_ps)) * nvlink_.ack_wait_ratio);
  const Ps done_ps = in_ps + length_ps - half_ps + store_ps(sm) + ack_ps;
  acknowledged(done_ps);
  out.bytes -= part;
  out.sent += part;
  if (out.goal > 0) {
    flush_end_ps_ = std::max(flush_end_ps_, done_ps - back_ps());
    if (out.sent >= out.goal) {
      out.goal = 0;
      if (--unsent_ == 0) flush_sent(at_ps);
    }
  }
  next.sent += part;
  if (next.sent == next.bytes) out.queue.pop_front();
  if (!out.waiting.empty()) {
    if (next_bytes(works_[out.waiting.front()], out) > 0) {
      events_.push(std::max(taken_ps - half_ps, at_ps), {What::kStore, out.waiting.front()});
      out.waiting.pop_front();
    }
  }
  if (!out.queue.empty()) {
    // In turn with the other SMs: the next part comes once the link has taken this.
    events_.push(std::max({taken_ps, passed_ps(out), at_ps}), {What::kTrain, sm});
    return;
  }
  out.sends = false;
}

Ps PeerPort::back_ps() const {
  return l2_ps(spec_.fence_sys_cycles - nvlink_.fence_cycles - nvlink_.flush_cycles);
}

void PeerPort::flush(Ps at_ps) {
  flushing_.swap(waiting_);
  waiting_.clear();
  flush_runs_ = !flushing_.empty();
  if (!flush_runs_) return;
  flush_end_ps_ = std::max(at_ps + l2_ps(nvlink_.flush_cycles), all_acknowledged_ps_ - back_ps());
  if (copies_) {
    const double bytes =
        nvlink_.copy_outstanding_bytes + random_.around(nvlink_.copy_outstanding_spread_bytes);
    flush_end_ps_ =
        std::max(flush_end_ps_,
                 at_ps + ps_from_ns(nvlink::train_ns(nvlink_, static_cast<std::uint64_t>(bytes))));
  }
  // What has been stored and not yet sent belongs to it too.
  unsent_ = 0;
  for (Out& out : outs_) {
    if (out.sent == out.stored) continue;
    out.goal = out.stored;
    ++unsent_;
  }
  if (unsent_ == 0) flush_sent(at_ps);
}

void PeerPort::flush_sent(Ps at_ps) {
  events_.push(std::max(at_ps, flush_end_ps_), {What::kFlushed, 0});
}

void PeerPort::report(CounterSink& sink) const {
  if (counters_.copies + counters_.fences == 0) return;
  sink.add(name(), "copies", static_cast<double>(counters_.copies), "count");
  sink.add(name(), "copied", static_cast<double>(counters_.bytes), "bytes");
  sink.add(name(), "system fences", static_cast<double>(counters_.fences), "count");
  sink.add(name(), "waited for links", static_cast<double>(counters_.held_up_ps) / 1000, "ns");
}

}  // namespace marrow::gpu
