// What is not known exactly, carried from a system's parameters into its predictions.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/parameters.h"
#include "sim/results/intervals.h"

namespace marrow::sweep {

/// A value for each parameter that has an interval.
using Drawn = std::vector<std::pair<std::string, double>>;

/// A Latin hypercube over the intervals: of each parameter one value from each of `samples` equally
/// likely parts, normally distributed on either side of its value so that 90 % lie inside its
/// interval. Counts and sizes are rounded; all stay within what the parameter may be.
std::vector<Drawn> draw_intervals(const config::ParameterSet& parameters, std::size_t samples,
                                  std::uint64_t seed);
/// Keys that the set does not have are passed over.
void apply(config::ParameterSet& parameters, const Drawn& drawn);

/// The 5 % and 95 % quantiles of each named result over the samples. `work` does one of them, in a
/// process of its own, `jobs` at once. Throws InputError if one fails.
results::Intervals intervals_of(
    std::size_t samples, std::size_t jobs,
    const std::function<std::map<std::string, double>(std::size_t sample)>& work,
    const std::function<void(std::size_t fresh)>& on_done);

}  // namespace marrow::sweep
