#include "models/nic/nic.h"

#include <algorithm>
#include <span>
#include <utility>

namespace marrow::nic {

namespace {

bool is_request(const wire::Message& message) {
  using Kind = wire::Message::Kind;
  return message.kind == Kind::kWrite || message.kind == Kind::kRead ||
         message.kind == Kind::kAtomic;
}

}  // namespace

Nic::Nic(sc_core::sc_module_name name, const NicSpec& spec, const DmaSpec& dma,
         const PcieSpec& pcie, const pcie::Switch& ways, pcie::DmaEngine::Detail detail,
         wire::Fabric& fabric, std::uint32_t port)
    : sc_module(name),
      contexts_(static_cast<std::size_t>(spec.contexts)),
      translations_(static_cast<std::size_t>(spec.translations)),
      dma_("dma", dma, pcie, ways, detail, [this](Dma& done, Ps at_ps) { dma_done(done, at_ps); }),
      engine_("engine", spec),
      requester_("requester", spec, dma_, engine_, contexts_, translations_, fabric),
      responder_("responder", spec, dma_, contexts_, translations_, fabric),
      stores_("stores", [this](Store& store, Ps at_ps) {
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&store.doorbell);
        const std::span<const std::uint8_t> doorbell(bytes, sizeof store.doorbell);
        requester_.doorbell(store.address, store.pushed.empty() ? doorbell : store.pushed, at_ps);
      }) {
  engine_.connect(
      [this](const MessageEngine::Turn& turn, Ps at_ps) { requester_.turn(turn, at_ps); },
      [this](const wire::Message& message, Ps at_ps) {
        return responder_.requested(message, at_ps);
      });
  registers.register_nb_transport_fw(this, &Nic::nb_transport_fw);
  fabric.attach(
      port, [this](wire::Message& message, Ps at_ps) { received(message, at_ps); },
      [this](const wire::Message& message, const wire::Fabric::Sent& way) {
        if (is_request(message)) requester_.sent(message, way);
      });
}

void Nic::start(const Connections& connections) {
  contexts_.clear();
  translations_.clear();
  dma_.reset();
  engine_.reset();
  requester_.start(connections);
  responder_.start(connections);
}

tlm::tlm_sync_enum Nic::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase&,
                                        sc_core::sc_time& delay) {
  Store store;
  store.address = payload.get_address();
  const std::uint32_t bytes = std::min(payload.get_data_length(), kMostPushedBytes);
  if (bytes > sizeof store.doorbell)
    store.pushed.assign(payload.get_data_ptr(), payload.get_data_ptr() + bytes);
  else
    std::copy_n(payload.get_data_ptr(), bytes, reinterpret_cast<std::uint8_t*>(&store.doorbell));
  stores_.push(now_ps() + static_cast<Ps>(delay.value()), std::move(store));
  return tlm::TLM_COMPLETED;
}

void Nic::dma_done(Dma& dma, Ps at_ps) {
  switch (dma.purpose) {
    case Dma::Purpose::kEntries:
    case Dma::Purpose::kGather:
    case Dma::Purpose::kCqe:
    case Dma::Purpose::kSink:
      requester_.dma_done(dma, at_ps);
      return;
    default:
      responder_.dma_done(dma, at_ps);
  }
}

void Nic::received(wire::Message& message, Ps at_ps) {
  if (is_request(message))
    engine_.receive(message);
  else
    requester_.answered(message, at_ps);
}

void Nic::report(CounterSink& sink) const {
  requester_.report(sink);
  responder_.report(sink);
  const auto count = [&](const char* counter, std::uint64_t value) {
    sink.add(name(), counter, static_cast<double>(value), "count");
  };
  count("DMA reads", dma_.reads());
  count("DMA writes", dma_.writes());
  count("context hits", contexts_.hits());
  count("context misses", contexts_.misses());
  count("translation hits", translations_.hits());
  count("translation misses", translations_.misses());
}

void Nic::clear_counters() {
  requester_.clear_counters();
  responder_.clear_counters();
  dma_.clear_counters();
  contexts_.clear_counters();
  translations_.clear_counters();
}

}  // namespace marrow::nic
