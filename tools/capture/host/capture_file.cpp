#include "tools/capture/host/capture_file.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace marrow::capture {

using tools::Object;

namespace {

std::string list(const std::vector<std::string>& members) {
  std::string text = "[";
  for (const std::string& member : members) {
    if (text.size() > 1) text += ',';
    text += member;
  }
  return text + ']';
}

std::string word_text(const PlacedWord& word) {
  std::vector<double> warps, cycles, far;
  for (const Sight& sight : word.seen) {
    warps.push_back(sight.warp);
    cycles.push_back(sight.cycles);
    far.push_back(sight.far);
  }
  Object object;
  object.add("word", word.word).add("queue", word.queue).add("first_entry", word.first_entry);
  object.add("address", word.address);
  if (word.from_consumer)
    object.add("consumer_cycles", word.from_consumer->cycles)
        .add("consumer_far", word.from_consumer->far ? 1 : 0);
  object.add_list("warps", warps).add_list("cycles", cycles).add_list("far", far);
  return object.text();
}

std::string run_text(const Run& run, const std::vector<Stage>& stages, std::uint64_t epoch) {
  const Configuration& c = run.configuration;
  std::vector<std::string> names, columns = {"warp", "index", "flags", "start_ns", "polls"};
  for (const Stage stage : stages) names.emplace_back(kStageNames[stage]);
  columns.insert(columns.end(), names.begin(), names.end());
  for (const char* column : {"seen_ns", "read_ns", "done_ns"}) columns.emplace_back(column);
  std::vector<std::string> lanes, words;
  for (std::uint32_t warp = 0; warp < c.warps; ++warp) {
    const Record& first = run.records[std::size_t{warp} * c.puts];
    lanes.push_back(
        Object().add("warp", warp).add("sm", first.sm).add("queue", first.queue).text());
  }
  for (const PlacedWord& word : run.words) words.push_back(word_text(word));

  Object object, chosen;
  for (const auto& [choice, value] : choices(c)) chosen.add(choice, value);
  object.add("run", run.name).add("protocol", recipe(c)).add("choices", chosen);
  object.add("consumer", name(c.consumer)).add("consumer_sm", run.consumer_sm);
  object.add("repeat", run.repeat);
  object.add("warps", c.warps).add("queues", c.queues).add("puts_per_warp", c.puts);
  object.add("wait_every", c.wait_every).add("bytes", c.bytes).add("gap_cycles", c.gap_cycles);
  object.add("sm_clock_ghz", run.sm_clock_ghz).add("clock_changed", run.clock_changed);
  object.add("epoch_ns", epoch).add("consumer_clock_bound_ns", run.consumer_clock_bound_ns);
  object.add("cycles_per_put", run.cycles_per_put);
  object.add("cycles_per_put_unstamped", run.cycles_per_put_unstamped);
  object.add_list("stages", names).add_list("columns", columns);
  // Lists of objects go in as they are: an object's text is JSON already.
  std::string text = object.text();
  text.pop_back();
  return text + ",\"lanes\":" + list(lanes) + ",\"words\":" + list(words) + '}';
}

}  // namespace

std::vector<Stage> stages_of(Protocol protocol) {
  if (protocol == Protocol::kHostGdaki || protocol == Protocol::kHostProxy)
    return {kStageSlot,   kStageWqe,      kStageFence,     kStageOrder,
            kStageRecord, kStageRegister, kStageCompletion};
  return {kStageLookup, kStageSlot,   kStageWqe,      kStageFence,     kStageOrder,
          kStageLock,   kStageRecord, kStageRegister, kStageCompletion};
}

std::uint64_t epoch_ns(const std::vector<Record>& records) {
  std::uint64_t first = ~std::uint64_t{0};
  for (const Record& record : records) first = std::min(first, record.start_ns);
  return first;
}

void add_run(tools::MeasurementFile& file, const Run& run) {
  const Configuration& c = run.configuration;
  if (run.records.size() != c.total())
    throw std::runtime_error(run.name + ": not one record a put");
  struct Order {
    std::uint64_t start_ns;  ///< never before the same warp's last
    const Record* record;
  };
  std::vector<Order> order;
  order.reserve(run.records.size());
  for (std::uint32_t warp = 0; warp < c.warps; ++warp) {
    std::uint64_t last = 0;
    for (std::uint32_t i = 0; i < c.puts; ++i) {
      const Record& record = run.records[std::size_t{warp} * c.puts + i];
      if (record.start_ns == 0 || record.warp != warp || record.queue >= c.queues)
        throw std::runtime_error(run.name + ": put " + std::to_string(i) + " of warp " +
                                 std::to_string(warp) + " left no record");
      last = std::max(last, record.start_ns);
      order.push_back({last, &record});
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Order& a, const Order& b) { return a.start_ns < b.start_ns; });
  const std::uint64_t epoch = epoch_ns(run.records);
  const std::vector<Stage> stages = stages_of(c.protocol);
  file.add_line(run_text(run, stages, epoch));
  for (const auto& [start, record] : order) {
    std::string line = "[";
    const auto add = [&](const std::string& text) {
      if (line.size() > 1) line += ',';
      line += text;
    };
    add(std::to_string(record->warp));
    add(std::to_string(record->index));
    add(std::to_string(record->flags));
    add(std::to_string(record->start_ns - epoch));
    add(std::to_string(record->polls));
    for (const Stage stage : stages) add(std::to_string(record->cycles[stage]));
    Consumption consumption;
    if (record->queue < run.consumed.size() && record->index < run.consumed[record->queue].size())
      consumption = run.consumed[record->queue][record->index];
    for (const double ns : {consumption.seen_ns, consumption.read_ns, consumption.done_ns})
      add(Object::number(ns));
    file.add_line(line + ']');
  }
}

}  // namespace marrow::capture
