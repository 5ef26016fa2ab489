// How long lanes spent on operations: put, quiet, wait and the like, from call to return.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/results/quantiles.h"
#include "sim/results/recorder.h"

namespace marrow::results {

/// One line: an operation by itself, or what a user times as one.
struct OperationRow {
  std::string what;  ///< "put", "quiet", …; "put to quiet", "put_signal to wait": first call to
                     ///< last return, where a lane did these in turn
  const Distribution* times{};
};

class OperationTable : public Recorder {
 public:
  struct Run {
    std::string name;
    std::array<Distribution, kOpKindCount> alone;
    Distribution to_quiet;  ///< from a message's call to the return of the lane's next quiet
    Distribution to_wait;   ///< the same, its next wait: a round trip where the peer answers
    std::string to_quiet_from, to_wait_from;
    std::vector<OperationRow> rows() const;
    /// Nothing but messages: the stage table says it all.
    bool plain() const;
  };

  void begin_run(std::uint32_t index, std::string_view name) override;
  void on_journey(const Journey&) override {}
  void on_operation(const Operation& operation) override;
  const std::map<std::uint32_t, Run>& runs() const { return runs_; }

 private:
  std::map<std::uint32_t, Run> runs_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Operation> last_message_;  ///< by run and warp
};

/// For people: each run that has more than messages; times in ns.
void write_table(std::ostream& out, const OperationTable& table);

}  // namespace marrow::results
