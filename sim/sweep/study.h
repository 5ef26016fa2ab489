// A what-if study: a base to start from, what is varied, what is read off. docs/sweeps.md describes
// the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/results/metrics.h"
#include "sim/work.h"

namespace marrow::sweep {

enum class Mode : std::uint8_t { kGrid, kOneAtATime, kLatinHypercube };
std::string_view name(Mode mode);

enum class PlacementKind : std::uint8_t { kDrawn, kNear, kFar };

/// One simulation, without its seed.
struct Setup {
  std::string system, protocol;  ///< files; protocol empty: the trace's own
  std::vector<std::string> system_sets, protocol_sets;
  sim::Work work;
  PlacementKind placement = PlacementKind::kDrawn;
};

/// One value of an axis.
struct Value {
  std::string label;                                          ///< as tables show it
  std::optional<double> number;                               ///< where it is one
  std::vector<std::pair<std::string, std::string>> settings;  ///< key and value; empty: the base's
};

struct Axis {
  std::string name;
  std::vector<Value> values;  ///< to try; of a range in a Latin hypercube: none
  /// Latin hypercube: the range instead.
  double from = 0, to = 0;
  bool logarithmic = false;
  std::vector<std::string> keys;  ///< what it sets; empty where its cases say so
  bool whole = false;             ///< its values are whole numbers
  Value base;                     ///< the base point's; its label is "base" where nobody knows it
  std::string evidence;           ///< class of the base value's source; empty: no parameter or cost
  std::string place;              ///< "file:line"
};

struct Study {
  std::string file, text;  ///< text: of the file
  std::string name, question;
  Mode mode = Mode::kGrid;
  Setup base;
  std::string trace;              ///< instead of work
  std::vector<std::string> only;  ///< of its runs
  std::vector<Axis> axes;
  std::size_t points = 0;               ///< Latin hypercube
  std::uint64_t seed = 1;               ///< of the Latin hypercube
  std::uint64_t draws = 5;              ///< placements pooled in each point, seeds 1, 2, ...
  std::vector<std::string> metrics;     ///< names of metrics, "end_to_end", "stages"
  std::string target;                   ///< the one by which changes are ranked
  std::vector<std::string> choose_for;  ///< axes that a program finds given; the others it chooses
  std::string config_dir;               ///< where systems/ and protocols/ are
};

/// Throws InputError naming file, line, key and mend, also for an axis none of whose values the
/// base takes.
Study load_study(const std::string& file, const std::string& config_dir);

/// The study's base with one value's settings. Throws InputError for a value that cannot be.
void apply(Setup& setup, const Value& value, const Study& study);

/// A number as tables and settings show it.
std::string number_text(double number);

}  // namespace marrow::sweep
