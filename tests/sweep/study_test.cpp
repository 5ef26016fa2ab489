// Are studies refused that cannot be carried out, with file, line, key and a mend? And do the
// bundled ones read?
#include "sim/sweep/study.h"

#include "sim/sweep/points.h"
#include "tests/config/files.h"

namespace marrow::sweep {
namespace {

namespace fs = std::filesystem;
using config::complaint;
using config::says;

const std::string kConfigs = MARROW_ROOT "/configs";
const std::string kHead =
    "study: s\nsystem: p-ib\nprotocol: mini-gda\n"
    "work: {does: [put, quiet], rounds: 20, bytes: 8}\n";  // 4 lines

class Studies : public config::Files {
 protected:
  std::string refused(const std::string& text) const {
    return complaint([&] { load_study(write("s.yaml", text), kConfigs); });
  }
  /// A grid with these axes, from line 6 on.
  std::string axes(const std::string& text) const {
    return refused(kHead + "mode: grid\naxes:\n" + text);
  }
};

TEST_F(Studies, RefusesWhatIsMissingOrUnknown) {
  EXPECT_TRUE(says(refused(kHead + "mode: grid\naxis: {}\n"), {"s.yaml:6", "axis", "axes"}));
  EXPECT_TRUE(says(refused(kHead + "axes: {pcie.lanes_count: [8]}\n"), {"s.yaml", "mode"}));
  EXPECT_TRUE(says(refused(kHead + "mode: grid\naxes: {}\n"), {"s.yaml:6", "axes", "pcie."}));
  EXPECT_TRUE(says(refused("study: s\nsystem: p-ibb\n"), {"s.yaml:2", "p-ibb", "known", "p-ib"}));
  EXPECT_TRUE(says(refused("study: s\nsystem: p-ib\nprotocol: mini\n"
                           "work: {does: [put]}\nmode: grid\naxes: {}\n"),
                   {"s.yaml:3", "mini", "known", "mini-gda"}));
  EXPECT_TRUE(says(refused("study: s\nsystem: p-ib\nprotocol: mini-gda\nmode: grid\n"),
                   {"s.yaml", "neither", "work"}));
  EXPECT_TRUE(says(refused("study: s\nsystem: p-ib\ntrace: nowhere.trace\nmode: grid\n"),
                   {"s.yaml:3", "nowhere.trace"}));
  EXPECT_TRUE(says(refused(kHead + "set: [wire.cabel_ns=3]\nmode: grid\n"),
                   {"s.yaml:5", "wire.cabel_ns", "wire.cable_ns"}));
}

TEST_F(Studies, RefusesAnAxisNoneOfWhoseValuesCanBe) {
  EXPECT_TRUE(says(axes("  pcie.lane_count: [8, 16]\n"),
                   {"s.yaml:7", "axes.pcie.lane_count", "pcie.lanes_count"}));
  EXPECT_TRUE(says(axes("  protocol.payloda: [write]\n"),
                   {"s.yaml:7", "axes.protocol.payloda", "protocol.payload"}));
  EXPECT_TRUE(says(axes("  work.wraps: [1]\n"), {"s.yaml:7", "work.wraps", "work.warps"}));
  EXPECT_TRUE(says(axes("  placement: [close]\n"), {"s.yaml:7", "close", "near"}));
  EXPECT_TRUE(says(axes("  pcie.lanes_count: [99]\n"), {"s.yaml:7", "99"}));
  EXPECT_EQ(axes("  pcie.lanes_count: [8, 99]\n"), "") << "one can be: the other is a failed point";
  EXPECT_TRUE(says(axes("  protocol: [mini-gda, gdkai]\n"), {"s.yaml:7", "gdkai", "gdaki"}))
      << "a name that leads nowhere is no point that fails";
}

TEST_F(Studies, RefusesAChoiceAmongNothing) {
  const std::string rest = "mode: grid\naxes: {pcie.lanes_count: [8], work.bytes: [8]}\n";
  EXPECT_EQ(refused(kHead + rest + "choose_for: work.bytes\n"), "");
  EXPECT_TRUE(
      says(refused(kHead + rest + "choose_for: [size]\n"), {"s.yaml:7", "size", "work.bytes"}));
  EXPECT_TRUE(says(refused(kHead + rest + "choose_for: [work.bytes, pcie.lanes_count]\n"),
                   {"s.yaml:7", "nothing to choose"}));
  EXPECT_TRUE(says(refused(kHead + "mode: one_at_a_time\naxes: {pcie.lanes_count: [8]}\n"
                                   "choose_for: [pcie.lanes_count]\n"),
                   {"s.yaml:7", "mode: grid"}));
}

TEST_F(Studies, RefusesRangesThatAreNone) {
  const std::string key = "  wire.cable_ns: ";
  EXPECT_TRUE(says(axes(key + "{from: 1, to: 9}\n"), {"s.yaml:7", "step"}));
  EXPECT_TRUE(says(axes(key + "{from: 9, to: 1, step: 1}\n"), {"s.yaml:7", "not above"}));
  EXPECT_TRUE(says(axes(key + "{from: 1, to: 9, step: 0}\n"), {"s.yaml:7", "positive"}));
  EXPECT_TRUE(says(axes(key + "{from: 0, to: 9, factor: 2}\n"), {"s.yaml:7", "step"}));
  EXPECT_TRUE(says(axes(key + "{from: 1, to: 9, factor: 1}\n"), {"s.yaml:7", "factor: 2"}));
  EXPECT_TRUE(says(axes(key + "{from: 1, to: 9, step: 1, factor: 2}\n"), {"s.yaml:7", "keep one"}));
  EXPECT_TRUE(says(axes(key + "{from: 1, to: 9e9, step: 1}\n"), {"s.yaml:7", "too many"}));
  EXPECT_TRUE(says(axes(key + "[1, 1]\n"), {"s.yaml:7", "twice"}));
  EXPECT_TRUE(says(axes("  protocol.payload: {percent: 10}\n"), {"s.yaml:7", "list its values"}));
  EXPECT_TRUE(says(axes("  nothing.*: {percent: 10}\n"), {"s.yaml:7", "marrow config show"}));
}

TEST_F(Studies, NamesWhatStandsTwiceInAList) {
  const std::string rest = "mode: grid\naxes: {pcie.lanes_count: [8], work.bytes: [8]}\n";
  EXPECT_TRUE(says(refused(kHead + rest + "choose_for: [work.bytes, work.bytes]\n"),
                   {"s.yaml:7", "choose_for", "twice"}));
  EXPECT_TRUE(
      says(refused(kHead + rest + "metrics: [issue, rate, issue]\n"), {"s.yaml:7", "twice"}));
  EXPECT_TRUE(
      says(axes("  both: {keys: [work.bytes, work.bytes], values: [8]}\n"), {"s.yaml:7", "twice"}));
}

TEST_F(Studies, RefusesMetricsAndTargetsThatItDoesNotHave) {
  const std::string rest = "mode: grid\naxes: {pcie.lanes_count: [8]}\n";
  EXPECT_TRUE(says(refused(kHead + rest + "metrics: [speed]\n"), {"s.yaml:7", "speed"}));
  EXPECT_TRUE(says(refused(kHead + rest + "metrics: [issue]\ntarget: rate\n"),
                   {"s.yaml:8", "rate", "issue"}));
  EXPECT_TRUE(says(refused(kHead + rest + "points: 5\n"), {"s.yaml:7", "latin_hypercube"}));
}

TEST_F(Studies, BundledOnesRead) {
  std::size_t studies = 0;
  for (const auto& entry : fs::directory_iterator(kConfigs + "/studies")) {
    const Study study = load_study(entry.path().string(), kConfigs);
    EXPECT_EQ(study.name, entry.path().stem().string());
    EXPECT_FALSE(study.question.empty());
    EXPECT_GE(points_of(study).size(), 6U) << study.name;
    ++studies;
  }
  EXPECT_GE(studies, 7U);
}

}  // namespace
}  // namespace marrow::sweep
