#include "models/gpu/l2.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace marrow::gpu {

namespace {

Access& access_of(tlm::tlm_generic_payload& payload) { return *payload.get_extension<Access>(); }

/// Beyond this L2 the annotated delay counts again.
Ps issue_time(Access& access, const sc_core::sc_time& delay) {
  const Ps own_ps = std::exchange(access.issue_ps, -1);
  return own_ps >= 0 ? own_ps : now_ps() + static_cast<Ps>(delay.value());
}

sc_core::sc_time as_time(Ps ps) {
  return sc_core::sc_time::from_value(static_cast<std::uint64_t>(std::max<Ps>(ps, 0)));
}

}  // namespace

L2::L2(sc_core::sc_module_name name, const GpuSpec& spec, Ps host_round_trip_ps, Memory& memory)
    : sc_module(name),
      spec_(spec),
      cycle_ps_(1000.0 / spec.l2_clock_ghz),
      jitter_ps_(spec.jitter_cycles * cycle_ps_),
      memory_(memory),
      held_(static_cast<std::size_t>(spec.l2_bytes) / Placement::kLineBytes, 0),
      host_round_trip_ps_(host_round_trip_ps),
      arrivals_("arrivals", [this](Request& request, Ps at_ps) { take_effect(request, at_ps); }),
      device_arrivals_("device_arrivals", [this](tlm::tlm_generic_payload*& payload, Ps at_ps) {
        device_access(*payload, at_ps);
      }) {
  posted_.set_command(tlm::TLM_WRITE_COMMAND);
  posted_access_.kind = AccessKind::kStore;
  posted_.set_extension(&posted_access_);
  from_sms.register_b_transport(this, &L2::b_transport);
  from_sms.register_nb_transport_fw(this, &L2::nb_transport_fw);
  from_sms.register_transport_dbg(this, &L2::transport_dbg);
  to_host.register_nb_transport_bw(this, &L2::nb_transport_bw);
  from_device.register_nb_transport_fw(this, &L2::from_device_fw);
  to_peers.register_nb_transport_bw(this, &L2::answer_from_peer);
}

void L2::reset(std::uint64_t bytes, const Placement* placement, std::uint64_t seed) {
  // Only what the last run may have touched needs to be forgotten.
  std::fill_n(held_.begin(), std::min(held_.size(), touched_lines_), 0);
  touched_lines_ = bytes / Placement::kLineBytes + 1;
  placement_ = placement;
  stale_.assign(bytes / Placement::kLineBytes + 1, 0);
  words_.clear();
  polled_.clear();
  pushed_.clear();
  host_line_free_ps_.clear();
  host_reads_.clear();
  host_acknowledged_ps_.assign(placement->sms(), 0);
  host_poller_ = nullptr;
  watch_ = nullptr;
  watch_begin_ = watch_end_ = 0;
  random_ = Random(seed);
}

void L2::watch(std::uint64_t begin, std::uint64_t end,
               std::function<void(std::uint64_t, std::uint64_t, Ps)> callback) {
  watch_begin_ = begin;
  watch_end_ = end;
  watch_ = std::move(callback);
}

Ps L2::home_round_trip_ps(std::uint32_t sm, std::uint64_t address) const {
  const double base = placement_->is_far(sm, address) ? spec_.far_cycles : spec_.near_cycles;
  return static_cast<Ps>((base + placement_->distance_cycles(sm, address)) * cycle_ps_);
}

Ps L2::round_trip_ps(const Access& access, std::uint64_t address) const {
  if (access.way_ps > 0) return 0;
  if (access.kind == AccessKind::kLoad || access.kind == AccessKind::kPoll)
    return static_cast<Ps>((spec_.load_cycles + distance_cycles(access.sm, address)) * cycle_ps_);
  return home_round_trip_ps(access.sm, address);
}

Ps L2::load_round_trip_ps(const Access& access, std::uint64_t address) {
  double cycles = 0;
  auto& stale = stale_[address / Placement::kLineBytes];
  if (access.way_ps == 0) {
    cycles = spec_.load_cycles + placement_->distance_cycles(access.sm, address);
    if (stale && placement_->is_far(access.sm, address)) {
      cycles += spec_.load_far_extra_cycles;
      stale = 0;
    }
  }
  Ps round_trip_ps = static_cast<Ps>(cycles * cycle_ps_);
  if (!holds(address)) {
    ++counters_.misses;
    posted_.set_address(address);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    to_hbm->b_transport(posted_, delay);
    round_trip_ps += static_cast<Ps>(delay.value());
  }
  return round_trip_ps;
}

Ps L2::block_load_ps(std::uint32_t sm, std::uint64_t address, std::uint64_t bytes) {
  Access access;
  access.sm = sm;
  Ps slowest_ps = 0;
  for (std::uint64_t at = address; at < address + bytes; at += Placement::kLineBytes)
    slowest_ps = std::max(slowest_ps, load_round_trip_ps(access, at));
  counters_.loads += (bytes + Placement::kLineBytes - 1) / Placement::kLineBytes;
  return slowest_ps;
}

void L2::written_from_peer(std::uint64_t address, std::uint64_t bytes) {
  for (std::uint64_t at = address; at < address + bytes; at += Placement::kLineBytes)
    mark_written(at);
}

bool L2::holds(std::uint64_t address) {
  const std::uint64_t line = address / Placement::kLineBytes;
  std::uint64_t& held = held_[line % held_.size()];
  const bool hit = held == line + 1;
  held = line + 1;
  return hit;
}

Ps L2::host_read_back_ps(Ps at_ps) {
  // Round trips are alike, so of the reads under way the one that started last is back last.
  const auto after = std::partition_point(host_reads_.begin(), host_reads_.end(),
                                          [&](const HostRead& r) { return r.start_ps <= at_ps; });
  const Ps back_ps = after == host_reads_.begin() ? 0 : std::prev(after)->back_ps;
  return host_poller_ ? std::max(back_ps, host_poller_(at_ps, 0)) : back_ps;
}

bool L2::other_writes_pending(std::uint32_t sm, Ps at_ps) const {
  // A reader's own writes went ahead of its read: they hold up nobody further.
  const auto reads = [&](std::uint32_t other) {
    return std::any_of(host_reads_.begin(), host_reads_.end(), [&](const HostRead& read) {
      return read.sm == other && read.start_ps <= at_ps && read.back_ps > at_ps;
    });
  };
  for (std::uint32_t other = 0; other < host_acknowledged_ps_.size(); ++other)
    if (other != sm && host_acknowledged_ps_[other] > at_ps && !reads(other)) return true;
  return false;
}

void L2::mark_written(std::uint64_t address, bool past_copy) {
  holds(address);
  if (!past_copy) stale_[address / Placement::kLineBytes] = 1;
}

bool L2::passes_copy(const Access& access, std::uint64_t address) const {
  return access.way_ps == 0 && placement_->is_far(access.sm, address);
}

std::uint64_t L2::apply(Access& access, std::uint64_t address, std::uint32_t bytes, bool& wrote) {
  const std::uint64_t old = memory_.load(address, bytes);
  wrote = true;
  switch (access.kind) {
    case AccessKind::kStore:
      memory_.store(address, access.value, bytes);
      break;
    case AccessKind::kAtomic: {
      std::uint64_t next = access.value;
      if (access.atomic == AtomicOp::kAdd) next = old + access.value;
      if (access.atomic == AtomicOp::kMax) next = std::max(old, access.value);
      memory_.store(address, next, bytes);
      break;
    }
    case AccessKind::kSpin:
      wrote = old == access.expected;
      if (wrote) memory_.store(address, access.value, bytes);
      break;
    default:
      wrote = false;
  }
  return old;
}

void L2::b_transport(int, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  Access& access = access_of(payload);
  const std::uint64_t address = payload.get_address();
  const std::uint32_t bytes = payload.get_data_length();
  if (placement_->is_far(access.sm, address)) ++counters_.far;
  bool wrote = false;
  switch (access.kind) {
    case AccessKind::kStore: {
      ++counters_.stores;
      std::copy_n(payload.get_data_ptr(), bytes, memory_.data(address));
      mark_written(address, passes_copy(access, address));
      break;
    }
    case AccessKind::kLoad:
    case AccessKind::kPoll:
      ++counters_.loads;
      access.value = apply(access, address, bytes, wrote);
      delay += as_time(load_round_trip_ps(access, address) + jitter());
      break;
    case AccessKind::kSpin:
      ++counters_.spins;
      [[fallthrough]];
    default:
      ++counters_.atomics;
      access.value = apply(access, address, bytes, wrote);
      if (wrote) mark_written(address);
      delay += as_time(home_round_trip_ps(access.sm, address) + jitter());
  }
  access.rounds = 1;
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

tlm::tlm_sync_enum L2::nb_transport_fw(int port, tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                       sc_core::sc_time& delay) {
  Access& access = access_of(payload);
  const Ps issue_ps = issue_time(access, delay);
  if (access.kind == AccessKind::kFence) {
    const Ps arrival =
        std::min(static_cast<Ps>(spec_.fence_arrival_cycles * cycle_ps_), access.least_ps);
    arrivals_.push(std::max(issue_ps + arrival, now_ps()), {&payload, port, 0, 0, 0, issue_ps});
    return tlm::TLM_ACCEPTED;
  }
  access.rounds = 0;
  const std::uint64_t address = payload.get_address();
  if (!is_own(address)) {
    // The way out is shared: accesses take it in the order in which they arrive here.
    Request request{nullptr, port, address, 0, payload.get_data_length(), issue_ps, access.sm};
    const Ps half_ps = static_cast<Ps>(spec_.load_cycles / 2 * cycle_ps_);
    if (access.kind != AccessKind::kStore) {
      request.payload = &payload;
    } else if (request.bytes > 8 && crosses_pcie(address)) {
      request.value = pushes_++;
      std::copy_n(payload.get_data_ptr(), std::min<std::uint32_t>(request.bytes, 64),
                  pushed_[request.value].data());
    } else if (request.bytes > 8) {
      // An entry's body; a later word announces it.
      to_peers->transport_dbg(payload);
    } else {
      std::copy_n(payload.get_data_ptr(), request.bytes,
                  reinterpret_cast<std::uint8_t*>(&request.value));
    }
    arrivals_.push(std::max(issue_ps + half_ps, now_ps()), request);
    return access.kind == AccessKind::kStore ? tlm::TLM_COMPLETED : tlm::TLM_ACCEPTED;
  }
  const Ps round_trip = round_trip_ps(access, address);
  if (placement_->is_far(access.sm, address)) ++counters_.far;
  const Ps arrival_ps = std::max(issue_ps + round_trip / 2, now_ps());
  if (access.kind == AccessKind::kStore) {
    // Posted: the requester's payload is its own again at once, so the bytes are copied.
    Request request{nullptr,
                    port,
                    address,
                    0,
                    payload.get_data_length(),
                    issue_ps,
                    access.sm,
                    passes_copy(access, address)};
    if (request.bytes > 8) {  // an entry's body; a later word announces it
      ++counters_.stores;
      // From another GPU its bytes came ahead.
      if (access.way_ps == 0)
        std::copy_n(payload.get_data_ptr(), request.bytes, memory_.data(address));
      mark_written(address, request.past_copy);
      return tlm::TLM_COMPLETED;
    }
    std::copy_n(payload.get_data_ptr(), request.bytes,
                reinterpret_cast<std::uint8_t*>(&request.value));
    arrivals_.push(arrival_ps, request);
    return tlm::TLM_COMPLETED;
  }
  arrivals_.push(arrival_ps, {&payload, port, address, 0, payload.get_data_length(), issue_ps});
  return tlm::TLM_ACCEPTED;
}

void L2::take_effect(Request& request, Ps at_ps) {
  if (crosses_pcie(request.address)) {
    to_host_memory(request, at_ps);
    return;
  }
  if (is_peer(request.address)) {
    to_peer_memory(request);
    return;
  }
  if (request.payload == nullptr) {
    ++counters_.stores;
    memory_.store(request.address, request.value, request.bytes);
    mark_written(request.address, request.past_copy);
    if (watch_ && request.address >= watch_begin_ && request.address < watch_end_)
      watch_(request.address, request.value, at_ps);
    if (auto it = words_.find(request.address); it != words_.end())
      changed(request.address, it->second, at_ps);
    return;
  }
  Access& access = access_of(*request.payload);
  if (access.kind == AccessKind::kFence) {
    Ps end_ps = request.issue_ps + access.least_ps;
    if (access.scope == Scope::kSys) {
      // Where writes to the host are pending, its own or another SM's, a system fence is queued
      // behind the host reads that are under way, for one round trip of its own at most.
      const Ps back_ps = access.host_stores || other_writes_pending(access.sm, at_ps)
                             ? host_read_back_ps(at_ps)
                             : 0;
      const Ps after_ps =
          static_cast<Ps>((spec_.load_cycles / 2 + spec_.fence_sys_after_read_cycles) * cycle_ps_);
      if (back_ps > at_ps)
        end_ps = std::max(end_ps, std::min(back_ps + after_ps, at_ps + host_round_trip_ps_));
    } else if (access.host_stores && host_poller_) {
      // The own write to a line that is being read is done only when the read is back.
      end_ps = std::max(end_ps, host_poller_(at_ps, request.payload->get_address()));
    }
    answer(request, end_ps - at_ps);
    return;
  }
  if (access.kind == AccessKind::kLoad) {
    ++counters_.loads;
    bool wrote = false;
    access.value = apply(access, request.address, request.bytes, wrote);
    const Ps round_trip = load_round_trip_ps(access, request.address);
    access.rounds = 1;
    answer(request, request.issue_ps + round_trip + jitter() - at_ps);
    return;
  }
  WordState& word = words_[request.address];
  if (access.kind == AccessKind::kPoll) {
    ++counters_.polls;
    ++access.rounds;
    access.value = memory_.load(request.address, request.bytes);
    if (access.counted(access.value) < access.threshold) {
      word.threshold.emplace(access.threshold, parked(request, at_ps));
      polled_[request.address] = &word;
      return;
    }
    const Ps round_trip = load_round_trip_ps(access, request.address);
    answer(request, round_trip - round_trip / 2 + jitter());
    return;
  }
  // Atomics on one word follow each other at the slice's own interval.
  const Ps start_ps = std::max(at_ps, word.busy_until_ps);
  word.busy_until_ps = start_ps + static_cast<Ps>(spec_.atomic_interval_cycles * cycle_ps_);
  ++counters_.atomics;
  bool wrote = false;
  if (access.kind == AccessKind::kSpin) {
    ++counters_.spins;
    ++access.rounds;
  }
  const std::uint64_t old = apply(access, request.address, request.bytes, wrote);
  if (access.kind == AccessKind::kSpin && !wrote) {
    const Parked waits = parked(request, at_ps);
    word.exact.emplace(Look{access.expected, waits.period_ps, at_ps % waits.period_ps}, waits);
    return;
  }
  access.value = old;
  const Ps round_trip = round_trip_ps(access, request.address);
  if (observer_ && observer_->wants_activity())
    observer_->on_activity({name(), "atomic", start_ps, word.busy_until_ps});
  // Waiters first: the answer may make the requester run on and change this word again.
  if (wrote) {
    mark_written(request.address);
    if (watch_ && request.address >= watch_begin_ && request.address < watch_end_)
      watch_(request.address, memory_.load(request.address, request.bytes), at_ps);
    changed(request.address, word, at_ps);
  }
  answer(request, start_ps - at_ps + round_trip - round_trip / 2 + jitter());
}

L2::Parked L2::parked(Request& request, Ps at_ps) const {
  Access& access = access_of(*request.payload);
  const Ps round_trip = access.way_ps + round_trip_ps(access, request.address);
  return {request, at_ps, std::max<Ps>(round_trip + access.retry_ps, 1)};
}

L2::Waiter L2::first_to_look(std::multimap<Look, Parked>& waiters, std::uint64_t value, Ps at_ps) {
  auto soonest = waiters.end();
  // Round trips to a word are near or far: few periods.
  for (auto of = waiters.lower_bound({value, 0, 0});
       of != waiters.end() && of->first.value == value;
       of = waiters.upper_bound({value, of->first.period_ps, std::numeric_limits<Ps>::max()})) {
    const Ps period_ps = of->first.period_ps;
    auto next = waiters.lower_bound({value, period_ps, at_ps % period_ps});
    if (next == waiters.end() || next->first.value != value || next->first.period_ps != period_ps)
      next = of;  // whoever's phase comes first after the period's end
    if (soonest == waiters.end() ||
        next_sample(next->second, at_ps) < next_sample(soonest->second, at_ps))
      soonest = next;
  }
  return soonest;
}

Ps L2::next_sample(const Parked& parked, Ps at_ps) {
  const Ps rounds =
      std::max<Ps>((at_ps - parked.sample_ps + parked.period_ps - 1) / parked.period_ps, 1);
  return parked.sample_ps + rounds * parked.period_ps;
}

void L2::resume(Parked& parked, Ps at_ps) {
  const Ps sample = next_sample(parked, at_ps);
  const auto skipped = (sample - parked.sample_ps) / parked.period_ps - 1;
  Access& access = access_of(*parked.request.payload);
  access.rounds += static_cast<std::uint32_t>(skipped);
  (access.kind == AccessKind::kSpin ? counters_.atomics : counters_.polls) += skipped;
  arrivals_.push(sample, parked.request);
}

void L2::changed(std::uint64_t address, WordState& word, Ps at_ps) {
  if (word.exact.empty() && word.threshold.empty()) return;
  const std::uint32_t bytes = word.exact.empty() ? word.threshold.begin()->second.request.bytes
                                                 : word.exact.begin()->second.request.bytes;
  const std::uint64_t value = memory_.load(address, bytes);
  // Of those that spin for this value only the one that looks first can succeed.
  const auto soonest = first_to_look(word.exact, value, at_ps);
  if (soonest != word.exact.end()) {
    resume(soonest->second, at_ps);
    word.exact.erase(soonest);
  }
  while (!word.threshold.empty() &&
         access_of(*word.threshold.begin()->second.request.payload).counted(value) >=
             word.threshold.begin()->first) {
    resume(word.threshold.begin()->second, at_ps);
    word.threshold.erase(word.threshold.begin());
  }
  if (word.threshold.empty()) polled_.erase(address);
}

tlm::tlm_sync_enum L2::from_device_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                      sc_core::sc_time& delay) {
  device_arrivals_.push(now_ps() + static_cast<Ps>(delay.value()), &payload);
  return tlm::TLM_ACCEPTED;
}

void L2::device_access(tlm::tlm_generic_payload& payload, Ps at_ps) {
  Access& access = access_of(payload);
  const std::uint64_t address = payload.get_address();
  // Of long payloads only the first bytes are real: they tell which version is there.
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(payload.get_streaming_width(), memory_.size() - address));
  if (access.kind == AccessKind::kStore) {
    ++counters_.device_writes;
    std::copy_n(payload.get_data_ptr(), bytes, memory_.data(address));
    wrote(address, bytes, at_ps);
  } else if (access.kind == AccessKind::kAtomic) {
    bool changed_it = false;
    access.value = apply(access, address, bytes, changed_it);
    wrote(address, bytes, at_ps);
  } else {
    ++counters_.device_reads;
    std::copy_n(memory_.data(address), bytes, payload.get_data_ptr());
  }
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  tlm::tlm_phase phase = tlm::BEGIN_RESP;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  from_device->nb_transport_bw(payload, phase, delay);
}

void L2::wrote(std::uint64_t address, std::uint32_t bytes, Ps at_ps) {
  for (std::uint64_t line = address / Placement::kLineBytes;
       line <= (address + bytes - 1) / Placement::kLineBytes; ++line)
    mark_written(line * Placement::kLineBytes);
  for (auto it = polled_.lower_bound(address);
       it != polled_.end() && it->first < address + bytes;) {
    const auto [word_address, word] = *it++;
    changed(word_address, *word, at_ps);
  }
}

void L2::to_host_memory(Request& request, Ps at_ps) {
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  if (request.payload == nullptr) {
    ++counters_.host_stores;
    host_acknowledged_ps_[request.sm] = at_ps + host_round_trip_ps_;
    posted_access_.sm = request.sm;
    posted_.set_address(request.address);
    posted_.set_data_length(request.bytes);
    const bool wide = request.bytes > 8;
    posted_.set_data_ptr(wide ? pushed_.at(request.value).data()
                              : reinterpret_cast<unsigned char*>(&request.value));
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    if (is_nic(request.address))
      to_device->nb_transport_fw(posted_, phase, delay);
    else
      to_host->nb_transport_fw(posted_, phase, delay);
    if (wide) pushed_.erase(request.value);
    return;
  }
  ++counters_.host_loads;
  access_of(*request.payload).port = request.port;
  // Volatile reads of one host line cannot share a response: each waits for the one before.
  Ps& free_ps = host_line_free_ps_[request.address / Placement::kLineBytes];
  const Ps start_ps = std::max(at_ps, free_ps);
  sc_core::sc_time delay = as_time(start_ps - now_ps());
  to_host->nb_transport_fw(*request.payload, phase, delay);
  // The link has annotated when the response will be back here.
  const Ps back_ps = now_ps() + static_cast<Ps>(delay.value());
  free_ps = back_ps;
  // Reads start nearly in order of issue; keep the list sorted for those that do not.
  auto place = host_reads_.end();
  while (place != host_reads_.begin() && std::prev(place)->start_ps > start_ps) --place;
  host_reads_.insert(place, {start_ps, back_ps, access_of(*request.payload).sm});
  while (!host_reads_.empty() && host_reads_.front().back_ps < now_ps()) host_reads_.pop_front();
}

void L2::to_peer_memory(Request& request) {
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  if (request.payload == nullptr) {
    ++counters_.peer_stores;
    posted_access_.sm = request.sm;
    posted_.set_address(request.address);
    posted_.set_data_length(request.bytes);
    posted_.set_data_ptr(reinterpret_cast<unsigned char*>(&request.value));
    to_peers->nb_transport_fw(posted_, phase, delay);
    return;
  }
  ++counters_.peer_loads;
  access_of(*request.payload).port = request.port;
  access_of(*request.payload).issue_ps = -1;  // the peer's L2 counts from when it gets there
  to_peers->nb_transport_fw(*request.payload, phase, delay);
}

tlm::tlm_sync_enum L2::answer_from_peer(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                        sc_core::sc_time& delay) {
  Request request{&payload, access_of(payload).port, 0, 0, 0, 0};
  answer(request,
         static_cast<Ps>(delay.value()) + static_cast<Ps>(spec_.load_cycles / 2 * cycle_ps_));
  return tlm::TLM_COMPLETED;
}

unsigned L2::transport_dbg(int, tlm::tlm_generic_payload& payload) {
  std::copy_n(payload.get_data_ptr(), payload.get_data_length(),
              memory_.data(payload.get_address()));
  return payload.get_data_length();
}

tlm::tlm_sync_enum L2::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                       sc_core::sc_time& delay) {
  Access& access = access_of(payload);
  const Ps back_ps = static_cast<Ps>(delay.value());
  const Ps half = static_cast<Ps>(spec_.load_cycles / 2 * cycle_ps_);
  ++access.rounds;
  if (access.kind == AccessKind::kPoll && access.counted(access.value) < access.threshold) {
    const Ps again_ps = now_ps() + back_ps + 2 * half + access.retry_ps;
    arrivals_.push(again_ps, {&payload, access.port, payload.get_address(), 0,
                              payload.get_data_length(), again_ps - half});
    return tlm::TLM_ACCEPTED;
  }
  Request request{&payload, access.port, 0, 0, 0, 0};
  answer(request, back_ps + half);
  return tlm::TLM_COMPLETED;
}

void L2::answer(Request& request, Ps back_ps) {
  tlm::tlm_phase phase = tlm::BEGIN_RESP;
  sc_core::sc_time delay = as_time(back_ps);
  request.payload->set_response_status(tlm::TLM_OK_RESPONSE);
  from_sms[request.port]->nb_transport_bw(*request.payload, phase, delay);
}

void L2::report(CounterSink& sink) const {
  const auto count = [&](const char* counter, std::uint64_t value) {
    sink.add(name(), counter, static_cast<double>(value), "count");
  };
  count("loads", counters_.loads + counters_.polls);
  count("of them polls", counters_.polls);
  count("stores", counters_.stores);
  count("atomics", counters_.atomics);
  count("of them spins", counters_.spins);
  count("accesses to the far partition", counters_.far);
  count("loads that missed", counters_.misses);
  count("host loads", counters_.host_loads);
  count("host stores", counters_.host_stores);
  if (counters_.peer_loads + counters_.peer_stores == 0) return;
  count("peer loads and atomics", counters_.peer_loads);
  count("peer stores", counters_.peer_stores);
}

}  // namespace marrow::gpu
