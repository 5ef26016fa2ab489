// A distribution in memory that does not grow with the number of its values.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>

namespace marrow::trace {

/// Count, mean, least, greatest, median and quantiles of values from 0 on. Values that differ by
/// less than 1/512 may be told as their mean; the rest is exact.
class Quantiles {
 public:
  void add(double value) {
    min_ = count_ == 0 ? value : std::fmin(min_, value);
    max_ = count_ == 0 ? value : std::fmax(max_, value);
    ++count_;
    sum_ += value;
    int exponent = 0;
    const double mantissa = std::frexp(value, &exponent);  // 0.5 to 1, or 0
    Bin& bin = bins_[static_cast<std::int64_t>(exponent) * kBinsAnOctave +
                     static_cast<std::int64_t>(std::floor((2 * mantissa - 1) * kBinsAnOctave))];
    ++bin.count;
    bin.sum += value;
  }
  std::uint64_t count() const { return count_; }
  double min() const { return min_; }
  double max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  /// The middle value, or the mean of the two middle ones.
  double median() const { return count_ == 0 ? 0 : (at((count_ - 1) / 2) + at(count_ / 2)) / 2; }
  /// The value at position floor(p * count), at most the last; 0 <= p <= 1.
  double quantile(double p) const {
    return at(static_cast<std::uint64_t>(p * static_cast<double>(count_)));
  }

 private:
  struct Bin {
    std::uint64_t count = 0;
    double sum = 0;
  };
  static constexpr std::int64_t kBinsAnOctave = 512;

  double at(std::uint64_t position) const {
    for (const auto& [number, bin] : bins_) {
      if (position < bin.count) return bin.sum / static_cast<double>(bin.count);
      position -= bin.count;
    }
    return max_;
  }

  std::map<std::int64_t, Bin> bins_;
  std::uint64_t count_ = 0;
  double sum_ = 0, min_ = 0, max_ = 0;
};

}  // namespace marrow::trace
