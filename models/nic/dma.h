// The NIC's reads and writes of memory across PCIe.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"

namespace marrow::nic {

/// One access that is under way. Purpose and numbers say to its owner what it is for.
struct Dma : tlm::tlm_generic_payload {
  enum class Purpose : std::uint8_t {
    kEntries,     ///< read of work queue entries
    kGather,      ///< read of a message's payload
    kCqe,         ///< write of a completion
    kPlace,       ///< responder: write of a payload
    kSource,      ///< responder: read for an RDMA READ
    kAtomicRead,  ///< responder: first half of an atomic
    kAtomicWrite,
    kSink  ///< requester: a read's data or an atomic's old value into own memory
  };
  Purpose purpose = Purpose::kEntries;
  std::uint32_t queue = 0;
  std::uint64_t index = 0, count = 0;
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

class DmaChannel : public sc_core::sc_module {
 public:
  tlm_utils::simple_initiator_socket<DmaChannel> memory{"memory"};

  /// done: a read's data are here, or a write took effect, at that time (not before now).
  DmaChannel(sc_core::sc_module_name name, std::function<void(Dma&, Ps at_ps)> done);

  /// A free access, to be given to read() or write(). It is free again after done().
  Dma& take(Dma::Purpose purpose, std::uint32_t queue, std::uint64_t index);
  void read(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes);
  void write(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes);

  std::uint64_t reads() const { return reads_; }
  std::uint64_t writes() const { return writes_; }
  void clear_counters() { reads_ = writes_ = 0; }

 private:
  void go(Dma& dma, Ps at_ps, std::uint64_t address, std::uint64_t bytes);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);

  std::function<void(Dma&, Ps)> done_;
  std::vector<std::unique_ptr<Dma>> all_;
  std::vector<Dma*> free_;
  std::uint64_t reads_ = 0, writes_ = 0;
};

}  // namespace marrow::nic
