// Is a recipe's order of memory operations enough? The programs in which its fences, waits and
// queues do their work, put together from what the recipe has, each in every order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/common/program.h"
#include "sim/order/explore.h"

namespace marrow::order {

struct Scenario {
  std::string name;
  std::string asks;  ///< the question that it answers
  OrderProgram program;
  std::uint32_t uses = 0;  ///< operations of the recipe, a bit each
};

struct CheckOptions {
  bool same_cta = false;         ///< the lanes that share a queue are in one CTA
  bool caller_releases = false;  ///< the caller fences what it stored before it asks for a put
  bool caller_acquires = false;  ///< the caller fences behind a wait, before it reads
  bool other_queue = false;      ///< of `moved`: it goes to another queue than the lane's own
  OpKind moved = OpKind::kPut;
  std::size_t most_states = kMostStates;
  bool stop_at_first = false;  ///< enough to know that there is one
  std::uint32_t only = ~0U;    ///< programs that use one of these operations, a bit each
};

std::vector<Scenario> scenarios(const Program& program, const CheckOptions& options);

struct CheckFinding {
  std::string scenario;
  Finding finding;
  std::vector<std::string> witness;
};
struct CheckResult {
  std::vector<CheckFinding> findings;
  std::vector<std::string> ran;      ///< scenarios
  std::vector<std::string> cut_off;  ///< those that were too large to be sure
  std::size_t states = 0;
};
CheckResult check(const Program& program, const CheckOptions& options = {});

}  // namespace marrow::order
