// Do the predictions keep the bounds that they were built to keep, on the captures that come with
// marrow? The bounds were set before the model was: they are not the errors of the day.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "models/common/error.h"
#include "sim/config/system.h"
#include "tests/support/systemc_fixture.h"
#include "traces/trace.h"
#include "validate/compare.h"

namespace marrow::validate {
namespace {

const std::string kRoot = MARROW_ROOT;

class BundledCapture : public SystemC {
 protected:
  Comparison compare_with(const std::string& system, const std::string& capture,
                          std::vector<std::string> only = {}) {
    const std::string file = kRoot + "/configs/systems/" + system + ".yaml";
    const auto spec = config::bind(config::load_system(file));
    machine_.emplace(spec);
    Options options;
    options.config_dir = kRoot + "/configs";
    options.system = system;
    options.trace_file = kRoot + "/traces/" + capture;
    options.only = std::move(only);
    return compare(*machine_, *machine_, spec, options);
  }
  static std::map<std::string, Group> groups(const Comparison& comparison) {
    std::map<std::string, Group> by_name;
    for (const Group& group : comparison.groups()) by_name[group.name] = group;
    return by_name;
  }
  static const Row& row(const Comparison& comparison, const std::string& run,
                        const std::string& stage) {
    for (const Row& r : comparison.rows)
      if (r.run == run && r.stage == stage) return r;
    throw std::runtime_error("no row " + run + " " + stage);
  }
  std::optional<sim::Machine> machine_;
};

TEST_F(BundledCapture, DeviceConsumerKeepsItsBounds) {
  const auto g = groups(compare_with("h200-c", "h200-c-device-consumer.trace"));
  EXPECT_LE(g.at("all rows").median_abs_error, 0.03);
  EXPECT_LE(g.at("all rows").p90_abs_error, 0.12);
  EXPECT_LE(g.at("hard rows").median_abs_error, 0.06);
  EXPECT_LE(g.at("hard rows").p90_abs_error, 0.25);
  EXPECT_LE(g.at("put rows").median_abs_error, 0.05);
  EXPECT_LE(g.at("put rows").p90_abs_error, 0.10);
  EXPECT_GT(g.at("all rows").rows, 150u);
  EXPECT_GT(g.at("hard rows").rows, 30u);
}

TEST_F(BundledCapture, PeerConsumerKeepsItsBounds) {
  const auto g = groups(compare_with("h200x2-f", "h200x2-f-peer-consumer.trace"));
  EXPECT_LE(g.at("all rows").median_abs_error, 0.03);
  EXPECT_LE(g.at("all rows").p90_abs_error, 0.12);
  EXPECT_LE(g.at("hard rows").median_abs_error, 0.06);
  EXPECT_LE(g.at("hard rows").p90_abs_error, 0.25);
  EXPECT_LE(g.at("put rows").median_abs_error, 0.05);
  EXPECT_LE(g.at("put rows").p90_abs_error, 0.10);
  EXPECT_GT(g.at("all rows").rows, 150u);
  EXPECT_GT(g.at("hard rows").rows, 30u);
}

TEST_F(BundledCapture, HostConsumerKeepsItsBounds) {
  // The 90th percentile of the hard rows misses its bound of 30 %: docs/validation.md says why.
  const auto g = groups(compare_with("h200-b", "h200-b-host-consumer.trace"));
  EXPECT_LE(g.at("all rows").median_abs_error, 0.03);
  EXPECT_LE(g.at("all rows").p90_abs_error, 0.20);
  EXPECT_LE(g.at("hard rows").median_abs_error, 0.06);
  EXPECT_GT(g.at("all rows").rows, 50u);
}

TEST_F(BundledCapture, MeasuredMediansAreTheCsvsOwn) {
  // From the CSV by itself: zcat h200-c-device-consumer.csv.gz, column by column, the element at
  // floor(n / 2) of the sorted values of cfg 0.
  const auto comparison = compare_with("h200-c", "h200-c-device-consumer.trace", {"cfg=0"});
  EXPECT_EQ(row(comparison, "cfg 0", "lookup").measured.median, 1337);
  EXPECT_EQ(row(comparison, "cfg 0", "slot").measured.median, 387);
  EXPECT_EQ(row(comparison, "cfg 0", "order.fence").measured.median, 559);
  EXPECT_EQ(row(comparison, "cfg 0", "doorbell.register").measured.median, 393);
  EXPECT_EQ(row(comparison, "cfg 0", "completion").measured.median, 1709);
  EXPECT_NEAR(row(comparison, "cfg 0", "put").measured.median, 6223, 1) << "a mean";
}

TEST_F(BundledCapture, BaselineIsTheFirstUncontendedRunsValue) {
  // cfg 0 is the first one-warp run of ibgda with its doorbell in GPU memory; its slot is 387. By
  // cfg 7's own median the baseline errs by 387 / median - 1.
  const auto comparison =
      compare_with("h200-c", "h200-c-device-consumer.trace", {"cfg=0", "cfg=7"});
  EXPECT_EQ(*row(comparison, "cfg 0", "slot").baseline_error, 0);
  const Row& slot = row(comparison, "cfg 7", "slot");
  EXPECT_DOUBLE_EQ(*slot.baseline_error, 387 / slot.measured.median - 1);
  EXPECT_TRUE(slot.hard());
}

TEST_F(BundledCapture, RowsOfFittedRunsAreNeverCalledPredictions) {
  const auto comparison = compare_with("h200-c", "h200-c-device-consumer.trace",
                                       {"cfg=0", "cfg=11", "cfg=20", "cfg=40", "cfg=44"});
  std::map<std::string, Role> role;
  for (const Row& r : comparison.rows) role[r.run] = r.role;
  EXPECT_EQ(role.at("cfg 0"), Role::kFit);
  EXPECT_EQ(role.at("cfg 40"), Role::kFit);
  EXPECT_EQ(role.at("cfg 44"), Role::kFit);
  EXPECT_EQ(role.at("cfg 11"), Role::kPlacement);
  EXPECT_EQ(role.at("cfg 20"), Role::kPredicted);
}

TEST_F(BundledCapture, OnlyNamingNoRunIsRefused) {
  EXPECT_THROW(compare_with("h200-c", "h200-c-device-consumer.trace", {"cfg=999"}), InputError);
}

TEST_F(BundledCapture, PlacementIsReadOffRunsWithOneWarpAQueue) {
  const std::string capture = kRoot + "/traces/h200-c-device-consumer.trace";
  trace::Reader reader(capture);
  const auto chosen = placement_runs(reader, kRoot + "/configs");
  ASSERT_FALSE(chosen.empty());
  trace::Reader again(capture);
  while (const auto run = again.next_run()) {
    if (std::find(chosen.begin(), chosen.end(), run->name) != chosen.end()) {
      EXPECT_EQ(run->queues, run->lanes.size()) << run->name;
    }
  }
}

}  // namespace
}  // namespace marrow::validate
