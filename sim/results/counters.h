// What the blocks counted.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "models/common/observer.h"

namespace marrow::results {

struct Counter {
  std::string block;
  std::string name;
  double value = 0;
  std::string unit;
};

/// Keeps counters in the order in which they first came; what comes again (same block, name and
/// unit) is added up. A block should therefore report amounts, not ratios.
class Counters : public CounterSink {
 public:
  void add(std::string_view block, std::string_view counter, double value,
           std::string_view unit) override;
  const std::vector<Counter>& all() const { return all_; }

 private:
  std::vector<Counter> all_;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places_;
};

/// A table for people; nothing at all if there are no counters.
void write_table(std::ostream& out, const Counters& counters);

}  // namespace marrow::results
