// The same work under several protocols, side by side.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/results/operation_table.h"
#include "sim/results/recorder.h"
#include "sim/results/stage_table.h"

namespace marrow::results {

/// Of one run under one protocol.
struct Compared {
  std::uint64_t bytes = 0;      ///< of its first message
  std::uint64_t messages = 0;   ///< over all draws
  const Distribution* times{};  ///< one message: from its begin until its lane goes on
  std::string_view what;        ///< "message to quiet", "message to wait" or "end_to_end"
};

class Comparison : public Recorder {
 public:
  /// What follows is this protocol's, until the next call. The same again (another draw of the
  /// placement) is pooled.
  void begin_protocol(std::string_view protocol);
  void begin_run(std::uint32_t index, std::string_view name) override;
  void on_journey(const Journey& journey) override;
  void on_operation(const Operation& operation) override;

  /// In the order in which they began.
  const std::vector<std::string>& protocols() const { return names_; }
  /// Runs by index in the trace.
  const std::map<std::uint32_t, std::string>& runs() const { return runs_; }
  Compared at(std::uint32_t run, std::size_t protocol) const;

 private:
  struct Side {
    StageTable stages;
    OperationTable operations;
    std::map<std::uint32_t, std::uint64_t> bytes;
  };
  std::vector<std::string> names_;
  std::vector<Side> sides_;
  Side* side_ = nullptr;
  std::map<std::uint32_t, std::string> runs_;
};

/// For people: a line a run, a column a protocol, medians in us and how many times the least.
void write_table(std::ostream& out, const Comparison& comparison);
/// run,bytes,protocol,what,messages,median_ns,p90_ns,p99_ns
void write_csv(std::ostream& out, const Comparison& comparison);
/// The same, an object each.
nlohmann::ordered_json as_json(const Comparison& comparison);

}  // namespace marrow::results
