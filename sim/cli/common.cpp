#include "sim/cli/common.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>

#include "models/common/error.h"
#include "sim/results/progress.h"
#include "traces/importers/importers.h"

namespace marrow::cli {

const char* const kSetHelp =
    "Change a parameter: key=value, key+=x, key-=x or key*=x (`marrow config show` lists the "
    "keys);\n"
    "protocol.NAME=value changes a recipe's choice or cost, protocol.STEP.FIELD=value a step, "
    "e.g.\n"
    "--set protocol.wqe.bytes=16 --set protocol.wqe.count=3";

TraceFile::TraceFile(const std::string& path) : path_(path) {
  if (!path.ends_with(".yaml") && !path.ends_with(".yml")) return;
  path_ =
      (std::filesystem::temp_directory_path() / ("marrow-" + std::to_string(getpid()) + ".trace"))
          .string();
  temporary_.emplace(path_);
  trace::import_workload_yaml(path, path_);
}

std::string config_dir_of(const std::string& system_file) {
  namespace fs = std::filesystem;
  const fs::path beside = fs::path(system_file).parent_path() / "..";
  if (fs::is_directory(beside / "protocols")) return beside.lexically_normal().string();
  return MARROW_CONFIG_DIR;
}

void check_outputs(const CLI::App& command) {
  namespace fs = std::filesystem;
  constexpr std::string_view kOutputs[] = {"--out", "--json", "--csv", "--messages-csv",
                                           "--perfetto"};
  std::vector<std::pair<std::string, fs::path>> inputs, outputs;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_type_size() == 0) continue;  // a flag
    const std::string name = option->get_name();
    const bool output =
        std::find(std::begin(kOutputs), std::end(kOutputs), name) != std::end(kOutputs);
    if (output && option->count() == 0 && !option->get_default_str().empty())
      outputs.emplace_back(name, option->get_default_str());
    for (const std::string& value : option->results())
      (output ? outputs : inputs).emplace_back(name, value);
  }
  const auto same = [](const fs::path& a, const fs::path& b) {
    std::error_code ignored;
    return fs::equivalent(a, b, ignored) || a.lexically_normal() == b.lexically_normal();
  };
  for (const CLI::App* further : command.get_subcommands()) check_outputs(*further);
  std::error_code ignored;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto& [name, path] = outputs[o];
    for (const auto& [input, from] : inputs) {
      // A page may go into the folder that it is made of; nothing that is read there is a page.
      const bool within = fs::is_directory(from, ignored) && fs::is_regular_file(path, ignored) &&
                          path.extension() != ".html" && same(path.parent_path(), from);
      if (within || (same(path, from) && !fs::is_directory(from, ignored)))
        throw InputError(name, "would overwrite " + path.string() + ", which the command reads",
                         "name another file");
    }
    for (std::size_t other = 0; other < o; ++other)
      if (same(path, outputs[other].second))
        throw InputError(name, "is the same file as " + outputs[other].first, "name another file");
  }
  if (command.get_name() == "sweep") return;  // writes a folder, which it makes
  for (const auto& [name, path] : outputs) AtomicFile::check(path.string());
}

int over_ranks(const std::function<int(sweep::Ranks&)>& work) {
  sweep::Ranks ranks;
  try {
    return work(ranks);
  } catch (const std::exception& error) {
    // MPI ends all ranks while this one unwinds, before anybody could tell why.
    if (ranks.size() > 1) std::cerr << "marrow: " << error.what() << std::endl;
    throw;
  }
}

Sets split_sets(const std::vector<std::string>& sets) {
  Sets split;
  const std::string prefix = "protocol.";
  for (const std::string& set : sets)
    if (set.rfind(prefix, 0) == 0)
      split.protocol.push_back(set.substr(prefix.size()));
    else
      split.system.push_back(set);
  return split;
}

void SetsInUse::add(const config::Recipe& recipe) {
  any_ = true;
  for (const auto& [change, used] : recipe.changed) changed_[change] |= used;
  nic_ |= recipe.program.nic.present;
  peer_ |= recipe.program.nvlink.present;
  for (const Region& region : recipe.program.regions) peer_ |= region.memory == MemoryKind::kPeer;
}

void SetsInUse::warn(const Sets& sets) const {
  const auto tell = [](const std::string& change, const char* why) {
    std::cerr << "marrow: " << change << " changes nothing: " << why << '\n';
  };
  for (const auto& [change, used] : changed_)
    if (!used) tell(change, "no step that is in force uses it");
  if (!any_) return;
  constexpr std::string_view kOfNic[] = {"nic.", "dma.", "wire.", "switch.", "cluster."};
  for (const std::string& set : sets.system) {
    const auto begins = [&](std::string_view group) { return set.starts_with(group); };
    if (!nic_ && std::any_of(std::begin(kOfNic), std::end(kOfNic), begins))
      tell("--set " + set, "no recipe that was run posts to the NIC");
    // How many peers there are also decides how long a system fence takes.
    if (!peer_ && begins("nvlink.") && !begins("nvlink.peers_count"))
      tell("--set " + set, "no recipe that was run has words in a peer GPU's memory");
  }
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  AtomicFile file(path);
  file.stream() << json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                << '\n';
  file.commit();
}

results::Intervals sample_intervals(
    std::size_t samples, std::size_t jobs, const config::ParameterSet& parameters,
    std::uint64_t seed, const std::function<std::map<std::string, double>(const Drawn&)>& work) {
  if (samples == 0) return {};
  const std::vector<sweep::Drawn> drawn = sweep::draw_intervals(parameters, samples, seed);
  results::Progress progress(samples, "samples");
  return sweep::intervals_of(
      samples, jobs > 0 ? jobs : std::max(1U, std::thread::hardware_concurrency()),
      [&](std::size_t sample) {
        return work({drawn[sample], seed + sample});
      },
      [&](std::size_t fresh) { progress.advance(fresh); });
}

CLI::Option* add_intervals(CLI::App* command, std::size_t& samples, std::size_t& jobs) {
  auto* option = command
                     ->add_option("--intervals", samples,
                                  "Carry the parameters' 90 % intervals into 90 % intervals of the "
                                  "predicted medians, by so many samples (64 where no number "
                                  "follows), each a simulation of its own")
                     ->expected(0, 1)
                     ->default_str("64")
                     ->check(CLI::Range(20, 100000));
  command->add_option("-j,--jobs", jobs, "Samples at once (default: one a core)")
      ->check(CLI::Range(1, 4096))
      ->needs(option);
  return option;
}

}  // namespace marrow::cli
