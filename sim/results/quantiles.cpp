#include "sim/results/quantiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace marrow::results {
namespace {

/// floor(p * count), kept within the sample.
std::uint64_t position(double p, std::uint64_t count) {
  const double at = std::floor(p * static_cast<double>(count));
  if (at < 1) return 0;
  return at >= static_cast<double>(count) ? count - 1 : static_cast<std::uint64_t>(at);
}

}  // namespace

void Distribution::add(Ps value) {
  if (value < 0) throw std::logic_error("a stage took less than no time");
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<long double>(value);
  ++count_;
  if (binned_) {
    put(value);
    return;
  }
  exact_.push_back(value);
  sorted_ = false;
  if (exact_.size() > kExactSamples) spill();
}

void Distribution::merge(const Distribution& other) {
  if (other.count_ == 0) return;
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
  if (!binned_ && !other.binned_ && count_ <= kExactSamples) {
    exact_.insert(exact_.end(), other.exact_.begin(), other.exact_.end());
    sorted_ = false;
    return;
  }
  if (!binned_) spill();
  for (Ps value : other.exact_) put(value);
  if (octaves_.size() < other.octaves_.size()) octaves_.resize(other.octaves_.size());
  for (std::size_t o = 0; o < other.octaves_.size(); ++o) {
    if (!other.octaves_[o]) continue;
    if (!octaves_[o]) octaves_[o] = std::make_unique<Bins>();
    for (std::size_t b = 0; b < octaves_[o]->size(); ++b)
      (*octaves_[o])[b] += (*other.octaves_[o])[b];
  }
}

void Distribution::spill() {
  binned_ = true;
  for (Ps value : exact_) put(value);
  exact_ = {};
  sorted_ = true;
}

void Distribution::put(Ps value) {
  const auto v = static_cast<std::uint64_t>(value);
  const auto width = static_cast<int>(std::bit_width(v));
  const auto octave = static_cast<std::size_t>(std::max(width - kBits, 0));
  if (octave >= octaves_.size()) octaves_.resize(octave + 1);
  if (!octaves_[octave]) octaves_[octave] = std::make_unique<Bins>();
  // In octave 0 the bin is the value; above it the value without its leading one, shifted so that
  // kBits bits are left.
  const std::uint64_t bin =
      octave == 0 ? v : (v >> (octave - 1)) & ((std::uint64_t{1} << kBits) - 1);
  ++(*octaves_[octave])[bin];
}

Ps Distribution::quantile(double p) const {
  if (count_ == 0) return 0;
  const std::uint64_t at = position(p, count_);
  if (!binned_) {
    if (!sorted_) std::sort(exact_.begin(), exact_.end());
    sorted_ = true;
    return exact_[at];
  }
  if (at == 0) return min_;
  if (at == count_ - 1) return max_;
  std::uint64_t below = 0;
  for (std::size_t octave = 0; octave < octaves_.size(); ++octave) {
    if (!octaves_[octave]) continue;
    for (std::size_t bin = 0; bin < octaves_[octave]->size(); ++bin) {
      below += (*octaves_[octave])[bin];
      if (below <= at) continue;
      if (octave == 0) return static_cast<Ps>(bin);
      const std::uint64_t low = ((std::uint64_t{1} << kBits) + bin) << (octave - 1);
      const std::uint64_t middle = low + ((std::uint64_t{1} << (octave - 1)) - 1) / 2;
      return std::clamp(static_cast<Ps>(middle), min_, max_);
    }
  }
  return max_;
}

}  // namespace marrow::results
