#include "tools/common/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace marrow::tools {

namespace {

double at(const std::vector<double>& sorted, double p) {
  const auto position = static_cast<std::size_t>(p * static_cast<double>(sorted.size()));
  return sorted[std::min(position, sorted.size() - 1)];
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return at(values, 0.5);
}

}  // namespace

Interval median_interval(std::vector<double> values, double confidence) {
  if (values.empty()) throw std::invalid_argument("a median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  // The pair (k, n - 1 - k) misses the median if at most k values fall on one side of it:
  // probability 2 * P(Binomial(n, 1/2) <= k).
  double tail = 0, term = std::exp2(-static_cast<double>(n));  // C(n, 0) / 2^n
  Interval best{values.front(), values.back(), 0};
  for (std::size_t k = 0; 2 * k + 1 < n; ++k) {
    tail += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    const double coverage = 1 - 2 * tail;
    if (k > 0 && coverage < confidence) break;
    best = {values[k], values[n - 1 - k], coverage};
  }
  return best;
}

Summary summarize(const Rounds& rounds) {
  std::vector<double> all, medians;
  for (const auto& round : rounds) {
    if (round.empty()) continue;
    all.insert(all.end(), round.begin(), round.end());
    medians.push_back(median_of(round));
  }
  if (all.empty()) throw std::invalid_argument("no samples");
  if (!std::all_of(all.begin(), all.end(), [](double value) { return std::isfinite(value); }))
    throw std::invalid_argument("a sample is not a finite number");
  std::sort(all.begin(), all.end());
  Summary summary;
  summary.n = all.size();
  summary.rounds = medians.size();
  summary.min = all.front();
  summary.p10 = at(all, 0.1);
  summary.median = at(all, 0.5);
  summary.p90 = at(all, 0.9);
  summary.p99 = at(all, 0.99);
  summary.max = all.back();
  summary.mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  const Interval interval = median_interval(medians);
  summary.median_low = interval.low;
  summary.median_high = interval.high;
  summary.median_confidence = interval.confidence;
  return summary;
}

Sides split_sides(const std::vector<double>& latencies) {
  if (latencies.empty()) throw std::invalid_argument("no latencies to split");
  std::vector<double> sorted = latencies;
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double variance = 0;
  for (const double value : sorted) variance += (value - mean) * (value - mean) / n;

  Sides sides;
  double below_sum = 0, best = 0;
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    below_sum += sorted[i];
    const double below = static_cast<double>(i + 1), above = n - below;
    if (sorted[i] == sorted[i + 1] || below < n / 10 || above < n / 10) continue;
    const double gap = below_sum / below - (mean * n - below_sum) / above;
    const double between = below / n * (above / n) * gap * gap;
    if (between <= best) continue;
    best = between;
    sides.threshold = (sorted[i] + sorted[i + 1]) / 2;
  }
  sides.two = variance > 0 && best / variance >= 0.85;
  std::vector<double> near, far;
  for (const double value : latencies) {
    sides.far.push_back(sides.two && value > sides.threshold);
    (sides.far.back() ? far : near).push_back(value);
  }
  sides.near_median = median_of(near);
  if (!far.empty()) sides.far_median = median_of(far);
  return sides;
}

std::size_t side_block_bytes(const std::vector<bool>& far, std::size_t stride_bytes) {
  std::size_t lines = 1;
  while (2 * lines <= far.size()) {
    const std::size_t block = 2 * lines;
    std::size_t strangers = 0, seen = 0;
    for (std::size_t first = 0; first + block <= far.size(); first += block) {
      const auto begin = far.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::size_t>(
          std::count(begin, begin + static_cast<std::ptrdiff_t>(block), true));
      strangers += std::min(count, block - count);
      seen += block;
    }
    if (strangers * 100 > seen) break;
    lines = block;
  }
  return lines * stride_bytes;
}

SideParity side_parity(const std::vector<bool>& far, std::size_t stride_bytes) {
  if (far.empty() || !std::has_single_bit(stride_bytes))
    throw std::invalid_argument("lines that are a power of two of bytes apart are needed");
  SideParity parity;
  std::size_t mask = 0;
  const int first_bit = std::countr_zero(stride_bytes);
  for (int bit = 0; std::size_t{1} << bit < far.size(); ++bit) {
    if (far[0] == far[std::size_t{1} << bit]) continue;
    mask |= std::size_t{1} << bit;
    parity.bits.push_back(first_bit + bit);
  }
  std::vector<bool> predicted;
  for (std::size_t i = 0; i < far.size(); ++i)
    predicted.push_back(far[0] != (std::popcount(i & mask) % 2 == 1));
  parity.agreement = agreement(far, predicted);
  return parity;
}

double agreement(const std::vector<bool>& a, const std::vector<bool>& b) {
  if (a.size() != b.size() || a.empty()) throw std::invalid_argument("sides of different lines");
  std::size_t same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i];
  return static_cast<double>(same) / static_cast<double>(a.size());
}

std::string letters(const std::vector<bool>& far) {
  std::string text;
  for (const bool is_far : far) text += is_far ? 'F' : 'N';
  return text;
}

}  // namespace marrow::tools
