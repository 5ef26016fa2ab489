// Work on an SM that is asked for, and how far lines of the L2 are from there.
#pragma once

#include "tools/common/gpu/device.cuh"

namespace marrow::tools {

/// Runs `body` in one thread on the SM that is asked for. Of the grid's blocks the first one there
/// takes it; the others end at once.
template <class Body>
__global__ void on_sm_kernel(std::uint32_t sm, std::uint32_t* taken, Body body) {
  if (sm_now() != sm || atomicExch(taken, 1u)) return;
  body();
}

class OneSm {
 public:
  /// Of the current device, which has so many SMs.
  explicit OneSm(int sms) : sms_(sms), taken_(1) {}

  /// One thread on one SM; returns when it is done. Throws StuckError if no block got there.
  template <class Body>
  void run(std::uint32_t sm, const Body& body) {
    for (int attempt = 0; attempt < 5; ++attempt) {
      taken_.clear();
      on_sm_kernel<<<2 * sms_, 1>>>(sm, taken_.get(), body);
      MARROW_LAUNCHED("on_sm_kernel");
      MARROW_CUDA(cudaDeviceSynchronize());
      if (taken_.values()[0]) return;
    }
    throw StuckError("no block was placed on SM " + std::to_string(sm));
  }

 private:
  int sms_;
  DeviceArray<std::uint32_t> taken_;
};

/// Words that lie so far apart.
struct EvenWords {
  std::uint64_t* first;
  std::size_t stride_words;
  __device__ std::uint64_t* operator[](int i) const { return first + i * stride_words; }
};
/// Words wherever they lie.
struct ListedWords {
  std::uint64_t* const* words;
  __device__ std::uint64_t* operator[](int i) const { return words[i]; }
};

enum class Touch { kCas, kStoreFence };

/// Least time of some tries for each word: what its line's distance alone makes. kCas leaves the
/// words as they are; kStoreFence sets them to 0. Includes the cost of reading clocks.
template <Touch touch, class Words>
struct TouchWords {
  Words words;
  int count, tries;
  std::uint32_t* cycles;

  __device__ void operator()() const {
    __shared__ volatile std::uint64_t hold;
    for (int at = 0; at < count; ++at) {
      std::uint64_t* word = words[at];
      std::uint32_t least = ~0u;
      for (int i = 0; i <= tries; ++i) {
        const std::uint64_t begin = cycles_now();
        std::uint64_t old = 0;
        if constexpr (touch == Touch::kCas) {
          old = atomicCAS(reinterpret_cast<unsigned long long*>(word), 0ull, 0ull);
        } else {
          *reinterpret_cast<volatile std::uint64_t*>(word) = 0;
          __threadfence();
        }
        hold = old;
        const auto took = static_cast<std::uint32_t>(cycles_now() - begin);
        if (i > 0) least = min(least, took);  // the first brings the line into the L2
        if constexpr (touch == Touch::kStoreFence) idle(1000);
      }
      cycles[at] = least;
    }
  }
};

}  // namespace marrow::tools
