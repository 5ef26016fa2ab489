#include "validate/launch_probe.h"

#include <algorithm>
#include <map>
#include <vector>

#include "models/common/error.h"
#include "sim/results/metrics.h"

namespace marrow::validate {

namespace {

constexpr std::uint64_t kRounds = 60, kCold = 10;
constexpr int kFewCopies = 8, kManyCopies = 24;

Step launch() {
  Step step;
  step.op = StepOp::kLaunch;
  return step;
}

Step fence() {
  Step step;
  step.op = StepOp::kFence;
  step.scope = Scope::kSys;
  return step;
}

std::uint32_t word_named(const Program& program, const char* name) {
  for (std::uint32_t w = 0; w < program.words.size(); ++w)
    if (program.words[w].name == name) return w;
  throw InputError("protocol " + program.protocol, std::string("has no word '") + name + "'",
                   "the launch probe looks at it");
}

/// The recipe's own look for the end of what was submitted, and its return from there.
std::vector<Step> look(const Program& program) {
  const std::vector<Step>& put = program.of(OpKind::kPut);
  auto step = std::find_if(put.begin(), put.end(), [](const Step& s) {
    return s.op == StepOp::kPoll && s.until == Until::kEnded;
  });
  if (step == put.end())
    throw InputError("protocol " + program.protocol, "its put notices no kernel's end",
                     "poll a word until: ended");
  std::vector<Step> steps = {*step};
  while (++step != put.end() && step->op == StepOp::kCompute) steps.push_back(*step);
  return steps;
}

Step look_at(const Program& program, const char* word) {
  Step step;
  step.op = StepOp::kPoll;
  step.until = Until::kEnded;
  step.word = word_named(program, word);
  return step;
}

Step store_flag(const Program& program) {
  Step step;
  step.op = StepOp::kStore;
  step.word = word_named(program, "flag");
  step.bytes = 8;
  step.value = Value::kSubmitted;
  return step;
}

/// A round is three operations, whose times the tests read off.
constexpr OpKind kFirst = OpKind::kQuiet, kSecond = OpKind::kBarrier, kThird = OpKind::kFence;

class Times : public Observer {
 public:
  void on_journey(const Journey&) override {}
  void on_operation(const Operation& operation) override { operations.push_back(operation); }
  void on_kernel(const KernelRound& round) override { started_ps.push_back(round.started_ps); }
  std::vector<Operation> operations;
  std::vector<Ps> started_ps;
};

double ns(Ps ps) { return static_cast<double>(ps) / static_cast<double>(kPsPerNs); }

}  // namespace

LaunchProbe::LaunchProbe(const config::SystemSpec& spec, std::string config_dir)
    : config_dir_(std::move(config_dir)), machine_(spec) {}

config::Recipe LaunchProbe::recipe(const char* notice) const {
  config::Recipe recipe =
      config::load_recipe(config::recipe_path("host-initiated", config_dir_), {{"notice", notice}});
  recipe.program.nic = {};
  recipe.program.kernel.tail.clear();
  return recipe;
}

double LaunchProbe::predict(const LaunchCase& test) {
  config::Recipe recipe = this->recipe(test.test == LaunchTest::kFlagToQuery ? "query" : "sync");
  Program& program = recipe.program;
  const std::vector<Step> end = look(program);
  const auto then = [&](std::vector<Step> steps) {
    steps.insert(steps.end(), end.begin(), end.end());
    return steps;
  };
  std::vector<Step> first, second, third, &tail = program.kernel.tail;
  const auto copies = [&](int count) {
    Step step;
    step.op = StepOp::kCopy;
    step.copy = test.to_host ? CopyWay::kToHost : CopyWay::kFromHost;
    std::vector<Step> steps(static_cast<std::size_t>(count), step);
    steps.push_back(look_at(program, "ended"));
    return steps;
  };
  switch (test.test) {
    case LaunchTest::kCall:
      first = {launch()};
      third = end;
      break;
    case LaunchTest::kToFlag:
    case LaunchTest::kFlagToSync:
    case LaunchTest::kFlagToQuery:
      tail = {store_flag(program), fence()};
      first = {launch(), look_at(program, "flag")};
      third = end;
      break;
    case LaunchTest::kKernelToKernel:
      tail = {fence()};
      first = then({launch()});
      break;
    case LaunchTest::kQueued:
      tail = {fence()};
      first = then({launch(), launch()});
      break;
    case LaunchTest::kToSync:
      first = then({launch()});
      break;
    case LaunchTest::kCopy:
      first = copies(kFewCopies);
      third = copies(kManyCopies);
      break;
    case LaunchTest::kCopyToSeen:
      first = copies(1);
      break;
  }
  for (auto& steps : program.steps) steps.clear();
  for (auto* steps : {&first, &second, &third}) steps->push_back({});
  program.of(kFirst) = first;
  program.of(kSecond) = second;
  program.of(kThird) = third;
  program.entries.fill(0);

  trace::Run run;
  run.name = std::string(kLaunchTestNames[static_cast<std::size_t>(test.test)]);
  run.lanes.push_back({0, std::nullopt, 0});
  std::uint64_t given = 0;
  Times times;
  sim::RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.observer = &times;
  setup.next_op = [&](std::uint32_t, gpu::Op& op) {
    if (given == 3 * kRounds) return false;
    constexpr std::array<OpKind, 3> kScript = {kFirst, kSecond, kThird};
    op = {};
    op.kind = kScript[given++ % 3];
    op.bytes = test.bytes;
    return true;
  };
  machine_.run(setup);

  std::vector<double> values;
  const auto& done = times.operations;
  const auto length = [](const Operation& operation) {
    return ns(operation.end_ps - operation.begin_ps);
  };
  for (std::size_t i = 3 * kCold; i + 2 < done.size(); i += 3) switch (test.test) {
      case LaunchTest::kCall:
        values.push_back(ns(done[i + 1].begin_ps - done[i].begin_ps));
        break;
      case LaunchTest::kFlagToSync:
      case LaunchTest::kFlagToQuery:
        values.push_back(length(done[i + 2]));
        break;
      case LaunchTest::kCopy:
        values.push_back((length(done[i + 2]) - length(done[i])) / (kManyCopies - kFewCopies));
        break;
      case LaunchTest::kKernelToKernel:
        values.push_back(ns(times.started_ps[i / 3] - times.started_ps[i / 3 - 1]));
        break;
      case LaunchTest::kQueued:
        values.push_back(ns(times.started_ps[2 * (i / 3) + 1] - times.started_ps[2 * (i / 3)]));
        break;
      default:
        values.push_back(length(done[i]));
    }
  return results::quantile(values, 0.5);
}

}  // namespace marrow::validate
