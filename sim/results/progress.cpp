#include "sim/results/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

namespace marrow::results {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr auto kInterval = std::chrono::milliseconds(200);

std::string time_text(double seconds) {
  const auto s = static_cast<std::uint64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

std::string rate_text(double rate) {
  if (rate >= 1e6) return fmt::format("{:.2f} M/s", rate / 1e6);
  if (rate >= 1e3) return fmt::format("{:.1f} k/s", rate / 1e3);
  return fmt::format("{:.0f}/s", rate);
}

}  // namespace

Progress::Progress(std::uint64_t total, std::string what)
    : Progress(std::cerr, isatty(STDERR_FILENO) == 1, total, std::chrono::steady_clock::now,
               std::move(what)) {}

Progress::Progress(std::ostream& out, bool on, std::uint64_t total, Clock clock, std::string what)
    : out_(out), on_(on), total_(total), clock_(std::move(clock)), what_(std::move(what)) {
  if (on_) start_ = drawn_ = clock_();
}

void Progress::begin_run(std::uint32_t, std::string_view name) {
  // Long names would wrap the line, which then cannot be erased.
  constexpr std::size_t kMost = 24;
  if (on_) run_ = name.substr(0, kMost);
}

void Progress::look() {
  const auto now = clock_();
  const double elapsed = Seconds(now - start_).count();
  const double rate = elapsed > 0 ? static_cast<double>(count_) / elapsed : 0;
  // Reading the clock costs more than counting: look again after about 50 ms.
  look_at_ = count_ + 1 + static_cast<std::uint64_t>(rate / 20);
  if (now - drawn_ < kInterval) return;
  drawn_ = now;
  visible_ = true;
  std::string line = run_.empty() ? "" : run_ + ": ";
  if (total_ == 0) {
    line += fmt::format("{} {}, {}", count_, what_, rate_text(rate));
  } else {
    const auto left = total_ - std::min(count_, total_);
    const auto percent = 100 * std::min(count_, total_) / total_;
    line += fmt::format("[{:<20}] {} of {} {} ({} %), {}, {} left", std::string(percent / 5, '#'),
                        count_, total_, what_, percent, rate_text(rate),
                        time_text(static_cast<double>(left) / rate));
  }
  out_ << "\r\033[K" << line << std::flush;
}

void Progress::finish() {
  if (visible_) out_ << "\r\033[K" << std::flush;
  visible_ = false;
}

}  // namespace marrow::results
