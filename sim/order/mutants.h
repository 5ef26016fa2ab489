// Recipes with one fence, acquire, wait or choice of queue taken out or made weaker.
#pragma once

#include <string>
#include <vector>

#include "models/common/program.h"
#include "sim/order/check.h"

namespace marrow::order {

struct Mutant {
  std::string name;  ///< "put: fence 2 (gpu) removed"
  Program program;
  CheckOptions options;  ///< with the queue that an operation was moved to
};

/// One for every way in which one step can be taken out or weakened.
std::vector<Mutant> mutants(const Program& program, const CheckOptions& options = {});

}  // namespace marrow::order
