// What the measurements share: the device, how often to repeat, where rows go, which lines are
// near to which SM.
#pragma once

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "tools/common/gpu/on_sm.cuh"
#include "tools/common/gpu/program.cuh"
#include "tools/common/output.h"
#include "tools/common/statistics.h"
#include "tools/probe/options.h"

namespace marrow::probe {

using namespace tools;  // what all measuring programs share

constexpr int kRounds = 6;  // their medians' range holds the true one with 1 - 2^-5, 97 %
constexpr std::size_t kLineBytes = 128;
constexpr std::size_t kPageBytes = 4096;

/// Two bodies on two SMs at once.
template <class First, class Second>
__global__ void on_two_sms_kernel(std::uint32_t sm_a, std::uint32_t sm_b, std::uint32_t* taken,
                                  First first, Second second) {
  if (sm_now() == sm_a && !atomicExch(taken, 1u)) return first();
  if (sm_now() == sm_b && !atomicExch(taken + 1, 1u)) return second();
}

/// 64 words, by what the reference SM finds of them: word i is targets[i].
using Targets = std::vector<std::uint64_t*>;

/// Which lines are near: found once, by compare-and-swap from every SM on one line a page.
struct SideMap {
  std::uint32_t sm = 0;  ///< the reference
  bool two = false;
  int lines = 0;
  std::vector<Rounds> by_sm;               ///< [SM][round][line], cycles
  std::vector<Sides> sides;                ///< [SM], of the medians over the rounds
  Targets near, far;                       ///< for the reference SM; far is empty if not two
  std::vector<std::uint32_t> same, other;  ///< SMs on the reference's side, on the other
  std::unique_ptr<DeviceArray<std::uint64_t>> memory;
};

class Context {
 public:
  Context(const Options& options, MeasurementFile& file);

  const cudaDeviceProp& device() const { return device_; }
  int device_number() const { return options_.device; }
  bool quick() const { return options_.quick; }
  /// Samples of one round, where all rounds together take `full` in a full run.
  int per_round(int full) const { return std::max(full / kRounds / (quick() ? 8 : 1), 16); }

  void row(const char* name, const Object& conditions, const char* unit, const Rounds& rounds,
           std::optional<double> overhead = std::nullopt);
  void line(const Object& object) { file_.add_line(object.text()); }

  /// One thread on one SM; returns when it is done. Throws StuckError if no block got there.
  template <class Body>
  void run_on_sm(std::uint32_t sm, const Body& body) {
    one_sm_.run(sm, body);
  }
  /// `beside` starts what shall run at the same time.
  template <class First, class Second>
  void run_on_two_sms(std::uint32_t sm_a, std::uint32_t sm_b, const First& first,
                      const Second& second, cudaStream_t stream,
                      const std::function<void()>& beside) {
    taken_.clear();
    gave_up_.clear();
    beside();
    on_two_sms_kernel<<<2 * device_.multiProcessorCount, 1, 0, stream>>>(sm_a, sm_b, taken_.get(),
                                                                         first, second);
    MARROW_LAUNCHED("on_two_sms_kernel");
    MARROW_CUDA(cudaStreamSynchronize(stream));
    throw_if_gave_up("two SMs");
  }

  /// A kernel that reaches a limit sets this.
  std::uint32_t* gave_up() const { return gave_up_.get(); }
  void clear_gave_up() { gave_up_.clear(); }
  void throw_if_gave_up(const std::string& what);

  /// The cost of reading the clock twice around nothing, in cycles: row `op`, `none`.
  double none_cycles();
  const SideMap& sides();
  /// The SM on which single operations are measured.
  std::uint32_t sm() { return sides().sm; }

  /// Time of `work` by events, one sample a round, in ms, after one run that is not counted.
  Rounds event_ms(const std::function<void()>& work);
  /// The same of a kernel that does nothing.
  double empty_kernel_ms();

 private:
  const Options& options_;
  MeasurementFile& file_;
  cudaDeviceProp device_;
  OneSm one_sm_;
  DeviceArray<std::uint32_t> taken_, gave_up_;
  std::optional<double> none_cycles_, empty_kernel_ms_;
  std::optional<SideMap> sides_;
};

inline Object cond() { return {}; }

// One function a file.
void measure_loads(Context& context);
void measure_sides(Context& context);
void measure_operations(Context& context);
void measure_contention(Context& context);
void measure_pingpong(Context& context);
void measure_host_stores(Context& context);
void measure_host_loads(Context& context);
void measure_copy_engine(Context& context);
void measure_launch(Context& context);
void measure_peers(Context& context);
void measure_peers_loaded(Context& context);
void measure_peers_others(Context& context);
void measure_peers_fences(Context& context);

/// Measures with each GPU whose memory this one reaches; a quick probe with the first alone.
void for_each_peer(Context& context, const std::function<void(int peer)>& measure);
SideMap find_sides(Context& context);
double measure_none(Context& context);

/// Writes a random cycle through words `stride_bytes` apart: each holds the index of the next.
void write_chain(std::uint64_t* words, std::size_t bytes, std::size_t stride_bytes,
                 std::uint64_t seed);

/// Copies of 64 MiB one after the other that load the link while something else is measured.
enum class CopyLoad { kNone, kHostToDevice, kDeviceToHost };
constexpr std::array kCopyLoads = {CopyLoad::kNone, CopyLoad::kHostToDevice,
                                   CopyLoad::kDeviceToHost};
const char* name_of(CopyLoad load);

}  // namespace marrow::probe
