#include "models/host/stream.h"

#include <algorithm>

namespace marrow::host {

namespace {
constexpr std::uint64_t kLineBytes = 64;
}

gpu::DoneWord Stream::done() const {
  const Program& program = lane_->program();
  return {
      lane_->context->layout->address(program, program.kernel.done, lane_->queue, 0, lane_->number),
      lane_->submitted};
}

gpu::Kernel Stream::kernel(double cycles) const {
  const Program& program = lane_->program();
  return {static_cast<Ps>(cycles * 1000 / gpu_.sm_clock_ghz), &program.kernel.tail,
          [this](const Step& step) { return lane_->address(step, 0); }, done()};
}

void Stream::begin() {
  ++lane_->submitted;
  landed_[0].line = done().address / kLineBytes;
  for (const Step& step : lane_->program().kernel.tail)
    if (step.op == StepOp::kStore) landed_[1].line = lane_->address(step, 0) / kLineBytes;
  kernel_ = front_end_->start(lane_->number, kernel(0), lane_->at_ps);
  runs_ = true;
}

void Stream::launch() {
  const Ps called_ps = lane_->at_ps;
  KernelRound round{lane_->context->run,
                    lane_->context->pe,
                    lane_->warp,
                    kernel_.worked_ps,
                    runs_ ? called_ps : noticed_ps_,
                    called_ps,
                    0,
                    0};
  const bool behind = front_end_->busy(lane_->number, lane_->at_ps);
  lane_->at_ps += ps_from_ns(spec_.launch_call_ns * (behind ? spec_.launch_behind_ratio : 1));
  ++lane_->submitted;
  kernel_ =
      front_end_->launch(lane_->number, kernel(static_cast<double>(work_cycles_)), lane_->at_ps);
  work_cycles_ = 0;
  runs_ = true;
  lane_->launched_ps = kernel_.started_ps;
  round.started_ps = kernel_.started_ps;
  round.ended_ps = kernel_.worked_ps;
  if (lane_->context->observer) lane_->context->observer->on_kernel(round);
}

void Stream::copy(bool to_host, std::uint64_t bytes) {
  lane_->at_ps += ps_from_ns(spec_.copy_call_ns);
  ++lane_->submitted;
  front_end_->copy(lane_->number, to_host, bytes, done(), lane_->at_ps);
}

void Stream::written(std::uint64_t address, Ps at_ps) {
  for (Landed& one : landed_)
    if (one.line == address / kLineBytes) one.at_ps = at_ps;
}

bool Stream::awaits(std::uint64_t address) const {
  for (const Landed& one : landed_)
    if (one.line == address / kLineBytes) return one.known < lane_->submitted;
  return true;
}

void Stream::ended(std::uint64_t address) {
  // What has ended altogether needs no kernel's own word any more: a copy writes none.
  const bool altogether = landed_[0].line == address / kLineBytes;
  for (Landed& one : landed_)
    if (altogether || one.line == address / kLineBytes) one.known = lane_->submitted;
  if (!runs_) return;
  runs_ = false;
  noticed_ps_ = lane_->at_ps;
  Ps landed_ps = kernel_.worked_ps;
  for (const Landed& one : landed_)
    if (one.line == address / kLineBytes) landed_ps = std::max(landed_ps, one.at_ps);
  // An operation that launched it waits for its own kernel.
  if (lane_->launched_ps >= 0) return;
  // What the thread did before it had the kernel's end is not the message's.
  lane_->op_from_ps = kernel_.worked_ps;
  lane_->stage_from_ps = lane_->at_ps;
  if (!lane_->posts) return;
  lane_->stage = Stage::kHostNotice;
  Journey& journey = lane_->journey;
  journey.start_ps = kernel_.worked_ps;
  journey.stage_ps = {};
  journey.at(Stage::kKernelEnd) = landed_ps - kernel_.worked_ps;
  journey.at(Stage::kHostNotice) = lane_->at_ps - landed_ps;
}

}  // namespace marrow::host
