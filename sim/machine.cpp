#include "sim/machine.h"

#include <algorithm>
#include <set>
#include <string>

#include "models/common/delay_line.h"
#include "models/common/error.h"

// SystemC's library expects it; marrow runs the kernel from its own main.
int sc_main(int, char**) { return 0; }

namespace marrow::sim {

namespace {

/// Gives journeys and activities times that start at the run's begin.
class FromRunStart : public Observer {
 public:
  FromRunStart(Observer* next, Ps begin_ps) : next_(next), begin_ps_(begin_ps) {}
  void on_journey(const Journey& journey) override {
    ++journeys_;
    if (!next_) return;
    Journey shifted = journey;
    shifted.start_ps -= begin_ps_;
    next_->on_journey(shifted);
  }
  void on_activity(const Activity& activity) override {
    Activity shifted = activity;
    shifted.begin_ps -= begin_ps_;
    shifted.end_ps -= begin_ps_;
    next_->on_activity(shifted);
  }
  bool wants_activity() const override { return next_ && next_->wants_activity(); }
  std::uint64_t journeys() const { return journeys_; }

 private:
  Observer* next_;
  Ps begin_ps_;
  std::uint64_t journeys_ = 0;
};

}  // namespace

Machine::Machine(const config::SystemSpec& spec)
    : spec_(spec),
      hbm_("gpu0_hbm", spec.gpu),
      l2_("gpu0_l2", spec.gpu, ps_from_ns(spec.pcie.round_trip_ns + spec.host.device_written_ns),
          hbm_.memory()),
      link_("pcie", spec.pcie),
      root_("root_complex", spec.host),
      host_memory_("host_memory", spec.host),
      cpu_("host_thread", spec.host, &host_memory_),
      warp_("consumer_warp", spec.gpu, spec.pcie, spec.host, &l2_, &host_memory_) {
  for (std::uint32_t id = 0; id < static_cast<std::uint32_t>(spec.gpu.sm_count); ++id) {
    sms_.push_back(
        std::make_unique<gpu::Sm>(("gpu0_sm" + std::to_string(id)).c_str(), id, spec.gpu));
    sms_.back()->memory.bind(l2_.from_sms);
  }
  warp_.memory.bind(l2_.from_sms);
  l2_.to_hbm.bind(hbm_.from_l2);
  l2_.to_host.bind(link_.from_device);
  link_.to_root.bind(root_.from_link);
  root_.to_memory.bind(host_memory_.from_root);
  if (spec.nvlink.peers > 0) peer_ = std::make_unique<PeerSide>(spec, l2_);
}

std::uint32_t Machine::default_sm(std::uint32_t block) const {
  // Blocks of a small grid land on different SMs; which ones is the hardware's choice.
  return block * 2 % static_cast<std::uint32_t>(sms_.size());
}

void Machine::run(const RunSetup& setup) {
  const Program& program = setup.recipe->program;
  const trace::Run& run = *setup.run;
  const QueueLayout layout(program, run.queues);
  if (layout.peer_bytes() > 0 && !peer_)
    throw InputError("run '" + run.name + "' with protocol " + program.protocol,
                     "has words in a peer GPU's memory, and the system has one GPU",
                     "use a system with nvlink.peers_count: 1 (h200x2-f), or another "
                     "`memory` for them (doorbell_in: gpu)");
  Placement placement;
  placement.draw(std::max<std::uint64_t>(layout.gpu_bytes(), 4096),
                 static_cast<std::uint32_t>(sms_.size()), setup.seed,
                 spec_.gpu.distance_spread_cycles);
  if (setup.place) setup.place(layout, placement);

  const Ps begin_ps = now_ps();
  FromRunStart observer(setup.observer, begin_ps);
  JourneyBook book;
  book.begin(run.queues, &observer);
  hbm_.reset(placement.gpu_bytes());
  l2_.reset(placement.gpu_bytes(), &placement, setup.seed);
  link_.reset(setup.seed);
  root_.reset();
  if (peer_) peer_->reset(layout.peer_bytes(), setup.seed);
  host_memory_.reset(std::max<std::uint64_t>(layout.host_bytes(), 4096));
  cpu_.seed(setup.seed);
  for (auto& sm : sms_) sm->reset(setup.seed);
  l2_.set_observer(&observer);
  link_.set_observer(&observer);
  if (peer_) peer_->set_observer(&observer);

  gpu::RunContext context;
  context.program = &program;
  context.layout = &layout;
  context.book = &book;
  context.l2 = &l2_;
  context.run = setup.index;
  context.lanes = static_cast<std::uint32_t>(run.lanes.size());
  context.lanes_of_queue.assign(run.queues, 0);
  for (const trace::Lane& lane : run.lanes) ++context.lanes_of_queue[lane.queue];
  std::uint64_t done_lanes = 0;
  // Between two completed messages there may lie a lane's own work and a payload's copy.
  constexpr Ps kSlowestPsPerByte = 1000;
  Ps longest_pause_ps = 0;
  context.next_put = [&](std::uint32_t warp, gpu::Put& put) {
    if (setup.next_put(warp, put)) {
      longest_pause_ps = std::max(
          longest_pause_ps,
          static_cast<Ps>(static_cast<double>(put.compute_cycles) * 1000 / spec_.gpu.sm_clock_ghz) +
              static_cast<Ps>(put.bytes) * kSlowestPsPerByte);
      return true;
    }
    ++done_lanes;
    return false;
  };
  context.on_index = [&](std::uint32_t queue, std::uint64_t index, std::uint64_t size) {
    book.flight(queue, index).bytes = size;
  };
  const ConsumerProgram::Where where = program.consumer.where;
  Consumer& consumer = where == ConsumerProgram::Where::kCpu    ? static_cast<Consumer&>(cpu_)
                       : where == ConsumerProgram::Where::kPeer ? peer_->consumer()
                                                                : static_cast<Consumer&>(warp_);
  const auto blocks = static_cast<std::uint32_t>(run.lanes.size());
  // Traces do not say where the consumer ran: its block is the grid's last, on a neighbour of the
  // last lane's SM.
  warp_.place((run.lanes.back().sm.value_or(default_sm(blocks - 1)) + 2) %
              static_cast<std::uint32_t>(sms_.size()));
  consumer.set_observer(&observer);
  consumer.start(
      &program, &layout, run.queues, &book,
      [&](std::uint32_t queue, std::uint64_t index) { return book.flight(queue, index).bytes; });
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const trace::Lane& lane = run.lanes[block];
    const std::uint32_t sm = lane.sm.value_or(default_sm(block));
    if (sm >= sms_.size())
      throw InputError("run '" + run.name + "'",
                       "warp " + std::to_string(lane.warp) + " is on SM " + std::to_string(sm) +
                           ", the system has " + std::to_string(sms_.size()),
                       "use a system with enough SMs (gpu.sm.units_count)");
    sms_[sm]->add_lane(&context, lane.warp, lane.queue);
  }

  // In slices of simulated time, so that a program that polls for ever is noticed.
  const sc_core::sc_time slice(100, sc_core::SC_MS);
  Ps progress_ps = now_ps();
  std::uint64_t journeys = 0;
  do {
    // A slice in which nothing is due would leave the time where it is.
    const sc_core::sc_time due =
        sc_core::sc_time_to_pending_activity() + sc_core::sc_get_time_resolution();
    sc_core::sc_start(std::max(slice, due), sc_core::SC_EXIT_ON_STARVATION);
    if (observer.journeys() != journeys) progress_ps = now_ps();
    journeys = observer.journeys();
  } while (sc_core::sc_pending_activity() &&
           now_ps() - progress_ps <= longest_pause_ps + static_cast<Ps>(slice.value()));
  const bool stuck = done_lanes < run.lanes.size() || book.in_flight() > 0;
  l2_.set_observer(nullptr);
  link_.set_observer(nullptr);
  if (peer_) peer_->set_observer(nullptr);
  consumer.set_observer(nullptr);
  if (stuck)
    throw InputError(
        "run '" + run.name + "' with protocol " + program.protocol,
        "it got stuck: " + std::to_string(book.in_flight()) + " messages never complete, " +
            std::to_string(run.lanes.size() - done_lanes) + " of " +
            std::to_string(run.lanes.size()) + " lanes wait for ever",
        "a wait needs a doorbell before it (flush the last put, or batch less than the "
        "puts between waits)");
}

void Machine::clear_counters() {
  for (auto& sm : sms_) sm->clear_counters();
  l2_.clear_counters();
  hbm_.clear_counters();
  link_.clear_counters();
  cpu_.clear_counters();
  warp_.clear_counters();
  if (peer_) peer_->clear_counters();
}

void Machine::report(CounterSink& sink) const {
  for (const auto& sm : sms_) sm->report(sink);
  l2_.report(sink);
  hbm_.report(sink);
  link_.report(sink);
  cpu_.report(sink);
  warp_.report(sink);
  if (peer_) peer_->report(sink);
}

}  // namespace marrow::sim
