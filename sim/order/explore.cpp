#include "sim/order/explore.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_set>
#include <utility>

namespace marrow::order {

namespace {

/// 128 bits stand for a state; two of a million states to share them is less likely than a fault of
/// the memory that holds them.
struct Print {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Print&) const = default;
};
struct PrintHash {
  std::size_t operator()(const Print& print) const { return print.low; }
};

Print print_of(const State& state) {
  static_assert(sizeof(State) % 2 == 0);
  std::uint64_t a = 0x9e3779b97f4a7c15U, b = 0xc2b2ae3d27d4eb4fU;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&state);
  const auto mix = [](std::uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93U;
    x ^= x >> 29;
    return x;
  };
  for (std::size_t i = 0; i < sizeof(State); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<std::size_t>(8, sizeof(State) - i));
    a = mix(a ^ word) + 0x632be59bd9b4e019U;
    b = (b ^ word) * 0x9fb21c651e98df25U;
    b ^= b >> 35;
  }
  return {mix(a), mix(b)};
}

struct Node {
  std::uint32_t parent = 0;
  Transition transition;
};

bool fits(const std::vector<Word16>& outcome, const std::vector<Word16>& wanted) {
  if (wanted.empty()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] != kAnyValue && wanted[i] != outcome[i]) return false;
  return true;
}

/// The way to a node once more, told line by line.
std::vector<std::string> tell(const Machine& machine, const std::vector<Node>& nodes,
                              std::uint32_t node, const Transition* last) {
  std::vector<Transition> way;
  for (std::uint32_t at = node; at != 0; at = nodes[at].parent) way.push_back(nodes[at].transition);
  std::reverse(way.begin(), way.end());
  if (last) way.push_back(*last);
  std::vector<std::string> lines;
  Log log;
  log.lines = &lines;
  State state = machine.start(log);
  for (const Transition& transition : way)
    if (!machine.take(state, transition, log)) break;
  return lines;
}

/// The shortest way to it is the one that is told.
bool same_hazard(const Finding& a, const Finding& b) {
  return a.hazard == b.hazard && a.second == b.second;
}

}  // namespace

Exploration explore(const OrderProgram& program, std::size_t most_states,
                    const std::vector<Word16>& wanted, bool stop_at_first) {
  const Machine machine(program);
  Exploration result;
  std::vector<Node> nodes;
  std::unordered_set<Print, PrintHash> known;
  std::deque<std::pair<State, std::uint32_t>> open;

  const auto keep = [&](Log& log, std::uint32_t node, const Transition* last) {
    for (Finding& finding : log.findings) {
      const bool seen =
          std::any_of(result.found.begin(), result.found.end(),
                      [&](const auto& other) { return same_hazard(other.finding, finding); });
      if (!seen) result.found.push_back({finding, tell(machine, nodes, node, last)});
    }
    log.findings.clear();
  };

  Log log;
  State first = machine.start(log);
  nodes.push_back({});
  keep(log, 0, nullptr);
  known.insert(print_of(first));
  open.emplace_back(first, 0);
  std::vector<Transition> list;
  while (!open.empty()) {
    if (stop_at_first && !result.found.empty()) break;
    const auto [state, node] = open.front();
    open.pop_front();
    machine.next(state, list);
    if (list.empty()) {
      machine.at_end(state, log);
      keep(log, node, nullptr);
      if (!machine.done(state)) continue;
      const auto outcome = machine.outcome(state);
      if (result.outcomes.insert(outcome).second && result.wanted.empty() && fits(outcome, wanted))
        result.wanted = tell(machine, nodes, node, nullptr);
      continue;
    }
    for (const Transition& transition : list) {
      State after = state;
      const bool goes_on = machine.take(after, transition, log);
      if (!log.findings.empty()) keep(log, node, &transition);
      if (!goes_on) continue;
      if (!known.insert(print_of(after)).second) continue;
      if (nodes.size() >= most_states) {
        result.cut_off = true;
        continue;
      }
      nodes.push_back({node, transition});
      open.emplace_back(after, static_cast<std::uint32_t>(nodes.size() - 1));
    }
  }
  result.states = nodes.size();
  return result;
}

}  // namespace marrow::order
