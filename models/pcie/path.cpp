#include "models/pcie/path.h"

#include <algorithm>

namespace marrow::pcie {

namespace {

/// A train whose TLPs become ready slower than the link sends them leaves room between them; that
/// many pieces show others where.
constexpr std::uint64_t kPieces = 16;

Lane::Slot send(const Hop& hop, const Train& train, Ps first_ready_ps, Ps last_ready_ps) {
  const Ps spread_ps = last_ready_ps - first_ready_ps;
  if (train.tlps == 1 || spread_ps <= hop.link->length_ps(train))
    return hop.link->send(hop.way, first_ready_ps, train);
  const std::uint64_t pieces = std::min(train.tlps, kPieces);
  Lane::Slot all;
  Train rest = train;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const std::uint64_t left = pieces - i;
    const Train piece{train.kind, rest.tlps / left, rest.payload_bytes / left};
    rest.tlps -= piece.tlps;
    rest.payload_bytes -= piece.payload_bytes;
    const Ps ready_ps = first_ready_ps + spread_ps / static_cast<Ps>(pieces) * static_cast<Ps>(i);
    const Lane::Slot slot = hop.link->send(hop.way, ready_ps, piece);
    if (i == 0) all.begin_ps = slot.begin_ps;
    all.end_ps = std::max(all.end_ps, slot.end_ps);
  }
  return all;
}

}  // namespace

Arrival travel(const std::vector<Hop>& hops, const Flow& flow) {
  // When the first and the last TLP can be sent on, and when they are whole.
  Ps first_ps = flow.first_ready_ps, last_ps = flow.last_ready_ps;
  Arrival arrival{first_ps, last_ps, 0};
  for (const Hop& hop : hops) {
    if (hop.link) {
      const TlpKind kind = flow.train.kind;
      const Ps first_length_ps = hop.link->length_ps({kind, 1, flow.first_bytes});
      const Ps last_length_ps = hop.link->length_ps({kind, 1, flow.last_bytes});
      const Lane::Slot slot = send(hop, flow.train, first_ps, last_ps);
      arrival.first_ps = std::max(arrival.first_ps, slot.begin_ps + first_length_ps);
      arrival.last_ps = std::max({arrival.last_ps, slot.end_ps, last_ps + last_length_ps});
      if (arrival.sent_ps == 0) arrival.sent_ps = arrival.last_ps;
      first_ps = arrival.first_ps - (hop.cuts_through ? first_length_ps : 0);
      last_ps = arrival.last_ps - (hop.cuts_through ? last_length_ps : 0);
    }
    first_ps += hop.latency_ps;
    last_ps += hop.latency_ps;
    arrival.first_ps += hop.latency_ps;
    arrival.last_ps += hop.latency_ps;
  }
  return arrival;
}

}  // namespace marrow::pcie
