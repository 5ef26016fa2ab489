// The NIC's sending side: doorbells, the queue pairs' turns, work queue entries, payload, packets,
// acknowledgements and completions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <systemc>
#include <vector>

#include "models/common/delay_line.h"
#include "models/common/journey_book.h"
#include "models/common/program.h"
#include "models/common/queues.h"
#include "models/nic/context_cache.h"
#include "models/nic/dma.h"
#include "models/nic/message_engine.h"
#include "models/nic/mlx5.h"
#include "models/nic/spec.h"
#include "models/wire/fabric.h"

namespace marrow::nic {

/// What a run gives to a NIC.
struct Connections {
  const Program* program = nullptr;
  const QueueLayout* layout = nullptr;
  JourneyBook* book = nullptr;
  std::uint32_t port = 0;                       ///< own port of the fabric
  std::vector<std::uint32_t> peers;             ///< by queue: the port at the other end
  std::uint64_t gpu_bytes = 0, host_bytes = 0;  ///< registered memory

  /// Of a long payload only the start lies in modelled memory.
  bool registered(std::uint64_t address, std::uint64_t bytes) const {
    if (is_nic(address) || is_peer(address)) return false;
    const std::uint64_t base = is_host(address) ? kHostBase : 0;
    return address - base + std::min<std::uint64_t>(bytes, 8) <=
           (is_host(address) ? host_bytes : gpu_bytes);
  }
};

class Requester : public sc_core::sc_module {
 public:
  Requester(sc_core::sc_module_name name, const NicSpec& spec, DmaChannel& dma,
            MessageEngine& engine, ContextCache& contexts, ContextCache& translations,
            wire::Fabric& fabric);
  void start(const Connections& connections);

  /// A store into the register page arrives. Bytes beyond the first 8 are a pushed entry.
  void doorbell(std::uint64_t address, std::span<const std::uint8_t> bytes, Ps at_ps);
  void dma_done(Dma& dma, Ps at_ps);
  /// When a request leaves is known.
  void sent(const wire::Message& message, const wire::Fabric::Sent& way);
  /// The engine takes up an entry.
  void turn(const MessageEngine::Turn& turn, Ps at_ps);
  /// An acknowledgement or a response arrives at the port.
  void answered(const wire::Message& message, Ps at_ps);

  /// What is wrong with a queue that stopped, or empty.
  const std::string& complaint() const { return complaint_; }
  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  /// An entry that has been read and not yet been acknowledged.
  struct Sent {
    wire::Message message;
    std::uint64_t source = 0;  ///< own memory that the payload is gathered from
    std::uint64_t sink = 0;    ///< own memory for an answer's data
    bool asks = false;         ///< for a CQE
    bool gathers = false;      ///< the payload is not in the entry
    bool connects = false;     ///< a DC initiator turns to another destination
    bool ready = false;        ///< payload there
    bool done = false;         ///< acknowledged
    bool local = false;        ///< NOP: nothing to transmit
    Ps first_ps = 0, last_ps = 0;
    Ps left_ps = -1;  ///< last byte of the last transmission; -1: waits for the port
    Ps done_ps = 0;
    std::uint32_t retries = 0;
    Syndrome syndrome = Syndrome::kNone;  ///< the queue stops here
    Opcode opcode = Opcode::kNop;
  };
  struct Queue {
    std::uint64_t announced = 0, fetched = 0;
    bool fetching = false, waiting = false;
    std::uint32_t reads = 0;    ///< in a row, of this turn
    bool failed = false;        ///< nothing more is executed
    bool flushes = false;       ///< and all before it has completed
    bool armed = false;         ///< a timer is under way
    std::uint64_t flushed = 0;  ///< entries below need no flush
    Ps free_ps = 0;             ///< until the next message may be worked on
    Ps done_ps = 0;             ///< of the last entry that is done
    Ps seen_ps = 0;             ///< last doorbell was understood
    std::deque<Sent> sent;
    std::size_t next = 0;            ///< of `sent`: first that has not left
    std::vector<std::uint64_t> psn;  ///< next, by destination
    std::uint64_t cqes = 0;
    std::uint64_t completed = 0;  ///< entries below are told to be complete
    std::uint32_t dc_peer = 0xffffffff;
    std::vector<std::uint8_t> part;  ///< begin of an entry whose rest the next fetch brings
    std::map<std::uint64_t, std::vector<std::uint8_t>> early;  ///< pushed before its turn
  };
  struct Timer {
    std::uint32_t queue;
    std::uint32_t run;
  };

  void pushed(std::uint32_t q, std::span<const std::uint8_t> bytes, Ps at_ps);
  void announce(std::uint32_t q, std::uint32_t further, Ps at_ps);
  void activate(std::uint32_t q, Ps at_ps);
  void fetch(std::uint32_t q, Ps at_ps);
  void entries_here(std::uint32_t q, std::uint64_t index, std::span<const std::uint8_t> bytes,
                    Ps at_ps);
  void release_fetch(Ps at_ps);
  Sent* find(std::uint32_t q, std::uint64_t index);
  std::uint32_t execute(std::uint32_t q, std::uint64_t index, std::span<const std::uint8_t> bytes,
                        Ps at_ps);
  void drain(std::uint32_t q);
  void transmit(std::uint32_t q, Sent& sent);
  void arm(std::uint32_t q, Ps left_ps);
  /// An answer has come for it.
  void finish(std::uint32_t q, Sent& sent, Ps at_ps);
  /// Everything to that destination from psn on leaves again.
  void go_back(std::uint32_t q, std::uint32_t to, std::uint64_t psn, Ps at_ps);
  /// Completes what is done, in order.
  void settle(std::uint32_t q);
  void flush(std::uint32_t q);
  void complete(std::uint32_t q, const Sent& sent, Ps at_ps, Syndrome syndrome);
  void fail(std::uint32_t q, std::uint64_t index, Opcode opcode, Syndrome syndrome,
            const std::string& reason, Ps at_ps);
  void stop(std::uint32_t q, Sent& sent, Syndrome syndrome, const std::string& reason);
  void timeout(Timer& timer, Ps at_ps);
  Ps context_ps(std::uint32_t q, std::uint64_t address, Ps at_ps);

  const NicSpec spec_;
  DmaChannel& dma_;
  MessageEngine& engine_;
  ContextCache& contexts_;
  ContextCache& translations_;
  wire::Fabric& fabric_;
  Connections to_;
  std::vector<Queue> queues_;
  std::deque<std::uint32_t> turns_;  ///< queues that wait for a fetch
  std::uint32_t fetches_ = 0;        ///< reads whose entries are not yet all taken up
  std::uint32_t run_ = 0;            ///< timers of an earlier run mean nothing
  DelayLine<Timer> timers_;
  std::string complaint_;
  struct Counts {
    std::uint64_t doorbells = 0, pushed = 0, fetches = 0, entries = 0, messages = 0, cqes = 0;
    std::uint64_t repeated = 0, refused = 0;
  } counters_;
};

}  // namespace marrow::nic
