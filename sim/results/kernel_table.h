// Where a run's time goes if a CPU thread launches its kernels: into kernels, into communication,
// or into the CPU's waiting and launching while neither goes on.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/results/quantiles.h"
#include "sim/results/recorder.h"

namespace marrow::results {

/// One line of a run; `share` of the summed time of all rounds.
struct KernelRow {
  std::string_view what;  ///< "kernel", "communication", "CPU waiting", "round"
  const Distribution* times{};
  double share = 0;
};

class KernelTable : public Recorder {
 public:
  /// A round is from a kernel's end to the next one's; its three parts add up to it.
  struct Run {
    std::string name;
    Distribution kernel;         ///< its work, from the first instruction on
    Distribution communication;  ///< thread knew of the kernel's end until it launched the next
    Distribution waiting;        ///< kernel's end until the thread knew; launch until it started
    Distribution round;
    std::vector<KernelRow> rows() const;
  };

  void begin_run(std::uint32_t index, std::string_view name) override { names_[index] = name; }
  void on_journey(const Journey&) override {}
  void on_kernel(const KernelRound& round) override;
  /// Runs without kernels are not in it.
  const std::map<std::uint32_t, Run>& runs() const { return runs_; }

 private:
  std::map<std::uint32_t, std::string> names_;
  std::map<std::uint32_t, Run> runs_;
};

/// For people: each run that has kernels; times in ns. Nothing where none has.
void write_table(std::ostream& out, const KernelTable& table);

}  // namespace marrow::results
