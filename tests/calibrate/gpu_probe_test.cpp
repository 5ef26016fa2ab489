// Are a probe's files read as they are meant, what is wrong with one told with its line, and its
// rows predicted as adding up a path's parameters says?
#include "validate/gpu_probe.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/config/files.h"

namespace marrow::validate {
namespace {

const std::string kHeader =
    R"({"schema":"marrow.probe/1","name":"device","date":"2026-11-29","gpu":"NVIDIA H200","sms":132,"none_cycles":2})"
    "\n";
const std::string kNone =
    R"({"name":"op","cond":{"op":"none","where":"gpu"},"unit":"cycles","median":2})"
    "\n";

config::SystemSpec spec() {
  return config::bind(config::load_system(MARROW_ROOT "/configs/systems/h200-c.yaml"));
}

class GpuProbeFile : public config::Files {
 protected:
  ProbeReading reading(const std::string& rows) const {
    return read_quantities(load_probe(write("p.jsonl", kHeader + kNone + rows)), spec());
  }
};

TEST_F(GpuProbeFile, TakesTheMeasurementsOwnCostOff) {
  const auto read = reading(
      R"({"name":"op","cond":{"op":"fence.sys","where":"gpu"},"unit":"cycles","median":1027,"median_low":1025,"median_high":1029,"overhead":2})");
  ASSERT_EQ(read.quantities.size(), 1U);
  EXPECT_EQ(read.quantities[0].measured, 1025);
  EXPECT_EQ(read.quantities[0].model, "fence.sys");
  // 1 % of 1025, rounds of 4 cycles as a 90 % interval (4 / 3.29), half a cycle.
  EXPECT_NEAR(read.quantities[0].uncertainty, std::sqrt(10.25 * 10.25 + 1.216 * 1.216 + 0.25),
              0.01);
  EXPECT_EQ(read.unpredicted.size(), 1U) << "the row of the cost itself";
}

TEST_F(GpuProbeFile, AFenceBehindANearLineTellsOnlyWhereNoOtherStoreIsPending) {
  const std::string row =
      R"({"name":"op","cond":{"op":"st8+fence.gpu","where":"gpu near"},"unit":"cycles","median":400,"overhead":2})";
  EXPECT_TRUE(reading(row).quantities.empty());
  std::string header = kHeader;
  header.insert(header.size() - 2, R"(,"results_pending":false)");
  const auto read = read_quantities(load_probe(write("q.jsonl", header + kNone + row)), spec());
  ASSERT_EQ(read.quantities.size(), 1U);
  EXPECT_EQ(read.quantities[0].model, "st8+fence.gpu near");
}

TEST_F(GpuProbeFile, RowsWhoseRoundsMeasuredTwoThingsAreNotUsed) {
  const auto read = reading(
      R"({"name":"op","cond":{"op":"fence.sys","where":"gpu"},"unit":"cycles","median":1027,"median_low":800,"median_high":1029})");
  EXPECT_TRUE(read.quantities.empty());
  EXPECT_EQ(read.unpredicted.count("rows whose rounds measured two things"), 1U);
}

TEST_F(GpuProbeFile, AWordOfUnknownSideIsOnTheNearer) {
  const std::string old = R"({"name":"device","gpu":"NVIDIA H200","sms":132})"
                          "\n";
  for (const auto& [median, model] : {std::pair{"350", "cas near"}, std::pair{"540", "cas far"}}) {
    const auto read = read_quantities(
        load_probe(write(
            "old.jsonl",
            old + R"({"name":"op","cond":{"op":"none"},"unit":"cycles","median":48})" + "\n" +
                R"({"name":"op","cond":{"op":"atom.cas.gpu","where":"gpu"},"unit":"cycles","median":)" +
                median + "}")),
        spec());
    ASSERT_EQ(read.quantities.size(), 1U);
    EXPECT_EQ(read.quantities[0].model, model);
    EXPECT_EQ(read.quantities[0].overhead, 48);
  }
}

TEST_F(GpuProbeFile, ReadsBothKindsOfBundledFiles) {
  for (const char* name :
       {"h200-b", "h200-c", "h200-e", "h200-g", "h200-i", "h200x2-f", "h200x2-j"}) {
    const std::string path = std::string(MARROW_ROOT "/validate/probes/") + name + "-probe.jsonl";
    const ProbeFile file = load_probe(path);
    const ProbeReading read = read_quantities(file, spec());
    EXPECT_GT(read.quantities.size(), 50U) << name;
    EXPECT_EQ(read.unpredicted.count("rows of names that are not known"), 0U) << name;
    EXPECT_EQ(file.gpu, "NVIDIA H200");
  }
}

TEST_F(GpuProbeFile, TellsTheLineOfWhatIsNoRow) {
  using config::complaint;
  using config::says;
  const auto read = [&](const std::string& text) {
    const std::string file = write("bad.jsonl", text);
    return complaint([&] { load_probe(file); });
  };
  EXPECT_TRUE(says(read(kHeader + "{\"name\":\"op\",\"median\":1}\nnot JSON\n"),
                   {"bad.jsonl:3", "marrow-probe"}));
  EXPECT_TRUE(says(read(kHeader), {"bad.jsonl", "no rows"}));
  EXPECT_TRUE(says(read(kNone), {"bad.jsonl:1", "device", "cut"}));
  EXPECT_TRUE(
      says(read(R"({"schema":"marrow.probe/9","name":"device"})"), {":1", "marrow.probe/9"}));
  EXPECT_TRUE(says(read(""), {"no rows"}));
  EXPECT_TRUE(
      says(complaint([&] { load_probe(path("none.jsonl")); }), {"none.jsonl", "cannot be read"}));
}

/// Machines are one a process: each prediction is made in one of its own.
double predicted(const std::string& model, const config::SystemSpec& system = spec()) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t pid = fork();
  if (pid == 0) {
    double value = -1;
    try {
      value = GpuProbe(system).predict(model);
    } catch (const std::exception&) {
    }
    const auto wrote = write(ends[1], &value, sizeof value);
    _exit(wrote == sizeof value ? 0 : 1);
  }
  double value = -1;
  const auto got = read(ends[0], &value, sizeof value);
  close(ends[0]), close(ends[1]);
  waitpid(pid, nullptr, 0);
  return got == sizeof value ? value : -1;
}

// h200-c at 1.98 GHz: sums of its parameters, in cycles.
TEST(GpuProbeModel, APathThatNothingSharesIsTheSumOfItsParameters) {
  const auto s = spec();
  EXPECT_NEAR(predicted("fence.sys"), s.gpu.fence_sys_cycles, 0.1);
  EXPECT_NEAR(predicted("st8+fence.sys"), s.gpu.store_cycles + s.gpu.fence_sys_cycles, 0.1);
  EXPECT_NEAR(predicted("st64+fence.gpu far"),
              4 * s.gpu.store16_cycles + s.gpu.fence_gpu_far_cycles, 0.1);
  EXPECT_NEAR(predicted("fence.gpu"), s.gpu.fence_gpu_cycles, 0.1);
  EXPECT_NEAR(predicted("load near"), s.gpu.load_cycles, 0.1);
  EXPECT_NEAR(predicted("load passed far"), s.gpu.load_cycles, 0.1);
  EXPECT_NEAR(predicted("load written far"), s.gpu.load_cycles + s.gpu.load_far_extra_cycles, 0.1);
  EXPECT_NEAR(predicted("cas far"), s.gpu.far_cycles, 0.1);
  // A read's TLPs, 24 and 28 bytes, take 0.9 ns of the link besides.
  EXPECT_NEAR(predicted("load host"), s.gpu.load_cycles + (s.pcie.round_trip_ns + 0.9) * 1.98, 1);
  // Gen5 x16: 63.015 GB/s, of which 5 % are DLLPs; 128 B behind 24 B, 256 B behind 20 B.
  EXPECT_NEAR(predicted("write rate line"), 63.015 * 0.95 * 128 / 152, 0.01);
  EXPECT_NEAR(predicted("read rate mps"), 63.015 * 0.95 * 256 / 276, 0.01);
}

// The second look finds the answer. The first waits behind the flag's own store, so that both looks
// take two reads of a line that a core wrote and read_after_store_ns, less what the store is ahead.
// Probe row op st8+fence.sys host of a pair: 2822 (h200x2-l), not the 1171 of one GPU.
TEST(GpuProbeModel, ASystemFenceBehindAHostStoreIsTheLongerOneWhereNvlinkReachesAPeer) {
  auto s = spec();
  s.nvlink.peers = 1;
  EXPECT_NEAR(predicted("st8+fence.sys host", s),
              s.gpu.store_cycles + s.gpu.fence_sys_host_peer_cycles, 0.1);
}

TEST(GpuProbeModel, APingPongWithTheHostTakesTwoLooks) {
  const auto s = spec();
  const double look = s.gpu.load_cycles + (s.pcie.round_trip_ns + s.host.snoop_ns) * 1.98;
  EXPECT_NEAR(predicted("host pingpong"), 2 * look + s.host.read_after_store_ns * 1.98,
              0.01 * 2 * look);
}

}  // namespace
}  // namespace marrow::validate
