// Which simulations a study asks for.
#pragma once

#include <vector>

#include "sim/sweep/study.h"

namespace marrow::sweep {

/// One value for each axis.
using Point = std::vector<Value>;

/// grid: every combination, the last axis fastest. one_at_a_time: the base first, then each axis's
/// values with the others at the base. latin_hypercube: every axis is cut into as many equal parts
/// as there are points; each part's middle is taken once, in an order drawn from the seed. Of an
/// axis with listed values, each is taken about equally often.
std::vector<Point> points_of(const Study& study);

/// What is simulated. Throws InputError for values that cannot be.
Setup setup_of(const Study& study, const Point& point);

}  // namespace marrow::sweep
