// CPU cores that execute a protocol's steps: a thread of the trace, or of a proxy, has a core of
// its own.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <systemc>
#include <tlm>
#include <unordered_map>
#include <vector>

#include "models/common/access.h"
#include "models/common/delay_line.h"
#include "models/common/lane.h"
#include "models/common/random.h"
#include "models/host/memory.h"
#include "models/host/spec.h"
#include "models/host/stream.h"

namespace marrow::host {

/// A core's read of the GPU's memory through its BAR, beyond the core.
struct BarSpec {
  Ps out_ps = 0;   ///< root complex until the GPU's memory is read
  Ps back_ps = 0;  ///< from there until the root complex has the data
};

/// Costs of a trace's threads are in ns, those of a proxy's in cycles of its clock. Host memory is
/// cached: an access costs a look (poll_ns); where a device wrote the line last it is there line_ns
/// after the load, which goes ahead of the look by the core's window, and notice_ns after the
/// write, whichever is later. Stores retire at once; one to
/// a device is posted and leaves the machine's cores mmio_ns later. A proxy's thread reads the
/// GPU's memory through its BAR, uncached, and waits for it. Fences of system scope are store
/// fences; narrower ones only keep the compiler from moving code and are free.
class Core : public sc_core::sc_module {
 public:
  /// Stores to devices. May stay unbound where there is no device.
  tlm_utils::simple_initiator_socket_optional<Core> to_device{"to_device"};

  Core(sc_core::sc_module_name name, const HostSpec& spec, HostMemory* memory, BarSpec bar = {});

  /// The GPU to which threads submit kernels and copies. Must outlive this.
  void attach(const GpuSpec& spec, gpu::FrontEnd* front_end) {
    gpu_ = spec;
    front_end_ = front_end;
  }
  /// lane: its number among the run's lanes. peer: the processing element it talks to.
  void add_lane(const RunContext* context, std::uint32_t warp, std::uint32_t queue,
                std::uint32_t lane = 0, std::uint32_t peer = 0);
  /// The threads of the program's proxy, each with its share of the queues.
  void add_proxy(const RunContext* context);
  /// Before each run, after the memories' reset: no threads, noise from this seed.
  void reset(std::uint64_t seed);
  /// What the trace's threads wait for while nothing moves.
  void waits(std::vector<Wait>& all) const;
  void report(CounterSink& sink) const;
  void clear_counters() { counters_ = {}; }

 private:
  struct Worker;
  struct Thread : Lane {
    Worker* worker = nullptr;  ///< itself, if it is a proxy's
    const std::vector<Step>* steps = nullptr;
    const Step* pending = nullptr;   ///< an access that meets the kernel's time
    bool spins = false;              ///< it polls and has not found what it wants
    Ps looks_from_ps = 0;            ///< since then
    double cycle_ps = 1000;          ///< unit of its own costs
    double slowness = 1;             ///< against a core at its full clock
    std::unique_ptr<Stream> stream;  ///< where the program has kernels
  };
  /// What a proxy's thread keeps of a queue.
  struct Service {
    std::uint32_t queue = 0;
    std::uint64_t next = 0;                 ///< behind the last descriptor taken
    std::uint64_t rung = 0;                 ///< behind the last that it rang for
    std::uint64_t asked = 0, answered = 0;  ///< CQEs
    std::uint64_t completed = 0;
    std::array<std::uint64_t, kRegisterCount> value{};
  };
  /// A look of a pass: service * looks a visit + look.
  using Place = std::uint64_t;
  /// While it finds nothing, a proxy's thread costs no events: `ready` holds the looks that would
  /// find something, and the time of each follows from its place in the pass.
  struct Worker : Thread {
    std::vector<Service> served;
    std::size_t at = 0;                  ///< the one it visits
    std::vector<std::uint32_t> looks;    ///< steps of a visit
    std::vector<Ps> sample_ps;           ///< from a visit's begin until that look's moment
    Ps visit_ps = 0, period_ps = 1;      ///< of an idle visit and pass
    Ps pass_from_ps = 0;                 ///< begin of a pass as it would be if all were idle
    std::size_t resume = 0;              ///< step behind `post`
    std::uint32_t found = 0, most = 1;   ///< times that a look has found something in a row
    std::vector<std::uint64_t> watched;  ///< by place: the line, plus 1
    std::set<Place> ready;
    bool parked = false;
    Place woken_at = 0;
    Ps wakes_ps = 0;
    std::uint64_t generation = 0;
  };
  struct Store {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    Ps way_ps = 0;  ///< to the root complex
    std::array<std::uint8_t, 256> data{};
    JourneyBook* book = nullptr;  ///< it tells of completions
    std::uint32_t queue = 0;
    std::uint64_t completed = 0;
  };
  struct Wake {
    Worker* worker = nullptr;
    std::uint64_t generation = 0;
  };
  /// A store on its way to a device.
  struct Posted : tlm::tlm_generic_payload {
    Access access;
    Store store;
    ~Posted() override { clear_extension(&access); }
  };

  void run(Thread& thread);
  /// The step is done, or waits for the kernel's time: false.
  bool step(Thread& thread, const Step& step);
  bool proxy_step(Worker& worker, const Step& step);
  void turn(Thread& thread, Ps at_ps);
  void store(Thread& thread, const Step& step);
  void tell(const Thread& thread, const Step& step, Store& store) const;
  void access(Thread& thread, const Step& step, Ps at_ps);
  void take_effect(Store& store, Ps at_ps);
  void written(std::uint64_t address, Ps at_ps);
  static std::uint64_t wanted(const Thread& thread, const Step& step);
  void copy(Thread& thread, const Step& step);
  std::uint64_t place(const Thread& thread, const Step& step) const;
  Ps period_ps(const Thread& thread, const Step& step) const;
  /// Of a look that finds nothing.
  Ps missed_ps(const Thread& thread, const Step& step, std::uint64_t address) const;
  /// Until a core that looks at that time knows.
  Ps look_ps(const Thread& thread, std::uint64_t address, Ps at_ps);
  Ps sample_ps(const Thread& thread, std::uint64_t address) const;
  std::uint64_t load(const Thread& thread, std::uint64_t address, std::uint32_t bytes) const;
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay);

  void enter(Worker& worker, std::size_t service);
  void leave(Worker& worker);
  std::uint64_t looks_at(const Worker& worker, Place place) const;
  bool finds(const Worker& worker, Place place) const;
  void consider(Worker& worker, Place place);
  void park(Worker& worker);
  Ps look_time(const Worker& worker, Place place, Ps not_before_ps) const;
  void wake_at(Worker& worker, Place place, Ps at_ps);
  void wake(Wake& wake, Ps at_ps);
  void look(Worker& worker, const Step& step, Ps at_ps);
  void take(Worker& worker);
  void answered(Worker& worker, std::uint64_t cqe);
  bool follows(const Worker& worker) const;

  const HostSpec spec_;
  HostMemory* memory_;
  const BarSpec bar_;
  GpuSpec gpu_;
  gpu::FrontEnd* front_end_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;  ///< of the trace, then the proxy's
  std::vector<Worker*> workers_;
  std::unordered_multimap<std::uint64_t, std::pair<Worker*, Place>> watchers_;  ///< by line
  DelayLine<Thread*> turns_;
  DelayLine<Wake> wakes_;
  DelayLine<Store> stores_;
  std::vector<std::unique_ptr<Posted>> posted_;
  std::vector<Posted*> free_posted_;
  Random random_;
  struct Counts {
    std::uint64_t messages = 0, stores = 0, register_stores = 0, fences = 0, polls = 0;
    std::uint64_t bar_stores = 0, bar_reads = 0, found = 0;
  } counters_;
};

}  // namespace marrow::host
