// A NIC: registers and DMA on PCIe, a port to the fabric, a requester and a responder.
#pragma once

#include <tlm_utils/simple_target_socket.h>

#include <cstdint>
#include <string>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/delay_line.h"
#include "models/nic/context_cache.h"
#include "models/nic/dma.h"
#include "models/nic/message_engine.h"
#include "models/nic/requester.h"
#include "models/nic/responder.h"
#include "models/nic/spec.h"
#include "models/wire/fabric.h"

namespace marrow::nic {

/// BlueFlame: half of a register's 512 B takes an entry at once.
constexpr std::uint32_t kMostPushedBytes = 256;

class Nic : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Nic> registers{"registers"};

  /// pcie: its link; ways: where that leads.
  Nic(sc_core::sc_module_name name, const NicSpec& spec, const DmaSpec& dma, const PcieSpec& pcie,
      const pcie::Switch& ways, pcie::DmaEngine::Detail detail, wire::Fabric& fabric,
      std::uint32_t port);
  void start(const Connections& connections);
  tlm_utils::simple_initiator_socket<DmaChannel>& memory() { return dma_.memory; }
  /// Why a queue stopped, or empty.
  const std::string& complaint() const { return requester_.complaint(); }
  void report(CounterSink& sink) const;
  void clear_counters();

 private:
  struct Store {
    std::uint64_t address = 0;
    std::uint64_t doorbell = 0;
    std::vector<std::uint8_t> pushed;  ///< empty: a doorbell
  };
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  void dma_done(Dma& dma, Ps at_ps);
  void received(wire::Message& message, Ps at_ps);

  ContextCache contexts_, translations_;
  DmaChannel dma_;
  MessageEngine engine_;
  Requester requester_;
  Responder responder_;
  DelayLine<Store> stores_;
};

}  // namespace marrow::nic
