// Litmus programs: small programs in YAML, each with the outcome that is looked for, whether the
// rules allow it, and the rule that this rests on. docs/ordering.md describes the file.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "sim/order/explore.h"

namespace marrow::order {

struct Litmus {
  std::string file, name, why, protocol, rule;
  std::string reading;  ///< where the verdict is a reading of a library's source, which
  bool expected_allowed = false;
  // What is looked for: a hazard by id ("any": whichever), or values of results.
  std::string hazard;
  std::vector<Word16> outcome;
  std::string looked_for;  ///< as text
  OrderProgram program;
};

struct Verdict {
  enum class Is { kAllowed, kForbidden, kCutOff } is = Is::kForbidden;
  std::string reason;
  std::string rule;  ///< of an allowed hazard: the rule that does not give the order
  std::vector<std::string> witness;
  std::size_t states = 0;
  Exploration exploration;
};
std::string text(Verdict::Is is);

/// Throws InputError naming file, line, key and the mend.
Litmus load_litmus(const std::string& file, const std::string& config_dir);
/// The files of a folder in the order of their names, or the file itself.
std::vector<std::string> litmus_files(const std::string& path);

Verdict judge(const Litmus& litmus, std::size_t most_states = kMostStates);
bool as_expected(const Litmus& litmus, const Verdict& verdict);

struct Judged {
  Litmus litmus;
  Verdict verdict;
};
void write_table(std::ostream& out, const std::vector<Judged>& programs);
void write_witness(std::ostream& out, const Judged& program);
nlohmann::ordered_json to_json(const std::vector<Judged>& programs);

}  // namespace marrow::order
