#include "validate/placement.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/common/error.h"
#include "sim/replay.h"

namespace marrow::validate {

namespace {

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool uncontended(const trace::Run& run) {
  std::vector<int> lanes(run.queues, 0);
  for (const trace::Lane& lane : run.lanes) ++lanes[lane.queue];
  return !run.measured_stages.empty() && run.queues == run.lanes.size() &&
         std::all_of(lanes.begin(), lanes.end(), [](int n) { return n == 1; });
}

config::Recipe recipe_of(const trace::Run& run, const std::string& config_dir) {
  return config::load_recipe(config::recipe_path(run.protocol, config_dir), run.choices);
}

/// Samples of one lane and stage; of an entry ring, of one page of it.
struct Key {
  std::uint32_t lane;
  Stage stage;
  std::uint64_t page;
  auto operator<=>(const Key&) const = default;
};
struct Samples {
  std::vector<double> measured, predicted;
};

/// Entries of a ring in one page.
std::uint64_t page_in_ring(const Word& word, std::uint64_t index) {
  return word.entry_bytes ? index % word.entries * word.entry_bytes / Placement::kPageBytes : 0;
}

class Collector : public Observer {
 public:
  Collector(const config::Recipe*& recipe, double cycles_per_ps)
      : recipe_(recipe), cycles_per_ps_(cycles_per_ps) {}
  void on_journey(const Journey& journey) override {
    for (const auto& [stage, word] : recipe_->placed_by) {
      if (journey.at(stage) == 0) continue;
      samples_[{journey.warp, stage, page_in_ring(recipe_->program.words[word], journey.index)}]
          .predicted.push_back(static_cast<double>(journey.at(stage)) * cycles_per_ps_);
    }
  }
  std::map<Key, Samples> samples_;

 private:
  const config::Recipe*& recipe_;
  double cycles_per_ps_;
};

/// What a stage's time tells of a word. Loads show its distance only; atomics and spins also its
/// side; a fence shows the farthest of all words that it waits for.
struct Shown {
  struct Fence {
    std::set<std::uint32_t> words;  ///< in GPU memory, stored to since the fence before
    double least_cycles = 0;        ///< whatever they are
  };
  double accesses = 0;    ///< of the word itself
  double far_cycles = 0;  ///< what these take more if the word is far
  std::vector<Fence> fences;
};

Shown shown(const config::Recipe& recipe, Stage stage, std::uint32_t word, const GpuSpec& gpu) {
  const Program& program = recipe.program;
  const auto in_host = [&](std::uint32_t w) {
    return program.regions[program.words[w].region].memory == MemoryKind::kHost;
  };
  const auto elsewhere = [&](std::uint32_t w) {
    return program.regions[program.words[w].region].memory != MemoryKind::kGpu;
  };
  const bool beside_host_reads = program.consumer.where == ConsumerProgram::Where::kSm &&
                                 in_host(program.consumer.announcement);
  const bool flushes_peer =
      std::any_of(program.regions.begin(), program.regions.end(),
                  [](const Region& region) { return region.memory == MemoryKind::kPeer; });
  Shown result;
  if (elsewhere(word)) return result;
  std::set<std::uint32_t> stored;
  bool stored_in_host = false;
  // A put's first fence also waits for what the put before it stored last.
  for (const bool counts : {false, true}) {
    Stage at = Stage::kLookup;
    for (const Step& step : program.of(OpKind::kPut)) {
      if (step.op == StepOp::kStage) at = step.stage;
      const bool here = counts && at == stage;
      const bool changes = step.op == StepOp::kSpin || step.op == StepOp::kAtomic;
      if (changes || step.op == StepOp::kStore) {
        if (in_host(step.word)) stored_in_host = true;
        if (!elsewhere(step.word)) stored.insert(step.word);
      }
      if (here && step.op == StepOp::kLoad && step.word == word) ++result.accesses;
      // An atomic whose result is used later shows in the stage that uses it.
      if (here && ((changes && step.wait && step.word == word) || step.op == StepOp::kUse)) {
        ++result.accesses;
        result.far_cycles += gpu.far_cycles - gpu.near_cycles;
      }
      if (step.op != StepOp::kFence || (step.scope != Scope::kGpu && step.scope != Scope::kSys))
        continue;
      // Once a peer's memory has been stored to, a fence costs the same behind near and far lines.
      if (here && step.scope == Scope::kGpu && stored.count(word) && !flushes_peer) {
        const double least =
            std::max({gpu.fence_gpu_cycles, stored_in_host ? gpu.fence_gpu_host_cycles : 0,
                      beside_host_reads ? gpu.fence_gpu_beside_host_reads_cycles : 0});
        if (gpu.fence_gpu_far_cycles > least) result.fences.push_back({stored, least});
      }
      stored.clear();
      stored_in_host = false;
    }
  }
  return result;
}

}  // namespace

void InferredPlacement::see_side(std::uint32_t sm, const std::string& region, std::uint64_t page,
                                 bool far, bool sure) {
  for (Seen& seen : seen_)
    if (seen.sm == sm && seen.region == region && seen.page == page) {
      if (sure && !seen.sure) seen = {sm, region, page, far, sure};
      return;
    }
  seen_.push_back({sm, region, page, far, sure});
}

const InferredPlacement::Seen* InferredPlacement::find(std::uint32_t sm, const std::string& region,
                                                       std::uint64_t page) const {
  for (const Seen& seen : seen_)
    if (seen.sm == sm && seen.region == region && seen.page == page) return &seen;
  return nullptr;
}

void InferredPlacement::see_distance(std::uint32_t sm, const std::string& region,
                                     std::uint64_t line, double cycles) {
  distances_[{sm, {region, line}}] = cycles;
}

void InferredPlacement::apply(const config::Recipe& recipe, const QueueLayout& layout,
                              Placement& placement) const {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> extent;
  for (std::uint32_t r = 0; r < recipe.program.regions.size(); ++r)
    if (recipe.program.regions[r].memory == MemoryKind::kGpu)
      extent[recipe.program.regions[r].name] = {layout.region_begin(r), layout.region_end(r)};
  const auto address = [&](const std::string& region, std::uint64_t offset) -> std::int64_t {
    const auto it = extent.find(region);
    if (it == extent.end() || it->second.first + offset >= it->second.second) return -1;
    return static_cast<std::int64_t>(it->second.first + offset);
  };
  // Near and far connect SMs and pages: once an SM's side is known, so are the pages it saw, and
  // with them the other SMs that saw those. What starts a component keeps its drawn side. What is
  // not sure connects only what nothing sure does.
  std::set<std::uint32_t> sm_known;
  std::set<std::pair<std::string, std::uint64_t>> page_known;
  std::map<std::pair<std::string, std::uint64_t>, bool> page_side;
  // Readings may contradict each other (a page boundary need not lie where the layout has it): SMs
  // join before pages do, and the majority of those that are known decides.
  const auto connect = [&](bool sure) {
    std::map<std::uint32_t, int> sm_votes;
    std::map<std::pair<std::string, std::uint64_t>, int> page_votes;
    for (const Seen& seen : seen_) {
      if (seen.sure != sure || seen.sm >= placement.sms()) continue;
      const auto page = std::make_pair(seen.region, seen.page);
      const bool has_sm = sm_known.count(seen.sm) > 0, has_page = page_known.count(page) > 0;
      if (has_page && !has_sm) sm_votes[seen.sm] += page_side[page] != seen.far ? 1 : -1;
      if (has_sm && !has_page) page_votes[page] += placement.sm_side(seen.sm) != seen.far ? 1 : -1;
    }
    for (const auto& [sm, votes] : sm_votes) {
      placement.set_sm_side(sm, votes > 0);
      sm_known.insert(sm);
    }
    if (!sm_votes.empty()) return true;
    const auto most = std::max_element(
        page_votes.begin(), page_votes.end(),
        [](const auto& a, const auto& b) { return std::abs(a.second) < std::abs(b.second); });
    if (most == page_votes.end()) return false;
    page_side[most->first] = most->second > 0;
    page_known.insert(most->first);
    return true;
  };
  const auto begin = [&] {
    for (const Seen& seen : seen_)
      if (seen.sm < placement.sms() && sm_known.insert(seen.sm).second) return true;
    return false;
  };
  while (connect(true) || connect(false) || begin()) {
  }
  for (const auto& [page, side] : page_side)
    if (const auto a = address(page.first, page.second * Placement::kPageBytes); a >= 0)
      placement.set_page_side(static_cast<std::uint64_t>(a), side);
  // Pages of an entry ring that no run shows are taken as far: a fence behind an entry also waits
  // for the program's own record of the put, and the farther of two pages is far three times in
  // four.
  std::size_t sides[2] = {0, 0};
  for (std::uint32_t sm : sm_known) ++sides[placement.sm_side(sm)];
  const bool usual_side = sides[1] > sides[0];
  if (!sm_known.empty())
    for (const Word& word : recipe.program.words) {
      if (word.entry_bytes == 0) continue;
      const Region& region = recipe.program.regions[word.region];
      const auto it = extent.find(region.name);
      if (it == extent.end()) continue;
      for (std::uint64_t page = 0;
           it->second.first + page * Placement::kPageBytes < it->second.second; ++page)
        if (!page_known.count({region.name, page}))
          placement.set_page_side(it->second.first + page * Placement::kPageBytes, !usual_side);
    }
  // Lines that no stage shows are taken at the mean distance rather than a drawn one.
  for (std::uint64_t a = 0; a < placement.gpu_bytes(); a += Placement::kLineBytes)
    placement.set_distance(a, 0);
  // What one SM sees of a line is the best guess for the others: the mean of all that saw it.
  std::map<std::uint64_t, std::pair<double, int>> of_line;
  for (const auto& [seen, cycles] : distances_) {
    const auto& [sm, line] = seen;
    const auto a = address(line.first, line.second * Placement::kLineBytes);
    if (a < 0 || sm >= placement.sms()) continue;
    placement.set_distance(sm, static_cast<std::uint64_t>(a), cycles);
    auto& [sum, n] = of_line[static_cast<std::uint64_t>(a)];
    sum += cycles;
    ++n;
  }
  for (const auto& [a, sum] : of_line) placement.set_distance(a, sum.first / sum.second);
}

std::vector<std::string> placement_runs(trace::Reader& reader, const std::string& config_dir) {
  struct Candidate {
    std::string name;
    std::set<std::string> shows;
  };
  std::vector<Candidate> candidates;
  reader.rewind();
  while (const auto run = reader.next_run()) {
    if (!uncontended(*run)) continue;
    const config::Recipe recipe = recipe_of(*run, config_dir);
    if (recipe.placed_by.empty()) continue;  // nothing is read off it
    Candidate candidate{run->name, {}};
    for (const trace::Lane& lane : run->lanes) {
      candidate.shows.insert(recipe.program.regions.front().name + " " +
                             std::to_string(lane.queue) + " from SM " +
                             std::to_string(lane.sm.value_or(0)));
      for (const auto& [stage, word] : recipe.placed_by) {
        const Word& w = recipe.program.words[word];
        const std::string name = recipe.program.regions[w.region].name + " " +
                                 std::to_string(lane.queue) + " " + w.name + " ";
        // A few entries of a page do not make a median.
        constexpr std::uint64_t kEnough = 16;
        if (w.entry_bytes && run->puts_per_lane)
          for (std::uint64_t i = 0; i < std::min<std::uint64_t>(run->puts_per_lane, w.entries);
               i += Placement::kPageBytes / w.entry_bytes) {
            if (run->puts_per_lane - i >= kEnough)
              candidate.shows.insert(name + std::to_string(page_in_ring(w, i)));
          }
        else
          candidate.shows.insert(name);
      }
    }
    candidates.push_back(std::move(candidate));
  }
  std::vector<std::string> chosen;
  std::set<std::string> shown;
  while (true) {
    const Candidate* best = nullptr;
    std::size_t best_gain = 0;
    for (const Candidate& candidate : candidates) {
      const auto gain = static_cast<std::size_t>(
          std::count_if(candidate.shows.begin(), candidate.shows.end(),
                        [&](const std::string& s) { return !shown.count(s); }));
      if (gain > best_gain) {
        best = &candidate;
        best_gain = gain;
      }
    }
    if (best == nullptr) break;
    chosen.push_back(best->name);
    shown.insert(best->shows.begin(), best->shows.end());
  }
  return chosen;
}

InferredPlacement infer_placement(trace::Reader& reader, sim::Machine& machine,
                                  const std::string& config_dir, std::uint64_t seed,
                                  const config::SystemSpec& spec) {
  InferredPlacement placement;
  placement.runs_ = placement_runs(reader, config_dir);
  const double cycles_per_ps = spec.gpu.sm_clock_ghz / 1000;
  // Each round replays the runs with what is known so far and reads them anew; a stage that holds
  // two words settles once the first of them has.
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::set<std::pair<std::uint32_t, std::pair<std::string, std::uint64_t>>> told;
    InferredPlacement next;
    next.runs_ = placement.runs_;
    for (const std::string& name : placement.runs_) {
      std::map<std::uint32_t, trace::Lane> lanes;
      const config::Recipe* recipe = nullptr;
      config::Recipe kept;
      QueueLayout laid_out;
      Placement lies;
      Collector collector(recipe, cycles_per_ps);
      sim::ReplayOptions options;
      options.config_dir = config_dir;
      options.seed = seed;
      options.selects = [&](const trace::Run& run) { return run.name == name; };
      options.on_run = [&](std::uint32_t, const trace::Run& run, const config::Recipe& r) {
        kept = r;
        recipe = &kept;
        for (const trace::Lane& lane : run.lanes) lanes[lane.warp] = lane;
      };
      options.on_measured = [&](std::uint32_t, const trace::Run& run, const trace::Op& op) {
        for (std::size_t i = 0; i < run.measured_stages.size(); ++i) {
          const auto stage = stage_named(run.measured_stages[i]);
          if (!stage || op.measured->stage_cycles[i] == 0) continue;
          for (const auto& [placed, word] : kept.placed_by)
            if (placed == *stage)
              collector
                  .samples_[{op.warp, *stage,
                             page_in_ring(kept.program.words[word], op.measured->index)}]
                  .measured.push_back(op.measured->stage_cycles[i]);
        }
      };
      options.place = [&](const trace::Run&, const config::Recipe& r, const QueueLayout& layout,
                          Placement& p) {
        // Nothing is known of the first round's words: all near, at the mean distance.
        for (std::uint64_t a = 0; a < p.gpu_bytes(); a += Placement::kLineBytes)
          p.set_distance(a, 0);
        for (std::uint64_t a = 0; a < p.gpu_bytes(); a += Placement::kPageBytes)
          p.set_page_side(a, false);
        for (std::uint32_t sm = 0; sm < p.sms(); ++sm) p.set_sm_side(sm, false);
        placement.apply(r, layout, p);
        laid_out = layout;
        lies = p;
      };
      reader.rewind();
      sim::replay(reader, machine, options, &collector);
      if (recipe == nullptr) continue;
      for (const auto& [stage, word] : kept.placed_by) {
        const Program& program = kept.program;
        const Word& w = program.words[word];
        const Shown shows = shown(kept, stage, word, spec.gpu);
        if (shows.accesses == 0 && shows.fences.empty()) continue;
        for (auto& [key, samples] : collector.samples_) {
          if (key.stage != stage || samples.measured.empty() || samples.predicted.empty()) continue;
          if (!lanes.count(key.lane)) continue;
          const trace::Lane& lane = lanes.at(key.lane);
          const std::uint32_t sm = lane.sm.value_or(0);
          const std::uint64_t index =
              w.entry_bytes ? key.page * Placement::kPageBytes / w.entry_bytes : 0;
          const auto address = [&](std::uint32_t of) {
            return laid_out.address(program, of, lane.queue, index);
          };
          const auto region = [&](std::uint32_t of) -> const std::string& {
            return program.regions[program.words[of].region].name;
          };
          const auto offset = [&](std::uint32_t of) {
            return address(of) - laid_out.region_begin(program.words[of].region);
          };
          const auto page = [&](std::uint32_t of) { return offset(of) / Placement::kPageBytes; };
          const std::uint64_t line = offset(word) / Placement::kLineBytes;
          if (told.count({sm, {region(word) + w.name, line}})) continue;

          // What the stage takes more than if every word of it were near, at the mean distance: as
          // replayed, and so as measured.
          double more = median(samples.measured) - median(samples.predicted);
          more += shows.accesses * lies.distance_cycles(sm, address(word));
          if (lies.is_far(sm, address(word))) more += shows.far_cycles;
          double accesses = shows.accesses, far_cycles = shows.far_cycles;
          std::vector<const Shown::Fence*> fences;  // that show this word
          double fence_far_cycles = 0, hidden_cycles = 0;
          bool sure = true;
          for (const Shown::Fence& fence : shows.fences) {
            const double near_cycles = std::max(spec.gpu.fence_gpu_near_cycles, fence.least_cycles);
            double replayed = fence.least_cycles, explained = 0;
            for (std::uint32_t of : fence.words) {
              const double cycles =
                  (lies.is_far(sm, address(of)) ? spec.gpu.fence_gpu_far_cycles
                                                : spec.gpu.fence_gpu_near_cycles) +
                  lies.distance_cycles(sm, address(of));
              replayed = std::max(replayed, cycles);
              if (page(of) == page(word) && region(of) == region(word)) continue;
              const auto* seen = placement.find(sm, region(of), page(of));
              const bool known = seen != nullptr && seen->sure;
              sure = sure && known;
              if (known && seen->far) explained = std::max(explained, cycles - near_cycles);
            }
            more += replayed - near_cycles - explained;
            if (explained > 0) {  // the farther word hides this one
              hidden_cycles = explained + near_cycles - spec.gpu.fence_gpu_far_cycles;
              continue;
            }
            fences.push_back(&fence);
            fence_far_cycles += spec.gpu.fence_gpu_far_cycles - near_cycles;
          }
          far_cycles += fence_far_cycles;
          const bool far = far_cycles > 0 && more > far_cycles / 2;
          for (const Shown::Fence* fence : fences)
            if (far || fence->least_cycles <= spec.gpu.fence_gpu_near_cycles) ++accesses;
          if (far_cycles > 0)
            next.see_side(sm, region(word), page(word), far,
                          !far || sure || far_cycles > fence_far_cycles);
          else if (!shows.fences.empty())  // hidden: it may be, and then costs no more
            next.see_side(sm, region(word), page(word), true, false);
          // A near fence shows all its words to be near.
          if (more < fence_far_cycles / 2)
            for (const Shown::Fence* fence : fences)
              for (std::uint32_t of : fence->words)
                next.see_side(sm, region(of), page(of), false, true);
          if (far_cycles > 0 || accesses > 0) told.insert({sm, {region(word) + w.name, line}});
          double distance = more - (far ? far_cycles : 0);
          if (accesses > 0)
            distance /= accesses;
          else if (lies.is_far(sm, address(word)))  // the farther one, or no farther than that
            distance = distance > 0 ? distance + hidden_cycles : std::min(hidden_cycles, 0.0);
          else
            continue;
          const std::uint64_t count =
              w.entry_bytes ? Placement::kPageBytes / Placement::kLineBytes : 1;
          for (std::uint64_t i = 0; i < count; ++i)
            next.see_distance(sm, region(word), line + i, std::clamp(distance, -150.0, 250.0));
        }
      }
    }
    placement = std::move(next);
  }
  return placement;
}

InferredPlacement recorded_placement(const trace::Header& header, const trace::Run& run,
                                     const config::Recipe& recipe, const QueueLayout& layout) {
  InferredPlacement placement;
  const Program& program = recipe.program;
  std::map<std::uint32_t, std::uint32_t> sm_of;
  for (const trace::Lane& lane : run.lanes)
    if (lane.sm) sm_of[lane.warp] = *lane.sm;
  for (const trace::PlacedWord& placed : run.words) {
    const auto it = std::find_if(program.words.begin(), program.words.end(),
                                 [&](const Word& word) { return word.name == placed.word; });
    if (it == program.words.end()) continue;  // laid out, but this sequence never touches it
    const auto word = static_cast<std::uint32_t>(it - program.words.begin());
    const std::uint64_t offset = layout.address(program, word, placed.queue, placed.first_entry) -
                                 layout.region_begin(it->region);
    const std::string& region = program.regions[it->region].name;
    const std::uint64_t lines = it->entry_bytes ? Placement::kPageBytes / Placement::kLineBytes : 1;
    const auto see = [&](std::uint32_t sm, const trace::Sight& sight) {
      placement.see_side(sm, region, offset / Placement::kPageBytes, sight.far, true);
      const double mean = sight.far ? header.l2_far_cycles : header.l2_near_cycles;
      if (mean == 0) return;
      for (std::uint64_t i = 0; i < lines; ++i)
        placement.see_distance(sm, region, offset / Placement::kLineBytes + i, sight.cycles - mean);
    };
    for (const trace::Sight& sight : placed.seen)
      if (const auto sm = sm_of.find(sight.warp); sm != sm_of.end()) see(sm->second, sight);
    if (placed.from_consumer && run.consumer_sm) see(*run.consumer_sm, *placed.from_consumer);
  }
  return placement;
}

KnownPlacement::KnownPlacement(trace::Reader& reader, sim::Machine& machine,
                               const std::string& config_dir, std::uint64_t seed,
                               const config::SystemSpec& spec)
    : header_(reader.header()) {
  reader.rewind();
  while (!recorded_) {
    const auto run = reader.next_run();
    if (!run) break;
    recorded_ = !run->words.empty();
  }
  if (!recorded_) inferred_ = infer_placement(reader, machine, config_dir, seed, spec);
}

void KnownPlacement::apply(const trace::Run& run, const config::Recipe& recipe,
                           const QueueLayout& layout, Placement& placement) const {
  if (!recorded_)
    inferred_.apply(recipe, layout, placement);
  else if (!run.words.empty())
    recorded_placement(header_, run, recipe, layout).apply(recipe, layout, placement);
}

}  // namespace marrow::validate
