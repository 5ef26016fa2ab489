// Follows a timed run and says which orders it takes for granted. Whether a hazard can happen is
// asked of the recipe with the choices, operations and queues that the run uses, in every order
// that the rules allow (check.h). Whether it happened is seen in the run: by address and version,
// what each read found against what program order or a wait had promised it.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "models/common/journey_book.h"
#include "models/common/observer.h"
#include "sim/order/check.h"

namespace marrow::order {

struct WatchOptions {
  bool same_cta = false;         ///< the lanes that share a queue are in one CTA
  bool caller_releases = false;  ///< the caller fences what it stored before it asks for a put
  bool caller_acquires = false;  ///< the caller fences behind a wait, before it reads
  bool one_source = false;       ///< a lane has one source, which each of its puts stores to anew
};

struct Hazards {
  struct One {
    CheckFinding can;         ///< what the rules allow
    std::uint64_t count = 0;  ///< how often it happened in the run
    std::string happened;     ///< the first time
  };
  std::string run, protocol;
  std::vector<One> list;             ///< each once
  std::vector<std::string> ran;      ///< programs that were tried
  std::vector<std::string> cut_off;  ///< those that were too large to be sure
  std::size_t states = 0;
  std::uint64_t messages = 0, waits = 0;  ///< followed in the run
};

/// The trace does not say what buffers a program uses nor what it reads. Taken for granted: each
/// put sends a version of its own, stored before the call; a wait's lane then reads all that its
/// partner has put before the signal. What is kept is of messages in flight.
class Watch : public OrderObserver {
 public:
  explicit Watch(const WatchOptions& options) : options_(options) {}

  /// shares_queues: two lanes have one queue.
  void begin_run(const std::string& name, const Program& program, bool shares_queues);
  /// Also of a run that broke off.
  Hazards finish_run();

  void on_run_begin(Ps begin_ps) override { begin_ps_ = begin_ps; }
  void on_operation_begin(const LaneMoment& moment) override;
  void on_operation_end(const LaneMoment& moment) override;
  void on_message(std::uint32_t pe, const Flight& flight, const Flight* over) override;
  void on_unfinished(std::uint32_t pe, std::uint32_t queue, std::uint64_t index,
                     const Flight& flight, const Flight* over) override;
  std::size_t kept() const;  ///< messages and waits

 private:
  struct Sent {
    Ps start_ps = 0;
    Ps returned_ps = -1;      ///< of what said that it is complete
    std::uint64_t cover = 0;  ///< the signal, or message, that announces it
    bool done = false;
  };
  struct LaneState {
    std::deque<Sent> sent;  ///< from version `base` on
    std::uint64_t base = 1, returned = 1;
    std::deque<Ps> waits;  ///< ends, from number `first_wait` on
    std::uint64_t first_wait = 1;
    std::uint64_t cover = 0;  ///< of the message that comes next
    std::int64_t sender = -1;
    std::uint64_t recent = 0, told = 0;  ///< operations up to the next signal, four bits each
    bool many_senders = false, unwaited = false;
  };
  struct Happened {
    std::uint64_t count = 0;
    std::string first;
    Finding finding;
  };

  LaneState& state(std::uint32_t pe, std::uint32_t lane);
  void happened(Hazard hazard, const char* first, const char* second, std::uint32_t pe,
                const Flight& flight, const char* promised, Ps promised_ps, Ps read_ps);

  const WatchOptions options_;
  std::string run_;
  Program program_;
  bool shares_queues_ = false, by_signals_ = true, put_waits_ = false;
  Ps begin_ps_ = 0;
  std::vector<std::vector<LaneState>> lanes_;
  Use use_;
  std::set<std::uint64_t> sends_;
  std::vector<Happened> happened_;
  std::uint64_t messages_ = 0, waits_ = 0;
  std::set<std::uint64_t> broken_;  ///< queues of which a broken entry has been told
};

void write(std::ostream& out, const Hazards& hazards);
nlohmann::ordered_json to_json(const Hazards& hazards);

}  // namespace marrow::order
