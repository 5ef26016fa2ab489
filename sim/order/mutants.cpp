#include "sim/order/mutants.h"

#include <fmt/format.h>

#include <map>

namespace marrow::order {

namespace {

std::string scope_name(Scope scope) {
  return scope == Scope::kCta ? "cta" : scope == Scope::kGpu ? "gpu" : "sys";
}
Scope narrower(Scope scope) { return scope == Scope::kSys ? Scope::kGpu : Scope::kCta; }

}  // namespace

std::vector<Mutant> mutants(const Program& program, const CheckOptions& options) {
  std::vector<Mutant> list;
  for (std::size_t k = 0; k < kOpKindCount; ++k) {
    const std::string operation(kOpKindNames[k]);
    std::map<std::string, int> count;
    const auto mutant = [&](const std::string& name, std::size_t at, const auto& change) {
      Mutant m{operation + ": " + name, program, options};
      m.options.only = 1U << k;
      change(m.program.steps[k][at]);
      list.push_back(std::move(m));
    };
    const auto nothing = [](Step& step) {
      step.op = StepOp::kCompute;
      step.cycles = 0;
    };
    for (std::size_t i = 0; i < program.steps[k].size(); ++i) {
      const Step& step = program.steps[k][i];
      const auto numbered = [&](const std::string& what) {
        return fmt::format("{} {}", what, ++count[what]);
      };
      std::string name;
      if (step.op == StepOp::kFence && step.scope != Scope::kNone) {
        name = numbered("fence") + " (" + scope_name(step.scope) + ")";
        mutant(name + " removed", i, nothing);
        // A CPU's narrower fences keep only the compiler from moving code.
        if (step.scope != Scope::kCta && !program.on_cpu)
          mutant(name + " narrowed to " + scope_name(narrower(step.scope)), i,
                 [](Step& s) { s.scope = narrower(s.scope); });
      }
      if (step.op == StepOp::kPoll) {
        name = numbered("poll of " + program.words[step.word].name);
        mutant(name + " removed", i, nothing);
      }
      if (step.op == StepOp::kSpin) {
        name = numbered("spin on " + program.words[step.word].name);
        mutant(name + " waits no more", i, [](Step& s) {
          s.op = StepOp::kAtomic;
          s.atomic = AtomicOp::kExchange;
        });
      }
      if (step.acquire != Scope::kNone) {
        mutant(name + " acquires no more", i, [](Step& s) { s.acquire = Scope::kNone; });
        if (step.acquire != Scope::kCta)
          mutant(name + " acquires at " + scope_name(narrower(step.acquire)), i,
                 [](Step& s) { s.acquire = narrower(s.acquire); });
      }
      if (step.op == StepOp::kPick) mutant("queue is not picked", i, nothing);
      if (step.op == StepOp::kVisit) {  // the lane's own queue alone
        Mutant m{operation + ": visits its own queue alone", program, options};
        m.options.only = 1U << k;
        auto& steps = m.program.steps[k];
        std::size_t end = i + 1;
        while (!(steps[end].op == StepOp::kNext && steps[end].target == i + 1)) ++end;
        nothing(steps[i]);
        nothing(steps[end]);
        list.push_back(std::move(m));
      }
    }
    const auto kind = static_cast<OpKind>(k);
    if (program.steps[k].empty() || kind == OpKind::kWait || !program.nic.present) continue;
    Mutant m{operation + ": on another queue", program, options};
    m.options.only = 1U << k;
    m.options.other_queue = true;
    m.options.moved = kind;
    list.push_back(std::move(m));
  }
  return list;
}

}  // namespace marrow::order
