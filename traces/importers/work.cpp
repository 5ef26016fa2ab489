#include "traces/importers/work.h"

#include <algorithm>

namespace marrow::trace {

void add_lanes(Run& run, std::uint32_t warps) {
  for (std::uint32_t w = 0; w < warps; ++w)
    run.lanes.push_back({w, std::nullopt, w % run.queues, 0, std::nullopt});
}

void write_run(Writer& writer, Run& run, const std::vector<Background>& background) {
  const auto first = static_cast<std::uint32_t>(run.lanes.size());
  for (const Background& group : background)
    for (Lane lane : group.lanes) {
      lane.warp = static_cast<std::uint32_t>(run.lanes.size());
      lane.background = true;
      run.queues = std::max(run.queues, lane.queue + 1);
      run.lanes.push_back(lane);
    }
  writer.run(run);
  Op op;
  op.warp = first;
  for (const Background& group : background)
    for (std::size_t i = 0; i < group.lanes.size(); ++i, ++op.warp)
      for (const OpKind kind : group.does) {
        op.kind = kind;
        op.bytes = kind <= OpKind::kAtomic || kind == OpKind::kWait ? group.bytes : 0;
        writer.op(op);
      }
}

void write_script(Writer& writer, Run& run, const Script& script) {
  run.puts_per_lane = script.rounds;
  if (!script.peer_does.empty()) {
    const auto warps = static_cast<std::uint32_t>(run.lanes.size());
    for (std::uint32_t w = 0; w < warps; ++w)
      run.lanes.push_back({warps + w, std::nullopt, w % run.queues, 1, 0});
  }
  const std::vector<Lane> own = run.lanes;
  write_run(writer, run, script.background);
  for (std::uint64_t round = 0; round < script.rounds; ++round)
    for (const Lane& lane : own) {
      const bool peer = lane.pe > 0 && !script.peer_does.empty();
      const std::vector<OpKind>& does = peer ? script.peer_does : script.does;
      for (std::size_t i = 0; i < does.size(); ++i) {
        Op op;
        op.kind = does[i];
        op.warp = lane.warp;
        const bool message = op.kind <= OpKind::kAtomic;
        // A wait's bytes are those of what it waits for.
        op.bytes = message || op.kind == OpKind::kWait ? script.bytes : 0;
        op.flush = message && round + 1 == script.rounds;
        if (i + 1 == does.size()) op.compute_cycles = script.gap_cycles;
        writer.op(op);
      }
    }
  for (const Lane& lane : own)
    if (lane.pe == 0)
      for (const OpKind kind : script.at_the_end) {
        Op op;
        op.kind = kind;
        op.warp = lane.warp;
        writer.op(op);
      }
}

}  // namespace marrow::trace
