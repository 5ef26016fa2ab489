#include "models/common/lane.h"

#include <algorithm>

namespace marrow {

bool Lane::begin_op(std::uint32_t sm) {
  if (!context->next_op(warp, op)) return false;
  at_ps = std::max(at_ps, op.from_ps);
  if (op.queue != Op::kOwnQueue && op.queue != queue) {
    left_index[queue] = own_index;
    queue = op.queue;
    own_index = left_index[queue];
  }
  in_op = true;
  pc = 0;
  rang = false;
  rounds = 0;
  op_from_ps = at_ps;
  seen_ps = issued_ps = launched_ps = -1;
  stage_from_ps = at_ps;
  const OpKind kind = op.kind;
  if (kind == OpKind::kWait || kind == OpKind::kBarrier) ++waits;
  if (kind == OpKind::kPutSignal || kind == OpKind::kAtomic || kind == OpKind::kBarrier) ++signals;
  posts = is_message(kind) || program().blocks(kind, 0) > 0;
  if (posts) lanes = std::max(program().lanes[static_cast<std::size_t>(kind)], 1u);
  if (posts) puts += lanes;
  if (context->order) context->order->on_operation_begin(moment(at_ps));
  if (!posts) return true;
  entries = std::max(program().blocks(kind, op.bytes), 1u);
  journey = {};
  journey.run = context->run;
  journey.pe = context->pe;
  journey.warp = warp;
  journey.sm = sm;
  journey.op = puts - lanes;
  journey.bytes = op.bytes;
  journey.start_ps = at_ps;
  return true;
}

LaneMoment Lane::moment(Ps when_ps) const {
  return {context->pe,       number, peer,    op.kind, op.wait,
          posts ? lanes : 0, puts,   signals, waits,   when_ps};
}

void Lane::enter(Stage next) {
  if (stage != Stage::kPoll && issued_ps < 0) journey.at(stage) += at_ps - stage_from_ps;
  if (next == Stage::kPoll && issued_ps < 0) issued_ps = at_ps;
  stage = next;
  stage_from_ps = at_ps;
}

void Lane::end_op() {
  enter(Stage::kLookup);
  const auto index_of = [&](std::uint32_t l) { return index + std::uint64_t{l} * entries; };
  for (std::uint32_t l = 0; posts && l < lanes; ++l) {
    journey.queue = queue;
    journey.index = index_of(l);
    journey.rang = rang;
    journey.waited = op.wait && seen_ps >= 0;
    journey.waited_ps = journey.waited ? seen_ps - issued_ps : 0;
    journey.polls = rounds;
    Flight& flight = context->book->flight(queue, index_of(l));
    flight.journey = journey;
    ++journey.op;
    flight.issued_ps = issued_ps >= 0 ? issued_ps : at_ps;
    flight.seen_ps = journey.waited ? seen_ps : -1;
    flight.launched_ps = launched_ps;
  }
  if (context->observer)
    context->observer->on_operation({context->run, context->pe, warp, op.kind, op.bytes, op_from_ps,
                                     std::max(at_ps, launched_ps)});
  if (context->order) context->order->on_operation_end(moment(std::max(at_ps, launched_ps)));
  in_op = false;
  for (std::uint32_t l = 0; posts && l < lanes; ++l) context->book->lane_done(queue, index_of(l));
}

bool Lane::control(const Step& step) {
  switch (step.op) {
    case StepOp::kStage:
      enter(step.stage);
      return true;
    case StepOp::kUse:
      at_ps = std::max(at_ps, ready_ps[step.reg]);
      return true;
    case StepOp::kSkipUnless:
      if (!holds(step)) pc = step.target;
      return true;
    case StepOp::kJump:
      pc = step.target;
      return true;
    case StepOp::kOwnIndex:
      take_index(own_index);
      own_index = next_index();
      return true;
    case StepOp::kPick: {
      const std::uint64_t choice = value[step.reg];
      queue = static_cast<std::uint32_t>(
          program().queues_by_peer ? choice % (context->queues / context->pes) * context->pes + peer
                                   : choice % context->queues);
      return true;
    }
    case StepOp::kVisit:
      home = queue;
      queue = context->is_to_self(0) ? 1 : 0;
      return true;
    case StepOp::kNext:
      do ++queue;
      while (context->is_to_self(queue));
      if (queue < context->queues)
        pc = step.target;
      else
        queue = home;
      return true;
    default:
      return false;
  }
}

std::uint64_t Lane::operand(const Step& step, Value which) const {
  const std::uint64_t next = next_index();
  const auto big_endian = [](std::uint64_t word) { return __builtin_bswap32(word & 0xffffffff); };
  switch (which) {
    case Value::kZero:
      return 0;
    case Value::kOne:
      return 1;
    case Value::kIndex:
      return index;
    case Value::kNext:
      return next;
    case Value::kEntries:
      return std::uint64_t{entries} * lanes;
    case Value::kVersion:
      return puts;
    case Value::kRecord:
      return big_endian(next & 0xffff);
    case Value::kDoorbell:
      return big_endian((next & 0xffff) << 8) | static_cast<std::uint64_t>(big_endian(queue << 8))
                                                    << 32;
    case Value::kCompleted:
      return completed;
    case Value::kSubmitted:
      return submitted;
    case Value::kWaits:
      return waits;
    case Value::kSignals:
      return signals;
    case Value::kRegister:
      return value[step.operand];
    case Value::kRegisterNext:
      return value[step.operand] + 1;
  }
  return 0;
}

bool Lane::holds(const Step& step) const {
  switch (step.condition) {
    case Condition::kAlways:
      return true;
    case Condition::kRingWrapped:
      // Its last entry counts: one of several may be the first to lie on used places.
      return next_index() > program().lane_depth() &&
             (step.modulus == 0 || (index - 1) / step.modulus != (next_index() - 1) / step.modulus);
    case Condition::kBatchBoundary:
      return puts % program().batch == 0 || op.flush;
    case Condition::kMultiple:
      return op.flush || index / step.modulus != next_index() / step.modulus;
    case Condition::kNewestOrMultiple:
      return value[step.reg] == next_index() || index / step.modulus != next_index() / step.modulus;
    case Condition::kAdvanced:
      return value[step.reg] < next_index();
    case Condition::kWaits:
      return op.wait;
    case Condition::kWaitsNot:
      return !op.wait;
    case Condition::kRangNot:
      return !rang;
    case Condition::kBehind:
      return value[step.reg] < value[step.operand];
    case Condition::kSingle:
      return unrung == 1;
    case Condition::kSeveral:
      return unrung > 1;
    case Condition::kOutstanding:
      return unanswered >= step.modulus;
  }
  return true;
}

void Lane::take_index(std::uint64_t taken) {
  index = taken;
  for (std::uint32_t l = 0; l < lanes; ++l, taken += entries) {
    Flight& flight = context->book->open(queue, taken, entries);
    flight.journey.bytes = op.bytes;
    flight.request = {op.kind, number, peer, puts - lanes + l + 1, signals};
  }
}

std::uint64_t Lane::wanted(const Step& step) const {
  switch (step.until) {
    case Until::kSlotFree:
      return next_index() + step.block - program().lane_depth();
    case Until::kCompleted:
      return next_index();
    case Until::kReached:
      return value[step.operand];
    case Until::kSignalled:
      return waits;
    case Until::kAnswered:
      return puts - step.block;
    case Until::kPresent:
      return index + 1;
    case Until::kAdvanced:
      return value[step.reg] + 1;
    case Until::kReplied:
      return signals;
    case Until::kEnded:
      return submitted;
  }
  return 0;
}

std::uint32_t Lane::fill(const Step& step, std::uint64_t stored, std::uint32_t count) {
  const auto total = static_cast<std::uint32_t>(
      std::min<std::size_t>(std::size_t{step.bytes} * count, bytes.size()));
  for (std::uint32_t i = 0; i < total; i += 8)
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&stored),
                std::min<std::uint32_t>(8, total - i), bytes.data() + i);
  return total;
}

std::uint64_t Lane::entry_index(const Step& step, std::uint32_t of) const {
  // An inline payload comes first, and what lies behind it moves on by its further blocks.
  const std::uint32_t further = program().blocks(op.kind, op.bytes) - program().blocks(op.kind, 0);
  return index + std::uint64_t{of} * entries + step.block + (step.block > 0 ? further : 0);
}

std::uint32_t Lane::encode(const Step& step, std::uint32_t of) {
  const NicProgram& nic = program().nic;
  const bool in_it = nic.inline_bytes == 0 || op.bytes <= nic.inline_bytes;
  const EntryForm form =
      step.form == EntryForm::kWriteInline && !in_it ? EntryForm::kWrite : step.form;
  const std::uint32_t further = program().blocks(op.kind, op.bytes) - program().blocks(op.kind, 0);
  const bool last = !more && step.block + entry_blocks(form, nic.dc, 0) + further == entries;
  asks = nic.every || last;
  // The first time counts: BlueFlame stores the entry into the register once more.
  if (const std::uint64_t at = entry_index(step, of); context->book->holds(queue, at)) {
    Flight& flight = context->book->flight(queue, at);
    if (flight.written_ps < 0) flight.written_ps = at_ps;
  }
  return context->encode({form, number, queue, entry_index(step, of), op.bytes,
                          puts - lanes + of + 1, signals, peer, last, step.immediate},
                         bytes);
}

void Lane::answer(const Step& step, std::uint64_t answered, Ps back_ps, std::uint32_t looks) {
  if (step.reg != kNoRegister) {
    value[step.reg] = answered;
    ready_ps[step.reg] = back_ps;
  }
  if (step.is_index) take_index(answered);
  if (step.wait) at_ps = std::max(at_ps, back_ps);
  if (step.op == StepOp::kPoll &&
      (step.until == Until::kCompleted || step.until == Until::kAnswered ||
       step.until == Until::kReplied)) {
    rounds = looks;
    seen_ps = at_ps;
  }
}

}  // namespace marrow
