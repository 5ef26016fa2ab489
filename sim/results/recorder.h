// Observers that want to know which run of the trace they listen to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/common/observer.h"

namespace marrow::results {

class Recorder : public Observer {
 public:
  /// What follows belongs to this run of the trace, until the next call.
  virtual void begin_run(std::uint32_t index, std::string_view name) = 0;
};

/// Passes everything on to several recorders, in the order in which they were added.
class Recorders : public Recorder {
 public:
  /// The recorder must outlive this.
  void add(Recorder& recorder) {
    all_.push_back(&recorder);
    if (recorder.wants_activity()) listeners_.push_back(&recorder);
  }
  void begin_run(std::uint32_t index, std::string_view name) override {
    for (Recorder* r : all_) r->begin_run(index, name);
  }
  void on_journey(const Journey& journey) override {
    for (Recorder* r : all_) r->on_journey(journey);
  }
  void on_operation(const Operation& operation) override {
    for (Recorder* r : all_) r->on_operation(operation);
  }
  void on_kernel(const KernelRound& round) override {
    for (Recorder* r : all_) r->on_kernel(round);
  }
  void on_activity(const Activity& activity) override {
    for (Recorder* r : listeners_) r->on_activity(activity);
  }
  bool wants_activity() const override { return !listeners_.empty(); }

 private:
  std::vector<Recorder*> all_;
  std::vector<Recorder*> listeners_;
};

}  // namespace marrow::results
