// Host memory behind the root complex, coherent with the cores' caches.
#pragma once

#include <tlm_utils/simple_target_socket.h>

#include <algorithm>
#include <functional>
#include <span>
#include <systemc>
#include <tlm>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/memory.h"
#include "models/host/spec.h"

namespace marrow::host {

class HostMemory : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<HostMemory> from_root{"from_root"};

  HostMemory(sc_core::sc_module_name name, const HostSpec& spec);
  void reset(std::uint64_t bytes);
  /// Called for every device store that takes effect in [begin, end) (full addresses).
  void watch(std::uint64_t begin, std::uint64_t end,
             std::function<void(std::uint64_t address, std::uint64_t value, Ps at_ps)> callback);
  void fill(std::uint64_t begin, std::uint64_t end, std::uint8_t byte) {
    std::fill(memory_.data(begin - kHostBase), memory_.data(end - kHostBase), byte);
  }
  /// A core stores: visible to devices at once, and the line is now the core's.
  void core_store(std::uint64_t address, std::uint64_t value, std::uint32_t bytes);
  /// The same of up to a line's bytes.
  void core_store(std::uint64_t address, std::span<const std::uint8_t> bytes);
  /// A core looks at a word: when a device wrote the line, if it did since a core last looked at or
  /// wrote it; else -1.
  Ps core_look(std::uint64_t address);
  std::uint64_t load(std::uint64_t address, std::uint32_t bytes) const {
    return memory_.load(address - kHostBase, bytes);
  }

 private:
  static constexpr std::uint64_t kLineBytes = 64;
  struct Arrival {
    tlm::tlm_generic_payload* payload = nullptr;  ///< null: posted store
    std::uint64_t address = 0;
    std::uint64_t value = 0;
    std::uint32_t bytes = 0;
    Ps extra_ps = 0;
    std::vector<std::uint8_t> wide;  ///< posted store of more than 8 B
  };
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);
  unsigned transport_dbg(tlm::tlm_generic_payload& payload);
  void take_effect(Arrival& arrival, Ps at_ps);

  const HostSpec spec_;
  Memory memory_;
  struct Line {
    enum class Of : std::uint8_t { kShared, kOfCore, kOfDevice } of;  ///< who wrote it last
    Ps written_ps = 0;                                                ///< by a device
  };
  Line& line(std::uint64_t address) { return lines_[(address - kHostBase) / kLineBytes]; }
  void device_wrote(std::uint64_t address, Ps at_ps);
  std::vector<Line> lines_;
  std::uint64_t watch_begin_ = 0, watch_end_ = 0;
  std::function<void(std::uint64_t, std::uint64_t, Ps)> watch_;
  DelayLine<Arrival> arrivals_;
};

}  // namespace marrow::host
