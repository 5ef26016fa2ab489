// What `marrow config show` prints: parameters and recipes' costs with units and sources.
#pragma once

#include <array>
#include <cstddef>
#include <iosfwd>

#include "sim/config/parameters.h"
#include "sim/config/recipe.h"

namespace marrow::config {

/// How many parameters rest on each class, indexed by Evidence.
std::array<std::size_t, 5> evidence_counts(const ParameterSet& parameters);

/// One line: "12 parameters: 7 measured, 5 assumed".
void evidence_summary(const ParameterSet& parameters, std::ostream& out);

/// All parameters, as a table grouped by component or as JSON (schema marrow.config/1).
void show(const ParameterSet& parameters, bool json, std::ostream& out);

/// A recipe's choices and costs, likewise.
void show(const Recipe& recipe, bool json, std::ostream& out);

}  // namespace marrow::config
