#include "models/nic/requester.h"

#include <algorithm>
#include <string>
#include <utility>

namespace marrow::nic {

Requester::Requester(sc_core::sc_module_name name, const NicSpec& spec, DmaChannel& dma,
                     MessageEngine& engine, ContextCache& contexts, ContextCache& translations,
                     wire::Fabric& fabric)
    : sc_module(name),
      spec_(spec),
      dma_(dma),
      engine_(engine),
      contexts_(contexts),
      translations_(translations),
      fabric_(fabric),
      timers_("timers", [this](Timer& timer, Ps at_ps) { timeout(timer, at_ps); }) {}

void Requester::start(const Connections& connections) {
  to_ = connections;
  queues_.clear();
  queues_.resize(connections.peers.size());
  for (Queue& queue : queues_) queue.psn.assign(fabric_.ports(), 0);
  ++run_;
  turns_.clear();
  fetches_ = 0;
  complaint_.clear();
}

void Requester::doorbell(std::uint64_t address, std::span<const std::uint8_t> bytes, Ps at_ps) {
  ++counters_.doorbells;
  const Program& program = *to_.program;
  const Word& word = program.words[program.nic.doorbell];
  const auto page = static_cast<std::uint32_t>((address - to_.layout->region_begin(word.region)) /
                                               program.regions[word.region].stride_bytes);
  if (page >= queues_.size()) return;
  if (bytes.size() > 8) {
    pushed(page, bytes, at_ps);
    return;
  }
  std::uint64_t value = 0;
  std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<std::uint8_t*>(&value));
  Queue& queue = queues_[page];
  const Doorbell bell = decode_doorbell(value);
  const std::uint16_t ahead = static_cast<std::uint16_t>(bell.next_index - queue.announced);
  if (bell.qpn != page || (queue.failed && ahead > program.depth)) {
    ++counters_.refused;
    return;
  }
  if (queue.failed) {
    queue.announced += ahead;
    settle(page);
    return;
  }
  // Said before, or overtaken by a later one.
  if (ahead == 0 || static_cast<std::uint16_t>(-ahead) <= program.depth) return;
  if (ahead > program.depth) {
    fail(page, queue.announced, Opcode::kNop, Syndrome::kLocalQpOperation,
         "a doorbell announces more entries than the queue has", at_ps);
    return;
  }
  announce(page, ahead, at_ps);
  activate(page, queue.seen_ps);
}

void Requester::announce(std::uint32_t q, std::uint32_t further, Ps at_ps) {
  Queue& queue = queues_[q];
  queue.announced += further;
  to_.book->arrived(q, queue.announced, at_ps);
  queue.seen_ps = at_ps + ps_from_ns(spec_.doorbell_ns);
}

void Requester::pushed(std::uint32_t q, std::span<const std::uint8_t> bytes, Ps at_ps) {
  Queue& queue = queues_[q];
  const WorkRequest request =
      decode(bytes, to_.program->nic.dc ? Transport::kDc : Transport::kRc).request;
  const std::uint16_t ahead = static_cast<std::uint16_t>(request.index - queue.announced);
  if (queue.failed || request.qpn != q || ahead >= to_.program->depth) {
    ++counters_.refused;
    return;
  }
  ++counters_.pushed;
  // Entries are taken in order; one that comes before its turn keeps its place in the NIC.
  queue.early[queue.announced + ahead].assign(bytes.begin(), bytes.end());
  for (auto it = queue.early.begin();
       it != queue.early.end() && it->first == queue.announced && !queue.failed;
       it = queue.early.erase(it)) {
    const std::uint64_t index = it->first;
    announce(q, std::max(blocks(claimed_units(std::span(it->second).first<8>())), 1u), at_ps);
    // Behind entries that lie in memory, or are on their way from there: fetched like them.
    if (queue.fetched < index || queue.fetching) {
      activate(q, queue.seen_ps);
      continue;
    }
    queue.fetched = queue.announced;
    if (Flight* f = to_.book->message(q, index)) f->started_ps = queue.seen_ps;
    entries_here(q, index, it->second, queue.seen_ps);
  }
}

void Requester::activate(std::uint32_t q, Ps at_ps) {
  Queue& queue = queues_[q];
  if (queue.fetching || queue.waiting || queue.failed || queue.fetched >= queue.announced) return;
  if (fetches_ < static_cast<std::uint32_t>(spec_.fetches)) {
    fetch(q, at_ps);
    return;
  }
  queue.waiting = true;
  // A queue keeps its turn for some reads, then it stands behind the others.
  if (queue.reads > 0 && queue.reads < static_cast<std::uint32_t>(spec_.turn_fetches)) {
    turns_.push_front(q);
  } else {
    queue.reads = 0;
    turns_.push_back(q);
  }
}

void Requester::fetch(std::uint32_t q, Ps at_ps) {
  Queue& queue = queues_[q];
  const std::uint64_t depth = to_.program->depth;
  const std::uint64_t count =
      std::min({queue.announced - queue.fetched, static_cast<std::uint64_t>(spec_.fetch_entries),
                depth - queue.fetched % depth});
  for (std::uint64_t i = queue.fetched; i < queue.fetched + count; ++i)
    if (Flight* f = to_.book->message(q, i)) f->started_ps = at_ps;
  ++counters_.fetches;
  counters_.entries += count;
  ++fetches_;
  queue.fetching = true;
  ++queue.reads;
  Dma& dma = dma_.take(Dma::Purpose::kEntries, q, queue.fetched);
  dma.count = count;
  const std::uint64_t address =
      to_.layout->address(*to_.program, to_.program->nic.entry, q, queue.fetched);
  queue.fetched += count;
  dma_.read(dma, at_ps, address, count * kWqebbBytes);
}

void Requester::dma_done(Dma& dma, Ps at_ps) {
  switch (dma.purpose) {
    case Dma::Purpose::kEntries: {
      queues_[dma.queue].fetching = false;
      const std::uint64_t before = counters_.messages;
      entries_here(dma.queue, dma.index, {dma.bytes.data(), dma.count * kWqebbBytes}, at_ps);
      // Its room in the NIC is free again once its last entry has been taken up.
      if (counters_.messages == before || !engine_.end_fetch()) release_fetch(at_ps);
      if (Queue& queue = queues_[dma.queue]; queue.fetched >= queue.announced) queue.reads = 0;
      activate(dma.queue, at_ps);
      return;
    }
    case Dma::Purpose::kGather: {
      Sent* const it = find(dma.queue, dma.index);
      if (it == nullptr) return;  // flushed meanwhile
      it->message.value = dma.head();
      if (Flight* f = to_.book->message(dma.queue, dma.index))
        f->source_read_ps = at_ps - (dma.first_ps - dma.memory_ps);
      it->ready = true;
      it->last_ps = at_ps + ps_from_ns(spec_.transmit_ns);
      Ps first_ps = it->last_ps;
      // Cut-through: the first packet leaves while later ones still come in, evenly.
      if (const std::uint64_t bytes = dma.get_data_length(); bytes > fabric_.mtu_bytes()) {
        const double later =
            1 - static_cast<double>(fabric_.mtu_bytes()) / static_cast<double>(bytes);
        first_ps -= static_cast<Ps>(static_cast<double>(at_ps - dma.first_ps) * later);
      }
      it->first_ps = std::max(it->first_ps, first_ps);
      drain(dma.queue);
      return;
    }
    case Dma::Purpose::kCqe: {
      ++counters_.cqes;
      if (dma.count != 0) return;  // an error: nothing is complete
      // A completion stands for all entries before it; a message is complete with its last one.
      for (std::uint64_t& i = queues_[dma.queue].completed; i <= dma.index;) {
        const std::uint64_t end = to_.book->message_end(dma.queue, i);
        if (end > dma.index + 1) break;
        for (; i < end; ++i)
          if (to_.book->holds(dma.queue, i)) to_.book->completed(dma.queue, i, at_ps);
      }
      return;
    }
    default:
      return;
  }
}

void Requester::release_fetch(Ps at_ps) {
  --fetches_;
  // Round robin: those that wait go first.
  while (!turns_.empty() && fetches_ < static_cast<std::uint32_t>(spec_.fetches)) {
    const std::uint32_t next = turns_.front();
    turns_.pop_front();
    queues_[next].waiting = false;
    if (!queues_[next].failed) fetch(next, at_ps);
  }
}

Requester::Sent* Requester::find(std::uint32_t q, std::uint64_t index) {
  std::deque<Sent>& sent = queues_[q].sent;
  if (sent.empty()) return nullptr;
  // Where every entry is one block, its place follows from its index.
  if (const std::uint64_t place = index - sent.front().message.index;
      place < sent.size() && sent[place].message.index == index)
    return &sent[place];
  const auto it =
      std::lower_bound(sent.begin(), sent.end(), index,
                       [](const Sent& s, std::uint64_t i) { return s.message.index < i; });
  return it == sent.end() || it->message.index != index ? nullptr : &*it;
}

void Requester::entries_here(std::uint32_t q, std::uint64_t index,
                             std::span<const std::uint8_t> bytes, Ps at_ps) {
  Queue& queue = queues_[q];
  if (!queue.part.empty()) {
    index -= queue.part.size() / kWqebbBytes;
    queue.part.insert(queue.part.end(), bytes.begin(), bytes.end());
    const std::vector<std::uint8_t> whole = std::exchange(queue.part, {});
    entries_here(q, index, whole, at_ps);
    return;
  }
  for (std::size_t at = 0; at < bytes.size();) {
    if (queue.failed) return;
    const std::span<const std::uint8_t> rest = bytes.subspan(at);
    const std::size_t length = std::size_t{claimed_units(rest.first<8>())} * kWqeUnitBytes;
    if (length > rest.size() && queue.fetched < queue.announced) {
      queue.part.assign(rest.begin(), rest.end());
      return;
    }
    const std::uint32_t taken = execute(q, index + at / kWqebbBytes, rest, at_ps);
    at += static_cast<std::size_t>(std::max(taken, 1u)) * kWqebbBytes;
  }
}

Ps Requester::context_ps(std::uint32_t q, std::uint64_t address, Ps at_ps) {
  Ps spent_ps = ps_from_ns(spec_.translate_ns);
  if (!contexts_.look(q)) spent_ps += ps_from_ns(spec_.miss_ns);
  if (address != 0 && !translations_.look(address / static_cast<std::uint64_t>(spec_.page_bytes)))
    spent_ps += ps_from_ns(spec_.miss_ns);
  return at_ps + spent_ps;
}

std::uint32_t Requester::execute(std::uint32_t q, std::uint64_t index,
                                 std::span<const std::uint8_t> bytes, Ps at_ps) {
  Queue& queue = queues_[q];
  const DecodeResult entry = decode(bytes, to_.program->nic.dc ? Transport::kDc : Transport::kRc);
  const WorkRequest& request = entry.request;
  const bool own = request.qpn == q && request.index == (index & 0xffff);
  if (!entry.ok() || !own) {
    fail(q, index, request.opcode, entry.ok() ? Syndrome::kLocalQpOperation : entry.syndrome,
         entry.ok() ? "the entry is not the one announced: its index or queue pair number differ"
                    : entry.reason,
         at_ps);
    return blocks(entry.ds);
  }
  if (request.av.form != AddressVector::Form::kNone && request.av.destination >= fabric_.ports()) {
    fail(q, index, request.opcode, Syndrome::kLocalQpOperation,
         "the entry's address vector names no destination", at_ps);
    return blocks(entry.ds);
  }
  if (!request.is_inline && request.bytes > 0 && !to_.registered(request.laddr, request.bytes)) {
    fail(q, index, request.opcode, Syndrome::kLocalProtection,
         "the entry's local address lies outside registered memory", at_ps);
    return blocks(entry.ds);
  }
  ++counters_.messages;
  Sent sent;
  sent.gathers = !request.is_inline && request.bytes > 0 &&
                 (request.opcode == Opcode::kRdmaWrite || request.opcode == Opcode::kRdmaWriteImm);
  sent.source = request.laddr;
  sent.opcode = request.opcode;
  sent.asks = request.fm_ce_se & kCqUpdate;
  wire::Message& message = sent.message;
  message.from = to_.port;
  message.to = to_.peers[q];
  message.queue = q;
  message.index = index + blocks(entry.ds) - 1;
  message.address = request.raddr;
  message.bytes = request.bytes;
  message.book = to_.book;
  if (to_.program->nic.dc && request.av.form != AddressVector::Form::kNone) {
    message.to = request.av.destination;
    // The initiator connects anew where the last destination has been let go.
    sent.connects = queue.dc_peer != message.to || queue.sent.empty();
    queue.dc_peer = message.to;
  }
  switch (request.opcode) {
    case Opcode::kRdmaWriteImm:
      message.immediate = true;
      [[fallthrough]];
    case Opcode::kRdmaWrite:
      message.kind = wire::Message::Kind::kWrite;
      break;
    case Opcode::kRdmaRead:
      message.kind = wire::Message::Kind::kRead;
      sent.sink = request.laddr;
      break;
    case Opcode::kAtomicFa:
    case Opcode::kMaskedFa:
      message.kind = wire::Message::Kind::kAtomic;
      message.atomic = wire::Message::Atomic::kAdd;
      message.value = request.swap_add;
      sent.sink = request.laddr;
      break;
    case Opcode::kAtomicCs:
    case Opcode::kMaskedCs:
      message.kind = wire::Message::Kind::kAtomic;
      message.atomic = request.opcode == Opcode::kAtomicCs || request.compare_mask != 0
                           ? wire::Message::Atomic::kCompareSwap
                           : wire::Message::Atomic::kSwap;
      message.value = request.swap_add;
      message.compare = request.compare;
      sent.sink = request.laddr;
      break;
    default:
      sent.local = true;  // NOP, DUMP: nothing for the wire
  }
  if (!sent.local) message.psn = queue.psn[message.to]++;
  if (request.is_inline)
    std::copy_n(request.inline_data.data(), std::min<std::size_t>(request.inline_data.size(), 8),
                reinterpret_cast<std::uint8_t*>(&message.value));
  queue.sent.push_back(sent);
  engine_.send({q, sent.message.index, false}, at_ps);
  return blocks(entry.ds);
}

void Requester::turn(const MessageEngine::Turn& turn, Ps at_ps) {
  const std::uint32_t q = turn.queue;
  if (turn.ends_fetch) release_fetch(at_ps);
  Sent* const sent = find(q, turn.index);
  if (sent == nullptr) return;  // flushed meanwhile
  Queue& queue = queues_[q];
  // A queue's own interval holds up that queue alone.
  const Ps begin_ps = std::max(at_ps + ps_from_ns(spec_.decode_ns), queue.free_ps);
  queue.free_ps = begin_ps + ps_from_ns(spec_.queue_interval_ns);
  Ps ready_ps = context_ps(q, sent->gathers ? sent->source : 0, begin_ps);
  if (sent->connects) ready_ps += ps_from_ns(spec_.dc_connect_ns);
  if (Flight* f = to_.book->message(q, turn.index)) {
    if (f->fetched_ps < 0) f->fetched_ps = begin_ps;
    if (f->translated_ps < 0) f->translated_ps = ready_ps;
  }
  sent->first_ps = sent->last_ps = ready_ps + ps_from_ns(spec_.transmit_ns);
  if (sent->gathers) {
    Dma& dma = dma_.take(Dma::Purpose::kGather, q, turn.index);
    dma_.read(dma, ready_ps, sent->source, sent->message.bytes);
    return;
  }
  sent->ready = true;
  drain(q);
}

void Requester::drain(std::uint32_t q) {
  Queue& queue = queues_[q];
  for (; queue.next < queue.sent.size() && queue.sent[queue.next].ready; ++queue.next) {
    Sent& sent = queue.sent[queue.next];
    if (sent.local) {
      sent.done = true;
      sent.done_ps = sent.last_ps;
      continue;
    }
    transmit(q, sent);
  }
  settle(q);
}

void Requester::transmit(std::uint32_t q, Sent& sent) {
  Flight* f = to_.book->message(q, sent.message.index);
  if (f && f->transmitted_ps < 0) f->gathered_ps = sent.first_ps;
  sent.left_ps = -1;
  fabric_.send(sent.message, sent.first_ps, sent.last_ps);
}

void Requester::sent(const wire::Message& message, const wire::Fabric::Sent& way) {
  Flight* f = to_.book->message(message.queue, message.index);
  if (f && f->transmitted_ps < 0) {
    f->transmitted_ps = way.left_ps;
    f->wired_ps = way.arrived_ps;
  }
  if (!fabric_.loses()) return;
  if (Sent* const sent = find(message.queue, message.index)) sent->left_ps = way.left_ps;
  arm(message.queue, way.left_ps);
}

void Requester::arm(std::uint32_t q, Ps left_ps) {
  if (std::exchange(queues_[q].armed, true)) return;
  timers_.push(std::max(left_ps, now_ps()) + ps_from_ns(spec_.ack_timeout_us * 1000), {q, run_});
}

void Requester::answered(const wire::Message& message, Ps at_ps) {
  using Kind = wire::Message::Kind;
  Queue& queue = queues_[message.queue];
  const Ps known_ps = at_ps + ps_from_ns(spec_.ack_receive_ns);
  for (std::size_t i = 0; i < queue.next; ++i) {
    Sent& sent = queue.sent[i];
    if (sent.done || sent.local || sent.message.to != message.from) continue;
    if (sent.message.psn > message.psn) break;
    if (sent.message.psn < message.psn || message.kind == Kind::kAck) {
      // Every answer stands for the writes before it; reads and atomics wait for their own.
      if (sent.message.kind == Kind::kWrite) finish(message.queue, sent, known_ps);
      continue;
    }
    if (message.kind == Kind::kNak) break;
    if (message.kind == Kind::kRefused) {
      stop(message.queue, sent, Syndrome::kRemoteAccess,
           "the entry's remote address lies outside registered memory");
    } else if (sent.sink != 0 && (message.bytes > 0 || message.kind == Kind::kAtomicResponse)) {
      // Posted before the CQE, and so visible before it.
      Dma& dma = dma_.take(Dma::Purpose::kSink, message.queue, sent.message.index);
      dma.set_head(message.value);
      dma_.write(dma, known_ps, sent.sink, std::max<std::uint64_t>(message.bytes, 8));
    }
    finish(message.queue, sent, known_ps);
  }
  if (message.kind == Kind::kNak) go_back(message.queue, message.from, message.psn, known_ps);
  settle(message.queue);
}

void Requester::finish(std::uint32_t q, Sent& sent, Ps at_ps) {
  sent.done = true;
  sent.done_ps = at_ps;
  if (Flight* f = to_.book->message(q, sent.message.index)) f->acked_ps = at_ps;
}

void Requester::go_back(std::uint32_t q, std::uint32_t to, std::uint64_t psn, Ps at_ps) {
  Queue& queue = queues_[q];
  for (std::size_t i = 0; i < queue.next; ++i) {
    Sent& sent = queue.sent[i];
    if (sent.done || sent.local || sent.message.to != to || sent.message.psn < psn) continue;
    ++counters_.repeated;
    sent.first_ps = sent.last_ps = std::max(sent.last_ps, at_ps);
    transmit(q, sent);
  }
}

void Requester::settle(std::uint32_t q) {
  Queue& queue = queues_[q];
  while (!queue.sent.empty() && queue.sent.front().done) {
    const Sent& sent = queue.sent.front();
    queue.done_ps = std::max(queue.done_ps, sent.done_ps);
    const bool failed = sent.syndrome != Syndrome::kNone;
    if (sent.asks || failed) complete(q, sent, queue.done_ps, sent.syndrome);
    queue.flushed = sent.message.index + 1;
    queue.sent.pop_front();
    --queue.next;
    if (failed) queue.flushes = true;
    if (queue.flushes) break;
  }
  if (queue.flushes) flush(q);
}

void Requester::flush(std::uint32_t q) {
  Queue& queue = queues_[q];
  for (const Sent& sent : queue.sent) {
    complete(q, sent, queue.done_ps, Syndrome::kFlushed);
    queue.flushed = sent.message.index + 1;
  }
  queue.sent.clear();
  queue.next = 0;
  // Entries that were never read have a CQE for each 64 B: where they begin is not known.
  Sent unread;
  for (; queue.flushed < queue.announced; ++queue.flushed) {
    unread.message.index = queue.flushed;
    complete(q, unread, queue.done_ps, Syndrome::kFlushed);
  }
}

void Requester::complete(std::uint32_t q, const Sent& sent, Ps at_ps, Syndrome syndrome) {
  Queue& queue = queues_[q];
  const Program& program = *to_.program;
  const NicProgram& nic = program.nic;
  const Word& word = program.words[nic.completion];
  const std::uint64_t number = queue.cqes++;
  Dma& dma = dma_.take(Dma::Purpose::kCqe, q, sent.message.index);
  dma.count = static_cast<std::uint64_t>(syndrome);
  Completion cqe;
  cqe.opcode = syndrome == Syndrome::kNone ? CqeOpcode::kRequester : CqeOpcode::kRequesterError;
  cqe.owner = nic.kind == NicProgram::Completion::kCollapsed
                  ? 0
                  : cqe_owner(number, std::max(word.entries, 1u));
  cqe.wqe_counter = static_cast<std::uint16_t>(sent.message.index);
  cqe.qpn = q;
  cqe.send_opcode = sent.opcode;
  cqe.byte_count = static_cast<std::uint32_t>(sent.message.bytes);
  cqe.syndrome = syndrome;
  encode_cqe(cqe, std::span<std::uint8_t, kCqeBytes>(dma.bytes.data(), kCqeBytes));
  const std::uint64_t place = nic.kind == NicProgram::Completion::kCollapsed ? 0 : number;
  const std::uint64_t address =
      to_.layout->address(program, nic.completion, q, place) / kCqeBytes * kCqeBytes;
  dma_.write(dma, at_ps + ps_from_ns(spec_.cqe_ns), address, kCqeBytes);
}

void Requester::fail(std::uint32_t q, std::uint64_t index, Opcode opcode, Syndrome syndrome,
                     const std::string& reason, Ps at_ps) {
  // It takes its place among the entries, so that those before it complete first.
  Sent sent;
  sent.message.index = index;
  sent.opcode = opcode;
  sent.local = sent.ready = true;
  sent.last_ps = at_ps;
  stop(q, sent, syndrome, reason);
  queues_[q].sent.push_back(sent);
  drain(q);
}

void Requester::stop(std::uint32_t q, Sent& sent, Syndrome syndrome, const std::string& reason) {
  ++counters_.refused;
  queues_[q].failed = true;
  sent.syndrome = syndrome;
  if (complaint_.empty())
    complaint_ = "queue " + std::to_string(q) + ", entry " + std::to_string(sent.message.index) +
                 ": " + reason + " (CQE error, syndrome " +
                 std::to_string(static_cast<int>(syndrome)) + ")";
}

void Requester::timeout(Timer& timer, Ps at_ps) {
  if (timer.run != run_) return;
  Queue& queue = queues_[timer.queue];
  queue.armed = false;
  const auto oldest = std::find_if(queue.sent.begin(), queue.sent.begin() + queue.next,
                                   [](const Sent& s) { return !s.done && !s.local; });
  // One that waits for the port arms the timer when it leaves.
  if (oldest == queue.sent.begin() + queue.next || oldest->left_ps < 0) return;
  if (oldest->left_ps + ps_from_ns(spec_.ack_timeout_us * 1000) > at_ps) {
    arm(timer.queue, oldest->left_ps);
    return;
  }
  if (++oldest->retries > static_cast<std::uint32_t>(spec_.retries)) {
    stop(timer.queue, *oldest, Syndrome::kTransportRetryExceeded,
         "no acknowledgement after all retries");
    finish(timer.queue, *oldest, at_ps);
    settle(timer.queue);
    return;
  }
  go_back(timer.queue, oldest->message.to, oldest->message.psn, at_ps);
}

void Requester::report(CounterSink& sink) const {
  const auto count = [&](const char* counter, std::uint64_t value) {
    sink.add(name(), counter, static_cast<double>(value), "count");
  };
  count("doorbells", counters_.doorbells);
  count("of them pushed entries", counters_.pushed);
  count("entry fetches", counters_.fetches);
  count("entries fetched", counters_.entries);
  count("messages", counters_.messages);
  count("completions", counters_.cqes);
  count("sent again", counters_.repeated);
  count("refused", counters_.refused);
}

}  // namespace marrow::nic
