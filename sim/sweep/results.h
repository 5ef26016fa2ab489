// A study's results: files for programs, tables for people.
#pragma once

#include <ostream>
#include <vector>

#include "sim/sweep/sensitivity.h"

namespace marrow::sweep {

struct Results {
  const Study* study = nullptr;
  const std::vector<Point>* points = nullptr;
  std::vector<Outcome> outcomes;
  std::vector<Sensitivity> sensitivities;
};

/// One line a point: its number, every axis, every other key that an axis sets, every metric that
/// any point has, the error.
void write_csv(std::ostream& out, const Results& results);
/// what,axis,value,metric,result
void write_sensitivity_csv(std::ostream& out, const Results& results);
/// Schema "marrow.sweep/1".
void write_json(std::ostream& out, const Results& results);
/// For people: what the study shows.
void write_table(std::ostream& out, const Results& results);

}  // namespace marrow::sweep
