// The capture: JSON lines, as `marrow import capture` reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/capture/host/configuration.h"
#include "tools/capture/host/layout.h"
#include "tools/common/output.h"

namespace marrow::capture {

/// One entry as its consumer saw it. Zeros: not known.
struct Consumption {
  double seen_ns = 0;  ///< globaltimer, after epoch_ns() of the run's records
  double read_ns = 0;  ///< from seen until the entry was read
  double done_ns = 0;  ///< from read until the completion was written
};

/// How far a word's line is from the SM of a warp, measured while nothing else ran.
struct Sight {
  std::uint32_t warp;
  std::uint32_t cycles;  ///< a compare-and-swap, with the cost of reading the clock
  bool far;
};

/// A queue's word in GPU memory; of an entry ring, one page of it.
struct PlacedWord {
  std::string word;  ///< as the recipe calls it
  std::uint32_t queue;
  std::uint32_t first_entry;  ///< 0 where it is no ring
  std::uint64_t address;      ///< virtual; its memory is physically contiguous in 2 MiB pages
  std::vector<Sight> seen;    ///< from each warp of this queue
  std::optional<Sight> from_consumer = std::nullopt;  ///< where it is a warp of this GPU; no warp
};

struct Run {
  std::string name;
  Configuration configuration;
  std::uint32_t repeat = 1;
  double sm_clock_ghz = 0;
  bool clock_changed = false;
  /// Of the consumer's clock against the GPU's; nothing where both are one.
  std::optional<double> consumer_clock_bound_ns;
  std::optional<std::uint32_t> consumer_sm;        ///< where it is a warp of this GPU
  double cycles_per_put = 0;                       ///< from a warp's first put to its last, mean
  double cycles_per_put_unstamped = 0;             ///< the same of a run without stamps
  std::vector<Record> records;                     ///< warp after warp
  std::vector<std::vector<Consumption>> consumed;  ///< [queue][entry]
  std::vector<PlacedWord> words;
};

/// The stages that a protocol's puts pass, in order.
std::vector<Stage> stages_of(Protocol protocol);

/// When the first put started: what a run's times count from.
std::uint64_t epoch_ns(const std::vector<Record>& records);

/// A run's line, then a line for each put in the order of their starts. Throws std::runtime_error
/// if a warp's puts are not all there.
void add_run(tools::MeasurementFile& file, const Run& run);

}  // namespace marrow::capture
