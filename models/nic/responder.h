// The NIC's receiving side: requests of other NICs become reads, writes and atomics of memory here.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <systemc>
#include <vector>

#include "models/common/delay_line.h"
#include "models/nic/context_cache.h"
#include "models/nic/dma.h"
#include "models/nic/requester.h"
#include "models/nic/spec.h"
#include "models/wire/fabric.h"

namespace marrow::nic {

/// Requests of a queue are carried out in order. A write is acknowledged once it has left for
/// memory; an atomic reads, then writes, one at a time, behind the writes that came before it.
class Responder : public sc_core::sc_module {
 public:
  Responder(sc_core::sc_module_name name, const NicSpec& spec, DmaChannel& dma,
            ContextCache& contexts, ContextCache& translations, wire::Fabric& fabric);
  void start(const Connections& connections);

  /// The engine takes up a request; returns when the next one may be, at the earliest.
  Ps requested(const wire::Message& message, Ps at_ps);
  void dma_done(Dma& dma, Ps at_ps);
  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  /// The far end of one of a sender's queues.
  struct Connection {
    std::uint64_t expected = 0;  ///< psn
    Ps known_ps = 0;             ///< its context is here
    bool told = false;           ///< the gap was reported already
    bool stopped = false;        ///< a request was refused: nothing more is carried out
    Ps ready_ps = 0;             ///< when the last request's context and address were known
    /// Answered atomics by psn: one that is asked for again is not done again.
    std::map<std::uint64_t, std::uint64_t> atomics;
  };

  void repeated(Connection& from, const wire::Message& message, Ps at_ps);
  void take_up(Connection& from, const wire::Message& message, Ps at_ps);
  void carry_out(const wire::Message& message, Ps at_ps);
  /// The connection is known from then on.
  Ps context_ps(Connection& from, const wire::Message& message, Ps at_ps);
  void start_atomic(Ps at_ps);
  void tell(const wire::Message& message, Ps at_ps);
  void answer(const wire::Message& request, wire::Message::Kind kind, Ps at_ps,
              std::uint64_t value = 0, std::uint64_t bytes = 0);
  std::size_t keep(const wire::Message& message);

  const NicSpec spec_;
  DmaChannel& dma_;
  ContextCache& contexts_;
  ContextCache& translations_;
  wire::Fabric& fabric_;
  Connections to_;
  Ps held_ps_ = 0;           ///< until then a request waits for a context fetch to begin
  std::vector<Ps> fetches_;  ///< context fetches: when each is free
  Connection& connection(const wire::Message& message) {
    return connections_[message.from * to_.peers.size() + message.queue];
  }
  std::vector<Connection> connections_;
  std::vector<std::uint64_t> received_;  ///< completions told, by queue
  std::vector<wire::Message> kept_;      ///< requests with accesses under way
  std::vector<std::size_t> kept_free_;
  std::deque<std::size_t> atomics_;  ///< waiting; the front is under way
  bool atomic_under_way_ = false;
  struct Counts {
    std::uint64_t requests = 0, atomics = 0, dropped = 0, repeated = 0, refused = 0;
  } counters_;
};

}  // namespace marrow::nic
