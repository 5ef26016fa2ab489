// What `marrow config show` prints: parameters with units, intervals and sources.
#pragma once

#include <array>
#include <cstddef>
#include <iosfwd>

#include "sim/config/parameters.h"

namespace marrow::config {

/// How many parameters rest on each class, indexed by Evidence.
std::array<std::size_t, 5> evidence_counts(const ParameterSet& parameters);

/// One line: "12 parameters: 7 measured, 5 assumed".
void evidence_summary(const ParameterSet& parameters, std::ostream& out);

/// All parameters, as a table grouped by component or as JSON (schema marrow.config/1).
void show(const ParameterSet& parameters, bool json, std::ostream& out);

}  // namespace marrow::config
