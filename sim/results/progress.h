// What a waiting person sees.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "sim/results/recorder.h"

namespace marrow::results {

/// A line with count, share, rate and time left, redrawn at most five times a second and erased at
/// the end. Where it is off, all that happens is a test of a flag; leave it out of the recorders
/// (`if (progress.on())`) and nothing happens at all.
class Progress : public Recorder {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// On stderr, and only if that is a terminal. total: what is to come, 0 if not known.
  explicit Progress(std::uint64_t total = 0, std::string what = "messages");
  /// Elsewhere, for tests.
  Progress(std::ostream& out, bool on, std::uint64_t total, Clock clock,
           std::string what = "messages");
  ~Progress() override { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool on() const { return on_; }
  void begin_run(std::uint32_t index, std::string_view name) override;
  void on_journey(const Journey&) override { advance(1); }
  void advance(std::uint64_t messages) {
    if (!on_) return;
    count_ += messages;
    if (count_ >= look_at_) look();
  }
  /// Erases the line. Call it before anything else is written to the terminal.
  void finish();

 private:
  void look();

  std::ostream& out_;
  bool on_;
  std::uint64_t total_;
  Clock clock_;
  std::string what_, run_;
  std::uint64_t count_ = 0;
  std::uint64_t look_at_ = 1;  ///< the clock is not read before this count
  std::chrono::steady_clock::time_point start_, drawn_;
  bool visible_ = false;
};

}  // namespace marrow::results
