// What is said about repeated measurements.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace marrow::tools {

/// The same measurement, some rounds of it. Samples of one round share its placement, its launch
/// and the machine's mood, so they are not independent; rounds nearly are.
using Rounds = std::vector<std::vector<double>>;

struct Summary {
  std::size_t n = 0;       ///< samples of all rounds
  std::size_t rounds = 0;  ///< that had samples
  double min = 0, p10 = 0, median = 0, p90 = 0, p99 = 0, max = 0, mean = 0;
  /// Where the median of a further round lies in the middle: order statistics of the rounds'
  /// medians, with the chance that the true one is inside. 0 where there is one round.
  double median_low = 0, median_high = 0, median_confidence = 0;
};

/// Quantiles are the sample at position floor(p * n) of the sorted ones, as in the older files.
/// Throws std::invalid_argument if there is no sample or one is not a finite number.
Summary summarize(const Rounds& rounds);

/// A distribution-free interval of the median of values that are independent: the narrowest pair
/// of order statistics whose coverage reaches `confidence`, else the widest there is.
struct Interval {
  double low = 0, high = 0, confidence = 0;
};
Interval median_interval(std::vector<double> values, double confidence = 0.95);

/// Two groups of latencies, if there are two.
struct Sides {
  bool two = false;        ///< false: all lines are as far as each other
  double threshold = 0;    ///< between the groups
  std::vector<bool> far;   ///< one for each value
  double near_median = 0;  ///< of the values below the threshold, or of all
  double far_median = 0;   ///< 0 if there is one group
};

/// Splits where the variance between the groups is greatest. Two groups are believed in if that
/// is 85 % of all variance (a flat spread that has no groups gives 75 %, a bell shape 64 %) and
/// each holds a tenth of the values.
Sides split_sides(const std::vector<double>& latencies);

/// The greatest power of two of bytes such that, within every aligned block of that size, at most
/// one line in a hundred is on another side than most of its block; lines are `stride_bytes`
/// apart, the first one is aligned to all of them together. `stride_bytes` if the side changes
/// from line to line.
std::size_t side_block_bytes(const std::vector<bool>& far, std::size_t stride_bytes);

/// The address bits whose exclusive or says on which side a line is, if there are such.
struct SideParity {
  std::vector<int> bits;  ///< rising; of the address, counted from bit 0
  double agreement = 0;   ///< share of lines whose side it gives: 1 where it is the rule
};
/// Lines are `stride_bytes` (a power of two) apart, from an address aligned to all of them.
SideParity side_parity(const std::vector<bool>& far, std::size_t stride_bytes);

/// Share of lines that are on the same side for both.
double agreement(const std::vector<bool>& a, const std::vector<bool>& b);

/// "NFFN": one letter a line.
std::string letters(const std::vector<bool>& far);

}  // namespace marrow::tools
