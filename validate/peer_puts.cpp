#include "validate/peer_puts.h"

#include <algorithm>
#include <vector>

#include "models/common/error.h"
#include "models/common/random.h"
#include "sim/config/yaml_source.h"

namespace marrow::validate {

namespace {

// The probe measures 100 turns behind 20, in six launches; fewer say the same. Where pages lie and
// when blocks begin is drawn anew for each run.
constexpr std::uint64_t kSkipped = 20, kLeast = 15, kMost = 40, kRuns = 3;
constexpr std::uint64_t kBytesOfARun = std::uint64_t{1} << 27;

PutsSpread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double p) {
    return values[static_cast<std::size_t>(p * static_cast<double>(values.size()))];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

/// Turns of the first GPU's blocks: an item is an operation, the last of them has the fence.
class Turns : public Observer {
 public:
  Turns(std::uint32_t blocks, double cycles_per_ps) : cycles_per_ps_(cycles_per_ps), of_(blocks) {}
  void on_journey(const Journey& journey) override {
    if (journey.pe != 0) return;
    Block& block = of_[journey.warp];
    const bool last = journey.at(Stage::kOrderFence) > 0;
    if (block.items++ == 0) block.begin_ps = journey.start_ps;
    if (!last) return;
    block.items = 0;
    if (++block.turns <= kSkipped) return;
    issue.push_back(cycles(journey.start_ps + journey.issue_ps() - block.begin_ps));
  }
  void on_operation(const Operation& operation) override {
    if (operation.pe != 0 || operation.warp >= of_.size()) return;
    if (operation.kind == OpKind::kQuiet) return;
    Block& block = of_[operation.warp];
    if (block.ops++ == 0) block.from_ps = operation.begin_ps;
    if (operation.kind != OpKind::kPutSignal) return;
    block.ops = 0;
    if (++block.ends > kSkipped) rtt.push_back(cycles(operation.end_ps - block.from_ps));
  }
  std::vector<double> issue, rtt;

 private:
  struct Block {
    std::uint64_t items = 0, turns = 0, ops = 0, ends = 0;
    Ps begin_ps = 0, from_ps = 0;
  };
  double cycles(Ps ps) const { return static_cast<double>(ps) * cycles_per_ps_; }
  double cycles_per_ps_;
  std::vector<Block> of_;
};

const config::SystemSpec& with_peer(const config::SystemSpec& spec) {
  if (spec.nvlink.peers < 1)
    throw InputError("nvlink.peers_count", "the system has one GPU", "use h200x2-l");
  return spec;
}

}  // namespace

PutsTable load_puts_table(const std::string& file) {
  const auto root = config::YamlNode::open(file);
  root.only({"kind", "table", "title", "system", "source", "costs", "rows"});
  PutsTable table;
  table.system = root.at("system").text();
  root.at("costs").only({"begin_spread_cycles"});
  table.begin_spread_cycles = root.at("costs").at("begin_spread_cycles").at("value").number(0, 1e6);
  for (const auto& node : root.at("rows").items()) {
    node.only({"id", "blocks", "threads", "bytes", "items", "form", "both_ways", "load", "issue",
               "rtt", "role"});
    PutsRow row;
    row.id = node.at("id").text();
    row.the.blocks = static_cast<std::uint32_t>(node.at("blocks").integer(1, 1024));
    row.the.bytes = static_cast<std::uint64_t>(node.at("bytes").integer(1, 1 << 24));
    row.the.items = row.the.blocks;
    if (auto threads = node.find("threads"))
      row.the.threads = static_cast<std::uint32_t>(threads->integer(32, 1024));
    if (auto items = node.find("items"))
      row.the.items = static_cast<std::uint32_t>(items->integer(row.the.blocks, 1 << 20));
    if (auto form = node.find("form")) row.the.bulk = form->one_of({"stores", "bulk"}) == "bulk";
    if (auto both = node.find("both_ways")) row.the.both_ways = both->boolean();
    if (auto load = node.find("load")) {
      const std::string name = load->one_of(
          {"none", "copy to the peer", "copy from the peer", "L2 reads here", "L2 reads there"});
      row.the.beside = name == "copy to the peer"     ? PutsCase::Beside::kCopyTo
                       : name == "copy from the peer" ? PutsCase::Beside::kCopyFrom
                       : name == "L2 reads here"      ? PutsCase::Beside::kReadsHere
                       : name == "L2 reads there"     ? PutsCase::Beside::kReadsThere
                                                      : PutsCase::Beside::kNothing;
    }
    row.issue = node.at("issue").number(1, 1e12);
    row.rtt = node.at("rtt").number(1, 1e12);
    row.fit = node.at("role").one_of({"fit", "predicted"}) == "fit";
    table.rows.push_back(std::move(row));
  }
  return table;
}

PeerPuts::PeerPuts(const config::SystemSpec& spec, std::string config_dir,
                   double begin_spread_cycles)
    : spec_(with_peer(spec)),
      config_dir_(std::move(config_dir)),
      begin_spread_cycles_(begin_spread_cycles),
      machine_(spec) {}

PutsResult PeerPuts::predict(const PutsCase& the) {
  const config::Recipe recipe = config::load_recipe(
      config::recipe_path("peer-probe", config_dir_),
      {{"form", the.bulk ? "bulk" : "stores"},
       {"threads", std::to_string(the.threads)},
       {"beside_readers", the.beside == PutsCase::Beside::kReadsThere ? "true" : "false"}},
      {});
  const std::uint64_t turns =
      kSkipped + std::clamp(kBytesOfARun / (the.bytes * the.items), kLeast, kMost);
  trace::Run run;
  run.name = "peer puts";
  // Blocks that put, then those that answer: on the peer, with the same queue.
  const std::uint32_t ways = the.both_ways ? 2 : 1;
  run.queues = the.blocks;
  for (const bool puts : {true, false})
    for (std::uint32_t way = 0; way < ways; ++way)
      for (std::uint32_t block = 0; block < the.blocks; ++block) {
        const std::uint32_t pe = puts ? way : 1 - way;
        const auto warp = static_cast<std::uint32_t>(run.lanes.size());
        run.lanes.push_back({warp, std::nullopt, block, pe, 1 - pe});
      }
  const std::uint32_t putters = the.blocks * ways;
  switch (the.beside) {
    case PutsCase::Beside::kNothing:
      break;
    case PutsCase::Beside::kCopyTo:
      run.nvlink_copies.push_back({0, 1});
      break;
    case PutsCase::Beside::kCopyFrom:
      run.nvlink_copies.push_back({1, 0});
      break;
    case PutsCase::Beside::kReadsHere:
      run.l2_readers.push_back(0);
      break;
    case PutsCase::Beside::kReadsThere:
      run.l2_readers.push_back(1);
      break;
  }
  std::vector<std::uint64_t> done;
  std::vector<bool> begun;
  Random random(1);
  sim::RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.next_op = [&](std::uint32_t warp, gpu::Op& op) {
    const std::uint32_t block = warp % the.blocks;
    const std::uint64_t items =
        warp < putters ? (the.items - block + the.blocks - 1) / the.blocks : 1;
    op = {};
    if (!begun[warp]) {
      begun[warp] = true;
      op.kind = OpKind::kQuiet;
      op.compute_cycles = static_cast<std::uint64_t>(random.unit() * begin_spread_cycles_);
      return true;
    }
    if (done[warp] == turns * items) return false;
    const bool last = ++done[warp] % items == 0;
    op.kind = warp >= putters ? OpKind::kWait : last ? OpKind::kPutSignal : OpKind::kPut;
    op.bytes = the.bytes;
    return true;
  };
  std::vector<double> issue, rtt;
  for (setup.seed = 1; setup.seed <= kRuns; ++setup.seed) {
    done.assign(run.lanes.size(), 0);
    begun.assign(run.lanes.size(), false);
    Turns observer(the.blocks, spec_.gpu.sm_clock_ghz / 1000);
    setup.observer = &observer;
    machine_.run(setup);
    issue.insert(issue.end(), observer.issue.begin(), observer.issue.end());
    rtt.insert(rtt.end(), observer.rtt.begin(), observer.rtt.end());
  }
  return {spread(std::move(issue)), spread(std::move(rtt))};
}

}  // namespace marrow::validate
