#include "models/nic/responder.h"

#include <algorithm>
#include <utility>

namespace marrow::nic {

Responder::Responder(sc_core::sc_module_name name, const NicSpec& spec, DmaChannel& dma,
                     ContextCache& contexts, ContextCache& translations, wire::Fabric& fabric)
    : sc_module(name),
      spec_(spec),
      dma_(dma),
      contexts_(contexts),
      translations_(translations),
      fabric_(fabric) {}

void Responder::start(const Connections& connections) {
  to_ = connections;
  held_ps_ = 0;
  fetches_.assign(static_cast<std::size_t>(spec_.context_fetches), 0);
  connections_.clear();
  connections_.resize(connections.peers.size() * fabric_.ports());
  received_.assign(connections.peers.size(), 0);
  kept_.clear();
  kept_free_.clear();
  atomics_.clear();
  atomic_under_way_ = false;
}

std::size_t Responder::keep(const wire::Message& message) {
  if (kept_free_.empty()) {
    kept_.push_back(message);
    return kept_.size() - 1;
  }
  const std::size_t slot = kept_free_.back();
  kept_free_.pop_back();
  kept_[slot] = message;
  return slot;
}

Ps Responder::requested(const wire::Message& message, Ps at_ps) {
  held_ps_ = 0;
  take_up(connection(message), message, at_ps);
  return held_ps_;
}

Ps Responder::context_ps(Connection& from, const wire::Message& message, Ps at_ps) {
  if (!contexts_.look(static_cast<std::uint64_t>(message.from + 1) << 32 | message.queue)) {
    // What comes cannot be known beforehand: behind it all wait until its fetch has begun.
    Ps& free_ps = *std::min_element(fetches_.begin(), fetches_.end());
    held_ps_ = std::max(at_ps, free_ps);
    free_ps = from.known_ps = held_ps_ + ps_from_ns(spec_.miss_ns);
  }
  return std::max(at_ps, from.known_ps);
}

void Responder::take_up(Connection& from, const wire::Message& message, Ps at_ps) {
  using Kind = wire::Message::Kind;
  const Ps ready_ps = at_ps + ps_from_ns(spec_.receive_ns);
  if (fabric_.loses()) {
    if (message.psn < from.expected) {
      repeated(from, message, at_ps);
      return;
    }
    if (message.psn > from.expected) {
      ++counters_.dropped;
      if (!std::exchange(from.told, true)) {
        wire::Message missing = message;
        missing.psn = from.expected;
        answer(missing, Kind::kNak, ready_ps);
      }
      return;
    }
    ++from.expected;
    from.told = false;
  }
  if (from.stopped) {
    ++counters_.dropped;
    return;
  }
  carry_out(message, at_ps);
}

void Responder::repeated(Connection& from, const wire::Message& message, Ps at_ps) {
  using Kind = wire::Message::Kind;
  ++counters_.repeated;
  const Ps ready_ps = at_ps + ps_from_ns(spec_.receive_ns);
  if (from.stopped || message.kind == Kind::kRead) {
    carry_out(message, at_ps);  // a refusal that was lost, or a read: harmless to do again
  } else if (message.kind == Kind::kWrite) {
    answer(message, Kind::kAck, ready_ps);
  } else if (const auto it = from.atomics.find(message.psn); it != from.atomics.end()) {
    answer(message, Kind::kAtomicResponse, ready_ps, it->second);
  }  // else it is still under way and will be answered
}

void Responder::carry_out(const wire::Message& message, Ps at_ps) {
  ++counters_.requests;
  Ps ready_ps = context_ps(connection(message), message, at_ps) + ps_from_ns(spec_.receive_ns);
  if (!translations_.look(message.address / static_cast<std::uint64_t>(spec_.page_bytes)))
    ready_ps += ps_from_ns(spec_.miss_ns);
  // A request that finds its context does not pass one of its queue pair that does not.
  Ps& in_turn_ps = connection(message).ready_ps;
  in_turn_ps = ready_ps = std::max(ready_ps, in_turn_ps);
  if (!to_.registered(message.address, message.bytes)) {
    ++counters_.refused;
    connection(message).stopped = true;
    answer(message, wire::Message::Kind::kRefused, ready_ps);
    return;
  }
  using Kind = wire::Message::Kind;
  switch (message.kind) {
    case Kind::kWrite: {
      if (Flight* f = message.book->message(message.queue, message.index))
        f->received_ps = ready_ps;
      if (message.bytes > 0) {
        Dma& dma = dma_.take(Dma::Purpose::kPlace, message.queue, message.index);
        dma.count = keep(message);
        dma.set_head(message.value);
        dma.rest_ps = message.rest_ps;
        dma_.write(dma, ready_ps, message.address, message.bytes);
      }
      if (message.immediate) tell(message, ready_ps + ps_from_ns(spec_.cqe_ns));
      answer(message, Kind::kAck, ready_ps + ps_from_ns(spec_.ack_ns));
      return;
    }
    case Kind::kRead: {
      if (message.bytes == 0) {  // nothing to read: the answer alone
        answer(message, Kind::kReadResponse, ready_ps + ps_from_ns(spec_.ack_ns));
        return;
      }
      Dma& dma = dma_.take(Dma::Purpose::kSource, message.queue, message.index);
      dma.count = keep(message);
      dma_.read(dma, ready_ps, message.address, message.bytes);
      return;
    }
    case Kind::kAtomic:
      ++counters_.atomics;
      atomics_.push_back(keep(message));
      if (!atomic_under_way_) start_atomic(ready_ps);
      return;
    default:
      return;
  }
}

void Responder::tell(const wire::Message& message, Ps at_ps) {
  const Program& program = *to_.program;
  const std::uint64_t number = received_[message.queue]++;
  Dma& dma = dma_.take(Dma::Purpose::kReceived, message.queue, number);
  Completion cqe;
  cqe.opcode = CqeOpcode::kResponderWriteImm;
  cqe.owner = cqe_owner(number, program.words[program.nic.receives].entries);
  cqe.wqe_counter = static_cast<std::uint16_t>(number);
  cqe.qpn = message.queue;
  cqe.byte_count = static_cast<std::uint32_t>(message.bytes);
  encode_cqe(cqe, std::span<std::uint8_t, kCqeBytes>(dma.bytes.data(), kCqeBytes));
  const std::uint64_t address =
      to_.layout->address(program, program.nic.receives, message.queue, number);
  dma_.write(dma, at_ps, address / kCqeBytes * kCqeBytes, kCqeBytes);
}

void Responder::start_atomic(Ps at_ps) {
  atomic_under_way_ = true;
  const std::size_t slot = atomics_.front();
  Dma& dma = dma_.take(Dma::Purpose::kAtomicRead, kept_[slot].queue, kept_[slot].index);
  dma.count = slot;
  dma_.read(dma, at_ps, kept_[slot].address, 8);
}

void Responder::dma_done(Dma& dma, Ps at_ps) {
  const auto slot = static_cast<std::size_t>(dma.count);
  const wire::Message message = kept_[slot];
  switch (dma.purpose) {
    case Dma::Purpose::kPlace:
      if (Flight* f = message.book->message(message.queue, message.index)) f->placed_ps = at_ps;
      break;
    case Dma::Purpose::kSource:
      answer(message, wire::Message::Kind::kReadResponse, at_ps, dma.head(), message.bytes);
      break;
    case Dma::Purpose::kAtomicRead: {
      const std::uint64_t old = dma.head();
      Dma& write = dma_.take(Dma::Purpose::kAtomicWrite, message.queue, message.index);
      write.count = slot;
      std::uint64_t next = message.value;
      if (message.atomic == wire::Message::Atomic::kAdd) next += old;
      if (message.atomic == wire::Message::Atomic::kCompareSwap && old != message.compare)
        next = old;
      write.set_head(next);
      dma_.write(write, at_ps, message.address, 8);
      if (fabric_.loses()) {
        auto& atomics = connection(message).atomics;
        atomics[message.psn] = old;
        // No more than a queue's entries can be asked for again.
        if (atomics.size() > to_.program->depth) atomics.erase(atomics.begin());
      }
      answer(message, wire::Message::Kind::kAtomicResponse, at_ps + ps_from_ns(spec_.ack_ns), old);
      atomics_.pop_front();
      atomic_under_way_ = false;
      if (!atomics_.empty()) start_atomic(at_ps);
      return;  // the slot is the write's
    }
    case Dma::Purpose::kAtomicWrite:
      break;
    default:
      return;
  }
  kept_free_.push_back(slot);
}

void Responder::answer(const wire::Message& request, wire::Message::Kind kind, Ps at_ps,
                       std::uint64_t value, std::uint64_t bytes) {
  wire::Message message = request;
  message.kind = kind;
  message.from = request.to;
  message.to = request.from;
  message.value = value;
  message.bytes = bytes;
  fabric_.send(message, at_ps, at_ps);
}

void Responder::report(CounterSink& sink) const {
  const auto count = [&](const char* counter, std::uint64_t value) {
    sink.add(name(), counter, static_cast<double>(value), "count");
  };
  count("requests", counters_.requests);
  count("of them atomics", counters_.atomics);
  count("out of order", counters_.dropped);
  count("asked for again", counters_.repeated);
  count("refused", counters_.refused);
}

}  // namespace marrow::nic
