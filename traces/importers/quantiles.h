// A distribution in memory that does not grow with the number of its values.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>

namespace marrow::trace {

/// Count, mean, least, greatest and quantiles of values from 0 on; quantiles are off by at most
/// 1/1024 of their value, the rest is exact.
class Quantiles {
 public:
  void add(double value) {
    min_ = count_ == 0 ? value : std::fmin(min_, value);
    max_ = count_ == 0 ? value : std::fmax(max_, value);
    ++count_;
    sum_ += value;
    int exponent = 0;
    const double mantissa = std::frexp(value, &exponent);  // 0.5 to 1, or 0
    ++bins_[(static_cast<std::int64_t>(exponent) << kBits) +
            static_cast<std::int64_t>(std::floor((2 * mantissa - 1) * kBinsAnOctave))];
  }
  std::uint64_t count() const { return count_; }
  double min() const { return min_; }
  double max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  /// The value at position floor(p * count), at most the last; 0 <= p <= 1.
  double quantile(double p) const {
    std::uint64_t left = static_cast<std::uint64_t>(p * static_cast<double>(count_));
    for (const auto& [bin, count] : bins_) {
      if (left >= count) {
        left -= count;
        continue;
      }
      const double mantissa =
          0.5 + (static_cast<double>(bin & (kBinsAnOctave - 1)) + 0.5) / (2.0 * kBinsAnOctave);
      const double middle = std::ldexp(mantissa, static_cast<int>(bin >> kBits));
      return std::fmin(std::fmax(middle, min_), max_);
    }
    return max_;
  }

 private:
  static constexpr int kBits = 9;
  static constexpr std::int64_t kBinsAnOctave = 1 << kBits;

  std::map<std::int64_t, std::uint64_t> bins_;
  std::uint64_t count_ = 0;
  double sum_ = 0, min_ = 0, max_ = 0;
};

}  // namespace marrow::trace
