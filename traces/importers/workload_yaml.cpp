// A workload written by hand: what to put, how often and from how many warps; no captured times.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <vector>

#include "models/common/error.h"
#include "traces/guess.h"
#include "traces/importers/importers.h"
#include "traces/importers/work.h"
#include "traces/rules.h"
#include "traces/source.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

constexpr std::uint64_t kMaxWarps = 1 << 16;
constexpr std::uint64_t kMaxPuts = 1ull << 40;

std::string place(const std::string& path, const YAML::Mark& mark) {
  return mark.is_null() ? path : fmt::format("{}:{}", path, mark.line + 1);
}

std::uint64_t whole_of(const std::string& path, const YAML::Node& node, const std::string& key,
                       std::uint64_t min, std::uint64_t max) {
  const std::string range = fmt::format("write a whole number, {} to {}", min, max);
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    throw InputError(place(path, node.Mark()),
                     fmt::format("{}: {} is not a whole number from 0 on", key,
                                 node.IsScalar() ? "'" + shown(text) + "'" : "this"),
                     range);
  if (error != std::errc() || value < min || value > max)
    throw InputError(place(path, node.Mark()),
                     fmt::format("{}: {} is out of range", key, shown(text)), range);
  return value;
}

std::string to_text(const std::string& path, const YAML::Node& node, const std::string& key) {
  if (!node.IsScalar() || node.Scalar().empty())
    throw InputError(place(path, node.Mark()), fmt::format("{}: is no text", key), "write a name");
  return node.Scalar();
}

/// A YAML map whose keys are all known and stand once.
class Fields {
 public:
  Fields(const std::string& path, const YAML::Node& node, std::string what,
         std::span<const std::string_view> known)
      : path_(path), what_(std::move(what)), node_(node) {
    if (!node.IsMap())
      throw InputError(place(path, node.Mark()), fmt::format("{} is not a map", what_),
                       fmt::format("write 'key: value' lines; keys: {}", listed(known)));
    std::vector<std::string> seen;
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (!known.empty() && std::find(known.begin(), known.end(), key) == known.end())
        throw InputError(place(path, entry.first.Mark()),
                         fmt::format("{}: unknown key '{}'", what_, shown(key)),
                         choose_from(key, known));
      if (std::find(seen.begin(), seen.end(), key) != seen.end())
        throw InputError(place(path, entry.first.Mark()),
                         fmt::format("{}: key '{}' stands twice", what_, shown(key)),
                         "remove one of them");
      seen.push_back(key);
    }
  }

  YAML::Node get(const char* key) const { return node_[key]; }
  YAML::Node need(const char* key) const {
    const YAML::Node value = node_[key];
    if (value && value.IsNull()) {
      // An empty value's own mark lies behind it.
      for (const auto& entry : node_)
        if (entry.first.Scalar() == key)
          throw InputError(place(path_, entry.first.Mark()),
                           fmt::format("{}: key '{}' has no value", what_, key), "write one");
    }
    if (!value)
      throw InputError(place(path_, node_.Mark()),
                       fmt::format("{}: key '{}' is missing", what_, key),
                       fmt::format("add '{}: ...'", key));
    return value;
  }
  std::string text(const char* key) const { return to_text(path_, need(key), key); }
  std::uint64_t whole(const char* key, std::uint64_t min, std::uint64_t max) const {
    return whole_of(path_, need(key), key, min, max);
  }
  std::uint64_t whole_or(const char* key, std::uint64_t otherwise, std::uint64_t max) const {
    return get(key) ? whole(key, 0, max) : otherwise;
  }

 private:
  std::string path_, what_;
  YAML::Node node_;
};

std::vector<OpKind> to_script(const std::string& path, const YAML::Node& node, const char* key) {
  constexpr std::string_view kNames[] = {"put",   "put_signal", "get",  "atomic",
                                         "fence", "quiet",      "wait", "barrier"};
  if (!node.IsSequence() || node.size() == 0)
    throw InputError(place(path, node.Mark()), fmt::format("{}: is no list of operations", key),
                     fmt::format("write {}: [put, quiet]; there are: {}", key, listed(kNames)));
  std::vector<OpKind> script;
  for (const auto& item : node) {
    const std::string text = to_text(path, item, key);
    const auto it = std::find(std::begin(kNames), std::end(kNames), text);
    if (it == std::end(kNames))
      throw InputError(place(path, item.Mark()),
                       fmt::format("{}: unknown operation '{}'", key, shown(text)),
                       choose_from(text, kNames));
    script.push_back(static_cast<OpKind>(static_cast<int>(OpKind::kPut) + (it - kNames)));
  }
  return script;
}

double to_rate(const std::string& path, const YAML::Node& node, const char* key) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1e6)
    throw InputError(place(path, node.Mark()), fmt::format("{}: '{}' is no rate", key, shown(text)),
                     "write a number above 0, up to 1e6");
  return value;
}

/// Bytes that pass a place, or warps that go on until the others are done.
std::vector<Background> read_background(const std::string& path, const YAML::Node& list, Run& run) {
  std::vector<Background> groups;
  if (!list.IsSequence())
    throw InputError(place(path, list.Mark()), "background: is not a list",
                     "write '- {warps: 64, does: [put], bytes: 8}' below it");
  for (const auto& node : list) {
    if (node.IsMap() && node["at"]) {
      constexpr std::string_view kKeys[] = {"at", "pe", "gbps", "bytes"};
      const Fields fields(path, node, "background", kKeys);
      const std::string text = fields.text("at");
      const auto it = std::find(kTrafficPlaces.begin(), kTrafficPlaces.end(), text);
      if (it == kTrafficPlaces.end())
        throw InputError(place(path, node["at"].Mark()),
                         fmt::format("at: unknown place '{}'", shown(text)),
                         choose_from(text, kTrafficPlaces));
      run.traffic.push_back({static_cast<Traffic::Place>(it - kTrafficPlaces.begin()),
                             static_cast<std::uint32_t>(fields.whole_or("pe", 0, kMaxWarps)),
                             to_rate(path, fields.need("gbps"), "gbps"),
                             fields.whole("bytes", 1, kMaxOpBytes)});
      continue;
    }
    constexpr std::string_view kKeys[] = {"warps", "queues", "first_queue", "does",
                                          "bytes", "pe",     "mmsgs"};
    const Fields fields(path, node, "background", kKeys);
    Background group;
    group.does = to_script(path, fields.need("does"), "does");
    group.bytes = fields.whole("bytes", 0, kMaxOpBytes);
    const std::uint64_t warps = fields.whole("warps", 1, kMaxWarps);
    const std::uint64_t queues = fields.get("queues") ? fields.whole("queues", 1, kMaxWarps) : 1;
    const std::uint64_t first = fields.whole_or("first_queue", 0, kMaxWarps);
    for (std::uint64_t w = 0; w < warps; ++w) {
      Lane lane;
      lane.queue = static_cast<std::uint32_t>(first + w % queues);
      lane.pe = static_cast<std::uint32_t>(fields.whole_or("pe", 0, 1));
      if (lane.pe == 1) lane.peer = 0;
      if (const YAML::Node rate = fields.get("mmsgs"))
        lane.period_ns = 1000 * static_cast<double>(warps) / to_rate(path, rate, "mmsgs");
      group.lanes.push_back(lane);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

void read_run(const std::string& path, const YAML::Node& node, std::size_t number, Writer& writer) {
  constexpr std::string_view kKeys[] = {
      "name",          "protocol",  "choices",    "warps",          "queues",
      "puts_per_warp", "bytes",     "wait_every", "gap_cycles",     "sms",
      "does",          "peer_does", "visits",     "puts_per_visit", "peers",
      "background",    "senders",   "gpus",       "nvlink_copies",  "l2_readers"};
  const Fields fields(path, node, fmt::format("run {}", number), kKeys);
  Run run;
  run.name = fields.text("name");
  run.protocol = fields.text("protocol");
  const std::uint64_t warps = fields.whole("warps", 1, kMaxWarps);
  run.queues = static_cast<std::uint32_t>(fields.whole("queues", 1, kMaxWarps));
  const std::uint64_t puts = fields.whole("puts_per_warp", 1, kMaxPuts);
  const std::uint64_t bytes = fields.whole("bytes", 0, kMaxOpBytes);
  const std::uint64_t wait_every = fields.whole_or("wait_every", 0, kMaxPuts);
  const std::uint64_t gap_cycles = fields.whole_or("gap_cycles", 0, kMaxPuts);
  run.puts_per_lane = puts;
  run.peers = static_cast<std::uint32_t>(fields.get("peers") ? fields.whole("peers", 1, kMaxWarps)
                                                             : std::uint64_t{1});
  const std::uint64_t visits = fields.whole_or("visits", 0, kMaxWarps);

  if (const YAML::Node choices = fields.get("choices"); choices && !choices.IsNull()) {
    const Fields checked(path, choices, "choices", {});
    for (const auto& entry : choices) {
      const std::string key = to_text(path, entry.first, "choices");
      run.choices[key] = to_text(path, entry.second, key);
    }
  }
  const YAML::Node sms = fields.get("sms");
  if (sms && (!sms.IsSequence() || sms.size() != warps))
    throw InputError(place(path, sms.Mark()),
                     sms.IsSequence() ? fmt::format("sms: {} SMs for {} warps", sms.size(), warps)
                                      : std::string("sms: is not a list"),
                     "list one SM for each warp, as [0, 1, 2], or leave it out");
  add_lanes(run, static_cast<std::uint32_t>(warps));
  if (sms)
    for (Lane& lane : run.lanes)
      lane.sm = static_cast<std::uint32_t>(whole_of(path, sms[lane.warp], "sms", 0, 65535));
  for (Lane& lane : run.lanes)
    if (visits > 0) {
      lane.visits = static_cast<std::uint32_t>(visits);
      lane.visit_stride = static_cast<std::uint32_t>(warps);
      lane.puts_per_visit = fields.whole("puts_per_visit", 1, kMaxPuts);
    }
  if (fields.get("senders")) {
    // As many warps on each of the further elements, all towards the first.
    const std::uint64_t senders = fields.whole("senders", 1, 63);
    if (const YAML::Node peer = fields.get("peer_does"))
      throw InputError(place(path, peer.Mark()),
                       fmt::format("run {}: peer_does beside senders", number),
                       "remove one of them");
    const std::vector<Lane> alike = std::exchange(run.lanes, {});
    for (std::uint32_t pe = 1; pe <= senders; ++pe)
      for (Lane lane : alike) {
        lane.warp = static_cast<std::uint32_t>(run.lanes.size());
        lane.pe = pe;
        lane.peer = 0;
        run.lanes.push_back(lane);
      }
  }
  if (const YAML::Node gpus = fields.get("gpus")) {
    // As many warps on each GPU. Warp w of GPU g and warp w of GPU g xor d are partners, and d goes
    // through the other GPUs with w.
    const std::uint64_t many = fields.whole("gpus", 2, 16);
    if ((many & (many - 1)) != 0 || fields.get("senders") || fields.get("peer_does"))
      throw InputError(place(path, gpus.Mark()), fmt::format("gpus: {}", many),
                       "write 2, 4, 8 or 16, without senders and peer_does: all do the same");
    const std::vector<Lane> alike = std::exchange(run.lanes, {});
    for (std::uint32_t pe = 0; pe < many; ++pe)
      for (Lane lane : alike) {
        lane.peer = pe ^ (1 + lane.warp % static_cast<std::uint32_t>(many - 1));
        lane.warp = static_cast<std::uint32_t>(run.lanes.size());
        lane.pe = pe;
        run.lanes.push_back(lane);
      }
  }
  if (const YAML::Node copies = fields.get("nvlink_copies")) {
    if (!copies.IsSequence())
      throw InputError(place(path, copies.Mark()), "nvlink_copies: is not a list",
                       "write [[0, 1]] for copies from GPU 0 to GPU 1");
    for (const YAML::Node& copy : copies) {
      if (!copy.IsSequence() || copy.size() != 2)
        throw InputError(place(path, copy.Mark()), "nvlink_copies: holds no pair of GPUs",
                         "write [[0, 1]] for copies from GPU 0 to GPU 1");
      const auto gpu = [&](int i) {
        return static_cast<std::uint32_t>(whole_of(path, copy[i], "nvlink_copies", 0, 15));
      };
      run.nvlink_copies.push_back({gpu(0), gpu(1)});
    }
  }
  if (const YAML::Node readers = fields.get("l2_readers")) {
    if (!readers.IsSequence())
      throw InputError(place(path, readers.Mark()), "l2_readers: is not a list",
                       "write [0] for GPU 0");
    for (const YAML::Node& gpu : readers)
      run.l2_readers.push_back(
          static_cast<std::uint32_t>(whole_of(path, gpu, "l2_readers", 0, 15)));
  }
  const bool script = static_cast<bool>(fields.get("does"));
  if (const YAML::Node peer = fields.get("peer_does"); peer && !script)
    throw InputError(place(path, peer.Mark()),
                     fmt::format("run {}: peer_does without does", number),
                     "say what the first element's warps do: does: [put, wait]");
  if (const YAML::Node wait = fields.get("wait_every"); wait && script)
    throw InputError(place(path, wait.Mark()),
                     fmt::format("run {}: wait_every beside does", number),
                     "write quiet or wait into does where a warp waits");
  std::vector<Background> background;
  if (const YAML::Node list = fields.get("background"))
    background = read_background(path, list, run);
  if (script) {
    Script work;
    work.does = to_script(path, fields.need("does"), "does");
    if (const YAML::Node peer = fields.get("peer_does"))
      work.peer_does = to_script(path, peer, "peer_does");
    work.rounds = puts;
    work.bytes = bytes;
    work.gap_cycles = gap_cycles;
    work.background = std::move(background);
    write_script(writer, run, work);
    return;
  }
  const std::vector<Lane> own = run.lanes;
  write_run(writer, run, background);

  // Puts in a row that are alike are one record; every warp writes one in turn.
  Op op;
  op.bytes = bytes;
  op.compute_cycles = gap_cycles;
  for (std::uint64_t at = 0; at < puts; at += op.count) {
    const std::uint64_t alike_until = puts - 1;  // the last put alone flushes
    op.flush = at == alike_until;
    op.wait = op.flush || (wait_every != 0 && (at + 1) % wait_every == 0);
    op.count = 1;
    if (!op.flush && wait_every <= 1) op.count = alike_until - at;
    if (!op.wait && wait_every > 1)
      op.count = std::min(alike_until, at / wait_every * wait_every + wait_every - 1) - at;
    for (const Lane& lane : own) {
      op.warp = lane.warp;
      writer.op(op);
    }
  }
}

/// The file as one YAML map.
YAML::Node parsed(const std::string& path) {
  Lines lines(path);
  std::string text;
  for (std::string_view line; lines.next(line); text += '\n') text += line;
  YAML::Node root;
  std::optional<YAML::Exception> error;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception& e) {
    error = e;
  }
  if (!error && root.IsMap()) return root;
  const Guess g = guess(lines.head(), path);
  if (!error || lines.head().find("runs:") == std::string::npos)
    throw InputError(path, "is no workload: it " + g.looks, g.mend);
  throw InputError(place(path, error->mark), "is no YAML: " + error->msg,
                   "check indentation, colons and brackets");
}

}  // namespace

void import_workload_yaml(const std::string& in, const std::string& out,
                          const ImportOptions& options) {
  const YAML::Node root = parsed(in);
  constexpr std::string_view kKeys[] = {"machine", "runs"};
  const Fields fields(in, root, "the workload", kKeys);
  const YAML::Node runs = fields.need("runs");
  if (!runs.IsSequence() || runs.size() == 0)
    throw InputError(place(in, runs.Mark()), "runs: is not a list of runs",
                     "write '- name: ...' below it");
  Header header;
  header.machine = options.machine ? *options.machine : fields.text("machine");
  header.counters = options.counters;
  header.origin =
      fmt::format("{}: workload written by hand", std::filesystem::path(in).filename().string());
  Writer writer(out, header);
  for (std::size_t i = 0; i < runs.size(); ++i) read_run(in, runs[i], i + 1, writer);
  writer.close();
}

}  // namespace marrow::trace
