#include "sim/order/mutants.h"

#include <fmt/format.h>

#include <map>

namespace marrow::order {

namespace {

std::string scope_name(Scope scope) {
  return scope == Scope::kCta ? "cta" : scope == Scope::kGpu ? "gpu" : "sys";
}
Scope narrower(Scope scope) { return scope == Scope::kSys ? Scope::kGpu : Scope::kCta; }

/// A list of steps of a program: where it is, what it is called, which operations it serves.
struct Place {
  std::string name;
  std::uint32_t only;
  bool cpu;
  std::vector<Step>& (*of)(Program&, std::size_t);
  std::size_t k;
};

std::vector<Place> places(const Program& program) {
  std::vector<Place> list;
  const auto by_kind = [&](const std::string& who, bool cpu, auto of) {
    for (std::size_t k = 0; k < kOpKindCount; ++k)
      list.push_back({who + std::string(kOpKindNames[k]), 1U << k, cpu, of, k});
  };
  by_kind(
      "", program.on_cpu, [](Program & p, std::size_t k) -> auto& { return p.steps[k]; });
  if (program.proxy.present) {
    list.push_back({"proxy", ~0U, true,
                    [](Program& p, std::size_t) -> auto& { return p.proxy.visit;
  }
  , 0
});
by_kind(
    "proxy's ", true, [](Program& p, std::size_t k) -> auto& { return p.proxy.posts[k]; });
}  // namespace
if (program.kernel.present)
    list.push_back({"kernel", ~0U, false,
                    [](Program& p, std::size_t) -> auto& { return p.kernel.tail;
}  // namespace marrow::order
, 0
});
return list;
}

}  // namespace

std::vector<Mutant> mutants(const Program& program, const CheckOptions& options) {
  std::vector<Mutant> list;
  Program original = program;
  for (const Place& place : places(program)) {
    std::map<std::string, int> count;
    const std::vector<Step>& steps = place.of(original, place.k);
    const auto mutant = [&](const std::string& name, std::size_t at, const auto& change) {
      Mutant m{place.name + ": " + name, program, options};
      m.options.only = place.only;
      change(place.of(m.program, place.k)[at]);
      list.push_back(std::move(m));
    };
    const auto nothing = [](Step& step) {
      step.op = StepOp::kCompute;
      step.cycles = 0;
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      const auto numbered = [&](const std::string& what) {
        return fmt::format("{} {}", what, ++count[what]);
      };
      std::string name;
      if (step.op == StepOp::kFence && step.scope != Scope::kNone) {
        name = numbered("fence") + " (" + scope_name(step.scope) + ")";
        mutant(name + " removed", i, nothing);
        // A CPU's narrower fences keep only the compiler from moving code.
        if (step.scope != Scope::kCta && !place.cpu)
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
        Mutant m{place.name + ": visits its own queue alone", program, options};
        m.options.only = place.only;
        auto& visiting = place.of(m.program, place.k);
        std::size_t end = i + 1;
        while (!(visiting[end].op == StepOp::kNext && visiting[end].target == i + 1)) ++end;
        nothing(visiting[i]);
        nothing(visiting[end]);
        list.push_back(std::move(m));
      }
      if (step.op == StepOp::kLook && step.block != 0)
        mutant(numbered("look at " + program.words[step.word].name) + " takes untaken requests", i,
               [](Step& s) { s.block = 0; });
    }
  }
  for (std::size_t k = 0; k < kOpKindCount; ++k) {
    const auto kind = static_cast<OpKind>(k);
    if (program.steps[k].empty() || kind == OpKind::kWait || !program.nic.present) continue;
    Mutant m{std::string(kOpKindNames[k]) + ": on another queue", program, options};
    m.options.only = 1U << k;
    m.options.other_queue = true;
    m.options.moved = kind;
    list.push_back(std::move(m));
  }
  return list;
}

}  // namespace marrow::order
