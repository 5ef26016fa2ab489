// A link's two directions as pure arithmetic: TLPs in bytes, shared by everybody on the link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "models/common/observer.h"
#include "models/pcie/lane.h"
#include "models/pcie/spec.h"

namespace marrow::pcie {

/// Raw rate of a link in bytes a second, encoding taken off (PCI Express Base Specification:
/// 8b/10b to Gen2, 128b/130b to Gen5, FLIT with 236 of 256 bytes for TLPs in Gen6).
/// generation: 1 to 6. lanes: 1 to 16.
double raw_bytes_per_second(int generation, int lanes);

/// Up is from the device to the root complex.
enum class Way : std::uint8_t { kUp, kDown };

enum class TlpKind : std::uint8_t { kMemWr, kMemRd, kCplD };

/// TLPs of one kind that follow each other.
struct Train {
  TlpKind kind = TlpKind::kMemWr;
  std::uint64_t tlps = 1;
  std::uint64_t payload_bytes = 0;  ///< of all of them
};

class Duplex {
 public:
  explicit Duplex(const PcieSpec& spec);
  void reset();

  /// `payload_bytes` in as few TLPs as MPS allows, one at least.
  Train train(TlpKind kind, std::uint64_t payload_bytes) const;
  /// Reserves `way` for a train from at_ps on, and the other way for the DLLPs that answer it.
  Lane::Slot send(Way way, Ps at_ps, const Train& train);
  /// Takes one direction for a time in which its sender can send nothing.
  void hold(Way way, Ps at_ps, Ps length_ps) {
    lanes_[static_cast<std::size_t>(way)].reserve(at_ps, length_ps);
  }
  /// Time that a train occupies one direction.
  Ps length_ps(const Train& train) const;
  const PcieSpec& spec() const { return spec_; }

  void report(Way way, CounterSink& sink) const;
  void clear_counters() { traffic_[0] = traffic_[1] = {}; }
  /// name: of the link; its directions are told as name.up and name.down.
  void set_observer(Observer* observer, const std::string& name = "") {
    observer_ = observer;
    blocks_[0] = name + ".up";
    blocks_[1] = name + ".down";
  }

 private:
  struct Traffic {
    std::uint64_t tlps = 0, bytes = 0, payload_bytes = 0;
    Ps busy_ps = 0;
  };
  void answer(Way way, const Lane::Slot& slot, std::uint64_t tlps, double dllp_bytes);
  double overhead_bytes(TlpKind kind) const {
    return kind == TlpKind::kCplD ? spec_.completion_overhead_bytes : spec_.tlp_overhead_bytes;
  }

  const PcieSpec spec_;
  double ps_per_byte_;
  Lane lanes_[2];
  Traffic traffic_[2];
  Observer* observer_ = nullptr;
  std::string blocks_[2];
};

}  // namespace marrow::pcie
