#include "models/gpu/polling_warp.h"

namespace marrow::gpu {

PollingWarp::PollingWarp(sc_core::sc_module_name name, const GpuSpec& gpu, const PcieSpec& pcie,
                         const HostSpec& host_spec, L2* l2, host::HostMemory* host)
    : Consumer(name), gpu_(gpu), pcie_(pcie), host_spec_(host_spec), l2_(l2), host_(host) {
  payload_.set_extension(&access_);
  payload_.set_data_ptr(reinterpret_cast<unsigned char*>(&bytes_));
  payload_.set_command(tlm::TLM_WRITE_COMMAND);
}

std::uint64_t PollingWarp::load(std::uint64_t address, std::uint32_t bytes) const {
  return is_host(address) ? host_->load(address, bytes) : l2_->memory().load(address, bytes);
}

Ps PollingWarp::store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                                 Ps issue_ps) {
  bytes_ = value;
  access_.kind = AccessKind::kStore;
  access_.sm = sm_;
  payload_.set_address(address);
  payload_.set_data_length(bytes);
  sc_core::sc_time delay =
      sc_core::sc_time::from_value(static_cast<std::uint64_t>(issue_ps - now_ps()));
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  memory->nb_transport_fw(payload_, phase, delay);
  return issue_ps + l2_->home_round_trip_ps(sm_, address) / 2;
}

void PollingWarp::watch(std::uint64_t begin, std::uint64_t end) {
  const auto callback = [this](std::uint64_t address, std::uint64_t, Ps at_ps) {
    announced(address, at_ps);
  };
  polls_host_ = is_host(begin);
  if (polls_host_) {
    host_->watch(begin, end, callback);
    l2_->set_host_poller(
        [this](Ps at_ps, std::uint64_t address) { return read_back_ps(at_ps, address); });
  } else {
    l2_->watch(begin, end, callback);
  }
}

Ps PollingWarp::poll_period_ps(std::uint64_t address) const {
  const Ps own = cycles_ps(program().consumer.poll_cycles);
  const Ps load = static_cast<Ps>(gpu_.load_cycles * 1000.0 / gpu_.l2_clock_ghz);
  return is_host(address)
             ? load + ps_from_ns(pcie_.round_trip_ns + host_spec_.device_written_ns) + own
             : load + own;
}

Ps PollingWarp::read_back_ps(Ps at_ps, std::uint64_t address) const {
  const double back_share = 1 - pcie_.request_share_ratio;
  const Ps ahead_ps = ps_from_ns(pcie_.round_trip_ns * pcie_.request_share_ratio);
  const Ps look_ps = look_under_way_ps(at_ps, ahead_ps, address);
  if (look_ps < 0) return 0;
  const Ps back_ps =
      look_ps + ps_from_ns(pcie_.round_trip_ns * back_share + host_spec_.device_written_ns);
  return back_ps > at_ps ? back_ps : 0;
}

Ps PollingWarp::poll_return_ps(std::uint64_t address) const {
  const Ps half = static_cast<Ps>(gpu_.load_cycles / 2 * 1000.0 / gpu_.l2_clock_ghz);
  return is_host(address)
             ? half + ps_from_ns(pcie_.round_trip_ns * (1 - pcie_.request_share_ratio) +
                                 host_spec_.device_written_ns)
             : half;
}

void PollingWarp::report(CounterSink& sink) const {
  Consumer::report(sink);
  if (!polls_host_) return;
  const auto reads = static_cast<double>(looks());
  sink.add("pcie.up", "TLPs", reads, "count");
  sink.add("pcie.up", "bytes", reads * pcie_.tlp_overhead_bytes, "bytes");
  sink.add("pcie.up", "MemRd (non-posted)", reads, "count");
  sink.add("pcie.down", "TLPs", reads, "count");
  sink.add("pcie.down", "bytes", reads * (pcie_.tlp_overhead_bytes + 8), "bytes");
  sink.add("pcie.down", "payload", reads * 8, "bytes");
  sink.add("pcie.down", "CplD (completions)", reads, "count");
}

}  // namespace marrow::gpu
