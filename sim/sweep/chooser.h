// The chooser table: for each situation that a program may find itself in, which of its own choices
// a study found to serve best.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "sim/sweep/results.h"

namespace marrow::sweep {

/// One situation: a value for each of the study's `choose_for` axes.
struct Choice {
  std::vector<std::string> situation;  ///< labels of those values
  /// The points of the situation, best first, without failed ones. Of those that differ from the
  /// best by 0.5 % or less, the one that the study lists first is the best.
  std::vector<std::size_t> point;
  double margin = 0;  ///< what the second best loses against the best, as a share; 0: no second
};

/// In the order in which situations appear. Empty where the study asks for none. A situation of
/// which every point failed has no points.
std::vector<Choice> choices(const Results& results);

/// A line for each situation: the situation's axes, the others' best values, every key that the
/// best point sets, the target, the second best and its margin in percent. Where every point of a
/// situation failed, all but the situation is empty.
void write_chooser_csv(std::ostream& out, const Results& results);
/// For people.
void write_chooser(std::ostream& out, const Results& results);

}  // namespace marrow::sweep
