#include "models/common/lane.h"

#include <algorithm>

namespace marrow {

bool Lane::begin_op(std::uint32_t sm) {
  if (!context->next_op(warp, op)) return false;
  in_op = true;
  pc = 0;
  rang = false;
  rounds = 0;
  op_from_ps = at_ps;
  seen_ps = issued_ps = -1;
  stage_from_ps = at_ps;
  if (op.kind == OpKind::kWait) ++waits;
  if (!is_message(op.kind)) return true;
  entries = program().blocks(op.kind, op.bytes);
  journey = {};
  journey.run = context->run;
  journey.pe = context->pe;
  journey.warp = warp;
  journey.sm = sm;
  journey.op = puts++;
  journey.start_ps = at_ps;
  return true;
}

void Lane::enter(Stage next) {
  if (stage != Stage::kPoll && issued_ps < 0) journey.at(stage) += at_ps - stage_from_ps;
  if (next == Stage::kPoll && issued_ps < 0) issued_ps = at_ps;
  stage = next;
  stage_from_ps = at_ps;
}

void Lane::end_op() {
  enter(Stage::kLookup);
  if (is_message(op.kind)) {
    journey.queue = queue;
    journey.index = index;
    journey.rang = rang;
    journey.waited = op.wait && seen_ps >= 0;
    journey.waited_ps = journey.waited ? seen_ps - issued_ps : 0;
    journey.polls = rounds;
    Flight& flight = context->book->flight(queue, index);
    flight.journey = journey;
    flight.issued_ps = issued_ps >= 0 ? issued_ps : at_ps;
    flight.seen_ps = journey.waited ? seen_ps : -1;
  }
  if (context->observer)
    context->observer->on_operation(
        {context->run, context->pe, warp, op.kind, op.bytes, op_from_ps, at_ps});
  in_op = false;
  if (is_message(op.kind)) context->book->lane_done(queue, index);
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
    case StepOp::kOwnIndex:
      take_index(own_index);
      own_index += entries;
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
      queue = 0;
      return true;
    case StepOp::kNext:
      if (++queue < context->queues)
        pc = step.target;
      else
        queue = home;
      return true;
    default:
      return false;
  }
}

std::uint64_t Lane::operand(const Step& step, Value which) const {
  const std::uint64_t next = index + entries;
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
      return entries;
    case Value::kVersion:
      return puts;
    case Value::kRecord:
      return big_endian(next & 0xffff);
    case Value::kDoorbell:
      return big_endian((next & 0xffff) << 8) | static_cast<std::uint64_t>(big_endian(queue << 8))
                                                    << 32;
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
      return index >= program().depth && (step.modulus == 0 || index % step.modulus == 0);
    case Condition::kBatchBoundary:
      return puts % program().batch == 0 || op.flush;
    case Condition::kNewestOrMultiple:
      return value[step.reg] == index + entries ||
             index / step.modulus != (index + entries) / step.modulus;
    case Condition::kAdvanced:
      return value[step.reg] < index + entries;
    case Condition::kWaits:
      return op.wait;
    case Condition::kWaitsNot:
      return !op.wait;
    case Condition::kRangNot:
      return !rang;
    case Condition::kBehind:
      return value[step.reg] < value[step.operand];
  }
  return true;
}

void Lane::take_index(std::uint64_t taken) {
  index = taken;
  context->book->open(queue, index, entries);
  context->on_index(queue, index, op.bytes);
}

std::uint64_t Lane::wanted(const Step& step) const {
  switch (step.until) {
    case Until::kSlotFree:
      return index + entries + step.block - program().depth;
    case Until::kCompleted:
      return index + entries;
    case Until::kReached:
      return value[step.operand];
    case Until::kSignalled:
      return waits;
    case Until::kAnswered:
      return puts - step.block;
  }
  return 0;
}

std::uint32_t Lane::fill(const Step& step, std::uint64_t stored) {
  if (step.form != EntryForm::kNone) {
    EntryForm form = step.form;
    const std::uint32_t most = program().nic.inline_bytes;
    if (form == EntryForm::kWriteInline && most > 0 && op.bytes > most) form = EntryForm::kWrite;
    return context->encode({form, number, queue, index + step.block, op.bytes, puts,
                            step.block + 1 == entries, step.immediate},
                           bytes);
  }
  const auto total = static_cast<std::uint32_t>(
      std::min<std::size_t>(std::size_t{step.bytes} * step.count, bytes.size()));
  for (std::uint32_t i = 0; i < total; i += 8)
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&stored),
                std::min<std::uint32_t>(8, total - i), bytes.data() + i);
  return total;
}

void Lane::answer(const Step& step, std::uint64_t answered, Ps back_ps, std::uint32_t looks) {
  if (step.reg != kNoRegister) {
    value[step.reg] = answered;
    ready_ps[step.reg] = back_ps;
  }
  if (step.is_index) take_index(answered);
  if (step.wait) at_ps = std::max(at_ps, back_ps);
  if (step.op == StepOp::kPoll &&
      (step.until == Until::kCompleted || step.until == Until::kAnswered)) {
    rounds = looks;
    seen_ps = at_ps;
  }
}

}  // namespace marrow
