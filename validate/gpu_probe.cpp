#include "validate/gpu_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/common/error.h"
#include "models/pcie/duplex.h"

namespace marrow::validate {

namespace {

using nlohmann::json;

// ---- reading ------------------------------------------------------------------------------------

// Of a normal distribution: half a 90 % interval in standard deviations.
constexpr double kHalf90 = 1.645;
// What a median's rounds do not show: another allocation, another SM, another day.
constexpr double kAlike = 0.01;     // one operation from an idle path
constexpr double kShort = 0.2;      // a few cycles, which a neighbour in the pipeline changes
constexpr double kPlaced = 0.02;    // the lines' distances are in it
constexpr double kRate = 0.02;      // a rate at saturation
constexpr double kMixture = 0.04;   // read off an edge of a mixture
constexpr double kWidth = 0.15;     // a width of a distribution
constexpr double kPhase = 0.08;     // two polling loops: their phase is not known
constexpr double kUnsteady = 0.2;   // rounds that differ by more measured two things
constexpr double kSteady = 0.03;    // rounds that differ by less measured one thing
constexpr double kUniform80 = 0.8;  // p10 to p90 of a uniform distribution, of its whole width

/// Every number of a probe is a time, a rate, a count or a size.
double number(const json& row, const char* key, double otherwise, const std::string& place) {
  constexpr double kMost = 1e12;
  const auto it = row.find(key);
  if (it == row.end() || it->is_null()) return otherwise;
  const double value = it->is_number() ? it->get<double>() : NAN;
  if (!(value >= 0 && value <= kMost))
    throw InputError(place,
                     fmt::format("'{}': {} is no number from 0 to {:g}", key, it->dump(), kMost),
                     "take the file as marrow-probe wrote it");
  return value;
}

/// Empty where the key is missing.
std::string text(const json& line, const char* key, const std::string& place) {
  const auto it = line.find(key);
  if (it == line.end()) return "";
  if (!it->is_string())
    throw InputError(place, fmt::format("'{}' is no text", key),
                     "take the file as marrow-probe wrote it");
  return it->get<std::string>();
}

bool flag(const json& line, const char* key, bool otherwise, const std::string& place) {
  const auto it = line.find(key);
  if (it == line.end()) return otherwise;
  if (!it->is_boolean())
    throw InputError(place, fmt::format("'{}' is neither true nor false", key),
                     "take the file as marrow-probe wrote it");
  return it->get<bool>();
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

ProbeRow row_of(const json& line, const std::string& place) {
  ProbeRow row;
  row.place = place;
  row.name = line["name"].get<std::string>();
  if (line.contains("cond") && line["cond"].is_object())
    for (const auto& [key, value] : line["cond"].items()) row.conditions[key] = text_of(value);
  row.unit = text(line, "unit", place);
  row.median = number(line, "median", NAN, place);
  if (!std::isfinite(row.median))
    throw InputError(place, row.name + " has no median", "every row of a probe has one");
  row.min = number(line, "min", row.median, place);
  row.p10 = number(line, "p10", row.median, place);
  row.p90 = number(line, "p90", row.median, place);
  row.median_low = number(line, "median_low", row.median, place);
  row.median_high = number(line, "median_high", row.median, place);
  if (line.contains("overhead")) row.overhead = number(line, "overhead", 0, place);
  return row;
}

void read_header(const json& line, ProbeFile& file) {
  const std::string place = file.path + ":1";
  file.marrow_probe = line.contains("schema");
  if (file.marrow_probe && line["schema"] != "marrow.probe/1")
    throw InputError(place, "schema " + line["schema"].dump() + " is not known",
                     "this marrow reads marrow.probe/1");
  file.gpu = text(line, "gpu", place);
  file.date = text(line, "date", place);
  file.clock_changed = flag(line, "clock_changed", false, place);
  file.results_pending = flag(line, "results_pending", true, place);
  for (const auto& [name, key] :
       {std::pair{"sms", "gpu.sm.units_count"}, std::pair{"l2", "gpu.l2.capacity_bytes"}})
    if (const double value = number(line, name, NAN, place); std::isfinite(value))
      file.facts.emplace_back(key, value);
  const auto pcie = line.find("pcie");
  if (pcie == line.end() || !pcie->is_object()) return;
  const std::pair<const char*, const char*> facts[] = {{"generation", "pcie.generation_count"},
                                                       {"width", "pcie.lanes_count"},
                                                       {"mps_bytes", "pcie.mps_bytes"},
                                                       {"mrrs_bytes", "pcie.mrrs_bytes"}};
  for (const auto& [name, key] : facts)
    if (const double value = number(*pcie, name, NAN, place); std::isfinite(value))
      file.facts.emplace_back(key, value);
}

/// What is to be done with a row: quantities, or a reason why nothing predicts it.
struct Use {
  struct Part {
    std::string model;
    double relative = 0;
    Statistic statistic = Statistic::kMedian;
  };
  std::vector<Part> parts;
  std::string reason;
};
Use use(std::string model, double relative, Statistic statistic = Statistic::kMedian) {
  return {{{std::move(model), relative, statistic}}, {}};
}
Use unused(std::string reason) { return {{}, std::move(reason)}; }

std::uint64_t whole(const ProbeRow& row, const char* key) {
  const std::string& text = row.condition(key);
  return !text.empty() && text.size() < 16 && text.find_first_not_of("0123456789") == text.npos
             ? std::stoull(text)
             : 0;
}

/// Far is half as much again as near, so that the value tells which it is.
const char* const kUnknownSide = "cas near or far";
const char* const kPending =
    "gpu-scope fences that also wait for the program's own results, whose side is not known";

Use use_of_operation(const ProbeFile& file, const ProbeRow& row) {
  const std::string& op = row.condition("op");
  const std::string& where = row.condition("where");
  const bool host = where == "host", both = where == "gpu and host";
  const bool near = where == "gpu near", far = where == "gpu far";
  const std::string side = near ? " near" : far ? " far" : host ? " host" : "";
  if (op == "none" || op == "globaltimer") return unused("costs of the measurement itself");
  if (op == "fence.cta" || op == "st8+fence.cta") return use(op, kShort);
  if (op == "fence.sys") return use("fence.sys", kAlike);
  if (op == "st8+fence.sys" && host) return use("st8+fence.sys host", kAlike);
  // The older program's own cost hides the first store.
  if (op == "st8+fence.sys") return use(file.marrow_probe ? op : "fence.sys", kAlike);
  if (op == "st64+fence.sys")
    return host ? unused("16 B stores to a few host lines: a ring's lines take longer")
                : use(file.marrow_probe ? op : "st64+fence.sys less one", kAlike);
  if (both && op.ends_with("fence.sys")) return use("both+fence.sys", kAlike);
  if (both && op.ends_with("fence.gpu")) return use("both+fence.gpu", kAlike);
  if (op == "fence.gpu") {
    if (!file.results_pending) return use("fence.gpu", kAlike);
    return file.marrow_probe ? unused(kPending) : use("fence.gpu", kAlike, Statistic::kMin);
  }
  if (op == "st8+fence.gpu" || op == "st64+fence.gpu") {
    // A pending far line hides a near one, and is hidden by a far one and by the host.
    if (host && op == "st64+fence.gpu")
      return unused("16 B stores to a few host lines: a ring's lines take longer");
    if (!side.empty() && (!near || !file.results_pending) && (!host || file.marrow_probe))
      return use(op + side, kAlike);
    if (!side.empty() || file.marrow_probe) return unused(kPending);
    return {{{op + " near", kMixture, Statistic::kP10}, {op + " far", kMixture, Statistic::kP90}},
            {}};
  }
  if (op.starts_with("st.release")) return unused("release stores: no model has them");
  if (op == "st8") return unused("a single store: too short to tell");
  if (op == "st64(8x8)") return use(file.marrow_probe ? "st64(8x8)" : "st64(8x8) less one", kAlike);
  if (op == "st64(4x16)")
    return file.marrow_probe
               ? unused("16 B stores that the row's end waits for until they have drained")
               : use("st64(4x16) less one", kAlike);
  if (op == "ld.relaxed.sys" && host) {
    // Some machines answer some rounds later; the lower edge is the idle way's.
    Use both_edges = use("load host p10", kAlike, Statistic::kP10);
    if (row.median_high < row.median_low * (1 + kSteady))
      both_edges.parts.push_back({"host jitter", kWidth, Statistic::kLowerWidth});
    return both_edges;
  }
  if (op == "ld.relaxed.sys") return use("load near", kPlaced);
  if (op == "atom.cas.gpu" && !file.marrow_probe) return use(kUnknownSide, kPlaced);
  if (op == "atom.add.gpu" && where == "gpu") return use("l2 jitter", kWidth, Statistic::kWidth);
  if (op.starts_with("atom.") || op.starts_with("red."))
    return unused("atomics with instructions of their own in the row");
  return unused("operations that no model has");
}

Use use_of(const ProbeFile& file, const ProbeRow& row) {
  const std::string& name = row.name;
  const std::string& where = row.condition("where");
  if (name == "sm_clock") return use("sm clock", 0.001);
  if (name == "op") return use_of_operation(file, row);
  if (name == "l2_side") {
    const std::string& side = row.condition("side");
    return {
        {{"cas " + side, kPlaced, Statistic::kMedian}, {"l2 spread", kWidth, Statistic::kWidth}},
        {}};
  }
  if (name == "l2_load_written") {
    const bool near = row.condition("side") == "near";
    if (near) return use("load near", kPlaced);
    const bool by_other = row.condition("written_by") == "an SM of the other side";
    return use(by_other ? "load written far" : "load passed far", kPlaced);
  }
  if (name == "l2_load_again") return unused("second loads of lines that the first brought near");
  if (name == "load") {
    const std::string& kind = row.condition("load");
    if (kind.starts_with("acquire")) return unused("acquire loads: no model has them");
    if (where == "l2") return unused("the same chains of loads, timed one by one");
    if (where == "hbm") return use("load hbm", kPlaced);
    if (where == "host") return unused("host lines of many homes: the models have one latency");
    return unused("loads from the L1, or of near and far lines mixed");
  }
  if (name == "load_avg")
    return where == "l2" && !row.condition("load").starts_with("acquire")
               ? use("load near", kMixture)  // the chain's arithmetic is in it
               : unused("chains of loads, timed as a whole");
  if (name == "atomic_add_interval")
    return whole(row, "blocks") >= 8 && whole(row, "warps") >= 16
               ? use("atomic interval", kRate)
               : unused("adds that do not saturate a word");
  if (name == "publish_interval")
    return unused("puts by many warps: the program's own costs are in them");
  if (name == "sm_pingpong_rtt") {
    const std::string& sides = row.condition("sides");
    if (!row.condition("load").empty() && row.condition("load") != "none")
      return unused("ping-pongs beside a copy: no model has the copy engine");
    return sides.empty() ? unused("ping-pongs between SMs whose sides are not known")
                         : use("sm pingpong " + sides, kPhase);
  }
  if (name == "gpu_cpu_pingpong_rtt")
    return row.condition("load").empty() || row.condition("load") == "none"
               ? use("host pingpong", kAlike)
               : unused("ping-pongs beside a copy: no model has the copy engine");
  if (name == "copy_engine_bw")
    return whole(row, "bytes") >= (16U << 20)
               ? use(row.condition("dir") == "h2d" ? "read rate mps" : "write rate mps", kRate)
               : unused("copies that do not saturate the link");
  if (name == "store_host_bw" && whole(row, "fence_every") == 0 && whole(row, "blocks") >= 8 &&
      whole(row, "threads") >= 256)
    return use("write rate line", kRate);
  if (name == "load_host_bw" && whole(row, "blocks") >= 8) return use("read rate line", kRate);
  if (name.starts_with("store_host") || name.starts_with("doorbell_like") ||
      name.starts_with("load_host"))
    return unused("host traffic below the link's rate: no model has the SM's limits");
  if (name == "copy_engine" || name.starts_with("peer_") || name.starts_with("l2_") ||
      name == "gpu_cpu_pingpong_polls" || name == "globaltimer_step" || name == "host_clock_none" ||
      name == "event_none")
    return unused(name.starts_with("peer_") ? "rows between two GPUs"
                                            : "facts and costs of the measurement itself");
  if (name.starts_with("launch") || name.starts_with("kernel_") || name.starts_with("host_flag"))
    return unused("launches: marrow validate --measurements validate/measurements/launch");
  return unused("rows of names that are not known");
}

double statistic_of(const ProbeRow& row, Statistic statistic) {
  switch (statistic) {
    case Statistic::kMin:
      return row.min;
    case Statistic::kP10:
      return row.p10;
    case Statistic::kMedian:
      return row.median;
    case Statistic::kP90:
      return row.p90;
    case Statistic::kWidth:
      return row.p90 - row.p10;
    case Statistic::kLowerWidth:
      return row.median - row.p10;
  }
  return 0;
}

bool is_width(Statistic statistic) {
  return statistic == Statistic::kWidth || statistic == Statistic::kLowerWidth;
}

// ---- predicting ---------------------------------------------------------------------------------

constexpr std::size_t kLines = 64;
constexpr std::uint64_t kGapCycles = 6000;  // idle between operations
constexpr double kSettleCycles = 6000;      // until what lies before is done

enum BenchWord : std::uint32_t { kTicket, kEntry, kBell, kAnswer, kLine, kPage, kHostLine };

Step step_of(StepOp op, std::uint32_t word = 0) {
  Step step;
  step.op = op;
  step.word = word;
  return step;
}
Step stage(Stage name) {
  Step step = step_of(StepOp::kStage);
  step.stage = name;
  return step;
}
Step store(std::uint32_t word, std::uint32_t bytes, std::uint32_t count = 1) {
  Step step = step_of(StepOp::kStore, word);
  step.bytes = bytes;
  step.count = count;
  step.value = Value::kNext;
  return step;
}
Step load(std::uint32_t word) { return step_of(StepOp::kLoad, word); }
Step fence(Scope scope) {
  Step step = step_of(StepOp::kFence);
  step.scope = scope;
  return step;
}
Step compute(double cycles) {
  Step step = step_of(StepOp::kCompute);
  step.cycles = cycles;
  return step;
}
Step exchange(std::uint32_t word) {
  Step step = step_of(StepOp::kAtomic, word);
  step.atomic = AtomicOp::kExchange;
  step.value = Value::kNext;
  return step;
}

/// A put whose `wqe` stage is what is timed; behind it a flag lets it complete.
config::Recipe recipe_of(const std::vector<Step>& before, const std::vector<Step>& timed,
                         ConsumerProgram::Where with) {
  config::Recipe recipe;
  Program& program = recipe.program;
  program.protocol = "probe";
  program.depth = kLines;
  const MemoryKind flags =
      with == ConsumerProgram::Where::kCpu ? MemoryKind::kHost : MemoryKind::kGpu;
  struct Place {
    const char* name;
    MemoryKind memory;
    std::uint32_t entry_bytes;
  };
  const Place places[] = {{"ticket", MemoryKind::kGpu, 0},
                          {"entry", flags, 64},
                          {"bell", flags, 0},
                          {"answer", flags, 0},
                          {"line", MemoryKind::kGpu, 128},
                          {"page", MemoryKind::kGpu, 4096},
                          {"host line", MemoryKind::kHost, 128}};
  for (const Place& place : places) {
    Word word;
    word.name = place.name;
    word.region = static_cast<std::uint32_t>(program.regions.size());
    word.entry_bytes = place.entry_bytes;
    word.entries = place.entry_bytes ? program.depth : 0;
    program.regions.push_back(
        {place.name, place.memory,
         std::max<std::uint64_t>(4096, std::uint64_t{program.depth} * place.entry_bytes)});
    program.words.push_back(word);
  }
  for (const std::uint32_t word : {kEntry, kBell, kAnswer})
    program.words[word].consumer_reads = true;
  auto& steps = program.of(OpKind::kPut);
  Step ticket = step_of(StepOp::kAtomic, kTicket);
  ticket.value = Value::kOne;
  ticket.reg = 0;
  ticket.is_index = true;
  Step poll = step_of(StepOp::kPoll, kAnswer);
  steps = {stage(Stage::kSlot), ticket};
  steps.insert(steps.end(), before.begin(), before.end());
  // Nothing is on its way when the timed steps begin.
  steps.insert(steps.end(), {fence(Scope::kSys), compute(kSettleCycles), stage(Stage::kWqe)});
  steps.insert(steps.end(), timed.begin(), timed.end());
  steps.insert(steps.end(),
               {stage(Stage::kDoorbellRegister), store(kBell, 8), stage(Stage::kPoll), poll, {}});
  ConsumerProgram& consumer = program.consumer;
  consumer.where = with;
  consumer.announcement = kBell;
  consumer.entry = kEntry;
  consumer.completion = kAnswer;
  consumer.groups = {{{0}, {0}, false}};
  return recipe;
}

/// Where a median is asked, what varies stands at its middle.
config::SystemSpec still(config::SystemSpec spec) {
  if (!spec.has_gpu)
    throw InputError("the system", "has no GPU", "use a system with gpu.* parameters");
  spec.gpu.jitter_cycles = spec.gpu.distance_spread_cycles = spec.pcie.jitter_ns = 0;
  spec.host.notice_spread_ns = 0;
  // One machine stands alone.
  spec.has_nic = false;
  return spec;
}

class Taken : public Observer {
 public:
  explicit Taken(bool answer) : answer_(answer) {}
  void on_journey(const Journey& journey) override {
    // From the flag's issue on, its store included.
    ps.push_back(answer_ ? journey.at(Stage::kDoorbellRegister) + journey.waited_ps
                         : journey.at(Stage::kWqe));
  }
  std::vector<Ps> ps;

 private:
  bool answer_;
};

Ps median_of(std::vector<Ps> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double rate_gb_per_s(const PcieSpec& pcie, pcie::TlpKind kind, std::uint64_t payload) {
  // Long, so that its whole picoseconds do not matter.
  constexpr std::uint64_t kTlps = 1'000'000;
  const pcie::Duplex link(pcie);
  return static_cast<double>(payload * kTlps) * 1000 /
         static_cast<double>(link.length_ps({kind, kTlps, payload * kTlps}));
}

using Model = std::function<double(GpuProbe&)>;

const std::map<std::string, Model>& models() {
  static const std::map<std::string, Model> table = [] {
    std::map<std::string, Model> all;
    const auto op = [&](const std::string& name, const std::vector<Step>& timed, bool far = false,
                        const std::vector<Step>& before = {}) {
      all[name] = [=](GpuProbe& bench) { return bench.cycles(before, timed, far); };
    };
    const std::vector<Step> st64 = {store(kLine, 16, 4)};
    const auto then = [](std::vector<Step> first, const Step& last) {
      first.push_back(last);
      return first;
    };
    op("fence.cta", {fence(Scope::kCta)});
    op("fence.gpu", {fence(Scope::kGpu)});
    op("fence.sys", {fence(Scope::kSys)});
    op("st8+fence.cta", {store(kLine, 8), fence(Scope::kCta)});
    op("st8+fence.sys", {store(kLine, 8), fence(Scope::kSys)});
    op("st64+fence.sys", then(st64, fence(Scope::kSys)));
    op("st64+fence.sys less one", {store(kLine, 16, 3), fence(Scope::kSys)});
    op("both+fence.gpu", then({st64[0], store(kHostLine, 8)}, fence(Scope::kGpu)));
    op("both+fence.sys", then({st64[0], store(kHostLine, 8)}, fence(Scope::kSys)));
    op("st8+fence.sys host", {store(kHostLine, 8), fence(Scope::kSys)});
    op("st8+fence.gpu host", {store(kHostLine, 8), fence(Scope::kGpu)});
    for (const bool far : {false, true}) {
      const std::string side = far ? " far" : " near";
      op("st8+fence.gpu" + side, {store(kLine, 8), fence(Scope::kGpu)}, far);
      op("st64+fence.gpu" + side, then(st64, fence(Scope::kGpu)), far);
      op("cas" + side, {exchange(kLine)}, far);
    }
    op("st64(8x8)", {store(kLine, 8, 8)});
    op("st64(8x8) less one", {store(kLine, 8, 7)});
    op("st64(4x16) less one", {store(kLine, 16, 3)});
    op("load near", {load(kLine)}, false, {store(kLine, 8)});
    op("load passed far", {load(kLine)}, true, {store(kLine, 8)});
    // Changed at its home, past no copy: as by an SM of the other side.
    op("load written far", {load(kLine)}, true, {exchange(kLine)});
    op("load hbm", {load(kPage)});
    op("load host", {load(kHostLine)});
    all["load host p10"] = [](GpuProbe& bench) {
      return bench.predict("load host") - bench.predict("host jitter");
    };
    for (const bool other : {false, true})
      all[other ? "sm pingpong other" : "sm pingpong same"] = [=](GpuProbe& bench) {
        return bench.pingpong_cycles(ConsumerProgram::Where::kSm, other);
      };
    all["host pingpong"] = [](GpuProbe& bench) {
      return bench.pingpong_cycles(ConsumerProgram::Where::kCpu, false);
    };
    const auto closed = [&](const char* name, auto expression) {
      all[name] = [=](GpuProbe& bench) { return expression(bench.spec()); };
    };
    using Spec = config::SystemSpec;
    const auto cycles_of_l2 = [](const Spec& s) { return s.gpu.sm_clock_ghz / s.gpu.l2_clock_ghz; };
    closed("sm clock", [](const Spec& s) { return s.gpu.sm_clock_ghz; });
    closed("l2 spread", [=](const Spec& s) {
      return 2 * kUniform80 * s.gpu.distance_spread_cycles * cycles_of_l2(s);
    });
    closed("l2 jitter",
           [=](const Spec& s) { return 2 * kUniform80 * s.gpu.jitter_cycles * cycles_of_l2(s); });
    closed("host jitter",
           [](const Spec& s) { return kUniform80 * s.pcie.jitter_ns * s.gpu.sm_clock_ghz; });
    closed("atomic interval",
           [](const Spec& s) { return s.gpu.atomic_interval_cycles / s.gpu.l2_clock_ghz; });
    // SMs write and read host memory in whole lines, the copy engine in the largest payloads.
    constexpr std::uint64_t kLineBytes = Placement::kLineBytes;
    closed("write rate line",
           [](const Spec& s) { return rate_gb_per_s(s.pcie, pcie::TlpKind::kMemWr, kLineBytes); });
    closed("read rate line",
           [](const Spec& s) { return rate_gb_per_s(s.pcie, pcie::TlpKind::kCplD, kLineBytes); });
    closed("write rate mps", [](const Spec& s) {
      return rate_gb_per_s(s.pcie, pcie::TlpKind::kMemWr,
                           static_cast<std::uint64_t>(s.pcie.mps_bytes));
    });
    closed("read rate mps", [](const Spec& s) {
      return rate_gb_per_s(s.pcie, pcie::TlpKind::kCplD,
                           static_cast<std::uint64_t>(s.pcie.mps_bytes));
    });
    return all;
  }();
  return table;
}

}  // namespace

const std::string& ProbeRow::condition(const std::string& key) const {
  static const std::string none;
  const auto it = conditions.find(key);
  return it == conditions.end() ? none : it->second;
}

ProbeFile load_probe(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw InputError(path, "cannot be read", "name a file that marrow-probe wrote");
  ProbeFile file;
  file.path = path;
  std::size_t number = 0;
  for (std::string written; std::getline(in, written);) {
    const std::string place = fmt::format("{}:{}", path, ++number);
    if (written.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json line = json::parse(written, nullptr, false);
    if (!line.is_object() || !line.contains("name") || !line["name"].is_string())
      throw InputError(place, "is no row of a probe",
                       "a probe's file has a JSON object with a \"name\" on every line; "
                       "marrow-probe writes one");
    if (number == 1) {
      if (line["name"] != "device")
        throw InputError(
            place,
            "begins with a row of name '" + line["name"].get<std::string>() + "', not 'device'",
            "a probe's first line is its header: is the file cut?");
      read_header(line, file);
      continue;
    }
    if (!line.contains("median")) continue;  // a map or a list, no quantity
    file.rows.push_back(row_of(line, place));
    const ProbeRow& row = file.rows.back();
    if (row.name == "op" && row.condition("op") == "none") file.none_cycles = row.median;
    file.whole = row.name == "sm_clock" && row.condition("when") == "end";
  }
  std::map<std::map<std::string, std::string>, double> each;
  for (const ProbeRow& row : file.rows) {
    if (row.name == "load" && row.condition("where") == "l2") each[row.conditions] = row.median;
    if (row.name == "load_avg" && each.count(row.conditions))
      file.stamp_cycles = each[row.conditions] - row.median;
  }
  if (file.rows.empty())
    throw InputError(path, "has no rows", "name a file that marrow-probe wrote");
  return file;
}

std::string_view name(Statistic statistic) {
  switch (statistic) {
    case Statistic::kMin:
      return "min";
    case Statistic::kP10:
      return "p10";
    case Statistic::kMedian:
      return "median";
    case Statistic::kP90:
      return "p90";
    case Statistic::kWidth:
      return "p10 to p90";
    case Statistic::kLowerWidth:
      return "p10 to median";
  }
  return "";
}

std::string label_of(const ProbeRow& row) {
  std::string label = row.name;
  const char* between = " ";
  for (const char* key : {"op", "side", "written_by", "where", "footprint", "load", "sides", "dir",
                          "bytes", "blocks", "warps", "threads"})
    if (const std::string& value = row.condition(key); !value.empty()) {
      label += between + value;
      if (std::string_view(key) == "bytes" || std::string_view(key) == "footprint") label += " B";
      if (std::string_view(key) == "blocks" || std::string_view(key) == "warps" ||
          std::string_view(key) == "threads")
        label += std::string(" ") + key;
      between = ", ";
    }
  return label;
}

ProbeReading read_quantities(const ProbeFile& file, const config::SystemSpec& spec) {
  ProbeReading reading;
  const double between = (spec.gpu.near_cycles + spec.gpu.far_cycles) / 2;
  for (std::size_t r = 0; r < file.rows.size(); ++r) {
    const ProbeRow& row = file.rows[r];
    Use what = use_of(file, row);
    if (what.reason.empty() && row.median_high > row.median_low * (1 + kUnsteady))
      what = unused("rows whose rounds measured two things");
    if (!what.reason.empty()) {
      ++reading.unpredicted[what.reason];
      continue;
    }
    const bool cycles = row.unit == "cycles";
    for (const Use::Part& part : what.parts) {
      ProbeQuantity quantity;
      quantity.row = r;
      quantity.statistic = part.statistic;
      quantity.model = part.model;
      if (!is_width(part.statistic))
        quantity.overhead = row.overhead.value_or(row.name == "load" ? file.stamp_cycles
                                                  : row.name == "op" ? file.none_cycles
                                                                     : 0);
      quantity.measured = statistic_of(row, part.statistic) - quantity.overhead;
      const double rounds = (row.median_high - row.median_low) / (2 * kHalf90);
      const double whole_cycles = cycles ? 0.5 : 0;
      quantity.uncertainty =
          std::sqrt(std::pow(part.relative * quantity.measured, 2) +
                    (part.statistic == Statistic::kMedian ? rounds * rounds : 0) +
                    whole_cycles * whole_cycles);
      if (quantity.model == kUnknownSide)
        quantity.model = quantity.measured < between ? "cas near" : "cas far";
      if (quantity.measured > 0)
        reading.quantities.push_back(quantity);
      else
        ++reading.unpredicted["rows no longer than the measurement's own cost, or without width"];
    }
  }
  return reading;
}

GpuProbe::GpuProbe(const config::SystemSpec& spec) : spec_(spec), machine_(still(spec)) {}

double GpuProbe::predict(const std::string& model) {
  const auto found = known_.find(model);
  if (found != known_.end()) return found->second;
  return known_[model] = models().at(model)(*this);
}

double GpuProbe::run(const config::Recipe& recipe, std::size_t repeats, std::uint64_t gap_cycles,
                     const std::function<void(Placement&)>& place, bool pingpong) {
  trace::Run run;
  run.name = "probe";
  run.queues = 1;
  run.lanes.push_back({0, 0, 0});
  Taken taken(pingpong);
  std::size_t done = 0;
  sim::RunSetup setup;
  setup.recipe = &recipe;
  setup.run = &run;
  setup.observer = &taken;
  setup.place = [&](const QueueLayout&, Placement& placement) { place(placement); };
  setup.next_op = [&](std::uint32_t, gpu::Op& put) {
    // Every time the two polling loops meet at another phase.
    constexpr std::uint64_t kPhaseCycles = 7;
    put = {OpKind::kPut, 0, false, true, gap_cycles + (pingpong ? done * kPhaseCycles : 0)};
    return done++ < repeats;
  };
  machine_.run(setup);
  return static_cast<double>(median_of(std::move(taken.ps))) * spec_.gpu.sm_clock_ghz / 1000;
}

double GpuProbe::cycles(const std::vector<Step>& before, const std::vector<Step>& timed, bool far) {
  constexpr std::size_t kRepeats = 3;  // they are alike
  return run(
      recipe_of(before, timed, ConsumerProgram::Where::kSm), kRepeats, kGapCycles,
      [far](Placement& placement) { placement.put_all(far); }, false);
}

double GpuProbe::pingpong_cycles(ConsumerProgram::Where with, bool other_side) {
  constexpr std::size_t kRepeats = 101;  // of the phases at which the loops meet
  // One SM after the other, or with the host the probe's own pause.
  const std::uint64_t gap_cycles = with == ConsumerProgram::Where::kCpu ? 20000 : 0;
  return run(
      recipe_of({}, {}, with), kRepeats, gap_cycles,
      [other_side](Placement& placement) {
        placement.put_all(false);
        // The issuing warp runs on SM 0; the other is elsewhere.
        for (std::uint32_t sm = 1; other_side && sm < placement.sms(); ++sm)
          placement.set_sm_side(sm, true);
      },
      true);
}

}  // namespace marrow::validate
