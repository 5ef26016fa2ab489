#include "sim/order/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/common/error.h"
#include "sim/order/machine.h"

namespace marrow::order {

namespace {

constexpr std::uint16_t kNowhere = 0xffff;

std::string scope_name(Scope scope) {
  switch (scope) {
    case Scope::kNone:
      return "none";
    case Scope::kCta:
      return "cta";
    case Scope::kGpu:
      return "gpu";
    case Scope::kSys:
      return "sys";
  }
  return "";
}

std::string form_name(EntryForm form) {
  switch (form) {
    case EntryForm::kWrite:
      return "write";
    case EntryForm::kWriteInline:
      return "inline write";
    case EntryForm::kRead:
      return "read";
    case EntryForm::kNop:
      return "nop";
    case EntryForm::kDump:
      return "dump";
    case EntryForm::kNone:
      return "entry";
    default:
      return "atomic";
  }
}

}  // namespace

Builder::Builder(const Program* recipe, const Setup& setup) : setup_(setup) {
  if (recipe) {
    for (const auto& steps : recipe->steps)
      for (const Step& step : steps)
        if (step.op == StepOp::kCopy)
          throw InputError(recipe->protocol, "copies of payloads are not carried out here",
                           "check it with choices that copy nothing (nic_memory: gpu)");
    if (recipe->nvlink.present)
      throw InputError(recipe->protocol, "its puts go across NVLink, which is not carried out here",
                       "write the steps of both sides by hand in a litmus file");
    recipe_ = *recipe;
    recipe_->depth = setup.depth;
    if (recipe_->proxy.ring_depth > 0) recipe_->proxy.ring_depth = setup.depth;
    std::uint32_t most_blocks = 1;
    for (std::size_t k = 0; k < kOpKindCount; ++k)
      most_blocks = std::max(most_blocks, recipe_->blocks(static_cast<OpKind>(k), 8));
    batch_most_ = setup.depth > most_blocks ? setup.depth - most_blocks : 1;
    const auto answers = [&](const std::vector<Step>& steps) {
      for (const Step& step : steps)
        polls_answers_ |= (step.op == StepOp::kPoll || step.op == StepOp::kLook) &&
                          step.until == Until::kAnswered;
    };
    for (const auto& steps : recipe_->steps) answers(steps);
    for (const auto& steps : recipe_->proxy.posts) answers(steps);
    answers(recipe_->proxy.visit);
    drop_alike();
    for (const auto& steps : recipe_->steps)
      for (const Step& step : steps)
        if (step.is_index && step.reg != kNoRegister) index_reg_ = step.reg;
  }
  make_queues();
}

std::uint16_t Builder::location(const std::string& name, Home home, Word16 initial) {
  if (auto it = names_.find(name); it != names_.end()) return it->second;
  Location location;
  location.name = name;
  location.home = home;
  location.initial = initial;
  out_.locations.push_back(location);
  return names_[name] = static_cast<std::uint16_t>(out_.locations.size() - 1);
}

std::uint16_t Builder::single(std::uint16_t l) {
  const std::string key = fmt::format("#{}", l);
  if (auto it = tables_.find(key); it != tables_.end()) return it->second;
  out_.tables.push_back({1, false, {l}});
  return tables_[key] = static_cast<std::uint16_t>(out_.tables.size() - 1);
}

Home Builder::home_of(std::uint32_t word, std::uint8_t node) const {
  return {node, recipe_->regions[recipe_->words[word].region].memory};
}

void Builder::make_queues() {
  const auto many = setup_.nodes * setup_.queues;
  for (std::uint32_t q = 0; q < many; ++q) {
    Queue queue;
    queue.node = static_cast<std::uint8_t>(q / setup_.queues);
    queue.peer = peer_of(queue.node);
    const std::string end = fmt::format(".q{}", q);
    const auto ring = [&](const std::string& name, Home home) {
      std::vector<std::uint16_t> list;
      for (std::uint32_t i = 0; i < setup_.depth; ++i)
        list.push_back(location(fmt::format("{}[{}]{}", name, i, end), home));
      return list;
    };
    if (!recipe_) {
      queue.ring = ring("entry", {queue.node, MemoryKind::kNic});
      out_.queues.push_back(queue);
      continue;
    }
    const Program& p = *recipe_;
    const auto home = [&](std::uint32_t w) { return home_of(w, queue.node); };
    if (p.nic.present) {
      // What a proxy pushes is in the ring too, and the NIC may take it from there.
      for (const auto& steps : p.steps)
        for (const Step& step : steps)
          queue.pushed |= step.form != EntryForm::kNone && step.word == p.nic.doorbell;
      queue.ring = queue.pushed ? ring("pushed entry", {queue.node, MemoryKind::kNic})
                                : ring("entry", home(p.nic.entry));
      if (!queue.pushed) {
        queue.bell = location("doorbell" + end, home(p.nic.doorbell));
        out_.locations[queue.bell].bell = true;
        out_.locations[queue.bell].uncached = p.regions[p.words[p.nic.doorbell].region].uncached;
        const auto record = [&](const std::vector<Step>& steps) {
          for (const Step& step : steps)
            if (step.op == StepOp::kStore && step.value == Value::kRecord)
              queue.record = location(p.words[step.word].name + end, home(step.word));
        };
        for (const auto& steps : p.steps) record(steps);
        record(p.proxy.visit);
        for (const auto& steps : p.proxy.posts) record(steps);
      }
      queue.completed = location("completion" + end, home(p.nic.completion));
      if (polls_answers_) queue.answered = location("completions" + end, home(p.nic.completion));
    } else {
      queue.consumer = true;
      queue.per_entry = p.consumer.per_entry;
      queue.ring = ring("entry", home(p.consumer.entry));
      if (queue.per_entry) {
        queue.announcements =
            ring(p.words[p.consumer.announcement].name, home(p.consumer.announcement));
      } else {
        queue.bell = location("doorbell" + end, home(p.consumer.announcement));
        out_.locations[queue.bell].bell = true;
      }
      queue.completed = location("completion" + end, home(p.consumer.completion));
    }
    out_.queues.push_back(queue);
  }
}

std::uint8_t Builder::thread(const std::string& name, std::uint8_t node, MemoryKind on,
                             std::uint8_t cta, std::uint8_t lane, std::uint8_t queue) {
  Thread thread;
  thread.name = name;
  thread.node = node;
  thread.on = on;
  thread.cta = cta;
  thread.queue = static_cast<std::uint8_t>(node * setup_.queues + queue);
  out_.threads.push_back(thread);
  lanes_.push_back({});
  lanes_.back().lane = lane;
  return static_cast<std::uint8_t>(out_.threads.size() - 1);
}

std::uint16_t Builder::source(std::uint8_t node, const std::string& data) {
  return location(fmt::format("source of {} (node {})", data, node),
                  recipe_->nic.source == kNoWord ? Home{node, MemoryKind::kGpu}
                                                 : home_of(recipe_->nic.source, node));
}
std::uint16_t Builder::target(std::uint8_t node, const std::string& data) {
  const auto l = location(fmt::format("{} (node {})", data, node),
                          recipe_->nic.target == kNoWord ? Home{node, MemoryKind::kGpu}
                                                         : home_of(recipe_->nic.target, node));
  out_.locations[l].relaxed = relax_target_;
  return l;
}
std::uint16_t Builder::sink(std::uint8_t node, const std::string& data) {
  const auto l =
      location(fmt::format("fetched {} (node {})", data, node), home_of(recipe_->nic.sink, node));
  out_.locations[l].relaxed = relax_target_;
  return l;
}
std::uint16_t Builder::signal(std::uint8_t node, std::uint8_t lane) {
  const auto l =
      location(fmt::format("signal {} (node {})", lane, node), home_of(recipe_->nic.signal, node));
  out_.locations[l].relaxed = relax_signal_;
  return l;
}
std::uint16_t Builder::receives(std::uint8_t node, std::uint8_t lane) {
  return location(fmt::format("receive completion {} (node {})", lane, node),
                  home_of(recipe_->nic.receives, node));
}

Op& Builder::push(std::uint8_t t, OpCode code, std::string text) {
  Op op;
  op.code = code;
  op.text = std::move(text);
  out_.threads[t].ops.push_back(op);
  return out_.threads[t].ops.back();
}

void Builder::move(std::uint8_t t, std::int8_t to, Operand value) {
  Op& op = push(t, OpCode::kMove, "");
  op.result = to;
  op.value = value;
}

std::int8_t Builder::result(std::uint8_t t, const std::string& name) {
  if (name.empty()) return -1;
  for (const auto& known : out_.results)
    if (known.name == name && known.thread == t) return known.reg;
  const auto reg = static_cast<std::int8_t>(kUserReg + lanes_[t].results++);
  if (static_cast<std::size_t>(reg) >= kRegs)
    throw InputError("result '" + name + "'", "too many results in one thread", "use at most five");
  out_.results.push_back({name, t, reg});
  return reg;
}

Operand Builder::operand(const At& at, const Step& step, Value value) const {
  const bool proxy = out_.threads[at.thread].proxy;
  const Operand next = proxy ? Operand{kOwnReg, 1, 0} : Operand{kIndexReg, 1, at.entries};
  switch (value) {
    case Value::kZero:
      return {};
    case Value::kOne:
      return {-1, 1, 1};
    case Value::kIndex:
      return {kIndexReg, 1, 0};
    case Value::kNext:
    case Value::kDoorbell:
    case Value::kRecord:
      return next;
    case Value::kEntries:
      return {-1, 1, at.entries};
    case Value::kVersion:
      return {-1, 1, lanes_[at.of].puts};
    case Value::kCompleted:
      return {kCompletedReg, 1, 0};
    case Value::kSubmitted:
      return {-1, 1, at.entries};
    case Value::kWaits:
    case Value::kSignals:
      break;  // only recipes across NVLink have them
    case Value::kRegister:
      return {reg(step.operand), 1, 0};
    case Value::kRegisterNext:
      return {reg(step.operand), 1, 1};
  }
  return {};
}

std::uint16_t Builder::table_of(const At& at, std::uint32_t w) {
  const Program& p = *recipe_;
  const Thread& thread = out_.threads[at.of];
  const std::uint8_t lane = lanes_[at.of].lane;
  const NicProgram& nic = p.nic;
  // Words that entries speak of.
  if (nic.present) {
    if (w == nic.source) return single(source(thread.node, at.call->data));
    if (w == nic.target) return single(target(thread.node, at.call->data));
    if (w == nic.signal) return single(signal(thread.node, lane));
    if (w == nic.receives) return single(receives(thread.node, lane));
  }
  const Word& word = p.words[w];
  const Region& region = p.regions[word.region];
  std::string key = word.name;
  if (region.owner != Owner::kQueue)
    key += region.owner == Owner::kAll ? fmt::format(".n{}", thread.node)
                                       : fmt::format(".n{}.l{}", thread.node, lane);
  if (auto it = tables_.find(key); it != tables_.end()) return it->second;
  Table table;
  const bool is_ring = nic.present ? w == nic.entry : w == p.consumer.entry;
  const bool is_bell = w == (nic.present ? nic.doorbell : p.consumer.announcement);
  const bool is_completion = w == (nic.present ? nic.completion : p.consumer.completion);
  if (region.owner != Owner::kQueue) {
    table.locations.push_back(location(key, home_of(w, thread.node)));
  } else {
    table.by_queue = true;
    const bool per_slot = word.entry_bytes > 0 && !is_completion;
    table.depth = per_slot ? p.depth : 1;  // so deep are a proxy's rings of requests, too
    for (std::size_t q = 0; q < out_.queues.size(); ++q) {
      const Queue& queue = out_.queues[q];
      const auto home = home_of(w, queue.node);
      for (std::uint32_t i = 0; i < table.depth; ++i) {
        std::uint16_t l = kNowhere;
        if (is_completion)
          l = queue.completed;
        else if (is_ring && (!queue.pushed || w == nic.doorbell))
          l = queue.ring[i];
        else if (is_bell && queue.per_entry)
          l = queue.announcements[i];
        else if (is_bell && !queue.pushed)
          l = queue.bell;
        else
          l = location(table.depth > 1 ? fmt::format("{}[{}].q{}", word.name, i, q)
                                       : fmt::format("{}.q{}", word.name, q),
                       home);
        if (per_slot && p.proxy.present && word.region == p.words[p.proxy.announcement].region)
          out_.locations[l].request = true;
        table.locations.push_back(l);
      }
    }
  }
  out_.tables.push_back(table);
  return tables_[key] = static_cast<std::uint16_t>(out_.tables.size() - 1);
}

std::uint8_t Builder::entry(const At& at, const Step& step) {
  const Thread& thread = out_.threads[at.of];
  const Lane& lane = lanes_[at.of];
  const NicProgram& nic = recipe_->nic;
  Entry e;
  e.form = step.form;
  e.thread = at.of;
  e.blocks = step.form == EntryForm::kNone ? 1 : entry_blocks(step.form, nic.dc, 8);
  e.completes = nic.every || step.block + e.blocks == static_cast<std::uint32_t>(at.entries);
  e.has_immediate = step.immediate;
  const std::uint8_t peer = peer_of(thread.node);
  const std::string& data = at.call->data;
  if (step.form == EntryForm::kWrite || step.form == EntryForm::kWriteInline) {
    e.source = source(thread.node, data);
    e.target = target(peer, data);
    e.expects = at.expects;
  } else if (step.form == EntryForm::kRead) {
    e.target = target(peer, data);
    out_.locations[e.target].initial = 1;
    e.sink = sink(thread.node, data);
  } else if (step.form != EntryForm::kNop && step.form != EntryForm::kDump &&
             step.form != EntryForm::kNone) {
    e.signal = signal(peer, lane.lane);
  }
  if (step.immediate) e.receives = receives(peer, lane.lane);
  e.text = form_name(step.form) +
           (e.source != kNowhere || e.form == EntryForm::kRead ? " of " + data : "");
  out_.entries.push_back(e);
  if (out_.entries.size() > 64)
    throw InputError("program", "more than 63 entries", "make the program smaller");
  return static_cast<std::uint8_t>(out_.entries.size() - 1);
}

/// A lane's own stores, else what another lane of the node has stored for it.
Word16 Builder::expected(std::uint8_t t, const std::string& data) const {
  const auto version = [&](std::size_t of) {
    const auto it = lanes_[of].versions.find(data);
    return it == lanes_[of].versions.end() ? Word16{0} : it->second;
  };
  Word16 expects = version(t);
  for (std::size_t of = 0; expects == 0 && of < lanes_.size(); ++of)
    if (out_.threads[of].node == out_.threads[t].node) expects = version(of);
  return expects;
}

void Builder::lower_step(const At& at, const Step& step) {
  if ((step.op == StepOp::kStore || step.op == StepOp::kPoll) && alike_.count(step.word)) return;
  const std::uint8_t t = at.thread;
  const Program& p = *recipe_;
  const auto name = [&] { return p.words[step.word].name; };
  const auto slot = [&](std::uint32_t block) {
    return p.words[step.word].entry_bytes > 0 ? Operand{kIndexReg, 1, static_cast<Word16>(block)}
                                              : Operand{};
  };
  const std::int8_t into = step.is_index             ? kIndexReg
                           : step.reg == kNoRegister ? std::int8_t{-1}
                                                     : reg(step.reg);
  switch (step.op) {
    case StepOp::kLoad: {
      const auto table = table_of(at, step.word);
      Op& op = push(t, OpCode::kLoad, "loads " + name());
      op.table = table;
      op.slot = slot(0);
      op.result = into;
      op.acquire = step.acquire;
      break;
    }
    case StepOp::kStore: {
      const bool is_entry =
          step.form != EntryForm::kNone || (!p.nic.present && step.word == p.consumer.entry);
      const bool pushes = is_entry && p.nic.present && step.word == p.nic.doorbell;
      if (pushes && out_.threads[t].proxy) {  // a bell up to behind the entry that it pushes
        const auto bell = table_of(at, step.word);
        const auto blocks = entry_blocks(step.form, p.nic.dc, 8);
        Op& op = push(t, OpCode::kStore, "pushes " + form_name(step.form));
        op.table = bell;
        op.rings = true;
        op.value = {kIndexReg, 1, static_cast<Word16>(step.block + blocks)};
        move(t, kUnrungReg, {});
        break;
      }
      const std::uint16_t requests = requests_table();
      const std::uint8_t number = is_entry ? entry(at, step) : std::uint8_t{0};
      std::uint16_t table = 0;
      if (pushes && p.nic.doorbell != p.nic.entry) {  // BlueFlame: by slot, as the NIC takes them
        const std::string key = "pushed";
        if (auto it = tables_.find(key); it != tables_.end()) {
          table = it->second;
        } else {
          Table pushed;
          pushed.by_queue = true;
          pushed.depth = p.depth;
          for (const Queue& queue : out_.queues)
            pushed.locations.insert(pushed.locations.end(), queue.ring.begin(), queue.ring.end());
          out_.tables.push_back(pushed);
          table = tables_[key] = static_cast<std::uint16_t>(out_.tables.size() - 1);
        }
      } else {
        table = table_of(at, step.word);
      }
      Op& op = push(t, OpCode::kStore, "stores " + name());
      op.table = table;
      op.slot = is_entry ? Operand{kIndexReg, 1, static_cast<Word16>(step.block)} : slot(0);
      op.entry_store = is_entry;
      op.rings = step.word == p.announcement();
      op.value = is_entry ? Operand{kIndexReg, 64,
                                    static_cast<Word16>(number + 64 * static_cast<int>(step.block))}
                          : operand(at, step, step.value);
      if (!out_.threads[t].proxy) {
        if (requested_ != 0xff && step.word == p.proxy.announcement) {
          op.request = static_cast<std::uint8_t>(requested_ + 1);
          op.requests = requests;
        }
        break;
      }
      if (p.nic.present && step.word == p.nic.doorbell) move(t, kUnrungReg, {});
      if (is_entry) {
        move(t, kUnrungReg, {kUnrungReg, 1, 1});
        if (out_.entries[number].completes) move(t, kAskedReg, {kAskedReg, 1, 1});
      }
      break;
    }
    case StepOp::kAtomic: {
      const auto table = table_of(at, step.word);
      Op& op = push(t, OpCode::kAtomic,
                    std::string(step.atomic == AtomicOp::kAdd   ? "adds to "
                                : step.atomic == AtomicOp::kMax ? "raises "
                                                                : "exchanges ") +
                        name());
      op.table = table;
      op.slot = slot(0);
      op.atomic = step.atomic;
      op.value = operand(at, step, step.value);
      op.result = into;
      op.acquire = step.acquire;
      break;
    }
    case StepOp::kFence: {
      if (step.scope == Scope::kNone) break;
      Op& op = push(t, OpCode::kFence, "fence." + scope_name(step.scope));
      op.scope = step.scope;
      if (step.acquires) op.acquire = step.scope;
      break;
    }
    case StepOp::kSpin: {
      const auto table = table_of(at, step.word);
      Op& op = push(t, OpCode::kSpin, "compare-and-swap on " + name());
      op.table = table;
      op.slot = slot(0);
      op.expected = operand(at, step, step.expected);
      op.value = operand(at, step, step.value);
      op.acquire = step.acquire;
      break;
    }
    case StepOp::kPoll: {
      // Room that is looked for many puts ahead: the same argument, put by put.
      Operand wanted;
      auto table = table_of(at, step.word);
      const auto depth = static_cast<Word16>(p.depth);
      switch (step.until) {
        case Until::kSlotFree:
          wanted = {kIndexReg, 1, static_cast<Word16>(at.entries - depth)};
          break;
        case Until::kCompleted:
          wanted = {kIndexReg, 1, at.entries};
          break;
        case Until::kReached:
          wanted = {reg(step.operand), 1, 0};
          break;
        case Until::kSignalled:
          wanted = {-1, 1, lanes_[t].waits};
          break;
        case Until::kPresent:
          wanted = {kIndexReg, 1, 1};
          break;
        case Until::kEnded:
          wanted = {-1, 1, lanes_[t].launched};
          break;
        case Until::kAdvanced:
          wanted = {reg(step.reg), 1, 1};
          break;
        case Until::kReplied:
          break;  // only recipes across NVLink have it
        case Until::kAnswered: {
          if (out_.threads[t].proxy) {
            lower_answer(t, false);
            return;
          }
          const Word16 behind = std::min(static_cast<Word16>(std::min(step.block, 1000U)), depth);
          wanted = {-1, 1, static_cast<Word16>(lanes_[t].puts - behind)};
          Table answers;
          answers.by_queue = true;
          for (const Queue& queue : out_.queues) answers.locations.push_back(queue.answered);
          out_.tables.push_back(answers);
          table = static_cast<std::uint16_t>(out_.tables.size() - 1);
          break;
        }
      }
      if (step.until == Until::kSignalled) out_.threads[t].waits = true;
      Op& op = push(t, OpCode::kPoll, "polls " + name());
      op.table = table;
      op.slot = slot(0);
      op.value = wanted;
      op.acquire = step.acquire;
      break;
    }
    case StepOp::kSkipUnless: {
      Op& op = push(t, OpCode::kSkipUnless, "");
      op.test = Test::kAlways;
      // A small ring has small batches, or its tail would wait for a bell that its head waits for.
      op.modulus = std::min(step.modulus, batch_most_);
      const Operand next{kIndexReg, 1, at.entries};
      const Operand it{this->reg(step.reg), 1, 0};
      switch (step.condition) {
        case Condition::kAlways:
          break;
        case Condition::kRingWrapped:
          op.test = Test::kBelow;
          op.value = {-1, 1, static_cast<Word16>(p.depth)};
          op.expected = next;
          break;
        case Condition::kBatchBoundary:
          op.test = static_cast<std::uint32_t>(lanes_[t].puts) % p.batch == 0 || at.call->flush
                        ? Test::kAlways
                        : Test::kNever;
          break;
        case Condition::kMultiple:
          op.test = at.call->flush ? Test::kAlways : Test::kCrosses;
          op.expected = next;
          break;
        case Condition::kNewestOrMultiple:
          op.test = Test::kEqualOrCrosses;
          op.value = it;
          op.expected = next;
          break;
        case Condition::kAdvanced:
          op.test = Test::kBelow;
          op.value = it;
          op.expected = next;
          break;
        case Condition::kWaits:
          op.test = at.call->wait ? Test::kAlways : Test::kNever;
          break;
        case Condition::kWaitsNot:
          op.test = at.call->wait ? Test::kNever : Test::kAlways;
          break;
        case Condition::kRangNot:
          op.test = Test::kBelow;
          op.value = {kRangReg, 1, 0};
          op.expected = {-1, 1, 1};
          break;
        case Condition::kBehind:
          op.test = Test::kBelow;
          op.value = it;
          op.expected = {reg(step.operand), 1, 0};
          break;
        case Condition::kSingle:
          op.test = Test::kEqualOrCrosses;
          op.modulus = 0;
          op.value = {kUnrungReg, 1, 0};
          op.expected = {-1, 1, 1};
          break;
        case Condition::kSeveral:
          op.test = Test::kAtLeast;
          op.value = {kUnrungReg, 1, 0};
          op.expected = {-1, 1, 2};
          break;
        case Condition::kOutstanding:
          op.test = Test::kAtLeast;
          op.value = {kAskedReg, 1, 0};
          op.expected = {kAnsweredReg, 1, static_cast<Word16>(std::min(step.modulus, batch_most_))};
          break;
      }
      break;
    }
    case StepOp::kPost:
      lower_post(at);
      break;
    case StepOp::kCompute:  // a mutant's wait for a CQE: it takes all for complete
      if (!out_.threads[t].proxy || step.until != Until::kAnswered) break;
      move(t, kAnsweredReg, {kAnsweredReg, 1, 1});
      move(t, kCompletedReg, {kOwnReg, 1, 0});
      break;
    case StepOp::kLaunch:
      launch(t);
      break;
    case StepOp::kOwnIndex:
      move(t, kIndexReg, {kOwnReg, 1, 0});
      move(t, kOwnReg, {kOwnReg, 1, at.entries});
      break;
    case StepOp::kPick: {
      Op& op = push(t, OpCode::kPick, "");
      op.value = {reg(step.reg), 1, 0};
      break;
    }
    default:  // stages, costs, and uses of results that are there already
      break;
  }
}

void Builder::lower(const At& at, const std::vector<Step>& steps, std::size_t from,
                    std::size_t to) {
  std::map<std::size_t, std::size_t> begins;
  std::vector<std::pair<std::size_t, std::size_t>> jumps;  // operation, step
  auto& ops = out_.threads[at.thread].ops;
  for (std::size_t i = from; i < to; ++i) {
    begins[i] = ops.size();
    const Step& step = steps[i];
    if (step.op == StepOp::kEnd) continue;
    if (step.op == StepOp::kVisit) {
      std::size_t end = i + 1;
      while (!(steps[end].op == StepOp::kNext && steps[end].target == i + 1)) ++end;
      move(at.thread, kHomeReg, {kQueueReg, 1, 0});
      const std::uint8_t node = out_.threads[at.thread].node;
      for (std::size_t q = 0; q < out_.queues.size(); ++q) {
        if (out_.queues[q].node != node) continue;
        move(at.thread, kQueueReg, {-1, 1, static_cast<Word16>(q)});
        lower(at, steps, i + 1, end);
      }
      move(at.thread, kQueueReg, {kHomeReg, 1, 0});
      i = end;
      continue;
    }
    // Where the jump itself goes; what a condition's own lowering adds comes behind it.
    const std::size_t jump = ops.size();
    if (step.op == StepOp::kJump)
      push(at.thread, OpCode::kSkipUnless, "").test = Test::kNever;
    else
      lower_step(at, step);
    if (step.op == StepOp::kSkipUnless || step.op == StepOp::kJump)
      jumps.emplace_back(jump, step.target);
    // What the call rules out is not there at all: nor are its launches.
    if (step.op == StepOp::kSkipUnless && ops[jump].test == Test::kNever)
      i = std::max<std::size_t>(step.target, i + 1) - 1;
  }
  begins[to] = ops.size();
  for (const auto& [op, step] : jumps) {
    auto it = begins.lower_bound(step);
    ops[op].target = static_cast<std::uint32_t>(it == begins.end() ? ops.size() : it->second);
  }
}

// ---- a proxy's threads ----

/// Which request each place of a queue's ring holds: what a descriptor says, kept for the machine.
std::uint16_t Builder::requests_table() {
  if (auto it = tables_.find("#requests"); it != tables_.end()) return it->second;
  Table table;
  if (recipe_->proxy.present) {
    table.by_queue = true;
    table.depth = recipe_->depth;
    for (std::size_t q = 0; q < out_.queues.size(); ++q)
      for (std::uint32_t i = 0; i < table.depth; ++i)
        table.locations.push_back(location(fmt::format("request[{}].q{}", i, q),
                                           {out_.queues[q].node, MemoryKind::kHost}));
  }
  out_.tables.push_back(table);
  return tables_["#requests"] = static_cast<std::uint16_t>(out_.tables.size() - 1);
}

/// The words of a request, by which a lane says that it is there.
std::vector<std::uint16_t> Builder::request_tables(OpKind kind) {
  const Program& p = *recipe_;
  const std::uint32_t region = p.words[p.proxy.announcement].region;
  std::vector<std::uint16_t> tables;
  for (const Step& step : p.of(kind))
    if (step.op == StepOp::kStore && !alike_.count(step.word) &&
        p.words[step.word].region == region && p.words[step.word].entry_bytes > 0)
      if (auto it = tables_.find(p.words[step.word].name); it != tables_.end())
        tables.push_back(it->second);
  return tables;
}

/// A CQE has been seen (looked: it is there), which tells how far the queue has completed.
void Builder::lower_answer(std::uint8_t t, bool looked) {
  const auto by_queue = [&](const std::string& key, std::uint16_t Queue::*which) {
    if (auto it = tables_.find(key); it != tables_.end()) return it->second;
    Table table;
    table.by_queue = true;
    for (const Queue& queue : out_.queues) table.locations.push_back(queue.*which);
    out_.tables.push_back(table);
    return tables_[key] = static_cast<std::uint16_t>(out_.tables.size() - 1);
  };
  const std::uint16_t answers = by_queue("#answered", &Queue::answered);
  const std::uint16_t completed = by_queue("#completed", &Queue::completed);
  if (!looked) {
    Op& op = push(t, OpCode::kPoll, "polls the next CQE");
    op.table = answers;
    op.value = {kAnsweredReg, 1, 1};
  }
  move(t, kAnsweredReg, {kAnsweredReg, 1, 1});
  Op& op = push(t, OpCode::kLoad, "reads the CQE");
  op.table = completed;
  op.result = kCompletedReg;
}

/// Its own waits for words of the request come first; then all of it must be there.
void Builder::lower_post(const At& at) {
  const auto& steps = recipe_->proxy.posts[static_cast<std::size_t>(at.call->kind)];
  std::size_t begin = 0;
  while (begin < steps.size() && steps[begin].op == StepOp::kPoll) ++begin;
  lower(at, steps, 0, begin);
  push(at.thread, OpCode::kTake, "").tables = request_tables(at.call->kind);
  lower(at, steps, begin, steps.size());
}

/// Words that lanes store alike and the thread waits for alike, one after the other: one stands for
/// all, or every order of all would be tried.
void Builder::drop_alike() {
  const auto drop = [&](const std::vector<Step>& steps) {
    std::uint32_t first = kNoWord;
    for (const Step& step : steps) {
      if (step.op != StepOp::kPoll || step.until != Until::kPresent) {
        first = kNoWord;
        continue;
      }
      if (first == kNoWord)
        first = step.word;
      else if (std::all_of(recipe_->steps.begin(), recipe_->steps.end(),
                           [&](const auto& of) { return stored_together(of, first, step.word); }))
        alike_.insert(step.word);
    }
  };
  drop(recipe_->proxy.visit);
  for (const auto& steps : recipe_->proxy.posts) drop(steps);
}

bool Builder::stored_together(const std::vector<Step>& steps, std::uint32_t a, std::uint32_t b) {
  const auto stores = [&](std::uint32_t word) {
    return std::find_if(steps.begin(), steps.end(),
                        [&](const Step& s) { return s.op == StepOp::kStore && s.word == word; });
  };
  const auto first = stores(a), last = stores(b);
  if (first == steps.end() || last == steps.end()) return first == last;
  return first < last &&
         std::all_of(first, last, [](const Step& s) { return s.op == StepOp::kStore; });
}

void Builder::make_proxies() {
  if (!recipe_ || !recipe_->proxy.present) return;
  const auto lanes = static_cast<std::uint8_t>(lanes_.size());
  for (std::uint8_t node = 0; node < setup_.nodes; ++node) {
    for (std::uint32_t q = 0; q < setup_.queues; ++q) {
      bool asks = false;
      for (std::uint8_t t = 0; t < lanes; ++t)
        asks |= lanes_[t].asks && uses_queue(t, node * setup_.queues + q);
      if (asks) make_proxy(node, q);
    }
  }
}

/// One thread for each queue: what one that serves several queues would do in its own order has
/// none here.
void Builder::make_proxy(std::uint8_t node, std::uint32_t queue) {
  const ProxyProgram& proxy = recipe_->proxy;
  const std::uint8_t t = thread(fmt::format("P{}", node * setup_.queues + queue), node,
                                MemoryKind::kHost, 0, 0, static_cast<std::uint8_t>(queue));
  out_.threads[t].proxy = true;
  auto& ops = out_.threads[t].ops;
  push(t, OpCode::kLook, "looks");
  const Call nothing;
  const At idle{t, &nothing, 1, t};
  std::vector<Look> looks;
  for (std::size_t i = 0; i < proxy.visit.size(); ++i) {
    const Step& step = proxy.visit[i];
    if (step.op != StepOp::kLook) continue;
    std::size_t again = i + 1;
    while (!(proxy.visit[again].op == StepOp::kAgain && proxy.visit[again].target == i)) ++again;
    Look look;
    std::uint16_t answers = 0;
    if (step.until == Until::kAnswered) {  // lower_answer makes its table
      const std::size_t keep = ops.size();
      lower_answer(t, true);
      ops.resize(keep);
      answers = tables_.at("#answered");
    }
    switch (step.until) {
      case Until::kAnswered:
        look.table = answers;
        look.above = {kAnsweredReg, 1, 0};
        break;
      case Until::kPresent:
        look.table = table_of(idle, step.word);
        look.slot = look.above = {kOwnReg, 1, 0};
        break;
      default:
        look.table = table_of(idle, step.word);
        look.into = step.is_index ? kOwnReg : reg(step.reg);
        look.above = {look.into, 1, 0};
        look.has_most = step.block != 0;
        look.most = {kOwnReg, 1, 0};
    }
    look.target = static_cast<std::uint32_t>(ops.size());
    looks.push_back(look);
    const auto body = [&](const At& at) { lower(at, proxy.visit, i + 1, again); };
    if (step.until == Until::kAnswered) {
      lower_answer(t, true);
      body(idle);
    } else if (step.until == Until::kAdvanced) {
      if (step.is_index) move(t, kIndexReg, {kOwnReg, 1, -1});
      body(idle);
    } else {
      move(t, kIndexReg, {kOwnReg, 1, 0});
      Op& take = push(t, OpCode::kLoad, "takes a request");
      take.table = requests_table();
      take.slot = {kIndexReg, 1, 0};
      take.result = kRequestReg;
      std::vector<std::size_t> ends;
      for (std::size_t r = 0; r < requests_.size(); ++r) {
        const Request& request = requests_[r];
        if (out_.threads[request.lane].node != node) continue;
        const std::size_t test = ops.size();
        Op& is_it = push(t, OpCode::kSkipUnless, "");
        is_it.test = Test::kEqualOrCrosses;
        is_it.value = {kRequestReg, 1, 0};
        is_it.expected = {-1, 1, static_cast<Word16>(r + 1)};
        move(t, kOwnReg, {kOwnReg, 1, request.entries});
        const Call call = request.call;
        body({t, &call, request.entries, request.lane, request.expects});
        ends.push_back(ops.size());
        push(t, OpCode::kSkipUnless, "").test = Test::kNever;
        ops[test].target = static_cast<std::uint32_t>(ops.size());
      }
      for (std::size_t end : ends) ops[end].target = static_cast<std::uint32_t>(ops.size());
    }
    if (step.then != step.target) {
      if (step.count > 1) {  // another one, if it is there
        move(t, kFoundReg, {kFoundReg, 1, 1});
        const std::size_t test = ops.size();
        Op& more = push(t, OpCode::kSkipUnless, "");
        more.test = Test::kBelow;
        more.value = {kFoundReg, 1, 0};
        more.expected = {-1, 1, static_cast<Word16>(std::min(step.count, batch_most_))};
        Op& once_more = push(t, OpCode::kLook, "looks for another");
        once_more.looks = {look};
        once_more.may_miss = true;
        ops[test].target = static_cast<std::uint32_t>(ops.size());
        move(t, kFoundReg, {});
      }
      lower(idle, proxy.visit, step.then, step.target);
    }
    push(t, OpCode::kSkipUnless, "").test = Test::kNever;  // back to the looks
    ops.back().target = 0;
  }
  ops.front().looks = std::move(looks);
}

// ---- kernels that a CPU thread launches ----

std::uint16_t Builder::launches(std::uint8_t lane) {
  const auto l = location(fmt::format("launches by {}", out_.threads[lane].name),
                          {out_.threads[lane].node, MemoryKind::kGpu});
  out_.locations[l].uncached = true;
  return single(l);
}

void Builder::launch(std::uint8_t t) {
  ++lanes_[t].launched;
  const std::uint16_t table = launches(t);
  fence(t, Scope::kSys);  // the driver's, before its own doorbell
  Op& op = push(t, OpCode::kStore, "launches the next kernel");
  op.table = table;
  op.value = {-1, 1, lanes_[t].launched};
}

/// What the lane's next kernel does. A run begins with one that needs no launch.
std::uint8_t Builder::begin_kernel(std::uint8_t t) {
  Lane& lane = lanes_[t];
  if (lane.kernels == 0xff) {
    const Thread of = out_.threads[t];
    const std::uint8_t k =
        thread("K" + of.name, of.node, MemoryKind::kGpu, lane.lane, lane.lane, 0);
    lanes_[t].kernels = k;
    lanes_[k].launched = 0;
  }
  const std::uint8_t k = lanes_[t].kernels;
  const Word16 number = ++lanes_[k].launched;
  if (number > lanes_[t].launched) launch(t);
  const std::uint16_t table = launches(t);
  if (number == 1) return k;
  Op& op = push(k, OpCode::kPoll, "waits for its launch");
  op.table = table;
  op.value = {-1, 1, number};
  Op& begins = push(k, OpCode::kFence, "kernel begins");
  begins.scope = Scope::kSys;
  begins.drains = true;
  return k;
}

void Builder::end_kernel(std::uint8_t t) {
  const std::uint8_t k = lanes_[t].kernels;
  const Call nothing;
  const Word16 number = lanes_[k].launched;
  const At at{k, &nothing, number, t};
  lower(at, recipe_->kernel.tail, 0, recipe_->kernel.tail.size());
  kernel_end(k);
  const std::uint16_t table = table_of(at, recipe_->kernel.done);
  Op& op = push(k, OpCode::kStore, "tells its end");
  op.table = table;
  op.value = {-1, 1, number};
}

void Builder::call(std::uint8_t t, const Call& call) {
  const auto& steps = recipe_->of(call.kind);
  if (steps.empty())
    throw InputError(
        recipe_->protocol,
        "the recipe has no " + std::string(kOpKindNames[static_cast<std::size_t>(call.kind)]),
        "ask it for what it has");
  Lane& lane = lanes_[t];
  if (call.kind == OpKind::kWait || call.kind == OpKind::kBarrier) ++lane.waits;
  const auto entries = static_cast<Word16>(std::max(recipe_->blocks(call.kind, 8), 1U));
  const bool posts = is_message(call.kind) || recipe_->blocks(call.kind, 0) > 0;
  if (posts) ++lane.puts;
  // A library that writes the payload itself counts its versions by puts.
  for (const Step& step : steps)
    if (step.op == StepOp::kStore && step.word == recipe_->nic.source && recipe_->nic.present)
      lane.versions[call.data] = lane.puts;
  move(t, kRangReg, {});
  const Word16 own = out_.threads[t].queue;
  if (call.elsewhere) move(t, kQueueReg, {-1, 1, static_cast<Word16>(own + 1)});
  lane.asks |= call.kind != OpKind::kWait;
  const Word16 expects = expected(t, call.data);
  if (posts && recipe_->proxy.present) {
    requests_.push_back({t, call, entries, expects});
    requested_ = static_cast<std::uint8_t>(requests_.size() - 1);
  }
  lower({t, &call, posts ? entries : Word16{1}, t, expects}, steps, 0, steps.size());
  requested_ = 0xff;
  if (call.elsewhere) move(t, kQueueReg, {-1, 1, own});
}

void Builder::write(std::uint8_t t, const std::string& data) {
  const auto table = single(source(out_.threads[t].node, data));
  const bool kernel = has_kernels();
  Op& op = push(kernel ? begin_kernel(t) : t, OpCode::kStore,
                fmt::format("stores version {} of {}", lanes_[t].versions[data] + 1, data));
  op.table = table;
  op.value = {-1, 1, ++lanes_[t].versions[data]};
  if (kernel) end_kernel(t);
}

void Builder::read(std::uint8_t t, const std::string& data, Word16 expects,
                   const std::string& into) {
  const auto table = single(target(out_.threads[t].node, data));
  const bool kernel = has_kernels();
  if (kernel && lanes_[t].kernels == 0xff) {  // the one that has just ended
    begin_kernel(t);
    end_kernel(t);
  }
  if (kernel && lanes_[lanes_[t].kernels].launched == lanes_[t].launched) launch(t);
  const std::uint8_t by = kernel ? begin_kernel(t) : t;
  if (kernel) out_.threads[by].waits = out_.threads[t].waits;
  const auto reg = result(by, into);
  Op& op = push(by, OpCode::kLoad, "loads " + data);
  op.table = table;
  op.expects = expects;
  op.result = reg;
}

void Builder::read_sink(std::uint8_t t, const std::string& data, Word16 expects,
                        const std::string& into) {
  const auto table = single(sink(out_.threads[t].node, data));
  const auto reg = result(t, into);
  Op& op = push(t, OpCode::kLoad, "loads fetched " + data);
  op.table = table;
  op.expects = expects;
  op.result = reg;
  out_.threads[t].waits = true;
}

void Builder::await(std::uint8_t t, const std::string& data, Word16 at_least, Scope acquire) {
  const auto table = single(target(out_.threads[t].node, data));
  Op& op = push(t, OpCode::kPoll, "polls " + data);
  op.table = table;
  op.value = {-1, 1, at_least};
  op.acquire = acquire;
  out_.threads[t].waits = true;
}

void Builder::kernel_end(std::uint8_t t) {
  push(t, OpCode::kFence, "kernel ends, the next begins").scope = Scope::kSys;
}

void Builder::sync(std::uint8_t t, std::uint8_t barrier) {
  if (out_.synced.size() <= barrier) out_.synced.resize(barrier + 1U);
  ++out_.synced[barrier];
  push(t, OpCode::kSync, "CTA barrier").value = {-1, 1, barrier};
}

void Builder::word(const std::string& name, Home home, bool relaxed) {
  out_.locations[location(name, home)].relaxed = relaxed;
}

void Builder::store(std::uint8_t t, const std::string& word, Word16 value) {
  const auto table = single(names_.at(word));
  Op& op = push(t, OpCode::kStore, fmt::format("stores {} = {}", word, value));
  op.table = table;
  op.value = {-1, 1, value};
}

void Builder::load(std::uint8_t t, const std::string& word, const std::string& into, Scope acquire,
                   Word16 expects) {
  const auto table = single(names_.at(word));
  const auto reg = result(t, into);
  Op& op = push(t, OpCode::kLoad,
                acquire == Scope::kNone ? "loads " + word
                                        : "acquires " + word + " (" + scope_name(acquire) + ")");
  op.table = table;
  op.result = reg;
  op.acquire = acquire;
  op.expects = expects;
  op.may_wait = acquire == Scope::kNone;
}

void Builder::poll(std::uint8_t t, const std::string& word, Word16 at_least, Scope acquire) {
  const auto table = single(names_.at(word));
  Op& op = push(t, OpCode::kPoll, fmt::format("polls {}", word));
  op.table = table;
  op.value = {-1, 1, at_least};
  op.acquire = acquire;
  out_.threads[t].waits = true;
}

void Builder::add(std::uint8_t t, const std::string& word, const std::string& into, Scope acquire) {
  const auto table = single(names_.at(word));
  const auto reg = result(t, into);
  Op& op = push(t, OpCode::kAtomic, "adds 1 to " + word);
  op.table = table;
  op.value = {-1, 1, 1};
  op.result = reg;
  op.acquire = acquire;
}

void Builder::fence(std::uint8_t t, Scope scope) {
  if (scope == Scope::kNone) return;
  push(t, OpCode::kFence, "fence." + scope_name(scope)).scope = scope;
}

void Builder::post(std::uint8_t t, std::uint8_t queue, EntryForm form, const std::string& from,
                   const std::string& to) {
  Entry e;
  e.form = form;
  e.thread = t;
  const auto q = static_cast<std::size_t>(out_.threads[t].node * setup_.queues + queue);
  const std::uint16_t there = names_.at(to);
  switch (form) {
    case EntryForm::kWrite:
      e.source = names_.at(from);
      [[fallthrough]];
    case EntryForm::kWriteInline:
      e.target = there;
      e.expects = form == EntryForm::kWriteInline ? Word16{1} : Word16{0};
      e.text = "write of " + to;
      break;
    case EntryForm::kRead:
      e.target = names_.at(from);
      e.sink = there;
      e.text = "read of " + from;
      break;
    default:
      e.signal = there;
      e.text = "atomic on " + to;
  }
  out_.entries.push_back(e);
  Op& op = push(t, OpCode::kPost, fmt::format("posts a {} on queue {}", e.text, q));
  op.slot = {-1, 1, static_cast<Word16>(q)};
  op.entry = static_cast<std::uint8_t>(out_.entries.size() - 1);
}

void Builder::completes(std::uint8_t queue, const std::string& word) {
  out_.queues[queue].completed = names_.at(word);
}

/// A load whose result nobody uses orders nothing: it is left out.
void Builder::drop_idle_loads() {
  for (std::size_t t = 0; t < out_.threads.size(); ++t) {
    std::set<std::int8_t> used;
    for (const Op& op : out_.threads[t].ops)
      used.insert({op.value.reg, op.expected.reg, op.slot.reg});
    for (const Op& op : out_.threads[t].ops)
      for (const Look& look : op.looks) used.insert({look.above.reg, look.slot.reg, look.most.reg});
    for (const auto& result : out_.results)
      if (result.thread == t) used.insert(result.reg);
    for (Op& op : out_.threads[t].ops)
      if (op.code == OpCode::kLoad && op.expects == 0 && op.acquire == Scope::kNone &&
          (op.result < 0 || !used.count(op.result))) {
        op.code = OpCode::kMove;
        op.result = -1;
      }
  }
}

/// Its own, or any of its node's.
bool Builder::uses_queue(std::size_t t, std::size_t queue) const {
  const Thread& thread = out_.threads[t];
  const bool others = std::any_of(thread.ops.begin(), thread.ops.end(), [](const Op& op) {
    return op.code == OpCode::kPick || (op.code == OpCode::kMove && op.result == kQueueReg);
  });
  return others ? out_.queues[queue].node == thread.node : thread.queue == queue;
}

/// Words that nothing touches, such as a far node's queues, share one place: states are small.
void Builder::drop_unused_words() {
  const auto n = out_.locations.size();
  std::vector<bool> used(n, false);
  const auto use = [&](std::uint16_t l) {
    if (l != kNowhere) used[l] = true;
  };
  std::vector<bool> posts(out_.queues.size(), false);
  for (std::size_t t = 0; t < out_.threads.size(); ++t) {
    const Thread& thread = out_.threads[t];
    const auto mark = [&](std::uint16_t which) {
      const Table& table = out_.tables[which];
      for (std::size_t i = 0; i < table.locations.size(); ++i)
        if (!table.by_queue || uses_queue(t, i / table.depth)) use(table.locations[i]);
    };
    for (const Op& op : thread.ops) {
      for (const Look& look : op.looks) mark(look.table);
      for (std::uint16_t table : op.tables) mark(table);
      if (op.request > 0) mark(op.requests);
      switch (op.code) {
        case OpCode::kLoad:
        case OpCode::kStore:
        case OpCode::kAtomic:
        case OpCode::kPoll:
        case OpCode::kSpin:
          mark(op.table);
          break;
        case OpCode::kPost:
          posts[static_cast<std::size_t>(op.slot.add)] = true;
          break;
        default:
          break;
      }
    }
  }
  const auto any = [&](const std::vector<std::uint16_t>& list) {
    return std::any_of(list.begin(), list.end(), [&](std::uint16_t l) { return used[l]; });
  };
  for (std::size_t q = 0; q < out_.queues.size(); ++q) {
    const Queue& queue = out_.queues[q];
    if (!posts[q] && !any(queue.ring) && !(queue.bell != kNowhere && used[queue.bell])) continue;
    for (std::uint16_t l : queue.ring) use(l);
    for (std::uint16_t l : queue.announcements) use(l);
    for (std::uint16_t l : {queue.bell, queue.completed, queue.answered, queue.record}) use(l);
  }
  for (const Entry& e : out_.entries)
    for (std::uint16_t l : {e.source, e.target, e.signal, e.sink, e.receives}) use(l);
  std::vector<std::uint16_t> place(n, 0);
  std::vector<Location> kept(1);  // the place of all that nothing touches
  kept.front().name = "unused";
  for (std::size_t l = 0; l < n; ++l) {
    if (!used[l]) continue;
    place[l] = static_cast<std::uint16_t>(kept.size());
    kept.push_back(out_.locations[l]);
  }
  const auto move_to = [&](std::uint16_t& l) {
    if (l != kNowhere) l = place[l];
  };
  out_.locations = std::move(kept);
  for (Table& table : out_.tables)
    for (std::uint16_t& l : table.locations) move_to(l);
  for (Queue& queue : out_.queues) {
    for (std::uint16_t& l : queue.ring) move_to(l);
    for (std::uint16_t& l : queue.announcements) move_to(l);
    for (std::uint16_t* l : {&queue.bell, &queue.completed, &queue.answered, &queue.record})
      move_to(*l);
  }
  for (Entry& e : out_.entries)
    for (std::uint16_t* l : {&e.source, &e.target, &e.signal, &e.sink, &e.receives}) move_to(*l);
}

OrderProgram Builder::finish() {
  make_proxies();
  drop_idle_loads();
  drop_unused_words();
  constexpr int kNic = 100;
  const auto n = out_.locations.size();
  std::vector<std::set<int>> reads(n), writes(n);
  std::set<std::uint16_t> loaded;
  for (std::size_t t = 0; t < out_.threads.size(); ++t) {
    out_.threads[t].ops.push_back({});
    for (const Op& op : out_.threads[t].ops) {
      const auto mark = [&](std::uint16_t which, std::vector<std::set<int>>& who) {
        const Table& looked = out_.tables[which];
        for (std::size_t i = 0; i < looked.locations.size(); ++i)
          if (!looked.by_queue || out_.queues[i / looked.depth].node == out_.threads[t].node)
            who[looked.locations[i]].insert(static_cast<int>(t));
      };
      for (const Look& look : op.looks) mark(look.table, reads);
      for (std::uint16_t table : op.tables) mark(table, reads);
      const bool is_read = op.code == OpCode::kLoad || op.code == OpCode::kAtomic ||
                           op.code == OpCode::kPoll || op.code == OpCode::kSpin;
      const bool is_write =
          op.code == OpCode::kStore || op.code == OpCode::kAtomic || op.code == OpCode::kSpin;
      if (!is_read && !is_write) continue;
      const Table& table = out_.tables[op.table];
      // A lane uses the queues of its node alone.
      for (std::size_t i = 0; i < table.locations.size(); ++i) {
        const std::uint16_t l = table.locations[i];
        if (table.by_queue && out_.queues[i / table.depth].node != out_.threads[t].node) continue;
        if (is_read) reads[l].insert(static_cast<int>(t));
        if (is_write) writes[l].insert(static_cast<int>(t));
        if (op.code == OpCode::kLoad && out_.threads[t].on != MemoryKind::kHost) loaded.insert(l);
      }
    }
  }
  const auto nic = [&](std::vector<std::set<int>>& who, std::uint16_t l) {
    if (l != kNowhere) who[l].insert(kNic);
  };
  for (const Queue& queue : out_.queues) {
    for (std::uint16_t l : queue.ring) nic(reads, l);
    for (std::uint16_t l : queue.announcements) nic(reads, l);
    nic(reads, queue.bell);
    nic(reads, queue.record);
    nic(writes, queue.completed);
    nic(writes, queue.answered);
  }
  for (const Entry& e : out_.entries) {
    nic(reads, e.source);
    nic(e.form == EntryForm::kRead ? reads : writes, e.target);
    nic(writes, e.signal);
    nic(writes, e.sink);
    nic(writes, e.receives);
  }
  int histories = 0;
  for (std::size_t l = 0; l < n; ++l) {
    Location& location = out_.locations[l];
    for (int reader : reads[l])
      for (int writer : writes[l]) location.shared |= reader != writer;
    if (location.shared && loaded.count(static_cast<std::uint16_t>(l))) {
      location.history = histories++;
      if (histories > static_cast<int>(kMostHistories))
        throw InputError(
            "program",
            "more than " + std::to_string(kMostHistories) + " shared words that lanes load",
            "make the program smaller");
    }
  }
  return out_;
}

}  // namespace marrow::order
