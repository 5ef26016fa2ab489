#include "models/host/memory.h"

#include <algorithm>

namespace marrow::host {

HostMemory::HostMemory(sc_core::sc_module_name name, const HostSpec& spec)
    : sc_module(name),
      spec_(spec),
      arrivals_("arrivals", [this](Arrival& arrival, Ps at_ps) { take_effect(arrival, at_ps); }) {
  from_root.register_transport_dbg(this, &HostMemory::transport_dbg);
  from_root.register_nb_transport_fw(this, &HostMemory::nb_transport_fw);
}

void HostMemory::reset(std::uint64_t bytes) {
  memory_.resize(bytes);
  lines_.assign(bytes / kLineBytes + 1, Line{Line::Of::kShared});
  watch_ = nullptr;
  watch_begin_ = watch_end_ = 0;
}

void HostMemory::watch(std::uint64_t begin, std::uint64_t end,
                       std::function<void(std::uint64_t, std::uint64_t, Ps)> callback) {
  watch_begin_ = begin;
  watch_end_ = end;
  watch_ = std::move(callback);
}

void HostMemory::core_store(std::uint64_t address, std::uint64_t value, std::uint32_t bytes) {
  memory_.store(address - kHostBase, value, bytes);
  line(address).of = Line::Of::kOfCore;
}

void HostMemory::core_store(std::uint64_t address, std::span<const std::uint8_t> bytes) {
  std::copy(bytes.begin(), bytes.end(), memory_.data(address - kHostBase));
  line(address).of = Line::Of::kOfCore;
}

Ps HostMemory::core_look(std::uint64_t address) {
  Line& looked = line(address);
  if (looked.of != Line::Of::kOfDevice) return -1;
  looked.of = Line::Of::kShared;
  return looked.written_ps;
}

void HostMemory::device_wrote(std::uint64_t address, Ps at_ps) {
  // A core may have looked since the write was sent on its way.
  line(address) = {Line::Of::kOfDevice, at_ps};
  if (watch_ && address >= watch_begin_ && address < watch_end_)
    watch_(address, memory_.load(address - kHostBase, 8), at_ps);
}

tlm::tlm_sync_enum HostMemory::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                               sc_core::sc_time& delay) {
  const Access& access = *payload.get_extension<Access>();
  const std::uint64_t address = payload.get_address();
  const Ps at_ps = now_ps() + static_cast<Ps>(delay.value());
  if (access.kind == AccessKind::kStore && access.device) {
    line(address).of = Line::Of::kOfDevice;
    arrivals_.push(at_ps, {&payload, address, 0, payload.get_streaming_width(), 0, {}});
    return tlm::TLM_ACCEPTED;
  }
  if (access.kind == AccessKind::kStore) {
    Arrival arrival{nullptr, address, 0, payload.get_data_length(), 0, {}};
    if (arrival.bytes > 8)
      arrival.wide.assign(payload.get_data_ptr(), payload.get_data_ptr() + arrival.bytes);
    else
      std::copy_n(payload.get_data_ptr(), arrival.bytes,
                  reinterpret_cast<std::uint8_t*>(&arrival.value));
    line(address).of = Line::Of::kOfDevice;
    arrivals_.push(at_ps, arrival);
    return tlm::TLM_COMPLETED;
  }
  // A line that a core wrote last is fetched out of that core's cache.
  const Ps extra_ps = line(address).of == Line::Of::kOfCore ? ps_from_ns(spec_.snoop_ns) : 0;
  arrivals_.push(at_ps, {&payload, address, 0, payload.get_data_length(), extra_ps, {}});
  delay += sc_core::sc_time::from_value(static_cast<std::uint64_t>(extra_ps));
  return tlm::TLM_ACCEPTED;
}

unsigned HostMemory::transport_dbg(tlm::tlm_generic_payload& payload) {
  std::copy_n(payload.get_data_ptr(), payload.get_data_length(),
              memory_.data(payload.get_address() - kHostBase));
  return payload.get_data_length();
}

void HostMemory::take_effect(Arrival& arrival, Ps at_ps) {
  const std::uint64_t offset = arrival.address - kHostBase;
  if (arrival.payload == nullptr) {
    if (arrival.wide.empty())
      memory_.store(offset, arrival.value, arrival.bytes);
    else
      std::copy(arrival.wide.begin(), arrival.wide.end(), memory_.data(offset));
    device_wrote(arrival.address, at_ps);
    return;
  }
  Access& access = *arrival.payload->get_extension<Access>();
  tlm::tlm_phase phase = tlm::BEGIN_RESP;
  sc_core::sc_time delay =
      sc_core::sc_time::from_value(static_cast<std::uint64_t>(arrival.extra_ps));
  if (access.device && access.kind != AccessKind::kAtomic) {
    const auto bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(arrival.payload->get_streaming_width(), memory_.size() - offset));
    if (access.kind == AccessKind::kStore) {
      std::copy_n(arrival.payload->get_data_ptr(), bytes, memory_.data(offset));
      device_wrote(arrival.address, at_ps);
    } else {
      std::copy_n(memory_.data(offset), bytes, arrival.payload->get_data_ptr());
    }
    from_root->nb_transport_bw(*arrival.payload, phase, delay);
    return;
  }
  const std::uint64_t old = memory_.load(offset, arrival.bytes);
  if (access.kind == AccessKind::kAtomic) {
    std::uint64_t next = access.value;
    if (access.atomic == AtomicOp::kAdd) next = old + access.value;
    if (access.atomic == AtomicOp::kMax) next = std::max(old, access.value);
    memory_.store(offset, next, arrival.bytes);
    device_wrote(arrival.address, at_ps);
  }
  access.value = old;
  from_root->nb_transport_bw(*arrival.payload, phase, delay);
}

}  // namespace marrow::host
