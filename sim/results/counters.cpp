#include "sim/results/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace marrow::results {
namespace {

std::string text(double value) {
  // Whole numbers in full, as far as a double tells them apart.
  if (std::trunc(value) == value && std::abs(value) < 9e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.6g}", value);
}

}  // namespace

void Counters::add(std::string_view block, std::string_view counter, double value,
                   std::string_view unit) {
  const auto [place, is_new] = places_.try_emplace(
      {std::string(block), std::string(counter), std::string(unit)}, all_.size());
  if (is_new) all_.push_back({std::string(block), std::string(counter), 0, std::string(unit)});
  all_[place->second].value += value;
}

void write_table(std::ostream& out, const Counters& counters) {
  if (counters.all().empty()) return;
  std::size_t block = 5, name = 7, value = 5;
  for (const Counter& c : counters.all()) {
    block = std::max(block, c.block.size());
    name = std::max(name, c.name.size());
    value = std::max(value, text(c.value).size());
  }
  out << fmt::format("{:<{}}  {:<{}}  {:>{}}  unit\n", "block", block, "counter", name, "value",
                     value);
  for (const Counter& c : counters.all())
    out << fmt::format("{:<{}}  {:<{}}  {:>{}}  {}\n", c.block, block, c.name, name, text(c.value),
                       value, c.unit);
}

}  // namespace marrow::results
