// Do whole messages from GPU to GPU take the same by trains, the default, as TLP by TLP and packet
// by packet, and are long ones as fast as the narrowest link lets them be?
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "models/common/error.h"
#include "sim/machine.h"
#include "tests/support/round_machine.h"
#include "tests/support/systemc_fixture.h"

namespace marrow {
namespace {

class NicTest : public SystemC {
 protected:
  struct Shown {
    double latency_ns = 0;    ///< of a put that is waited for: the median
    double placed_ns = 0;     ///< its payload is in the other GPU's memory
    double bytes_per_ns = 0;  ///< of puts one behind the other
  };

  static config::SystemSpec system(bool detail, const std::vector<std::string>& sets = {}) {
    auto spec =
        config::bind(config::load_system(MARROW_SOURCE_DIR "/configs/systems/p-ib.yaml", sets));
    spec.detail = detail;
    return spec;
  }

  static Ps end_ps(const Journey& journey) { return journey.start_ps + journey.end_to_end_ps(); }

  static Shown shown(const config::SystemSpec& spec, std::uint64_t bytes) {
    renew();
    sim::Machine machine(spec);
    const config::Recipe recipe = config::load_recipe(
        MARROW_SOURCE_DIR "/configs/protocols/mini-gda.yaml", {{"payload", "write"}});
    Shown shown;
    std::vector<Ps> latencies, placed;
    for (const Journey& j : replay(machine, recipe, {{0, 0, waited(21, bytes)}}).all) {
      latencies.push_back(j.end_to_end_ps());
      Ps until_ps = 0;
      for (std::size_t stage = 0; stage <= static_cast<std::size_t>(Stage::kPayloadWrite); ++stage)
        until_ps += j.stage_ps[stage];
      placed.push_back(until_ps);
    }
    std::nth_element(latencies.begin(), latencies.begin() + 10, latencies.end());
    std::nth_element(placed.begin(), placed.begin() + 10, placed.end());
    shown.latency_ns = static_cast<double>(latencies[10]) / kPsPerNs;
    shown.placed_ns = static_cast<double>(placed[10]) / kPsPerNs;
    // Sixteen lanes, so that not the lanes but NIC, PCIe or wire bind.
    constexpr std::uint32_t kLanes = 16;
    constexpr std::size_t kPuts = 40;
    std::vector<gpu::Op> puts = unwaited(kPuts, bytes);
    puts.back().flush = puts.back().wait = true;
    std::vector<Work> lanes;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) lanes.push_back({lane, lane, puts});
    std::vector<Ps> ends;
    for (const Journey& j : replay(machine, recipe, lanes).all) ends.push_back(end_ps(j));
    std::sort(ends.begin(), ends.end());
    const std::size_t first = ends.size() / 5, last = ends.size() * 4 / 5;
    shown.bytes_per_ns = static_cast<double>(bytes * (last - first)) * kPsPerNs /
                         static_cast<double>(ends[last] - ends[first]);
    return shown;
  }
};

TEST_F(NicTest, TrainsAgreeWithSingleTlpsAndPackets) {
  for (const char* rate : {"wire.rate_gbps=200", "wire.rate_gbps=400", "wire.rate_gbps=800"})
    for (const std::uint64_t bytes : {8ul, 4096ul, 65536ul, 1048576ul}) {
      const Shown trains = shown(system(false, {rate}), bytes);
      const Shown singly = shown(system(true, {rate}), bytes);
      const std::string what = std::string(rate) + ", " + std::to_string(bytes) + " B";
      EXPECT_NEAR(trains.latency_ns / singly.latency_ns, 1, 0.02) << what;
      EXPECT_NEAR(trains.placed_ns / singly.placed_ns, 1, 0.02) << what;
      EXPECT_NEAR(trains.bytes_per_ns / singly.bytes_per_ns, 1, 0.02) << what;
      if (std::getenv("MARROW_SHOW"))
        std::printf("%s: latency %.1f / %.1f ns, placed %.1f / %.1f ns, %.4f / %.4f B/ns\n",
                    what.c_str(), trains.latency_ns, singly.latency_ns, trains.placed_ns,
                    singly.placed_ns, trains.bytes_per_ns, singly.bytes_per_ns);
    }
}

TEST_F(NicTest, LongPutsGoAtTheNarrowestLinksRate) {
  // 400 Gb/s are 50 B/ns; of 4096 + 26 B a packet, 4096 are payload: 49.7 B/ns.
  EXPECT_NEAR(shown(system(false, {"wire.rate_gbps=400"}), 1 << 20).bytes_per_ns, 49.7, 0.5);
  // At 800 Gb/s PCIe binds: 63.0 B/ns less 5 % for DLLPs, 256 B of every 276 B: 55.5 B/ns.
  EXPECT_NEAR(shown(system(false, {"wire.rate_gbps=800"}), 1 << 20).bytes_per_ns, 55.5, 0.6);
}

TEST_F(NicTest, ReadsAreHeldUpByWhatMayBeOnItsWay) {
  // 4096 B a round trip, which two switch crossings alone make 2 * (200 + 110) ns.
  const Shown one =
      shown(system(false, {"wire.rate_gbps=400", "dma.outstanding_bytes=4096"}), 1 << 20);
  EXPECT_LT(one.bytes_per_ns, 4096.0 / 620);
  EXPECT_GT(one.bytes_per_ns, 4096.0 / 800);
}

TEST_F(NicTest, AMachineWithoutAGpuIsRefused) {
  const std::string systems = MARROW_SOURCE_DIR "/configs/systems/";
  const auto bench = config::bind(config::load_system(systems + "pcie-bench-hsw-e5-2637v3.yaml"));
  EXPECT_THROW(sim::Machine{bench}, InputError);
  EXPECT_FALSE(config::load_system(systems + "h200-c.yaml").has("dma.tags_count"));
}

}  // namespace
}  // namespace marrow
