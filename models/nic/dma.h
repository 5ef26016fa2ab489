// The NIC's reads and writes of memory across PCIe.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/pcie/dma_engine.h"
#include "models/pcie/switch.h"

namespace marrow::nic {

/// One access that is under way. Purpose and numbers say to its owner what it is for.
struct Dma : tlm::tlm_generic_payload {
  enum class Purpose : std::uint8_t {
    kEntries,     ///< read of work queue entries
    kGather,      ///< read of a message's payload
    kCqe,         ///< write of a completion
    kPlace,       ///< responder: write of a payload
    kReceived,    ///< responder: write of the completion that tells of it
    kSource,      ///< responder: read for an RDMA READ
    kAtomicRead,  ///< responder: first half of an atomic
    kAtomicWrite,
    kSink  ///< requester: a read's data or an atomic's old value into own memory
  };
  Purpose purpose = Purpose::kEntries;
  std::uint32_t queue = 0;
  std::uint64_t index = 0, count = 0;
  Ps rest_ps = 0;                 ///< of a write: its last byte came so long after its first
  Ps first_ps = 0;                ///< of a read, from done() on: when its first byte is here
  Ps memory_ps = 0, last_ps = 0;  ///< the channel's own: when it is at the memory; all is here
  Access access;
  ~Dma() override { clear_extension(&access); }
  /// Entries, a CQE, or the first 8 bytes of a payload.
  std::array<std::uint8_t, 4096> bytes{};

  std::uint64_t head() const {
    std::uint64_t value = 0;
    std::copy_n(bytes.data(), 8, reinterpret_cast<std::uint8_t*>(&value));
    return value;
  }
  void set_head(std::uint64_t value) {
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&value), 8, bytes.data());
  }
};

/// Accesses leave in the order of their times. A memory's part in them is events, at the head's
/// time there; TLPs, links and tags are the engines' arithmetic. Messages' payloads are read by an
/// engine of their own, so that entries behind a long one are not held up; it takes the next one
/// when it has sent the last one's requests, so that what others send finds its place between them.
class DmaChannel : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<DmaChannel> memory{"memory"};

  /// done: a read's data are here, or a write took effect, at that time (not before now).
  DmaChannel(sc_core::sc_module_name name, const DmaSpec& dma, const PcieSpec& pcie,
             const pcie::Switch& ways, pcie::DmaEngine::Detail detail,
             std::function<void(Dma&, Ps at_ps)> done);
  void reset() { engine_.reset(), gathers_.reset(); }

  /// A free access, to be given to read() or write(). It is free again after done().
  Dma& take(Dma::Purpose purpose, std::uint32_t queue, std::uint64_t index);
  void read(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes);
  void write(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes);

  std::uint64_t reads() const { return reads_; }
  std::uint64_t writes() const { return writes_; }
  void clear_counters() { reads_ = writes_ = 0; }

 private:
  void plan(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes);
  void start(Dma* dma, Ps at_ps);
  void gather(Ps at_ps);
  void go(Dma& dma, Ps at_ps);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);

  const pcie::Switch& ways_;
  pcie::DmaEngine engine_, gathers_;
  std::function<void(Dma&, Ps)> done_;
  DelayLine<Dma*> planned_;   ///< null: the engine for payloads is free
  std::deque<Dma*> waiting_;  ///< for that engine
  bool awaited_ = false;
  std::vector<std::unique_ptr<Dma>> all_;
  std::vector<Dma*> free_;
  std::uint64_t reads_ = 0, writes_ = 0;
};

}  // namespace marrow::nic
