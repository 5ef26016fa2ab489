#include "models/common/placement.h"

#include <algorithm>
#include <random>

namespace marrow {

void Placement::draw(std::uint64_t gpu_bytes, std::uint32_t sms, std::uint64_t seed,
                     double spread_cycles) {
  std::mt19937_64 random(seed);
  page_side_.resize((gpu_bytes + kPageBytes - 1) / kPageBytes);
  for (auto& side : page_side_) side = random() & 1;
  distance_.resize((gpu_bytes + kPageBytes - 1) / kPageBytes * (kPageBytes / kLineBytes));
  std::uniform_real_distribution<float> distance(static_cast<float>(-spread_cycles),
                                                 static_cast<float>(spread_cycles));
  for (auto& d : distance_) d = distance(random);
  // SMs share their graphics processing cluster's side; consecutive pairs (one texture processing
  // cluster) go round the clusters.
  constexpr std::uint32_t kClusters = 8;
  std::uint8_t cluster_side[kClusters];
  for (auto& side : cluster_side) side = random() & 1;
  pair_distance_.assign(sms, {});
  sm_side_.resize(sms);
  for (std::uint32_t sm = 0; sm < sms; ++sm) sm_side_[sm] = cluster_side[sm / 2 % kClusters];
}

void Placement::put_all(bool far) {
  std::fill(page_side_.begin(), page_side_.end(), std::uint8_t{far});
  std::fill(sm_side_.begin(), sm_side_.end(), std::uint8_t{0});
}

}  // namespace marrow
