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
    bool launches = false;
    for (const auto& steps : recipe->steps)
      for (const Step& step : steps)
        launches |= step.op == StepOp::kLaunch || step.op == StepOp::kCopy;
    if (recipe->proxy.present || launches)
      throw InputError(recipe->protocol,
                       launches ? "it launches kernels, which are not carried out here"
                                : "its CPU threads post, and they are not carried out here",
                       "write the steps of both sides by hand in a litmus file");
    recipe_ = *recipe;
    recipe_->depth = setup.depth;
    std::uint32_t most_blocks = 1;
    for (std::size_t k = 0; k < kOpKindCount; ++k)
      most_blocks = std::max(most_blocks, recipe_->blocks(static_cast<OpKind>(k), 8));
    batch_most_ = setup.depth > most_blocks ? setup.depth - most_blocks : 1;
    for (const auto& steps : recipe_->steps)
      for (const Step& step : steps)
        polls_answers_ |= step.op == StepOp::kPoll && step.until == Until::kAnswered;
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
      for (const auto& steps : p.steps)
        for (const Step& step : steps)
          queue.pushed |= step.form != EntryForm::kNone && step.word == p.nic.doorbell;
      queue.ring = queue.pushed ? ring("pushed entry", {queue.node, MemoryKind::kNic})
                                : ring("entry", home(p.nic.entry));
      if (!queue.pushed) {
        queue.bell = location("doorbell" + end, home(p.nic.doorbell));
        out_.locations[queue.bell].bell = true;
        for (const auto& steps : p.steps)
          for (const Step& step : steps)
            if (step.op == StepOp::kStore && step.value == Value::kRecord)
              queue.record = location(p.words[step.word].name + end, home(step.word));
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
  const Operand next{kIndexReg, 1, at.entries};
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
      return {-1, 1, lanes_[at.thread].puts};
    case Value::kRegister:
      return {reg(step.operand), 1, 0};
    case Value::kRegisterNext:
      return {reg(step.operand), 1, 1};
    default:  // a proxy thread's
      return {};
  }
}

std::uint16_t Builder::table_of(const At& at, std::uint32_t w) {
  const Program& p = *recipe_;
  const Thread& thread = out_.threads[at.thread];
  const std::uint8_t lane = lanes_[at.thread].lane;
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
  const bool is_bell = w == p.announcement();
  const bool is_completion = w == (nic.present ? nic.completion : p.consumer.completion);
  if (region.owner != Owner::kQueue) {
    table.locations.push_back(location(key, home_of(w, thread.node)));
  } else {
    table.by_queue = true;
    const bool per_slot = word.entry_bytes > 0 && !is_completion;
    table.depth = per_slot ? p.depth : 1;
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
        table.locations.push_back(l);
      }
    }
  }
  out_.tables.push_back(table);
  return tables_[key] = static_cast<std::uint16_t>(out_.tables.size() - 1);
}

std::uint8_t Builder::entry(const At& at, const Step& step) {
  const Thread& thread = out_.threads[at.thread];
  Lane& lane = lanes_[at.thread];
  const NicProgram& nic = recipe_->nic;
  Entry e;
  e.form = step.form;
  e.thread = at.thread;
  e.blocks = step.form == EntryForm::kNone ? 1 : entry_blocks(step.form, nic.dc, 8);
  e.completes = nic.every || step.block + e.blocks == static_cast<std::uint32_t>(at.entries);
  e.has_immediate = step.immediate;
  const std::uint8_t peer = peer_of(thread.node);
  const std::string& data = at.call->data;
  if (step.form == EntryForm::kWrite || step.form == EntryForm::kWriteInline) {
    e.source = source(thread.node, data);
    e.target = target(peer, data);
    // Its own stores, else what another lane of the node has stored for it.
    e.expects = lane.versions[data];
    for (std::size_t t = 0; e.expects == 0 && t < lanes_.size(); ++t)
      if (out_.threads[t].node == thread.node) e.expects = lanes_[t].versions[data];
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

void Builder::lower_step(const At& at, const Step& step) {
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
        case Until::kAnswered: {
          const Word16 behind = std::min(static_cast<Word16>(std::min(step.block, 1000U)), depth);
          wanted = {-1, 1, static_cast<Word16>(lanes_[t].puts - behind)};
          Table answers;
          answers.by_queue = true;
          for (const Queue& queue : out_.queues) answers.locations.push_back(queue.answered);
          out_.tables.push_back(answers);
          table = static_cast<std::uint16_t>(out_.tables.size() - 1);
          break;
        }
        default:  // a proxy thread's
          break;
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
        default:  // a proxy thread's
          break;
      }
      break;
    }
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

void Builder::lower(const At& at, std::size_t from, std::size_t to) {
  const auto& steps = recipe_->of(at.call->kind);
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
        lower(at, i + 1, end);
      }
      move(at.thread, kQueueReg, {kHomeReg, 1, 0});
      i = end;
      continue;
    }
    if (step.op == StepOp::kJump)
      push(at.thread, OpCode::kSkipUnless, "").test = Test::kNever;
    else
      lower_step(at, step);
    if (step.op == StepOp::kSkipUnless || step.op == StepOp::kJump)
      jumps.emplace_back(ops.size() - 1, step.target);
  }
  begins[to] = ops.size();
  for (const auto& [op, step] : jumps) {
    auto it = begins.lower_bound(step);
    ops[op].target = static_cast<std::uint32_t>(it == begins.end() ? ops.size() : it->second);
  }
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
  lower({t, &call, posts ? entries : Word16{1}}, 0, steps.size());
  if (call.elsewhere) move(t, kQueueReg, {-1, 1, own});
}

void Builder::write(std::uint8_t t, const std::string& data) {
  const auto table = single(source(out_.threads[t].node, data));
  Op& op = push(t, OpCode::kStore,
                fmt::format("stores version {} of {}", lanes_[t].versions[data] + 1, data));
  op.table = table;
  op.value = {-1, 1, ++lanes_[t].versions[data]};
}

void Builder::read(std::uint8_t t, const std::string& data, Word16 expects,
                   const std::string& into) {
  const auto table = single(target(out_.threads[t].node, data));
  const auto reg = result(t, into);
  Op& op = push(t, OpCode::kLoad, "loads " + data);
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

OrderProgram Builder::finish() {
  drop_idle_loads();
  constexpr int kNic = 100;
  const auto n = out_.locations.size();
  std::vector<std::set<int>> reads(n), writes(n);
  std::set<std::uint16_t> loaded;
  for (std::size_t t = 0; t < out_.threads.size(); ++t) {
    out_.threads[t].ops.push_back({});
    for (const Op& op : out_.threads[t].ops) {
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
