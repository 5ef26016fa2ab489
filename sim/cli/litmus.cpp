#include "sim/order/litmus.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "models/common/error.h"
#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "sim/config/recipe.h"
#include "sim/order/check.h"
#include "sim/order/mutants.h"

namespace marrow::cli {

namespace {

struct Arguments {
  std::vector<std::string> paths, witnesses, sets;
  std::string json, recipe;
  std::size_t most_states = order::kMostStates;
  bool mutants = false, rules = false;
  order::CheckOptions check;
};

int show_rules() {
  for (const order::Rule& rule : order::rules())
    std::cout << fmt::format("{}\n  {}\n  source: {}\n", rule.id, rule.says, rule.source);
  return 0;
}

int check_recipe(const Arguments& arguments) {
  const std::string file = config::recipe_path(arguments.recipe, MARROW_CONFIG_DIR);
  const Sets sets = split_sets(arguments.sets);
  if (!sets.system.empty())
    throw InputError("--set " + sets.system.front(), "a recipe is checked, not a system",
                     "write protocol.NAME=VALUE");
  const Program program = config::load_recipe(file, {}, sets.protocol).program;
  order::CheckOptions options = arguments.check;
  options.most_states = arguments.most_states;
  if (arguments.mutants) {
    options.stop_at_first = true;
    for (const order::Mutant& mutant : order::mutants(program, options)) {
      const auto result = order::check(mutant.program, mutant.options);
      std::string what = result.cut_off.empty() ? "clean" : "cut off";
      if (!result.findings.empty()) {
        const auto& f = result.findings.front();
        what = fmt::format("{} ({}, in '{}')", order::name(f.finding.hazard).says, f.finding.rule,
                           f.scenario);
      }
      std::cout << fmt::format("{:<55} {}\n", mutant.name, what);
    }
    return 0;
  }
  const auto result = order::check(program, options);
  std::cout << fmt::format("{}: {} programs, {} states, {} hazards\n", program.protocol,
                           result.ran.size(), result.states, result.findings.size());
  for (const std::string& name : result.cut_off)
    std::cout << fmt::format("'{}' was cut off: what is not found there may still happen\n", name);
  for (const auto& f : result.findings) {
    std::cout << fmt::format("\n{} (can happen, in '{}')\n", order::name(f.finding.hazard).says,
                             f.scenario);
    std::cout << fmt::format("  {}\n  may come before: {}\n  assumed: {}\n  {}: {}\n  mend: {}\n",
                             f.finding.second, f.finding.first, f.finding.assumed, f.finding.rule,
                             order::rule_named(f.finding.rule)->says, f.finding.mend);
    for (std::size_t i = 0; i < f.witness.size(); ++i)
      std::cout << fmt::format("  {:>3}  {}\n", i + 1, f.witness[i]);
  }
  return result.findings.empty() ? 0 : 1;
}

int litmus(const Arguments& arguments) {
  if (arguments.rules) return show_rules();
  if (!arguments.recipe.empty()) return check_recipe(arguments);
  std::vector<std::string> paths = arguments.paths;
  if (paths.empty()) paths.push_back(std::string(MARROW_CONFIG_DIR) + "/litmus");
  std::vector<order::Judged> programs;
  bool as_expected = true;
  for (const std::string& path : paths)
    for (const std::string& file : order::litmus_files(path)) {
      order::Litmus litmus = order::load_litmus(file, MARROW_CONFIG_DIR);
      order::Verdict verdict = order::judge(litmus, arguments.most_states);
      as_expected &= order::as_expected(litmus, verdict);
      programs.push_back({std::move(litmus), std::move(verdict)});
    }
  if (!arguments.json.empty()) write_json(arguments.json, order::to_json(programs));
  if (arguments.witnesses.empty()) {
    order::write_table(std::cout, programs);
  } else {
    for (const std::string& name : arguments.witnesses) {
      bool found = false;
      for (const order::Judged& program : programs)
        if (program.litmus.name == name) {
          found = true;
          order::write_witness(std::cout, program);
        }
      if (!found)
        throw InputError("--witness " + name, "no program of that name",
                         "`marrow litmus` lists them");
    }
  }
  return as_expected ? 0 : 1;
}

}  // namespace

void add_litmus(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "litmus",
      "Try small programs in every order that the rules of PTX, PCIe, InfiniBand and the libraries "
      "allow: can a reader see the flag before the data? Exits with 1 if a verdict is not the "
      "expected one");
  command->add_option("files", arguments->paths,
                      "Litmus files or folders of them (default: configs/litmus)");
  command->add_option("--json", arguments->json, "Write the verdicts, schema marrow.litmus/1");
  command
      ->add_option("--witness", arguments->witnesses,
                   "Show how this program comes to its outcome, event by event; may be repeated")
      ->allow_extra_args(false);
  CLI::Option* recipe = command->add_option(
      "--recipe", arguments->recipe,
      "Check a protocol recipe instead, by name or path: every hazard that its order of memory "
      "operations leaves open");
  command->add_option("--set", arguments->sets, kSetHelp)->allow_extra_args(false)->needs(recipe);
  command
      ->add_flag("--same-cta", arguments->check.same_cta,
                 "The lanes that share a queue are in one CTA")
      ->needs(recipe);
  command
      ->add_flag("--caller-releases", arguments->check.caller_releases,
                 "The caller fences its payload itself before it puts")
      ->needs(recipe);
  command
      ->add_flag("--caller-acquires", arguments->check.caller_acquires,
                 "The caller fences behind a wait itself before it reads")
      ->needs(recipe);
  command
      ->add_flag("--mutants", arguments->mutants,
                 "Take out or weaken each fence, acquire, wait and queue choice in turn, and say "
                 "what that opens")
      ->needs(recipe);
  command->add_option("--most-states", arguments->most_states, "Give up beyond so many")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000'000));
  command->add_flag("--rules", arguments->rules, "List the rules with their sources");
  add_examples(command,
               {"marrow litmus --json litmus.json",
                "marrow litmus --witness put-put-rotating-queues", "marrow litmus --recipe gdaki"});
  command->callback([&action, arguments] { action = [arguments] { return litmus(*arguments); }; });
}

}  // namespace marrow::cli
