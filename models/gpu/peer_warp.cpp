#include "models/gpu/peer_warp.h"

#include <algorithm>

namespace marrow::gpu {

namespace {

// The lanes of a warp load 16 B each.
constexpr std::uint64_t kRoundBytes = 32 * 16;
constexpr std::uint64_t kEntryBytes = 64;

}  // namespace

PeerWarp::PeerWarp(sc_core::sc_module_name name, const GpuSpec& spec, std::uint32_t gpu,
                   std::uint32_t lanes_gpu, L2* l2, nvlink::Link* link)
    : Consumer(name), spec_(spec), gpu_(gpu), lanes_gpu_(lanes_gpu), l2_(l2), link_(link) {
  payload_.set_extension(&access_);
  payload_.set_data_ptr(reinterpret_cast<unsigned char*>(&bytes_));
  payload_.set_command(tlm::TLM_WRITE_COMMAND);
}

std::uint64_t PeerWarp::load(std::uint64_t address, std::uint32_t bytes) const {
  return l2_->memory().load(peer_offset(address), bytes);
}

void PeerWarp::watch(std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t bytes = end - begin;
  l2_->watch(peer_offset(begin), peer_offset(begin) + bytes,
             [this](std::uint64_t offset, std::uint64_t, Ps at_ps) {
               announced(peer_address(gpu_, offset), at_ps);
             });
}

Ps PeerWarp::store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                              Ps issue_ps) {
  bytes_ = value;
  access_.kind = AccessKind::kStore;
  access_.sm = 0;
  payload_.set_address(peer_address(lanes_gpu_, address));
  payload_.set_data_length(bytes);
  sc_core::sc_time delay =
      sc_core::sc_time::from_value(static_cast<std::uint64_t>(issue_ps - now_ps()));
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  memory->nb_transport_fw(payload_, phase, delay);
  return issue_ps + l2_cycles_ps(spec_.load_cycles / 2) + link_->store_ps();
}

Ps PeerWarp::poll_period_ps(std::uint64_t) const {
  return l2_cycles_ps(spec_.load_cycles) + cycles_ps(program().consumer.poll_cycles);
}

Ps PeerWarp::poll_return_ps(std::uint64_t) const { return l2_cycles_ps(spec_.load_cycles / 2); }

Ps PeerWarp::read_ps(std::uint64_t bytes) const {
  return l2_cycles_ps(spec_.load_cycles) + link_->load_round_trip_ps(bytes);
}

Ps PeerWarp::entry_read_ps() { return read_ps(kEntryBytes); }

Ps PeerWarp::copy_ps(std::uint64_t bytes) const {
  // One round at a time: its stores into the own memory need what it has loaded.
  Ps total_ps = 0;
  for (std::uint64_t done = 0; done < bytes; done += kRoundBytes)
    total_ps +=
        read_ps(std::min(kRoundBytes, bytes - done)) + cycles_ps(program().consumer.round_cycles);
  return total_ps;
}

}  // namespace marrow::gpu
