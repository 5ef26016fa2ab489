#include "models/nic/dma.h"

namespace marrow::nic {

DmaChannel::DmaChannel(sc_core::sc_module_name name, const DmaSpec& dma, const PcieSpec& pcie,
                       const pcie::Switch& ways, pcie::DmaEngine::Detail detail,
                       std::function<void(Dma&, Ps)> done)
    : sc_module(name),
      ways_(ways),
      engine_(dma, pcie, detail),
      gathers_(dma, pcie, detail),
      done_(std::move(done)),
      planned_("planned", [this](Dma*& planned, Ps at_ps) { start(planned, at_ps); }) {
  memory.register_nb_transport_bw(this, &DmaChannel::nb_transport_bw);
}

Dma& DmaChannel::take(Dma::Purpose purpose, std::uint32_t queue, std::uint64_t index) {
  if (free_.empty()) {
    Dma& fresh = *all_.emplace_back(std::make_unique<Dma>());
    fresh.set_extension(&fresh.access);
    fresh.access.device = true;
    fresh.set_data_ptr(fresh.bytes.data());
    free_.push_back(&fresh);
  }
  Dma& dma = *free_.back();
  free_.pop_back();
  dma.purpose = purpose;
  dma.queue = queue;
  dma.index = index;
  dma.rest_ps = 0;
  return dma;
}

void DmaChannel::read(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes) {
  ++reads_;
  dma.access.kind = AccessKind::kLoad;
  dma.set_command(tlm::TLM_READ_COMMAND);
  plan(dma, at_ps, address, bytes);
}

void DmaChannel::write(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes) {
  ++writes_;
  dma.access.kind = AccessKind::kStore;
  dma.set_command(tlm::TLM_WRITE_COMMAND);
  plan(dma, at_ps, address, bytes);
}

void DmaChannel::plan(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes) {
  const bool real = dma.purpose == Dma::Purpose::kEntries || dma.purpose == Dma::Purpose::kCqe ||
                    dma.purpose == Dma::Purpose::kReceived;
  dma.set_address(address);
  dma.set_data_length(static_cast<unsigned>(bytes));
  dma.set_streaming_width(static_cast<unsigned>(real ? bytes : std::min<std::uint64_t>(bytes, 8)));
  planned_.push(std::max(at_ps, now_ps()), &dma);
}

void DmaChannel::start(Dma* dma, Ps at_ps) {
  if (dma != nullptr && dma->purpose != Dma::Purpose::kGather) {
    go(*dma, at_ps);
    return;
  }
  if (dma != nullptr)
    waiting_.push_back(dma);
  else
    awaited_ = false;
  gather(at_ps);
}

void DmaChannel::gather(Ps at_ps) {
  while (!waiting_.empty() && !awaited_) {
    if (gathers_.free_ps() > at_ps) {
      awaited_ = true;
      planned_.push(gathers_.free_ps(), nullptr);
      return;
    }
    Dma& next = *waiting_.front();
    waiting_.pop_front();
    go(next, at_ps);
  }
}

void DmaChannel::go(Dma& dma, Ps at_ps) {
  const pcie::Path& path = ways_.path(dma.get_address());
  const std::uint64_t address = dma.get_address(), bytes = dma.get_data_length();
  if (dma.is_write()) {
    dma.memory_ps = engine_.write(path, at_ps - dma.rest_ps, address, bytes, dma.rest_ps).placed_ps;
  } else {
    pcie::DmaEngine& engine = dma.purpose == Dma::Purpose::kGather ? gathers_ : engine_;
    const pcie::ReadTimes times = engine.read(path, at_ps, address, bytes);
    dma.memory_ps = times.memory_ps;
    dma.first_ps = times.first_ps;
    dma.last_ps = times.last_ps;
  }
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = sc_core::sc_time::from_value(
      static_cast<std::uint64_t>(std::max<Ps>(dma.memory_ps - now_ps(), 0)));
  memory->nb_transport_fw(dma, phase, delay);
}

tlm::tlm_sync_enum DmaChannel::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                               sc_core::sc_time& delay) {
  Dma& dma = static_cast<Dma&>(payload);
  // What the memory itself took.
  const Ps there_ps = now_ps() + static_cast<Ps>(delay.value());
  const Ps spent_ps = std::max<Ps>(there_ps - dma.memory_ps, 0);
  dma.first_ps += spent_ps;
  done_(dma, dma.is_write() ? there_ps : dma.last_ps + spent_ps);
  free_.push_back(&dma);
  return tlm::TLM_COMPLETED;
}

}  // namespace marrow::nic
