// What makes a run and its operations valid, held alike by reader and writer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/trace.h"

namespace marrow::trace {

/// A fault found where the place is not known; whoever knows the place makes it an InputError.
struct Fault {
  std::string problem;
  std::string mend;
};

constexpr std::uint32_t kFormatVersion = 1;
constexpr std::uint32_t kMaxRecordBytes = 16u << 20;
constexpr std::uint64_t kMaxOpBytes = 1ull << 40;

/// The rules for the operations of one run.
class RunRules {
 public:
  RunRules() = default;
  explicit RunRules(const Run& run);  ///< throws Fault if the run itself breaks a rule

  void check(const Op& op) const;  ///< throws Fault

 private:
  bool has_lane(std::uint32_t warp) const;

  std::vector<std::uint32_t> warps_;  ///< sorted
  bool dense_ = false;                ///< warps are 0, 1, 2, ...
  std::size_t measured_stages_ = 0;
};

}  // namespace marrow::trace
