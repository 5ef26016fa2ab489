#include "models/nvlink/link.h"

#include <algorithm>
#include <cmath>

#include "models/common/delay_line.h"

namespace marrow::nvlink {

namespace {

Ps after_ps(const sc_core::sc_time& delay) { return now_ps() + static_cast<Ps>(delay.value()); }

sc_core::sc_time until(Ps at_ps) {
  return sc_core::sc_time::from_value(
      static_cast<std::uint64_t>(std::max<Ps>(at_ps - now_ps(), 0)));
}

bool loads(const Access& access) {
  return access.kind == AccessKind::kLoad || access.kind == AccessKind::kPoll;
}

std::uint64_t request_bytes(const tlm::tlm_generic_payload& payload) {
  return loads(*payload.get_extension<Access>()) ? 0 : payload.get_data_length();
}

const char* request_name(const Access& access) {
  return access.kind == AccessKind::kStore ? "store" : "request";
}

double packets_of(const NvlinkSpec& spec, std::uint64_t payload_bytes) {
  return std::max(1.0, std::ceil(static_cast<double>(payload_bytes) / spec.packet_bytes));
}

double bytes_of(const NvlinkSpec& spec, std::uint64_t payload_bytes) {
  const double sectors = std::ceil(static_cast<double>(payload_bytes) / spec.sector_bytes);
  const bool partial = sectors * spec.sector_bytes != static_cast<double>(payload_bytes);
  return sectors * spec.sector_bytes +
         packets_of(spec, payload_bytes) * spec.packet_overhead_bytes +
         (partial ? spec.partial_bytes : 0);
}

}  // namespace

double train_ns(const NvlinkSpec& spec, std::uint64_t payload_bytes) {
  return bytes_of(spec, payload_bytes) * 8 / (spec.rate_gbps * (1 - spec.link_layer_ratio));
}

Link::Link(sc_core::sc_module_name name, const NvlinkSpec& spec) : sc_module(name), spec_(spec) {
  out_.name = std::string(this->name()) + ".out";
  in_.name = std::string(this->name()) + ".in";
  from_gpu.register_nb_transport_fw(this, &Link::leaves);
  to_switch.register_nb_transport_bw(this, &Link::answer_arrives);
  from_switch.register_nb_transport_fw(this, &Link::arrives);
  to_gpu.register_nb_transport_bw(this, &Link::answer_leaves);
  from_gpu.register_transport_dbg(this, &Link::body_leaves);
  from_switch.register_transport_dbg(this, &Link::body_arrives);
}

void Link::reset(std::uint64_t seed) {
  out_.free_ps = in_.free_ps = 0;
  out_.copies = in_.copies = false;
  store_arrives_ps_.clear();
  random_ = Random(seed);
}

Ps Link::count(Direction& direction, std::uint64_t payload_bytes) {
  const Ps length_ps = ps_from_ns(train_ns(spec_, payload_bytes));
  direction.busy_ps += length_ps;
  direction.packets += static_cast<std::uint64_t>(packets_of(spec_, payload_bytes));
  direction.payload_bytes += payload_bytes;
  direction.bytes += static_cast<std::uint64_t>(bytes_of(spec_, payload_bytes));
  return length_ps;
}

Ps Link::send(Direction& direction, Ps at_ps, std::uint64_t payload_bytes, const char* what) {
  const Ps start_ps = std::max(at_ps, direction.free_ps);
  const Ps length_ps = count(direction, payload_bytes);
  direction.free_ps = start_ps + (direction.copies ? 2 : 1) * length_ps;
  if (observer_ && observer_->wants_activity())
    observer_->on_activity({direction.name.c_str(), what, start_ps, direction.free_ps});
  return start_ps;
}

Ps Link::copy_wait_ps() {
  // What waits varies evenly between nothing and twice the mean.
  const double bytes = 2 * random_.unit() * spec_.copy_queue_bytes;
  return ps_from_ns(train_ns(spec_, static_cast<std::uint64_t>(bytes)));
}

Ps Link::waits_out_ps(Ps at_ps) {
  return std::max<Ps>(out_.free_ps - at_ps, 0) + (out_.copies ? copy_wait_ps() : 0);
}

Ps Link::send_out(Ps at_ps, std::uint64_t payload_bytes, const char* what) {
  const Ps start_ps = send(out_, at_ps, payload_bytes, what);
  return out_.copies ? start_ps + copy_wait_ps() : start_ps;
}

Ps Link::send_in(Ps at_ps, std::uint64_t payload_bytes, const char* what) {
  return send(in_, at_ps, payload_bytes, what);
}

Ps Link::load_round_trip_ps(std::uint64_t payload_bytes) {
  count(out_, 0);
  count(in_, payload_bytes);
  return ps_from_ns(spec_.load_round_trip_ns + random_.around(spec_.load_spread_ns) +
                    train_ns(spec_, payload_bytes));
}

tlm::tlm_sync_enum Link::leaves(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                sc_core::sc_time& delay) {
  Access& access = *payload.get_extension<Access>();
  const double way_ns = access.kind == AccessKind::kStore ? spec_.store_ns
                        : loads(access)
                            ? spec_.load_round_trip_ns + random_.around(spec_.load_spread_ns)
                            : spec_.atomic_round_trip_ns;
  access.way_ps = ps_from_ns(way_ns);
  delay = until(send_out(after_ps(delay), request_bytes(payload), request_name(access)));
  return to_switch->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Link::arrives(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                 sc_core::sc_time& delay) {
  const Access& access = *payload.get_extension<Access>();
  const Ps start_ps = send_in(after_ps(delay), request_bytes(payload), request_name(access));
  const std::uint64_t asker = std::uint64_t{access.gpu} << 32 | access.sm;
  if (access.kind == AccessKind::kStore) {
    Ps& arrival_ps = store_arrives_ps_[asker];
    arrival_ps = std::max(arrival_ps, start_ps + access.way_ps);
    delay = until(arrival_ps);
  } else {
    const auto store = store_arrives_ps_.find(asker);
    const Ps after_store_ps = store == store_arrives_ps_.end() ? 0 : store->second;
    delay = until(std::max(start_ps + access.way_ps / 2, after_store_ps));
  }
  return to_gpu->nb_transport_fw(payload, phase, delay);
}

tlm::tlm_sync_enum Link::answer_leaves(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                       sc_core::sc_time& delay) {
  delay = until(send_out(after_ps(delay), payload.get_data_length(), "answer"));
  return from_switch->nb_transport_bw(payload, phase, delay);
}

tlm::tlm_sync_enum Link::answer_arrives(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                        sc_core::sc_time& delay) {
  Access& access = *payload.get_extension<Access>();
  const Ps start_ps = send_in(after_ps(delay), payload.get_data_length(), "answer");
  delay = until(start_ps + access.way_ps - access.way_ps / 2 +
                ps_from_ns(train_ns(spec_, payload.get_data_length())));
  access.way_ps = 0;
  return from_gpu->nb_transport_bw(payload, phase, delay);
}

void Link::clear_counters() {
  for (Direction* d : {&out_, &in_}) *d = {d->name, d->free_ps, d->copies};
}

void Link::report(CounterSink& sink) const {
  for (const Direction* d : {&out_, &in_}) {
    sink.add(d->name, "packets", static_cast<double>(d->packets), "count");
    sink.add(d->name, "bytes", static_cast<double>(d->bytes), "bytes");
    sink.add(d->name, "payload", static_cast<double>(d->payload_bytes), "bytes");
    sink.add(d->name, "busy", static_cast<double>(d->busy_ps) / 1000, "ns");
  }
}

}  // namespace marrow::nvlink
