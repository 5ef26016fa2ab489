#include "models/gpu/front_end.h"

#include <algorithm>

namespace marrow::gpu {

FrontEnd::FrontEnd(sc_core::sc_module_name name, const GpuSpec& spec, pcie::Duplex& link,
                   Ps read_round_trip_ps, bool reaches_peer)
    : sc_module(name),
      spec_(spec),
      link_(link),
      read_round_trip_ps_(read_round_trip_ps),
      reaches_peer_(reaches_peer),
      stores_("stores", [this](Store& s, Ps) { store(s); }) {}

Ps& FrontEnd::free_ps(std::uint32_t stream) {
  if (stream >= streams_.size()) streams_.resize(stream + 1, 0);
  return streams_[stream];
}

Ps FrontEnd::fence_ps(Scope scope, bool stored_to_host) const {
  const auto l2_ps = [&](double cycles) {
    return static_cast<Ps>(cycles * 1000 / spec_.l2_clock_ghz);
  };
  switch (scope) {
    case Scope::kNone:
      return 0;
    case Scope::kCta:
      return static_cast<Ps>(spec_.fence_cta_cycles * 1000 / spec_.sm_clock_ghz);
    case Scope::kGpu:
      return l2_ps(stored_to_host ? spec_.fence_gpu_host_cycles : spec_.fence_gpu_cycles);
    case Scope::kSys:
      return l2_ps(stored_to_host && reaches_peer_ ? spec_.fence_sys_host_peer_cycles
                                                   : spec_.fence_sys_cycles);
  }
  return 0;
}

FrontEnd::Times FrontEnd::launch(std::uint32_t stream, const Kernel& kernel, Ps submitted_ps) {
  return start(stream, kernel,
               std::max(submitted_ps + ps_from_ns(spec_.kernel_start_ns), free_ps(stream)));
}

FrontEnd::Times FrontEnd::start(std::uint32_t stream, const Kernel& kernel, Ps started_ps) {
  Times times{started_ps, started_ps + kernel.work_ps, started_ps + kernel.work_ps};
  ++counters_.kernels;
  counters_.worked_ps += kernel.work_ps;
  const auto sm_ps = [&](double cycles) {
    return static_cast<Ps>(cycles * 1000 / spec_.sm_clock_ghz);
  };
  bool stored_to_host = false;
  if (kernel.tail != nullptr)
    for (const Step& step : *kernel.tail) switch (step.op) {
        case StepOp::kCompute:
          times.ended_ps += sm_ps(step.cycles);
          break;
        case StepOp::kFence:
          times.ended_ps += fence_ps(step.scope, stored_to_host);
          stored_to_host = false;
          break;
        case StepOp::kStore: {
          const std::uint64_t address = kernel.address(step);
          stored_to_host |= is_host(address);
          stores_.push(times.ended_ps, {address, kernel.done.value, step.bytes});
          times.ended_ps += sm_ps(spec_.store_cycles);
          break;
        }
        default:
          break;
      }
  const Ps through_ps = times.ended_ps + ps_from_ns(spec_.kernel_end_ns);
  stores_.push(through_ps, {kernel.done.address, kernel.done.value, 8});
  free_ps(stream) = through_ps;
  return times;
}

Ps FrontEnd::copy(std::uint32_t stream, bool to_host, std::uint64_t bytes, const DoneWord& done,
                  Ps submitted_ps) {
  ++counters_.copies;
  counters_.copied_bytes += bytes;
  Ps at_ps = std::max(submitted_ps + ps_from_ns(spec_.copy_start_ns), free_ps(stream)) +
             ps_from_ns(spec_.copy_turn_ns);
  if (to_host) {
    at_ps = link_.send(pcie::Way::kUp, at_ps, link_.train(pcie::TlpKind::kMemWr, bytes)).end_ps;
    // What waits for its own writes to the host to be done waits longer beside a peer.
    if (reaches_peer_) at_ps += fence_ps(Scope::kSys, true) - fence_ps(Scope::kSys, false);
  } else {
    const auto requests = static_cast<std::uint64_t>(
        (static_cast<double>(bytes) + link_.spec().mrrs_bytes - 1) / link_.spec().mrrs_bytes);
    link_.send(pcie::Way::kUp, at_ps,
               {pcie::TlpKind::kMemRd, std::max<std::uint64_t>(requests, 1), 0});
    at_ps = link_
                .send(pcie::Way::kDown, at_ps + read_round_trip_ps_,
                      link_.train(pcie::TlpKind::kCplD, bytes))
                .end_ps;
  }
  stores_.push(at_ps, {done.address, done.value, 8});
  free_ps(stream) = at_ps;
  return at_ps;
}

void FrontEnd::store(Store& store) {
  // Declared before the payload, which lets go of it when it dies.
  Access access;
  tlm::tlm_generic_payload payload;
  access.kind = AccessKind::kStore;
  payload.set_extension(&access);
  payload.set_command(tlm::TLM_WRITE_COMMAND);
  payload.set_address(store.address);
  payload.set_data_ptr(reinterpret_cast<unsigned char*>(&store.value));
  payload.set_data_length(store.bytes);
  payload.set_streaming_width(store.bytes);
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  memory->nb_transport_fw(payload, phase, delay);
  payload.clear_extension(&access);
}

void FrontEnd::report(CounterSink& sink) const {
  if (counters_.kernels + counters_.copies == 0) return;
  const auto count = [&](const char* counter, std::uint64_t value, const char* unit = "count") {
    sink.add(name(), counter, static_cast<double>(value), unit);
  };
  count("kernels", counters_.kernels);
  count("kernels' work", static_cast<std::uint64_t>(counters_.worked_ps) / 1000, "ns");
  count("copies", counters_.copies);
  count("copied", counters_.copied_bytes, "bytes");
}

}  // namespace marrow::gpu
