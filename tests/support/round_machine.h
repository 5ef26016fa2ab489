// A machine with round numbers, so that schedules can be worked out by hand: all clocks 1 GHz (a
// cycle is 1000 ps), no variation, no spread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/common/observer.h"
#include "sim/machine.h"
#include "tests/support/systemc_fixture.h"

namespace marrow {

inline GpuSpec round_gpu() {
  GpuSpec gpu;
  gpu.sm_clock_ghz = 1;
  gpu.l2_clock_ghz = 1;
  gpu.sm_count = 16;
  gpu.store_cycles = 4;
  gpu.store16_cycles = 10;
  gpu.load_cycles = 200;
  gpu.load_far_extra_cycles = 100;
  gpu.near_cycles = 300;
  gpu.far_cycles = 500;
  gpu.atomic_interval_cycles = 10;
  gpu.l2_bytes = 1 << 20;
  gpu.hbm_cycles = 0;  // a first touch costs nothing: tests of the HBM set it
  gpu.hbm_gbps = 8192;
  gpu.hbm_channels = 8;
  gpu.fence_cta_cycles = 20;
  gpu.fence_gpu_cycles = 100;
  gpu.fence_gpu_near_cycles = 400;
  gpu.fence_gpu_far_cycles = 600;
  gpu.fence_gpu_host_cycles = 700;
  gpu.fence_gpu_beside_host_reads_cycles = 450;
  gpu.fence_sys_cycles = 1000;
  return gpu;
}

inline config::SystemSpec round_system() {
  config::SystemSpec spec;
  spec.has_gpu = true;
  spec.gpu = round_gpu();
  spec.pcie.generation = 5;
  spec.pcie.lanes = 16;
  spec.pcie.tlp_overhead_bytes = 24;
  spec.pcie.mps_bytes = 256;
  spec.pcie.round_trip_ns = 800;
  spec.pcie.request_share_ratio = 0.5;
  spec.host.poll_ns = 10;
  spec.host.copy_l1_gb_per_s = 64;
  spec.host.copy_gb_per_s = 32;
  return spec;
}

/// Everything near, every line at the mean distance.
inline void all_near(Placement& placement) {
  for (std::uint64_t a = 0; a < placement.gpu_bytes(); a += Placement::kPageBytes)
    placement.set_page_side(a, false);
  for (std::uint64_t a = 0; a < placement.gpu_bytes(); a += Placement::kLineBytes)
    placement.set_distance(a, 0);
  for (std::uint32_t sm = 0; sm < placement.sms(); ++sm) placement.set_sm_side(sm, false);
}

class Journeys : public Observer {
 public:
  void on_journey(const Journey& journey) override { all.push_back(journey); }
  std::vector<Journey> of(std::uint32_t warp) const {
    std::vector<Journey> mine;
    for (const Journey& j : all)
      if (j.warp == warp) mine.push_back(j);
    return mine;
  }
  std::vector<Journey> all;
};

/// A lane and what it is to do.
struct Work {
  std::uint32_t sm = 0, queue = 0;
  std::vector<gpu::Op> puts;
};

inline std::vector<gpu::Op> waited(std::size_t count, std::uint64_t bytes = 0) {
  return std::vector<gpu::Op>(count, gpu::Op{OpKind::kPut, bytes, false, true, 0});
}
inline std::vector<gpu::Op> unwaited(std::size_t count, std::uint64_t bytes = 0) {
  return std::vector<gpu::Op>(count, gpu::Op{OpKind::kPut, bytes, false, false, 0});
}

/// Runs the lanes on this machine; `place` may be empty: all near.
inline Journeys replay(sim::Machine& machine, const config::Recipe& recipe,
                       const std::vector<Work>& lanes,
                       std::function<void(const QueueLayout&, Placement&)> place = {},
                       std::uint64_t seed = 1) {
  trace::Run run;
  run.name = "by hand";
  run.queues = 1;
  for (std::uint32_t warp = 0; warp < lanes.size(); ++warp) {
    run.lanes.push_back({warp, lanes[warp].sm, lanes[warp].queue, 0, std::nullopt});
    run.queues = std::max(run.queues, lanes[warp].queue + 1);
  }
  std::vector<std::size_t> next(lanes.size(), 0);
  Journeys journeys;
  sim::RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.seed = seed;
  setup.observer = &journeys;
  setup.next_op = [&](std::uint32_t warp, gpu::Op& put) {
    if (next[warp] == lanes[warp].puts.size()) return false;
    put = lanes[warp].puts[next[warp]++];
    return true;
  };
  setup.place = place ? place : [](const QueueLayout&, Placement& p) { all_near(p); };
  machine.run(setup);
  return journeys;
}

/// The same on a machine of its own.
inline Journeys replay(const config::SystemSpec& spec, const config::Recipe& recipe,
                       const std::vector<Work>& lanes,
                       std::function<void(const QueueLayout&, Placement&)> place = {},
                       std::uint64_t seed = 1) {
  sim::Machine machine(spec);
  return replay(machine, recipe, lanes, std::move(place), seed);
}

/// What a lane spent in the stages it passed, in ps.
inline std::map<std::string, Ps> stages(const Journey& journey) {
  std::map<std::string, Ps> passed;
  for (std::size_t i = 0; i < kStageCount; ++i)
    if (journey.stage_ps[i] != 0) passed[std::string(kStageNames[i])] = journey.stage_ps[i];
  return passed;
}

}  // namespace marrow
