// Runs configurations on the GPU, each against its consumer.
#pragma once

#include <memory>
#include <optional>

#include "tools/capture/gpu/puts.cuh"
#include "tools/capture/host/capture_file.h"
#include "tools/capture/host/clock_alignment.h"
#include "tools/common/gpu/on_sm.cuh"

namespace marrow::capture {

/// What a run without its description left.
struct Outcome {
  std::vector<Record> records;  ///< empty without stamps
  std::vector<std::vector<Consumption>> consumed;
  std::optional<double> consumer_clock_bound_ns;
  std::optional<std::uint32_t> consumer_sm;  ///< of a warp of the same GPU
  double cycles_per_put = 0;
};

class Runner {
 public:
  /// peer: the GPU that consumes where a configuration says so; nothing: there is none.
  Runner(int device, std::optional<int> peer);
  ~Runner();

  /// Throws StuckError if an answer did not come within its limit.
  Outcome run(const Configuration& configuration, bool stamps);

  /// Where the words lie that the records' warps used, as measured by find_sides().
  std::vector<PlacedWord> words(const Configuration& configuration,
                                const std::vector<Record>& records,
                                std::optional<std::uint32_t> consumer_sm) const;

  /// How far every line of every queue is from every SM; once, while nothing runs.
  void find_sides();
  bool two_sides() const { return two_sides_; }
  /// Medians over all SMs and lines of a side, in cycles; far is 0 if there is one side.
  double near_cycles() const { return near_cycles_; }
  double far_cycles() const { return far_cycles_; }

 private:
  struct Line {
    const char* word;
    std::uint32_t queue, first_entry;
    std::uint64_t* at;
    bool on_host_path;  ///< of the protocols with their queues in host memory
  };
  struct Peer;

  DeviceQueue* queues() const { return reinterpret_cast<DeviceQueue*>(gpu_.get()); }
  Counters* counters() const;
  unsigned long long* doorbells() const;
  char* rings() const;
  void clear(const Configuration& configuration);
  void launch(const Configuration& configuration, bool stamps, tools::DeviceArray<Record>& records,
              tools::DeviceArray<Consumed>& consumed);
  void launch_host(const Configuration& configuration, bool stamps,
                   tools::DeviceArray<Record>& records);
  Outcome run_host(const Configuration& configuration, bool stamps,
                   tools::DeviceArray<Record>& records);
  ClockOffset align_clocks();
  double cycles_per_put(const Configuration& configuration) const;
  void throw_if_gave_up(const Configuration& configuration);

  int device_, sms_;
  tools::DeviceArray<char> gpu_;  ///< queues, counters, doorbells, rings
  tools::HostArray<char> host_;   ///< the same in host memory
  tools::DeviceArray<Span> spans_;
  tools::DeviceArray<u32> gave_up_, consumer_sm_;
  tools::DeviceArray<u64> sink_;
  tools::Stream stream_;
  std::unique_ptr<Peer> peer_;

  std::vector<Line> lines_;
  std::vector<std::vector<std::uint32_t>> cycles_;  ///< [SM][line]
  std::vector<std::vector<bool>> far_;              ///< [SM][line]
  bool two_sides_ = false;
  double near_cycles_ = 0, far_cycles_ = 0;
};

}  // namespace marrow::capture
