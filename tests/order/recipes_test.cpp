// Is every shipped recipe clean where its library's own argument makes it safe, and is what path.md
// reads as open reported with its reason?
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/order/check.h"

namespace marrow::order {
namespace {

const std::string kRoot = MARROW_SOURCE_DIR;

struct Case {
  std::string recipe;
  std::vector<std::string> sets;
  CheckOptions options;
  /// "hazard rule" of what is open by reading, with where it is read.
  std::vector<std::string> open;
};

CheckResult run(const std::string& recipe, const std::vector<std::string>& sets,
                const CheckOptions& options = {}) {
  return check(
      config::load_recipe(config::recipe_path(recipe, kRoot + "/configs"), {}, sets).program,
      options);
}

std::set<std::string> kinds(const CheckResult& result) {
  std::set<std::string> kinds;
  for (const auto& f : result.findings)
    kinds.insert(std::string(name(f.finding.hazard).id) + " " + f.finding.rule);
  return kinds;
}

CheckOptions caller(bool releases, bool acquires) {
  CheckOptions options;
  options.caller_releases = releases;
  options.caller_acquires = acquires;
  return options;
}

TEST(Recipes, AreCleanWhereTheirLibrarySaysWhy) {
  CheckOptions one_cta;
  one_cta.same_cta = true;
  const std::vector<Case> cases = {
      {"gdaki", {}, {}, {}},
      {"gdaki", {"doorbell_record=false"}, {}, {}},
      {"gdaki", {"payload=write_inline"}, {}, {}},
      {"nvshmem-ibgda", {}, caller(false, true), {}},
      {"nvshmem-ibgda", {"signal=set"}, caller(false, true), {}},
      {"nvshmem-ibgda", {"transport=dc"}, caller(false, true), {}},
      {"deepep", {}, {}, {}},
      {"deepep", {"batch=1"}, {}, {}},
      {"ucx-gdaki", {}, caller(false, true), {}},
      {"ucx-gdaki", {"nodelay=false"}, caller(false, true), {}},
      {"gin-gpi", {}, caller(true, false), {}},
      {"mini-gda", {}, {}, {}},
      {"mini-gda", {"sharing=lock", "payload=write"}, one_cta, {}},
      {"mini-gda", {"sharing=handoff", "payload=write"}, {}, {}},
      {"mini-gda", {"sharing=handoff", "payload=write", "batch=2"}, {}, {}},
      {"perftest", {}, {}, {}},
      {"perftest", {"post=doorbell", "payload=write"}, {}, {}},
      {"perftest", {"immediate=yes"}, {}, {}},
      {"capture-ibgda", {}, {}, {}},
      {"capture-ibgda", {"doorbell_in=host"}, {}, {}},
      {"capture-gdaki", {}, {}, {}},
      {"capture-gdaki", {"doorbell_in=peer"}, {}, {}},
      {"capture-host-gdaki", {}, {}, {}},
      // CPU threads that post, ring, or launch kernels.
      {"nvshmem-ibgda", {"nic_handler=cpu"}, caller(false, true), {}},
      {"nvshmem-ibgda", {"nic_handler=cpu_host_memory"}, caller(false, true), {}},
      {"gdaki", {"nic_handler=cpu"}, {}, {}},
      {"mini-gda", {"nic_handler=cpu", "payload=write"}, {}, {}},
      {"mini-proxy", {}, {}, {}},
      {"mini-proxy", {"payload=write"}, caller(true, false), {}},
      {"mini-proxy", {"producers=many", "payload=write"}, caller(true, false), {}},
      {"mini-proxy", {"batch=2", "payload=write"}, caller(true, false), {}},
      {"mini-proxy", {"variant=baseline", "payload=write"}, {}, {}},
      {"host-initiated", {}, {}, {}},
      {"host-initiated", {"notice=flag"}, {}, {}},
      {"host-initiated", {"post=list"}, {}, {}},
      // Readings, each with its place.
      // path.md 3.A: no CST on a GPU that orders writes for its owner; wait as in 1.A.4.
      {"nvshmem-ibrc", {}, {}, {"reader ptx-acquire", "reader pcie-paths"}},
      // path.md 3.B: NCCL's flush posts a read behind gets.
      {"gin-proxy", {}, {}, {"reader pcie-paths"}},
      {"gin-proxy", {"consumer_index=gpu"}, {}, {"reader pcie-paths"}},
      // The paper's tuned variant names no fence: its payloads stand in the descriptor.
      {"mini-proxy", {"payload=write"}, {}, {"payload ptx-weak"}},
      // A plain store of the index into host memory, behind a hand-off of gpu scope: an older one
      // may come last. The paper hands queues on and lets a CPU ring, but not both.
      {"mini-gda", {"nic_handler=cpu", "payload=write", "sharing=handoff"}, {}, {"stuck nic-bell"}},
      // path.md 1.A.4: signal_wait_until has no fence, nor has the completion's poll of a get.
      {"nvshmem-ibgda", {}, {}, {"reader ptx-acquire"}},
      // path.md 1.D names no acquire of a counter's reader.
      {"ucx-gdaki", {}, {}, {"reader ptx-acquire"}},
      // path.md 1.E names no fence between payload and descriptor.
      {"gin-gpi", {}, {}, {"payload ptx-weak"}},
      // The capture was taken without a fence between descriptor and tag; it is no library's.
      {"capture-host-proxy", {}, {}, {"entry ptx-weak", "other_entry ptx-weak"}},
      // The paper's lock, were its lanes in two CTAs: its fences' scope was not published.
      {"mini-gda", {"sharing=lock", "payload=write"}, {}, {"payload ptx-scope"}},
      // Rows of the paper and of the captures that are there to show what no order costs.
      {"mini-gda", {"ordering=none"}, {}, {"entry ptx-weak", "record nic-record"}},
      {"capture-host-gdaki",
       {"fence_wqe=gpu", "fence_db=gpu"},
       {},
       {"entry ptx-scope", "other_entry ptx-scope"}},
  };
  for (const Case& c : cases) {
    std::string label = c.recipe;
    for (const std::string& set : c.sets) label += " " + set;
    const CheckResult result = run(c.recipe, c.sets, c.options);
    EXPECT_TRUE(result.cut_off.empty()) << label;
    EXPECT_EQ(kinds(result), std::set<std::string>(c.open.begin(), c.open.end())) << label;
  }
}

// A new recipe must be added above.
TEST(Recipes, AreAllLookedAt) {
  const std::set<std::string> checked = {"gdaki", "nvshmem-ibgda", "deepep", "ucx-gdaki", "gin-gpi",
                                         "mini-gda", "perftest", "capture-ibgda", "capture-gdaki",
                                         "capture-host-gdaki", "capture-host-proxy", "nvshmem-ibrc",
                                         "gin-proxy", "mini-proxy", "host-initiated",
                                         // across NVLink, refused below
                                         "nvshmem-p2p", "nccl-lsa", "deepep-nvlink", "peer-probe"};
  for (const auto& file : std::filesystem::directory_iterator(kRoot + "/configs/protocols"))
    EXPECT_TRUE(checked.count(file.path().stem().string()))
        << file.path() << ": add it to the cases above";
}

// Copies of payloads are not carried out, and it says so.
TEST(Recipes, AreRefusedWhereTheyCopyPayloads) {
  EXPECT_THROW(run("host-initiated", {"nic_memory=host"}), InputError);
}

TEST(Recipes, AreRefusedWhereTheyGoAcrossNvlink) {
  for (const char* recipe : {"nvshmem-p2p", "nccl-lsa", "deepep-nvlink", "peer-probe"})
    EXPECT_THROW(run(recipe, {}), InputError) << recipe;
}

// What a recipe calls a reading is told as one.
TEST(Recipes, TellReadingsAsSuch) {
  for (const auto& f : run("nvshmem-ibgda", {}).findings)
    EXPECT_NE(f.reading.find("path.md 1.A.4"), std::string::npos) << f.scenario;
}

// The recipe once polled up to the producer index, which another lane may not have raised yet.
TEST(Recipes, ShowAQuietThatWaitsForWhatWasRungInsteadOfWhatWasPublished) {
  auto program =
      config::load_recipe(config::recipe_path("nvshmem-ibgda", kRoot + "/configs"), {}).program;
  const auto word = [&](const std::string& wanted) {
    for (std::uint32_t w = 0; w < program.words.size(); ++w)
      if (program.words[w].name == wanted) return w;
    return kNoWord;
  };
  for (Step& step : program.of(OpKind::kQuiet))
    if (step.op == StepOp::kLoad && step.word == word("ready")) step.word = word("prod");
  EXPECT_TRUE(kinds(check(program, caller(false, true))).count("source nic-fetch"));
}

}  // namespace
}  // namespace marrow::order
