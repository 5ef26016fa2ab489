#include "models/pcie/duplex.h"

#include <algorithm>
#include <cmath>

namespace marrow::pcie {

namespace {

constexpr const char* kBlocks[] = {"pcie.up", "pcie.down"};  // of counters
constexpr const char* kKinds[] = {"MemWr", "MemRd", "CplD"};

std::size_t index(Way way) { return static_cast<std::size_t>(way); }

}  // namespace

double raw_bytes_per_second(int generation, int lanes) {
  constexpr double kGigatransfers[] = {0, 2.5, 5, 8, 16, 32, 64};
  const double encoding = generation <= 2 ? 8.0 / 10 : generation <= 5 ? 128.0 / 130 : 236.0 / 256;
  return kGigatransfers[generation] * 1e9 * lanes * encoding / 8;
}

Duplex::Duplex(const PcieSpec& spec)
    : spec_(spec),
      ps_per_byte_(
          1e12 /
          raw_bytes_per_second(static_cast<int>(spec.generation), static_cast<int>(spec.lanes)) /
          (1 - spec.dllp_ratio)) {}

void Duplex::reset() { lanes_[0].reset(), lanes_[1].reset(); }

Train Duplex::train(TlpKind kind, std::uint64_t payload_bytes) const {
  const auto mps_bytes = static_cast<std::uint64_t>(spec_.mps_bytes);
  return {kind, std::max<std::uint64_t>(1, (payload_bytes + mps_bytes - 1) / mps_bytes),
          payload_bytes};
}

Ps Duplex::length_ps(const Train& train) const {
  const double bytes = static_cast<double>(train.payload_bytes) +
                       static_cast<double>(train.tlps) * overhead_bytes(train.kind);
  return static_cast<Ps>(std::llround(bytes * ps_per_byte_));
}

Lane::Slot Duplex::send(Way way, Ps at_ps, const Train& train) {
  const Ps length = length_ps(train);
  const Lane::Slot slot = lanes_[index(way)].reserve(at_ps, length);
  // Each TLP is acknowledged; requests give their credits back besides. Completions have no credits
  // to give back: a requester takes in all that it asked for.
  const double dllp_bytes =
      spec_.ack_bytes + (train.kind == TlpKind::kCplD ? 0 : spec_.credit_bytes);
  answer(way == Way::kUp ? Way::kDown : Way::kUp, slot, train.tlps, dllp_bytes);
  Traffic& traffic = traffic_[index(way)];
  traffic.busy_ps += length;
  traffic.tlps += train.tlps;
  traffic.payload_bytes += train.payload_bytes;
  traffic.bytes +=
      train.payload_bytes +
      static_cast<std::uint64_t>(static_cast<double>(train.tlps) * overhead_bytes(train.kind));
  if (observer_ && observer_->wants_activity())
    observer_->on_activity({blocks_[index(way)], kKinds[static_cast<std::size_t>(train.kind)],
                            slot.begin_ps, slot.end_ps});
  return slot;
}

void Duplex::answer(Way way, const Lane::Slot& slot, std::uint64_t tlps, double dllp_bytes) {
  // A long train is answered all along, not at its end.
  constexpr std::uint64_t kPieces = 16;
  const auto pieces = static_cast<Ps>(std::min(tlps, kPieces));
  const Ps length = std::llround(static_cast<double>(tlps) * dllp_bytes * ps_per_byte_) / pieces;
  if (length == 0) return;
  for (Ps i = 1; i <= pieces; ++i)
    hold(way, slot.begin_ps + (slot.end_ps - slot.begin_ps) / pieces * i, length);
}

void Duplex::report(Way way, CounterSink& sink) const {
  const char* const block = kBlocks[index(way)];
  const Traffic& traffic = traffic_[index(way)];
  sink.add(block, "TLPs", static_cast<double>(traffic.tlps), "count");
  sink.add(block, "bytes", static_cast<double>(traffic.bytes), "bytes");
  sink.add(block, "payload", static_cast<double>(traffic.payload_bytes), "bytes");
  sink.add(block, "busy", static_cast<double>(traffic.busy_ps) / 1000, "ns");
}

}  // namespace marrow::pcie
