// What a CPU thread pays to start kernels and copies and to notice their end, as the probe measures
// it (tools/probe/gpu/launch.cu, copy_engine.cu), predicted: the probe's own loops on the machine.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/config/recipe.h"
#include "sim/config/system.h"
#include "sim/machine.h"

namespace marrow::validate {

enum class LaunchTest : std::uint8_t {
  kCall,            ///< launch_call_cpu_cost
  kToFlag,          ///< launch_to_host_flag
  kFlagToSync,      ///< host_flag_to_stream_sync_return
  kFlagToQuery,     ///< host_flag_to_event_query_done
  kKernelToKernel,  ///< kernel_to_kernel_via_cpu_sync
  kQueued,          ///< kernel_to_kernel_queued
  kToSync,          ///< launch_to_stream_sync: an empty kernel's launch to the wait's return
  kCopy,            ///< copy_engine: a copy behind another
  kCopyToSeen       ///< copy_to_host_seen: a copy's call until a thread sees its last byte
};
constexpr std::array<std::string_view, 9> kLaunchTestNames = {"launch_call_cpu_cost",
                                                              "launch_to_host_flag",
                                                              "host_flag_to_stream_sync_return",
                                                              "host_flag_to_event_query_done",
                                                              "kernel_to_kernel_via_cpu_sync",
                                                              "kernel_to_kernel_queued",
                                                              "launch_to_stream_sync",
                                                              "copy_engine",
                                                              "copy_to_host_seen"};

struct LaunchCase {
  LaunchTest test = LaunchTest::kCall;
  std::uint64_t bytes = 0;  ///< of a copy
  bool to_host = true;      ///< the same: its direction
};

class LaunchProbe {
 public:
  /// Elaborates a machine: once a process. config_dir: where protocols/host-initiated.yaml is,
  /// which says what a look of each way of noticing costs. Throws InputError.
  LaunchProbe(const config::SystemSpec& spec, std::string config_dir);

  /// The median, ns.
  double predict(const LaunchCase& test);

 private:
  config::Recipe recipe(const char* notice) const;

  std::string config_dir_;
  sim::Machine machine_;
};

}  // namespace marrow::validate
