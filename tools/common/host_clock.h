// The processor's clock, and waits that end.
#pragma once

#include <time.h>

#include <cstdint>

namespace marrow::tools {

inline double host_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

constexpr double kHostWaitNs = 2e9;

/// Looks until the word holds the value; false after two seconds. Looks at the clock seldom, so
/// that the poll stays tight.
inline bool host_wait_for(const volatile std::uint64_t* word, std::uint64_t value) {
  const double begin = host_ns();
  for (std::uint64_t look = 1; *word != value; ++look)
    if (look % 4096 == 0 && host_ns() - begin > kHostWaitNs) return false;
  return true;
}

}  // namespace marrow::tools
