// Is a good recipe read as it stands, and each slip in one told with file, line and mend?
#include "sim/config/recipe.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/config/files.h"

namespace marrow::config {
namespace {

const std::string kGood = R"(protocol: small
choices:
  scope: {allowed: [none, gpu], default: gpu}
  batch: {default: 1}
depth: 16
costs:
  work_cycles: {value: 5, measured: "by hand"}
  step_cycles: {value: 7, measured: "by hand"}
regions:
  queue: {memory: gpu, stride_bytes: 256}
  ring: {memory: gpu, stride_bytes: 1024}
words:
  resv: {region: queue, bytes: 8}
  bell: {region: queue, offset_bytes: 64, bytes: 8}
  cqe: {region: queue, offset_bytes: 128, bytes: 4}
  entry: {region: ring, bytes: 64, entry_bytes: 64}
put:
  - stage: slot
  - atomic: {word: resv, op: add, value: 1, result: index}
  - compute: work_cycles
  - stage: wqe
  - store: {id: wqe, word: entry, bytes: 16, count: 3, value: index}
  - fence: {id: order, scope: $scope}
  - stage: doorbell.register
  - store: {id: ring, word: bell, value: next}
  - stage: poll
  - when: {condition: waits}
    do:
      - poll: {word: cqe, until: completed, retry: step_cycles}
consumer:
  runs_on: sm
  polls: bell
  entries: entry
  completes: cqe
  groups:
    - read: [work_cycles]
      done: [step_cycles]
)";

using Choices = std::map<std::string, std::string>;

class RecipeTest : public Files {
 protected:
  Recipe load(const Choices& choices = {}, const std::vector<std::string>& sets = {}) const {
    return load_recipe(write("small.yaml", kGood), choices, sets);
  }
};

const Step& step_named(const Recipe& recipe, const std::string& id) {
  for (const Step& step : recipe.program.of(OpKind::kPut))
    if (step.id == id) return step;
  throw std::runtime_error("no step " + id);
}

/// kGood with a choice of the program and its own costs.
std::string with_costs_by(const std::string& costs_by) {
  std::string text = kGood;
  text.insert(text.find("  batch:"), "  program: {allowed: [one, other], default: one}\n");
  return text.insert(text.find("regions:"), "costs_by:\n" + costs_by);
}

TEST_F(RecipeTest, TakesTheCostsOfTheChosenProgram) {
  const std::string file = write("small.yaml", with_costs_by("  program:\n"
                                                             "    other:\n"
                                                             "      work_cycles: {value: 9, "
                                                             "fitted: \"run 3\"}\n"));
  const auto costs = [&](const Choices& choices, const std::vector<std::string>& sets) {
    std::map<std::string, double> values;
    for (const RecipeCost& cost : load_recipe(file, choices, sets).costs)
      values[cost.key] = cost.value;
    return values;
  };
  using Costs = std::map<std::string, double>;
  EXPECT_EQ(costs({}, {}), (Costs{{"work_cycles", 5}, {"step_cycles", 7}}));
  EXPECT_EQ(costs({{"program", "other"}}, {}), (Costs{{"work_cycles", 9}, {"step_cycles", 7}}));
  EXPECT_EQ(costs({}, {"program=other", "work_cycles+=1"}),
            (Costs{{"work_cycles", 10}, {"step_cycles", 7}}))
      << "--set goes from the chosen value on";
}

TEST_F(RecipeTest, TellsWhatIsWrongWithCostsOfAChoice) {
  const auto told = [&](const std::string& costs_by) -> std::string {
    try {
      load_recipe(write("small.yaml", with_costs_by(costs_by)), {}, {});
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing";
  };
  const std::string cost = "{value: 9, fitted: \"run 3\"}";
  EXPECT_NE(told("  compiler: {other: {work_cycles: " + cost + "}}\n").find("no choice 'compiler'"),
            std::string::npos);
  EXPECT_NE(told("  program: {third: {work_cycles: " + cost + "}}\n").find("one, other"),
            std::string::npos);
  EXPECT_NE(told("  program: {other: {walk_cycles: " + cost + "}}\n").find("'walk_cycles'"),
            std::string::npos);
  EXPECT_NE(told("  program: {other: {work_cycles: {value: 9}}}\n").find("exactly one source"),
            std::string::npos)
      << "also under choices that are not in force";
}

TEST_F(RecipeTest, IsReadAsItStands) {
  const Recipe recipe = load();
  const Program& program = recipe.program;
  EXPECT_EQ(program.protocol, "small");
  EXPECT_EQ(program.depth, 16u);
  EXPECT_EQ(recipe.choices, (Choices{{"scope", "gpu"}, {"batch", "1"}}));
  std::vector<StepOp> ops;
  for (const Step& step : program.of(OpKind::kPut)) ops.push_back(step.op);
  EXPECT_EQ(
      ops, (std::vector<StepOp>{StepOp::kStage, StepOp::kAtomic, StepOp::kCompute, StepOp::kStage,
                                StepOp::kStore, StepOp::kFence, StepOp::kStage, StepOp::kStore,
                                StepOp::kStage, StepOp::kSkipUnless, StepOp::kPoll, StepOp::kEnd}));
  EXPECT_TRUE(program.of(OpKind::kPut)[1].is_index);
  EXPECT_EQ(program.of(OpKind::kPut)[2].cycles, 5);
  EXPECT_EQ(step_named(recipe, "wqe").bytes, 16u);
  EXPECT_EQ(step_named(recipe, "wqe").count, 3u);
  EXPECT_EQ(step_named(recipe, "order").scope, Scope::kGpu);
  EXPECT_EQ(program.of(OpKind::kPut)[9].target, 11u) << "past the poll";
  EXPECT_EQ(program.words[program.of(OpKind::kPut)[10].word].name, "cqe");
  EXPECT_EQ(program.of(OpKind::kPut)[10].cycles, 7);
  EXPECT_EQ(program.words[3].entries, 16u);
  // What the consumer touches is never private to a lane.
  EXPECT_FALSE(program.words[0].consumer_reads);
  EXPECT_TRUE(program.words[1].consumer_reads);
  EXPECT_TRUE(program.words[2].consumer_reads);
  EXPECT_TRUE(program.words[3].consumer_reads);
}

TEST_F(RecipeTest, TakesTheTracesChoices) {
  EXPECT_EQ(step_named(load({{"scope", "none"}}), "order").scope, Scope::kNone);
  EXPECT_EQ(load({{"batch", "4"}}).program.batch, 4u);
}

TEST_F(RecipeTest, TakesWhatIsSet) {
  const Recipe recipe = load({{"scope", "gpu"}}, {"wqe.bytes=8", "wqe.count=6", "scope=none",
                                                  "work_cycles=9", "ring.memory=host"});
  EXPECT_EQ(step_named(recipe, "wqe").bytes, 8u);
  EXPECT_EQ(step_named(recipe, "wqe").count, 6u);
  EXPECT_EQ(step_named(recipe, "order").scope, Scope::kNone);
  EXPECT_EQ(recipe.program.of(OpKind::kPut)[2].cycles, 9);
  EXPECT_EQ(recipe.program.regions[1].memory, MemoryKind::kHost);
  for (const RecipeCost& cost : recipe.costs)
    EXPECT_EQ(cost.evidence, cost.key == "work_cycles" ? Evidence::kAssumed : Evidence::kMeasured);
}

struct Slip {
  const char* name;
  const char* from;  ///< what stands in the good recipe
  const char* to;
  const char* at;  ///< the complaint names the first line that holds this
  std::vector<std::string> says;
};

void PrintTo(const Slip& slip, std::ostream* out) { *out << slip.to; }

class RecipeSlip : public Files, public testing::WithParamInterface<Slip> {};

TEST_P(RecipeSlip, IsToldWithFileLineAndMend) {
  const Slip& slip = GetParam();
  std::string text = kGood;
  const std::size_t at = text.find(slip.from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(slip.from).size(), slip.to);
  const std::string file = write("small.yaml", text);
  const std::size_t place = text.find(slip.at);
  ASSERT_NE(place, std::string::npos);
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n');
  const std::string message = complaint([&] { load_recipe(file, {}); });
  EXPECT_TRUE(says(message, {file + ":" + std::to_string(line) + ":"}));
  for (const std::string& part : slip.says) EXPECT_TRUE(says(message, {part}));
}

INSTANTIATE_TEST_SUITE_P(
    Slips, RecipeSlip,
    testing::Values(
        Slip{"UnknownTarget",
             "word: bell, value",
             "word: bel, value",
             "word: bel,",
             {"unknown target 'bel'", "nearest: bell"}},
        Slip{"UnknownStage",
             "stage: slot",
             "stage: slott",
             "stage: slott",
             {"unknown stage 'slott'", "nearest: slot"}},
        Slip{"StoresThatDoNotFit",
             "count: 3",
             "count: 5",
             "count: 5",
             {"5 stores of 16 B do not fit 'entry' of 64 B", "change bytes or count"}},
        Slip{"WordPastItsStride",
             "offset_bytes: 128",
             "offset_bytes: 253",
             "offset_bytes: 253",
             {"ends at byte 257 of region 'queue', whose stride is 256", "enlarge stride_bytes"}},
        Slip{"RingPastItsStride",
             "stride_bytes: 1024",
             "stride_bytes: 1000",
             "entry: {region",
             {"ends at byte 1024 of region 'ring', whose stride is 1000"}},
        Slip{"UnknownRegion",
             "{region: ring",
             "{region: rink",
             "{region: rink",
             {"unknown region 'rink'", "nearest: ring"}},
        Slip{"DefaultThatIsNotAllowed",
             "default: gpu",
             "default: sys",
             "default: sys",
             {"choice scope = 'sys' is not allowed", "one of none, gpu"}},
        Slip{"ChoiceThatIsNotDeclared",
             "$scope",
             "$scoop",
             "$scoop",
             {"unknown choice '$scoop'", "declare it under `choices:`"}},
        Slip{"CostWithoutSource",
             "value: 5, measured: \"by hand\"",
             "value: 5",
             "work_cycles: {",
             {"cost 'work_cycles' needs exactly one source", "add measured"}},
        Slip{"CostWithTwoSources",
             "measured: \"by hand\"",
             "assumed: x, fitted: y",
             "work_cycles: {",
             {"needs exactly one source"}},
        Slip{"CostWithoutUnit",
             "  work_cycles:",
             "  work:",
             "  work:",
             {"cost 'work' has no unit", "end its name with _cycles or _ns"}},
        Slip{"NegativeCost", "value: 5", "value: -5", "value: -5", {"-5", "out of range"}},
        Slip{"UnknownCost",
             "compute: work_cycles",
             "compute: wrok_cycles",
             "wrok_cycles",
             {"no cost 'wrok_cycles'", "nearest: work_cycles"}},
        Slip{"UseOfAnUnknownResult",
             "- compute: work_cycles",
             "- use: ticket",
             "use: ticket",
             {"no earlier step gives 'ticket'", "name it as a load's or atomic's result"}},
        Slip{"ConditionOfAnUnknownResult",
             "{condition: waits}",
             "{condition: advanced, of: top}",
             "of: top",
             {"no earlier step gives 'top'"}},
        Slip{"TwoOperationsInAStep",
             "- stage: wqe\n",
             "- stage: wqe\n    compute: work_cycles\n",
             "- stage: wqe",
             {"a step is one operation", "start each with its own '-'"}},
        Slip{"NoIndex",
             ", result: index",
             "",
             "put:",
             {"no step takes a queue position", "result: index"}},
        Slip{"UnwaitedWithoutResult",
             ", result: index",
             ", wait: false",
             "wait: false",
             {"nothing can wait for this later", "add `result:`"}},
        Slip{"DoWithoutWhen",
             "  - when: {condition: waits}\n    do:",
             "  - do:",
             "  - do:",
             {"`do` without `when`"}},
        Slip{"SingleCompareAndSwap", "op: add", "op: cas", "op: cas", {"use `spin`"}},
        Slip{"UnknownScope",
             "scope: $scope",
             "scope: cluster",
             "scope: cluster",
             {"'cluster' is none of none, cta, gpu, sys"}},
        Slip{"UnknownKeyOfAStep", "value: next}", "valu: next}", "valu: next", {"valu", "value"}},
        Slip{"UnknownSection", "depth: 16", "dept: 16", "dept: 16", {"dept", "depth"}},
        Slip{"CpuConsumerOfGpuMemory",
             "runs_on: sm",
             "runs_on: cpu",
             "consumer:",
             {"a CPU consumer polls and completes in host memory",
              "set the memory of those regions to host"}},
        Slip{"CpuThreadWithCostsInCycles",
             "protocol: small",
             "protocol: small\nruns_on: cpu",
             "work_cycles:",
             {"'work_cycles' is a CPU thread's", "give it in ns"}},
        Slip{"LaneOnNeither",
             "protocol: small",
             "protocol: small\nruns_on: dpu",
             "runs_on: dpu",
             {"'dpu' is none of gpu, cpu"}},
        Slip{"GroupOfUnequalLists",
             "done: [step_cycles]",
             "done: [step_cycles, step_cycles]",
             "- read:",
             {"read and done need one cost for each entry"}},
        Slip{"StoreOf17Bytes",
             "bytes: 16, count: 3",
             "bytes: 17, count: 1",
             "bytes: 17",
             {"'17'", "from 1 to 16"}}),
    [](const auto& test) { return test.param.name; });

TEST_F(RecipeTest, TellsAChoiceOfTheTraceThatItDoesNotAllow) {
  const std::string message = complaint([&] { load({{"scope", "sys"}}); });
  EXPECT_TRUE(says(
      message, {path("small.yaml") + ":3:", "scope = 'sys' is not allowed", "one of none, gpu"}));
}

TEST_F(RecipeTest, TellsAChoiceOfTheTraceThatItDoesNotHave) {
  const std::string message = complaint([&] { load({{"scop", "gpu"}}); });
  EXPECT_TRUE(says(message, {path("small.yaml"), "no choice 'scop'", "nearest: scope"}));
}

TEST_F(RecipeTest, TellsANumberThatIsNoneOfAChoice) {
  for (const char* value : {"0", "1.5", "many", "-4"})
    EXPECT_TRUE(says(complaint([&] {
                       load({{"batch", value}});
                     }),
                     {path("small.yaml") + ":4:", value}));
}

TEST_F(RecipeTest, TellsWhatCannotBeSet) {
  EXPECT_TRUE(says(complaint([&] { load({}, {"wqe.byte=8"}); }),
                   {"--set protocol.wqe.byte", path("small.yaml"), "nearest: protocol.wqe.bytes"}));
  EXPECT_TRUE(says(complaint([&] { load({}, {"work_cycles=-1"}); }),
                   {"--set protocol.work_cycles", "-1", "write 0 or more"}));
  EXPECT_TRUE(says(complaint([&] { load({}, {"scope"}); }),
                   {"--set protocol.scope", "not an assignment", "protocol.NAME=VALUE"}));
  EXPECT_TRUE(says(complaint([&] { load({}, {"scope=sys"}); }),
                   {"scope = 'sys' is not allowed", "one of none, gpu"}));
  EXPECT_TRUE(says(complaint([&] { load({}, {"wqe.count=5"}); }),
                   {"do not fit 'entry'", "change bytes or count"}));
}

TEST_F(RecipeTest, BlamesTheSettingAndNotTheRecipesLine) {
  for (const std::string set :
       {"scope=sys", "batch=0", "batch=many", "work_cycles=many", "work_cycles=-1",
        "work_cycles-=100", "wqe.bytes=17", "wqe.bytes=0", "wqe.bytes=wide", "wqe.count=65",
        "wqe.count=5", "order.scope=cluster", "queue.memory=disk", "queue.memory=nic"})
    EXPECT_EQ(complaint([&] { load({}, {set}); }).find("--set protocol." + set + ": "), 0u)
        << set << ": " << complaint([&] { load({}, {set}); });
}

TEST_F(RecipeTest, NamesNoMendThatWouldBeRefused) {
  // The depth is no choice: neither arithmetic on it nor a value for it.
  for (const std::string set : {"depth=8", "depth+=1"})
    EXPECT_TRUE(says(complaint([&] { load({}, {set}); }),
                     {"--set protocol.depth", "nothing of that name to set",
                      "marrow config show " + path("small.yaml")}));
  EXPECT_TRUE(says(complaint([&] { load({}, {"batch+=1"}); }),
                   {"--set protocol.batch+=", "only costs take", "write protocol.batch=VALUE"}));
  EXPECT_EQ(load({}, {"batch=2"}).program.batch, 2u);
}

TEST_F(RecipeTest, TellsWhichRecipesThereAre) {
  write("protocols/one.yaml", kGood);
  write("protocols/two.yaml", kGood);
  const std::string folder = path(".");
  EXPECT_TRUE(says(complaint([&] { recipe_path("three", folder); }), {"three", "one, two"}));
  EXPECT_EQ(load_recipe(recipe_path("one", folder), {}).program.protocol, "small");
}

class ProxySlip : public Files, public testing::WithParamInterface<Slip> {};

TEST_P(ProxySlip, IsToldWithFileLineAndMend) {
  const Slip& slip = GetParam();
  std::ifstream in(MARROW_SOURCE_DIR "/configs/protocols/mini-proxy.yaml");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::size_t at = text.find(slip.from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(slip.from).size(), slip.to);
  const std::string file = write("proxy.yaml", text);
  const std::string message = complaint([&] { load_recipe(file, {}); });
  EXPECT_TRUE(says(message, {file + ":"}));
  for (const std::string& part : slip.says) EXPECT_TRUE(says(message, {part}));
}

INSTANTIATE_TEST_SUITE_P(
    Proxies, ProxySlip,
    testing::Values(Slip{"StoreOutsideOfALook",
                         "  each_queue:\n",
                         "  each_queue:\n    - store: {word: dbrec, value: mlx5_record}\n",
                         "",
                         {"beside its looks a visit only computes and fences",
                          "under a look's `do:`"}},
                    Slip{"LookOfALane",
                         "put:\n  - stage: slot\n",
                         "put:\n  - look: {word: descriptor, until: present, cost: poll_cycles}\n"
                         "    do:\n      - stage: slot\n",
                         "",
                         {"only a proxy's thread looks", "`each_queue` of `proxy:`"}},
                    Slip{"LooksAtNothingOfLanes",
                         "    - look: {word: descriptor, until: present",
                         "    - look: {word: cqe, until: answered",
                         "",
                         {"it looks at nothing that lanes write", "until: present"}},
                    Slip{"WordThatIsNoRing",
                         "look: {word: descriptor,",
                         "look: {word: dbrec,",
                         "",
                         {"'dbrec' is no ring of descriptors", "entry_bytes"}},
                    Slip{"EntryInAVisit",
                         "        - post: request\n",
                         "        - store: {word: entry, entry: write}\n",
                         "",
                         {"an entry belongs to what is asked for", "write it into `posts`"}},
                    Slip{"LaneThatTellsOfCompletion",
                         "word: descriptor, bytes: 16, value: next",
                         "word: descriptor, bytes: 16, value: completed",
                         "",
                         {"only a proxy's thread knows what has completed"}},
                    Slip{"UnknownPost",
                         "  posts:\n    put:\n",
                         "  posts:\n    puts:\n",
                         "",
                         {"unknown operation 'puts'", "put_signal"}}),
    [](const auto& given) { return std::string(given.param.name); });

// The bundled recipe with one slip.
TEST_F(RecipeTest, TellsWhatAKernelMustBe) {
  std::ifstream in(MARROW_SOURCE_DIR "/configs/protocols/host-initiated.yaml");
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  const auto slip = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const Choices choices = {{"nic_memory", "host"}, {"registration", "each"}};
    return complaint([&] { load_recipe(write("host.yaml", text), choices); });
  };
  EXPECT_TRUE(says(slip("  done: ended\n", "  done: doorbell\n"),
                   {"a CPU thread polls 'doorbell'", "memory: host"}));
  EXPECT_TRUE(says(slip("kernel:\n  done: ended\n  tail:", "kernel:\n  tail:"), {"done"}));
  EXPECT_TRUE(says(slip("launch: kernel", "launch: missile"), {"what is launched is a kernel"}));
  EXPECT_TRUE(says(slip("copy: to_host", "copy: to_moon"), {"to_host, from_host, in_host"}));
  EXPECT_TRUE(says(slip("per_bytes: 4096", "per_bytes: 0"), {"from 1 to"}));
  const std::size_t at = good.find("kernel:\n"), end = good.find("parts:\n");
  std::string without = good;
  without.erase(at, end - at);
  EXPECT_TRUE(says(complaint([&] { load_recipe(write("host.yaml", without), {}); }),
                   {"no word tells that end", "kernel: {done: WORD}"}));
}

}  // namespace
}  // namespace marrow::config
