// A device's DMA engine: splits transfers into TLPs and finds out when their bytes are where they
// go. Arithmetic on reservations: no event, no cost per TLP.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "models/pcie/path.h"
#include "models/pcie/spec.h"

namespace marrow::pcie {

struct ReadTimes {
  Ps memory_ps = 0;  ///< the first request is at the memory
  Ps first_ps = 0;   ///< the first byte can be used in the device
  Ps last_ps = 0;    ///< all can
};

struct WriteTimes {
  Ps sent_ps = 0;    ///< the last byte has left the device
  Ps placed_ps = 0;  ///< the last byte is in the memory
};

/// Stages of a transfer, each serving one after the other:
///
/// - read: requests of at most MRRS, cut at its multiples (so none crosses 4 KiB), as tags and
///   outstanding bytes allow; completions; then, once all have come, the bus that delivers the data
///   inside the device;
/// - write: the bus that gathers the data inside the device, and once it has all, MemWr TLPs cut at
///   multiples of MPS.
///
/// A bus of 0 ns a beat stores nothing: data go on as they come.
///
/// Transfers are handed over in the order of calls; `at_ps` may lie ahead of simulated time.
class DmaEngine {
 public:
  enum class Detail : std::uint8_t {
    kTrains,  ///< a transfer is a train each way: a cost that does not grow with its size
    kTlps     ///< each TLP by itself
  };
  DmaEngine(const DmaSpec& dma, const PcieSpec& pcie, Detail detail = Detail::kTrains);
  void reset();
  /// Until then it is busy with the requests of the reads it has been handed.
  Ps free_ps() const { return request_free_ps_; }

  /// bytes: at least 1.
  ReadTimes read(const Path& path, Ps at_ps, std::uint64_t address, std::uint64_t bytes);
  /// rest_ps: what is written comes in evenly, its last byte so long after at_ps.
  WriteTimes write(const Path& path, Ps at_ps, std::uint64_t address, std::uint64_t bytes,
                   Ps rest_ps = 0);

 private:
  struct Posted {
    Ps sent_ps, placed_ps;
    const void* to = nullptr;  ///< the last link of its path: order holds on one way only
  };
  struct Data {
    Ps memory_ps, first_ps, last_ps;
  };

  std::uint64_t window(std::uint64_t bytes) const;
  /// The block size at whose multiples a request's data are cut into completions.
  std::uint64_t completion_unit(std::uint64_t request_bytes, bool behind_write) const;
  Data read_trains(const Path& path, Ps at_ps, std::uint64_t address, std::uint64_t bytes);
  Data read_tlps(const Path& path, Ps at_ps, std::uint64_t address, std::uint64_t bytes);
  /// The time of a request at the memory, no earlier than the writes that left before it.
  Ps behind_writes_ps(const Path& path, Ps sent_ps, Ps there_ps) const;
  Ps take_in(Ps first_ps, Ps last_ps, std::uint64_t completions);

  const DmaSpec dma_;
  const PcieSpec pcie_;
  const Detail detail_;
  const std::uint64_t mrrs_;
  Ps request_free_ps_ = 0, intake_free_ps_ = 0, deliver_free_ps_ = 0;
  Ps gather_free_ps_ = 0, write_sent_ps_ = 0;
  std::deque<Ps> done_ps_;     ///< when the last requests' tags come back, at most a window of them
  std::vector<Ps> tag_ps_;     ///< of the read at hand: when tags are taken, then when they return
  std::deque<Posted> posted_;  ///< the last writes
  bool behind_write_ = false;  ///< the last transfer handed over was a write
};

}  // namespace marrow::pcie
