// A distribution of times in constant memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/common/time.h"

namespace marrow::results {

/// Count, mean, least, greatest and quantiles of times that come one by one.
///
/// Exact up to kExactSamples times. Beyond that a log-linear histogram holds them: a quantile is
/// then off by at most 1/1024 of its value (below 0.1 %), while count, mean, min and max stay
/// exact. Memory: at most kExactSamples times, later 4 KiB for each power of two that occurs.
class Distribution {
 public:
  static constexpr std::size_t kExactSamples = 4096;

  /// Throws std::logic_error on a time below zero: such a time is a fault of a model.
  void add(Ps value);
  /// As if every time that the other was given had been added here.
  void merge(const Distribution& other);

  std::uint64_t count() const { return count_; }
  Ps min() const { return min_; }  ///< 0 where nothing was added, as all below
  Ps max() const { return max_; }
  double sum() const { return static_cast<double>(sum_); }
  double mean() const { return count_ == 0 ? 0 : sum() / static_cast<double>(count_); }
  /// The time at position floor(p * count) of the sorted times, at most the last; 0 <= p <= 1.
  Ps quantile(double p) const;

 private:
  // Times below 2^kBits are told apart one by one; from there on each power of two has 2^kBits
  // bins of equal width.
  static constexpr int kBits = 9;
  using Bins = std::array<std::uint64_t, std::size_t{1} << kBits>;

  void put(Ps value);
  void spill();

  std::uint64_t count_ = 0;
  Ps min_ = 0;
  Ps max_ = 0;
  long double sum_ = 0;  // 64 bits of mantissa or more: exact for any sum that fits in a Ps
  bool binned_ = false;
  mutable std::vector<Ps> exact_;  // sorted when first asked for a quantile
  mutable bool sorted_ = true;
  std::vector<std::unique_ptr<Bins>> octaves_;  // null where nothing fell
};

}  // namespace marrow::results
