// What to tell of a run whose lanes wait for what never comes.
#pragma once

#include <string>
#include <vector>

#include "models/common/lane.h"

namespace marrow::sim {

struct Stuck {
  std::string problem;  ///< one lane for each cause, and how many wait alike
  std::string mend;     ///< of each cause
};

/// waits: what every lane waits for; begin_ps: of the run. Not empty.
Stuck stuck(const std::vector<Wait>& waits, Ps begin_ps);

}  // namespace marrow::sim
