// Which points does each mode make of a study, held against lists written by hand?
#include "sim/sweep/points.h"

#include <algorithm>

#include "tests/config/files.h"

namespace marrow::sweep {
namespace {

const std::string kConfigs = MARROW_ROOT "/configs";
const std::string kHead =
    "study: s\nsystem: p-ib\nprotocol: mini-gda\n"
    "work: {does: [put, quiet], rounds: 20, bytes: 8}\n";

using Labels = std::vector<std::vector<std::string>>;

class Points : public config::Files {
 protected:
  Labels labels(const std::string& text) const {
    Labels all;
    for (const Point& point : points_of(load_study(write("s.yaml", kHead + text), kConfigs))) {
      all.emplace_back();
      for (const Value& value : point) all.back().push_back(value.label);
    }
    return all;
  }
};

TEST_F(Points, GridIsEveryCombinationTheLastAxisFastest) {
  EXPECT_EQ(labels("mode: grid\n"
                   "axes:\n"
                   "  pcie.generation_count: [4, 5]\n"
                   "  protocol.payload: [write, write_inline]\n"
                   "  work.bytes: {from: 8, to: 32, factor: 2}\n"),
            (Labels{{"4", "write", "8"},
                    {"4", "write", "16"},
                    {"4", "write", "32"},
                    {"4", "write_inline", "8"},
                    {"4", "write_inline", "16"},
                    {"4", "write_inline", "32"},
                    {"5", "write", "8"},
                    {"5", "write", "16"},
                    {"5", "write", "32"},
                    {"5", "write_inline", "8"},
                    {"5", "write_inline", "16"},
                    {"5", "write_inline", "32"}}));
}

TEST_F(Points, RangesEndWhereTheyAreToldTo) {
  EXPECT_EQ(labels("mode: grid\naxes: {wire.cable_ns: {from: 0.1, to: 0.5, step: 0.2}}\n"),
            (Labels{{"0.1"}, {"0.3"}, {"0.5"}}));
  EXPECT_EQ(labels("mode: grid\naxes: {wire.cable_ns: {from: 10, to: 35, step: 10}}\n"),
            (Labels{{"10"}, {"20"}, {"30"}}));
  EXPECT_EQ(labels("mode: grid\naxes: {wire.cable_ns: {from: 1, to: 1000, factor: 10}}\n"),
            (Labels{{"1"}, {"10"}, {"100"}, {"1000"}}));
}

// p-ib: pcie.lanes_count 16, wire.cable_ns 100; mini-gda's payload is write_inline.
TEST_F(Points, OneAtATimeBeginsWithTheBaseAndLeavesTheOthersThere) {
  EXPECT_EQ(labels("mode: one_at_a_time\n"
                   "axes:\n"
                   "  pcie.lanes_count: [8, 16]\n"
                   "  wire.cable_ns: {percent: 10}\n"
                   "  protocol.payload: [write]\n"
                   "  mix: {cases: {both: {work.bytes: 16, pcie.lanes_count: 4}}}\n"),
            (Labels{{"16", "100", "write_inline", "base"},
                    {"8", "100", "write_inline", "base"},
                    {"16", "90", "write_inline", "base"},
                    {"16", "110", "write_inline", "base"},
                    {"16", "100", "write", "base"},
                    {"16", "100", "write_inline", "both"}}));
}

TEST_F(Points, LatinHypercubeTakesTheMiddleOfEachPartOnce) {
  const std::string text =
      "mode: latin_hypercube\npoints: 4\n"
      "axes:\n"
      "  wire.cable_ns: {from: 0, to: 80}\n"                  // parts of 20
      "  nic.receive_ns: {from: 1, to: 10000, scale: log}\n"  // parts of a factor 10
      "  work.bytes: {from: 8, to: 24}\n"                     // whole numbers
      "  protocol.payload: [write, write_inline]\n";          // twice each
  const Labels drawn = labels(text);
  ASSERT_EQ(drawn.size(), 4U);
  const auto column = [&](std::size_t axis) {
    std::vector<std::string> values;
    for (const auto& point : drawn) values.push_back(point[axis]);
    std::sort(values.begin(), values.end());
    return values;
  };
  EXPECT_EQ(column(0), (std::vector<std::string>{"10", "30", "50", "70"}));
  // 10^0.5, 10^1.5, 10^2.5, 10^3.5
  EXPECT_EQ(column(1), (std::vector<std::string>{"3.16227766017", "31.6227766017", "316.227766017",
                                                 "3162.27766017"}));
  EXPECT_EQ(column(2), (std::vector<std::string>{"10", "14", "18", "22"}));
  EXPECT_EQ(column(3),
            (std::vector<std::string>{"write", "write", "write_inline", "write_inline"}));
  EXPECT_EQ(labels(text), drawn) << "the same seed, the same points";
  EXPECT_NE(labels(text + "seed: 2\n"), drawn);
}

TEST_F(Points, KeysOfOneAxisChangeTogether) {
  const Study study =
      load_study(write("s.yaml", kHead + "mode: grid\n"
                                         "axes:\n"
                                         "  generation: {keys: [pcie.generation_count, "
                                         "nic.pcie.generation_count], values: [4]}\n"
                                         "  protocol.payload: [write]\n"
                                         "  work.warps: [2]\n"
                                         "  placement: [far]\n"),
                 kConfigs);
  const sweep::Setup setup = setup_of(study, points_of(study).at(0));
  EXPECT_EQ(setup.system_sets,
            (std::vector<std::string>{"pcie.generation_count=4", "nic.pcie.generation_count=4"}));
  EXPECT_EQ(setup.protocol_sets, (std::vector<std::string>{"payload=write"}));
  EXPECT_EQ(setup.work.warps, 2);
  EXPECT_EQ(setup.placement, PlacementKind::kFar);
}

TEST_F(Points, AStarStandsForWhatCanBeScaled) {
  const Labels all = labels("mode: one_at_a_time\naxes: {switch.*: {percent: 50}}\n");
  // p-ib: gpu_ns 200, hop_ns 110, host_ns 200
  EXPECT_EQ(all, (Labels{{"200", "110", "200"},
                         {"100", "110", "200"},
                         {"300", "110", "200"},
                         {"200", "55", "200"},
                         {"200", "165", "200"},
                         {"200", "110", "100"},
                         {"200", "110", "300"}}));
}

}  // namespace
}  // namespace marrow::sweep
