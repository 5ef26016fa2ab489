// The machine's NICs: what they take from queues, send, place and complete.
#include <fmt/format.h>

#include <algorithm>

#include "sim/order/lists.h"
#include "sim/order/machine.h"

namespace marrow::order {

namespace {

bool is_write(EntryForm form) {
  return form == EntryForm::kWrite || form == EntryForm::kWriteInline;
}
bool is_atomic(EntryForm form) {
  return form == EntryForm::kFetchAdd || form == EntryForm::kMaskedFetchAdd ||
         form == EntryForm::kMaskedFetchAdd4 || form == EntryForm::kMaskedSwap;
}

std::string scope_text(std::int8_t scope) {
  static constexpr std::array<const char*, 4> kNames = {"none", "cta", "gpu", "sys"};
  return kNames[static_cast<std::size_t>(scope)];
}

}  // namespace

/// Puts a write on its way; one that nobody reads is there at once.
void Machine::post(State& s, const State::Item& item) const {
  if (!program_.locations[item.location].shared &&
      !(item.kind == kCompletion &&
        program_.queues[static_cast<std::size_t>(item.queue)].answered != 0xffff)) {
    if (item.kind == kAdd)
      s.memory[item.location] = static_cast<Word16>(s.memory[item.location] + item.value);
    else
      s.memory[item.location] = item.value;
    return;
  }
  insert_sorted(
      s.items, s.item_count, item, [](const State::Item& x) { return x.channel; },
      "writes on their way");
}

bool Machine::check_entry(State& s, std::uint32_t q, std::uint16_t slot, int index,
                          Log& log) const {
  const Word16 held = s.memory[slot];
  if (held % 64 != 0 && held / 64 == index) return true;
  const auto by = static_cast<std::uint32_t>(std::max<Word16>(s.queues[q].by, 0));
  const std::string second =
      fmt::format("the NIC reads entry {} of queue {}, announced by {}", index, q, thread_name(by));
  if (held % 64 != 0 && held / 64 > index) {
    note({Hazard::kSlot, second, fmt::format("entry {} was written over it", held / 64),
          "that the slot's earlier entry had been read", "nic-slot",
          "wait until the completion of the entry a ring's length before (poll until slot_free)"},
         log);
    return false;
  }
  for (std::size_t i = 0; i < s.pending_count; ++i) {
    const auto& p = s.pending[i];
    if (p.location != slot || p.value / 64 != index) continue;
    const auto writer = static_cast<std::uint32_t>(p.thread);
    const bool cpu = program_.threads[writer].on == MemoryKind::kHost;
    const bool at_gpu = own_home(writer, slot);
    const std::string need = at_gpu ? "gpu" : "sys";
    note({by == writer ? Hazard::kEntry : Hazard::kOtherEntry,
          fmt::format("{} stores entry {}", thread_name(writer), index), second,
          by == writer ? "that the doorbell comes behind the entry's stores"
                       : "that whoever sees an entry published sees its bytes",
          cpu            ? "x86-wc"
          : p.fenced > 0 ? "ptx-scope"
                         : "ptx-weak",
          cpu ? "a store fence (fence: {scope: sys}) before the doorbell"
              : fmt::format("fence: {{scope: {}}} between the entry's stores and {}{}", need,
                            by == writer ? "the doorbell" : "its publication",
                            p.fenced > 0
                                ? fmt::format(", where now stands scope {}", scope_text(p.fenced))
                                : "")},
         log);
    return false;
  }
  note({Hazard::kOtherEntry, fmt::format("entry {} is stored", index), second,
        "that every entry before the announced index was written", "nic-bell",
        "publish in the order of reservation, and announce what is published"},
       log);
  return false;
}

bool Machine::execute(State& s, std::uint32_t q, Log& log) const {
  const Queue& queue = program_.queues[q];
  auto& state = s.queues[q];
  const int index = state.taken;
  const std::uint16_t slot = queue.ring[static_cast<std::size_t>(index) % queue.ring.size()];
  if (!check_entry(s, q, slot, index, log)) return false;
  const auto number = static_cast<std::uint8_t>(s.memory[slot] % 64);
  const Entry& entry = program_.entries[number];
  state.taken = static_cast<Word16>(index + static_cast<int>(entry.blocks));
  State::Message message{};
  message.queue = static_cast<std::int8_t>(q);
  message.entry = number;
  message.index = static_cast<Word16>(index);
  if (entry.form == EntryForm::kWriteInline) message.value = std::max<Word16>(entry.expects, 1);
  if (entry.form == EntryForm::kWrite) {
    message.value = s.memory[entry.source];
    const std::string name = program_.locations[entry.source].name;
    if (entry.expects > 0 && message.value < entry.expects) {
      std::string who = "somebody";
      std::string rule = "ptx-weak";
      std::int8_t fenced = 0;
      std::uint32_t writer = entry.thread;
      for (std::size_t i = 0; i < s.pending_count; ++i)
        if (s.pending[i].location == entry.source) {
          writer = static_cast<std::uint32_t>(s.pending[i].thread);
          fenced = s.pending[i].fenced;
          who = thread_name(writer);
        }
      const bool cpu = program_.threads[writer].on == MemoryKind::kHost;
      if (cpu) rule = "x86-wc";
      if (fenced > 0) rule = "ptx-scope";
      note({Hazard::kPayload, fmt::format("{} stores version {} of {}", who, entry.expects, name),
            fmt::format("the NIC reads it for entry {} and finds version {}", index, message.value),
            "that the doorbell comes behind the payload's stores", rule,
            cpu ? "a store fence before the doorbell"
                : fmt::format("fence: {{scope: {}}} between the payload and the doorbell",
                              own_home(writer, entry.source) ? "gpu" : "sys")},
           log);
      return false;
    }
    if (entry.expects > 0 && message.value > entry.expects) {
      note({Hazard::kSource,
            fmt::format("the NIC reads version {} of {} for entry {}", entry.expects, name, index),
            fmt::format("version {} is stored there", message.value),
            "that the NIC had read the source when the call returned", "nic-fetch",
            "wait for the entry's completion (quiet, flush, or the completion poll) first"},
           log);
      return false;
    }
  }
  if (log.lines)
    say(log, "nic",
        fmt::format("reads entry {} of queue {}: {}{}", index, q, entry.text,
                    entry.form == EntryForm::kWrite
                        ? fmt::format(", source version {}", message.value)
                        : ""));
  if (entry.form == EntryForm::kNop || entry.form == EntryForm::kDump) message.delivered = 1;
  insert_sorted(
      s.messages, s.message_count, message, [](const State::Message& x) { return x.queue; },
      "messages on their way");
  return true;
}

bool Machine::may_deliver(const State& s, std::uint32_t q) const {
  for (std::size_t i = 0; i < s.message_count; ++i) {
    const auto& m = s.messages[i];
    if (m.queue != static_cast<int>(q) || m.delivered) continue;
    const Entry& entry = program_.entries[m.entry];
    for (std::size_t j = 0; j < s.item_count; ++j) {
      const auto& item = s.items[j];
      if (program_.atomic_placed && is_atomic(entry.form) && item.queue == static_cast<int>(q) &&
          item.kind != kCompletion)
        return false;
      if (entry.form == EntryForm::kRead &&
          item.channel ==
              channel(program_.queues[q].peer, program_.locations[entry.target].home.memory))
        return false;  // pcie-read
    }
    return true;
  }
  return false;
}

void Machine::deliver(State& s, std::uint32_t q, Log& log) const {
  const Queue& queue = program_.queues[q];
  for (std::size_t i = 0; i < s.message_count; ++i) {
    auto& m = s.messages[i];
    if (m.queue != static_cast<int>(q) || m.delivered) continue;
    m.delivered = 1;
    const Entry& entry = program_.entries[m.entry];
    const auto write = [&](std::uint16_t l, std::uint8_t kind, Word16 v) {
      const Location& where = program_.locations[l];
      post(s, {channel(queue.peer, where.home.memory), static_cast<std::int8_t>(q),
               static_cast<std::uint8_t>(where.relaxed), kind, l, v, m.index});
    };
    if (log.lines) say(log, "far nic", fmt::format("takes {} of queue {}", entry.text, q));
    if (is_write(entry.form)) write(entry.target, kSet, m.value);
    if (is_atomic(entry.form)) write(entry.signal, kAdd, 1);
    if (entry.has_immediate) write(entry.receives, kAdd, 1);
    if (entry.form == EntryForm::kRead) m.value = s.memory[entry.target];
    return;
  }
}

bool Machine::may_answer(const State& s, std::uint32_t q) const {
  for (std::size_t i = 0; i < s.message_count; ++i) {
    const auto& m = s.messages[i];
    if (m.queue != static_cast<int>(q)) continue;
    if (!m.delivered) return false;
    if (program_.ack_placed)
      for (std::size_t j = 0; j < s.item_count; ++j)
        if (s.items[j].queue == m.queue && s.items[j].index == m.index &&
            s.items[j].kind != kCompletion)
          return false;
    return true;
  }
  return false;
}

void Machine::answer(State& s, std::uint32_t q, Log& log) const {
  const Queue& queue = program_.queues[q];
  for (std::size_t i = 0; i < s.message_count; ++i) {
    const auto m = s.messages[i];
    if (m.queue != static_cast<int>(q)) continue;
    const Entry& entry = program_.entries[m.entry];
    erase(s.messages, s.message_count, i);
    if (entry.form == EntryForm::kRead) {
      const Location& where = program_.locations[entry.sink];
      post(s, {channel(queue.node, where.home.memory), static_cast<std::int8_t>(q),
               static_cast<std::uint8_t>(where.relaxed), kSet, entry.sink, m.value, m.index});
    }
    if (entry.completes && queue.completed != 0xffff) {
      if (log.lines)
        say(log, "nic",
            fmt::format("is answered for entry {} of queue {}: completion on its way", m.index, q));
      post(s, {channel(queue.node, program_.locations[queue.completed].home.memory),
               static_cast<std::int8_t>(q), 0, kCompletion, queue.completed,
               static_cast<Word16>(m.index + static_cast<int>(entry.blocks)), m.index});
    }
    return;
  }
}

bool Machine::may_place(const State& s, std::uint32_t i) const {
  const auto& item = s.items[i];
  const bool any = item.relaxed || (program_.gdr_unordered &&
                                    item.channel % 4 == static_cast<int>(MemoryKind::kGpu));
  for (std::size_t j = 0; j < i; ++j) {
    if (s.items[j].channel != item.channel) continue;
    if (!any || s.items[j].location == item.location) return false;
  }
  return true;
}

void Machine::place(State& s, std::uint32_t i, Log& log) const {
  const auto item = s.items[i];
  erase(s.items, s.item_count, i);
  const Word16 old = s.memory[item.location];
  Word16 v = item.value;
  if (item.kind == kAdd) v = static_cast<Word16>(old + item.value);
  if (item.kind == kCompletion) {
    v = std::max(old, v);
    const std::uint16_t answered = program_.queues[static_cast<std::size_t>(item.queue)].answered;
    if (answered != 0xffff)
      write_home(s, answered, static_cast<Word16>(s.memory[answered] + 1), kDevice);
  }
  write_home(s, item.location, v, kDevice);
  if (log.lines) say(log, "", fmt::format("{} is {}", program_.locations[item.location].name, v));
}

bool Machine::may_consume(const State& s, std::uint32_t q) const {
  const Queue& queue = program_.queues[q];
  const auto taken = s.queues[q].taken;
  if (!queue.per_entry) return s.queues[q].bell > taken;
  return s.memory[queue.announcements[static_cast<std::size_t>(taken) %
                                      queue.announcements.size()]] == taken + 1;
}

}  // namespace marrow::order
