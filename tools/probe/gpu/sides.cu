// Near and far: which of the L2's lines are on whose side, both latencies, and how finely the
// side changes with the address.
#include <algorithm>

#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

constexpr std::size_t kWindowBytes = 64 << 10;
constexpr std::size_t kMegabyte = 1 << 20;

struct WriteLines {
  std::uint64_t* const* targets;
  int lines;
  __device__ void operator()() const {
    for (int line = 0; line < lines; ++line) store_relaxed(targets[line], 0);
    __threadfence_system();
  }
};

/// Reads every line twice: as another SM left it, and once more.
struct ReadLines {
  std::uint64_t* const* targets;
  int lines;
  std::uint32_t* first;
  std::uint32_t* again;
  __device__ void operator()() const {
    __shared__ volatile std::uint64_t hold;
    for (int pass = 0; pass < 2; ++pass)
      for (int line = 0; line < lines; ++line) {
        const std::uint64_t* word = targets[line];
        hold = reinterpret_cast<std::uint64_t>(word);  // the pointer is here before the clock is
        const std::uint64_t begin = cycles_now();
        hold = load_relaxed(word);
        (pass == 0 ? first : again)[line] = static_cast<std::uint32_t>(cycles_now() - begin);
      }
  }
};

double median_at(const std::vector<std::vector<double>>& rounds, std::size_t i) {
  std::vector<double> values;
  for (const auto& round : rounds) values.push_back(round[i]);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void tell_map(Context& context, const SideMap& map) {
  const double none = context.none_cycles();
  const Object pooled = [&] {
    Object object;
    object.add("op", "atom.cas.gpu").add("lines", map.lines);
    return object.add("sms", map.by_sm.size());
  }();
  for (const bool far : {false, true}) {
    Rounds rounds(kRounds);
    for (std::size_t sm = 0; sm < map.by_sm.size(); ++sm)
      for (int round = 0; round < kRounds; ++round)
        for (int line = 0; line < map.lines; ++line)
          if (map.sides[sm].far[line] == far) rounds[round].push_back(map.by_sm[sm][round][line]);
    if (rounds[0].empty()) continue;
    Object conditions = pooled;
    context.row("l2_side", conditions.add("side", far ? "far" : "near"), "cycles", rounds, none);
  }
  std::vector<double> near, far, same_sms, other_sms, agrees;
  for (std::size_t sm = 0; sm < map.sides.size(); ++sm) {
    near.push_back(map.sides[sm].near_median);
    far.push_back(map.sides[sm].far_median);
    agrees.push_back(agreement(map.sides[sm].far, map.sides[map.sm].far));
  }
  same_sms.assign(map.same.begin(), map.same.end());
  other_sms.assign(map.other.begin(), map.other.end());
  Object row, conditions;
  conditions.add("op", "atom.cas.gpu").add("sm", map.sm).add("stride", kPageBytes);
  row.add("name", "l2_map").add("cond", conditions).add("unit", "side");
  row.add("n", map.lines).add("two_sides", map.two);
  row.add("sides", letters(map.sides[map.sm].far));
  const SideParity parity = side_parity(map.sides[map.sm].far, kPageBytes);
  row.add_list("parity_bits", std::vector<double>(parity.bits.begin(), parity.bits.end()));
  row.add("parity_agreement", parity.agreement);
  row.add_list("sms_on_this_side", same_sms).add_list("sms_on_the_other_side", other_sms);
  row.add_list("agreement_by_sm", agrees);
  row.add("overhead", none).add_list("near_cycles_by_sm", near);
  context.line(row.add_list("far_cycles_by_sm", far));
}

template <Touch touch>
void tell_blocks(Context& context, const SideMap& map, const char* op) {
  const int lines = kWindowBytes / kLineBytes;
  DeviceArray<std::uint32_t> cycles(lines);
  Rounds blocks, near, far;
  std::string first_window;
  for (int window = 0; window < kRounds; ++window) {
    std::uint64_t* begin = map.memory->get() + (window + 1) * kMegabyte / 8;
    context.run_on_sm(
        map.sm, TouchWords<touch, EvenWords>{{begin, kLineBytes / 8}, lines, 4, cycles.get()});
    const Sides sides = split_sides(cycles.samples());
    if (!sides.two) continue;
    if (first_window.empty()) first_window = letters(sides.far);
    blocks.push_back({static_cast<double>(side_block_bytes(sides.far, kLineBytes))});
  }
  if (blocks.empty()) return;
  Object conditions;
  conditions.add("op", op).add("sm", map.sm).add("stride", kLineBytes);
  conditions.add("window", kWindowBytes);
  context.row("l2_side_block", conditions, "bytes", blocks);
  Object row;
  row.add("name", "l2_window").add("cond", conditions).add("unit", "side").add("n", lines);
  context.line(row.add("sides", first_window));
}

void tell_loads(Context& context, const SideMap& map) {
  const double none = context.none_cycles();
  for (const bool by_other : {false, true}) {
    if (by_other && map.other.empty()) continue;
    const std::uint32_t writer = by_other ? map.other.front() : map.same.back();
    for (const bool is_far : {false, true}) {
      const Targets& lines = is_far ? map.far : map.near;
      if (lines.empty()) continue;
      const int count = static_cast<int>(lines.size());
      DeviceArray<std::uint64_t*> targets(lines.size());
      targets.fill_from(lines);
      DeviceArray<std::uint32_t> first(lines.size()), again(lines.size());
      Rounds written, reread;
      for (int round = 0; round < kRounds; ++round) {
        context.run_on_sm(writer, WriteLines{targets.get(), count});
        context.run_on_sm(map.sm, ReadLines{targets.get(), count, first.get(), again.get()});
        written.push_back(first.samples());
        reread.push_back(again.samples());
      }
      Object conditions;
      conditions.add("side", is_far ? "far" : "near").add("load", "relaxed.sys");
      conditions.add("written_by", by_other ? "an SM of the other side" : "an SM of this side");
      context.row("l2_load_written", conditions, "cycles", written, none);
      context.row("l2_load_again", conditions, "cycles", reread, none);
    }
  }
}

}  // namespace

SideMap find_sides(Context& context) {
  SideMap map;
  map.memory = std::make_unique<DeviceArray<std::uint64_t>>((kRounds + 2) * kMegabyte / 8);
  map.lines = context.quick() ? 128 : 256;
  const auto sms = static_cast<std::uint32_t>(context.device().multiProcessorCount);
  DeviceArray<std::uint32_t> cycles(map.lines);
  map.by_sm.resize(sms);
  for (int round = 0; round < kRounds; ++round)
    for (std::uint32_t sm = 0; sm < sms; ++sm) {
      context.run_on_sm(sm, TouchWords<Touch::kCas, EvenWords>{
                                {map.memory->get(), kPageBytes / 8}, map.lines, 3, cycles.get()});
      map.by_sm[sm].push_back(cycles.samples());
    }
  for (const Rounds& rounds : map.by_sm) {
    std::vector<double> medians;
    for (int line = 0; line < map.lines; ++line) medians.push_back(median_at(rounds, line));
    map.sides.push_back(split_sides(medians));
  }
  const Sides& reference = map.sides[map.sm];
  map.two = reference.two;
  for (std::uint32_t sm = 0; sm < sms; ++sm) {
    const bool same = agreement(map.sides[sm].far, reference.far) >= 0.5;
    (same ? map.same : map.other).push_back(sm);
  }
  for (int line = 0; line < map.lines; ++line) {
    Targets& group = reference.far[line] ? map.far : map.near;
    if (group.size() < 64) group.push_back(map.memory->get() + line * (kPageBytes / 8));
  }
  return map;
}

void measure_sides(Context& context) {
  const SideMap& map = context.sides();
  tell_map(context, map);
  tell_blocks<Touch::kCas>(context, map, "atom.cas.gpu");
  tell_blocks<Touch::kStoreFence>(context, map, "st8+fence.gpu");
  tell_loads(context, map);
}

}  // namespace marrow::probe
