// Small seeded noise, the same on every machine.
#pragma once

#include <cstdint>

namespace marrow {

class Random {
 public:
  explicit Random(std::uint64_t seed = 1) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Uniform in [-half_width, half_width].
  double around(double half_width) { return (2 * unit() - 1) * half_width; }

 private:
  std::uint64_t state_;
};

}  // namespace marrow
