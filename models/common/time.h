// Simulated time: an integer count of picoseconds.
#pragma once

#include <cstdint>

namespace marrow {

using Ps = std::int64_t;

constexpr Ps kPsPerNs = 1000;

/// Converts a parameter in nanoseconds to picoseconds, rounded to nearest.
constexpr Ps ps_from_ns(double ns) { return static_cast<Ps>(ns * 1000.0 + (ns < 0 ? -0.5 : 0.5)); }

}  // namespace marrow
