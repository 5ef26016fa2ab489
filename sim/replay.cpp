#include "sim/replay.h"

#include <deque>
#include <unordered_map>

#include "models/common/error.h"

namespace marrow::sim {

namespace {

/// Hands each warp its own operations out of the trace's common stream.
class OpFeed {
 public:
  OpFeed(trace::Reader& reader, const trace::Run& run) : reader_(reader), run_(run) {
    for (const trace::Lane& lane : run.lanes) queues_[lane.warp].repeats = lane.background;
  }

  /// The warp's next put; fresh, last: it is the first, the last of a repeated operation.
  bool next(std::uint32_t warp, const trace::Op*& op, bool& fresh, bool& last) {
    Stream& stream = queues_.at(warp);
    if (stream.left == 0) {
      if (stream.started) {
        if (stream.repeats)
          stream.ops.push_back(std::move(stream.ops.front()));
        else
          --buffered_;
        stream.ops.pop_front();
        stream.started = false;
      }
      if (!repeated_read_) read_repeated();
      if (stream.ops.empty() && !fill(warp)) return false;
      stream.left = stream.ops.front().count;
      stream.started = true;
      fresh = true;
    } else {
      fresh = false;
    }
    --stream.left;
    last = stream.left == 0;
    op = &stream.ops.front();
    return true;
  }

 private:
  struct Stream {
    std::deque<trace::Op> ops;
    std::uint64_t left = 0;  ///< repetitions of the front one
    bool started = false;
    bool repeats = false;  ///< a background lane: its operations begin anew at their end
  };

  /// What repeats comes first in a run.
  void read_repeated() {
    repeated_read_ = true;
    trace::Op op;
    while (reader_.next_op(op)) {
      Stream& stream = queues_.at(op.warp);
      const bool repeats = stream.repeats;
      stream.ops.push_back(std::move(op));
      if (!repeats) {
        ++buffered_;
        return;
      }
    }
    ended_ = true;
  }

  bool fill(std::uint32_t warp) {
    trace::Op op;
    while (!ended_) {
      if (!reader_.next_op(op)) {
        ended_ = true;
        break;
      }
      const std::uint32_t owner = op.warp;
      if (queues_.at(owner).repeats)
        throw InputError("run '" + run_.name + "'",
                         "operations of background warp " + std::to_string(owner) +
                             " stand behind those of other warps",
                         "store what repeats first");
      queues_.at(owner).ops.push_back(std::move(op));
      // Warps that progress together need little room; a stream that gives one warp after the
      // other would need it all.
      if (++buffered_ > kMostBuffered)
        throw InputError("run '" + run_.name + "'",
                         "its operations are stored warp after warp, more than " +
                             std::to_string(kMostBuffered) + " would have to be kept",
                         "store them in an order in which the warps progress together");
      if (owner == warp) return true;
    }
    return false;
  }

  static constexpr std::uint64_t kMostBuffered = 1'000'000;
  trace::Reader& reader_;
  const trace::Run& run_;
  std::unordered_map<std::uint32_t, Stream> queues_;
  std::uint64_t buffered_ = 0;
  bool ended_ = false;
  bool repeated_read_ = false;
};

}  // namespace

namespace {

OpKind kind_of(trace::OpKind kind) {
  switch (kind) {
    case trace::OpKind::kPut:
      return OpKind::kPut;
    case trace::OpKind::kPutSignal:
      return OpKind::kPutSignal;
    case trace::OpKind::kGet:
      return OpKind::kGet;
    case trace::OpKind::kAtomic:
      return OpKind::kAtomic;
    case trace::OpKind::kFence:
      return OpKind::kFence;
    case trace::OpKind::kQuiet:
      return OpKind::kQuiet;
    case trace::OpKind::kWait:
      return OpKind::kWait;
    case trace::OpKind::kBarrier:
    case trace::OpKind::kCompute:
      break;
  }
  return OpKind::kBarrier;
}

}  // namespace

bool run_selected(const std::vector<std::string>& only, const std::string& run) {
  if (only.empty()) return true;
  for (std::string want : only) {
    // "cfg=4" is how the captures' column would be written.
    if (const auto equals = want.find('='); equals != std::string::npos) want[equals] = ' ';
    if (want == run) return true;
  }
  return false;
}

std::uint32_t replay(trace::Reader& reader, Machine& machine, const ReplayOptions& options,
                     Observer* observer) {
  std::uint32_t replayed = 0;
  for (std::uint32_t index = 0;; ++index) {
    const auto run = reader.next_run();
    if (!run) break;
    if (options.selects && !options.selects(*run)) continue;
    if (!run->not_replayable.empty()) {
      if (options.on_left_out) options.on_left_out(*run);
      continue;
    }
    const std::string path =
        config::recipe_path(options.protocol.value_or(run->protocol), options.config_dir);
    const config::Recipe recipe = config::load_recipe(path, run->choices, options.protocol_sets);
    if (options.on_run) options.on_run(index, *run, recipe);
    OpFeed feed(reader, *run);
    RunSetup setup;
    setup.index = index;
    setup.recipe = &recipe;
    setup.run = &*run;
    setup.seed = options.seed;
    setup.observer = observer;
    setup.order = options.order;
    setup.next_op = [&](std::uint32_t warp, gpu::Op& todo) {
      const trace::Op* op = nullptr;
      bool fresh = false, last = false;
      if (!feed.next(warp, op, fresh, last)) return false;
      todo = {kind_of(op->kind), op->bytes, op->flush && last, op->wait, op->compute_cycles};
      if (fresh && op->measured && options.on_measured) options.on_measured(index, *run, *op);
      return true;
    };
    if (options.place)
      setup.place = [&](const QueueLayout& layout, Placement& placement) {
        options.place(*run, recipe, layout, placement);
      };
    machine.run(setup);
    if (options.on_run_end) options.on_run_end(index, *run);
    ++replayed;
  }
  return replayed;
}

}  // namespace marrow::sim
