// Where in the L2 a line lives, seen from an SM. A property of one machine and one allocation, not
// of the chip: a capture reveals it, a user sets it, or it is drawn from a seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace marrow {

/// The H200's L2 has two partitions; a 4 KiB page has its home in one, an SM sits beside one.
class Placement {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kLineBytes = 128;

  /// Draws all sides and distances from the seed. spread_cycles: half width of a line's distance.
  void draw(std::uint64_t gpu_bytes, std::uint32_t sms, std::uint64_t seed, double spread_cycles);

  bool is_far(std::uint32_t sm, std::uint64_t address) const {
    return sm_side_[sm] != page_side_[address / kPageBytes];
  }
  /// Cycles that a round trip to this line takes more than the mean near or far one.
  double distance_cycles(std::uint32_t sm, std::uint64_t address) const {
    const std::uint64_t line = address / kLineBytes;
    if (!pair_distance_[sm].empty() && !std::isnan(pair_distance_[sm][line]))
      return pair_distance_[sm][line];
    return distance_[line];
  }

  bool page_side(std::uint64_t address) const { return page_side_[address / kPageBytes] != 0; }
  bool sm_side(std::uint32_t sm) const { return sm_side_[sm] != 0; }
  void set_page_side(std::uint64_t address, bool side) { page_side_[address / kPageBytes] = side; }
  void set_sm_side(std::uint32_t sm, bool side) { sm_side_[sm] = side; }
  void set_distance(std::uint64_t address, double cycles) {
    distance_[address / kLineBytes] = static_cast<float>(cycles);
  }
  /// The same from one SM, where it is known; the line's own distance holds for the others.
  void set_distance(std::uint32_t sm, std::uint64_t address, double cycles) {
    if (pair_distance_[sm].empty()) pair_distance_[sm].assign(distance_.size(), std::nanf(""));
    pair_distance_[sm][address / kLineBytes] = static_cast<float>(cycles);
  }
  /// Every page near to every SM, or far from every SM.
  void put_all(bool far);
  std::uint64_t gpu_bytes() const { return page_side_.size() * kPageBytes; }
  std::uint32_t sms() const { return static_cast<std::uint32_t>(sm_side_.size()); }

 private:
  std::vector<std::uint8_t> page_side_, sm_side_;
  std::vector<float> distance_;                    ///< by line
  std::vector<std::vector<float>> pair_distance_;  ///< by SM and line; empty, NaN: not known
};

}  // namespace marrow
