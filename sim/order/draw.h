// A witness as a picture: who does what, one event below the other, and how long a store or a write
// is on its way.
#pragma once

#include <ostream>

#include "sim/order/litmus.h"

namespace marrow::order {

/// SVG. Nothing is drawn of a program without a witness: its outcome is forbidden.
bool draw(std::ostream& out, const Judged& program);

}  // namespace marrow::order
