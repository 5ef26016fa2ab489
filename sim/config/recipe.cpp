#include "sim/config/recipe.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "models/common/error.h"
#include "sim/config/yaml_source.h"

namespace marrow::config {

namespace {

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

const Names<AtomicOp> kAtomicNames = {{"add", AtomicOp::kAdd},
                                      {"cas", AtomicOp::kCas},
                                      {"max", AtomicOp::kMax},
                                      {"exchange", AtomicOp::kExchange}};
const Names<Scope> kScopeNames = {
    {"none", Scope::kNone}, {"cta", Scope::kCta}, {"gpu", Scope::kGpu}, {"sys", Scope::kSys}};
const Names<Value> kValueNames = {{"0", Value::kZero},
                                  {"1", Value::kOne},
                                  {"index", Value::kIndex},
                                  {"next", Value::kNext},
                                  {"entries", Value::kEntries},
                                  {"mlx5_doorbell", Value::kDoorbell},
                                  {"mlx5_record", Value::kRecord},
                                  {"register", Value::kRegister},
                                  {"register_next", Value::kRegisterNext},
                                  {"completed", Value::kCompleted},
                                  {"version", Value::kVersion},
                                  {"submitted", Value::kSubmitted}};
const Names<EntryForm> kEntryNames = {{"write", EntryForm::kWrite},
                                      {"write_inline", EntryForm::kWriteInline},
                                      {"read", EntryForm::kRead},
                                      {"fetch_add", EntryForm::kFetchAdd},
                                      {"masked_fetch_add", EntryForm::kMaskedFetchAdd},
                                      {"masked_fetch_add_4", EntryForm::kMaskedFetchAdd4},
                                      {"masked_swap", EntryForm::kMaskedSwap},
                                      {"nop", EntryForm::kNop},
                                      {"dump", EntryForm::kDump}};
const Names<Encoding> kEncodingNames = {{"plain", Encoding::kPlain},
                                        {"wqe_counter", Encoding::kWqeCounter},
                                        {"owner", Encoding::kOwner}};
const Names<Owner> kOwnerNames = {
    {"queue", Owner::kQueue}, {"lane", Owner::kLane}, {"all", Owner::kAll}};
const Names<NicProgram::Completion> kCompletionNames = {
    {"plain", NicProgram::Completion::kPlain}, {"collapsed", NicProgram::Completion::kCollapsed}};
const Names<MemoryKind> kMemoryNames = {{"gpu", MemoryKind::kGpu},
                                        {"host", MemoryKind::kHost},
                                        {"peer", MemoryKind::kPeer},
                                        {"nic", MemoryKind::kNic}};
const Names<Until> kUntilNames = {{"slot_free", Until::kSlotFree}, {"completed", Until::kCompleted},
                                  {"reached", Until::kReached},    {"signalled", Until::kSignalled},
                                  {"answered", Until::kAnswered},  {"present", Until::kPresent},
                                  {"advanced", Until::kAdvanced},  {"ended", Until::kEnded}};
const Names<CopyWay> kCopyNames = {{"to_host", CopyWay::kToHost},
                                   {"from_host", CopyWay::kFromHost},
                                   {"in_host", CopyWay::kInHost}};
const Names<Condition> kConditionNames = {{"ring_wrapped", Condition::kRingWrapped},
                                          {"batch_boundary", Condition::kBatchBoundary},
                                          {"multiple", Condition::kMultiple},
                                          {"newest_or_multiple", Condition::kNewestOrMultiple},
                                          {"advanced", Condition::kAdvanced},
                                          {"waits", Condition::kWaits},
                                          {"waits_not", Condition::kWaitsNot},
                                          {"rang_not", Condition::kRangNot},
                                          {"behind", Condition::kBehind},
                                          {"single", Condition::kSingle},
                                          {"several", Condition::kSeveral},
                                          {"outstanding", Condition::kOutstanding}};
const Names<ConsumerProgram::Where> kWhereNames = {{"sm", ConsumerProgram::Where::kSm},
                                                   {"cpu", ConsumerProgram::Where::kCpu},
                                                   {"peer", ConsumerProgram::Where::kPeer}};
const Names<Evidence> kEvidenceNames = {{"measured", Evidence::kMeasured},
                                        {"published", Evidence::kPublished},
                                        {"derived", Evidence::kDerived},
                                        {"fitted", Evidence::kFitted},
                                        {"assumed", Evidence::kAssumed}};

/// Reads one recipe; keeps what names mean while it goes.
class Reader {
 public:
  Reader(const std::string& file, const std::map<std::string, std::string>& choices,
         const std::vector<std::string>& sets)
      : root_(YamlNode::open(file)), asked_(choices) {
    for (const std::string& assignment : sets) {
      const auto equals = assignment.find('=');
      if (equals == std::string::npos || equals == 0)
        throw InputError("--set protocol." + assignment, "not an assignment",
                         "write protocol.NAME=VALUE");
      std::string key = assignment.substr(0, equals);
      std::string operation;
      if (std::string("+-*").find(key.back()) != std::string::npos) {
        operation = key.back();
        key.pop_back();
      }
      sets_[key] = assignment.substr(equals + 1);
      operations_[key] = operation;
    }
  }

  Recipe read() {
    root_.only({"protocol",      "description", "runs_on",    "choices", "costs",
                "costs_by",      "depth",       "queues",     "regions", "words",
                "parts",         "put",         "put_signal", "get",     "atomic",
                "fence",         "quiet",       "wait",       "barrier", "consumer",
                "peer_consumer", "nic",         "placed_by",  "proxy",   "kernel"});
    recipe_.file = root_.file();
    recipe_.program.protocol = root_.at("protocol").text();
    if (auto d = root_.find("description")) recipe_.description = d->text();
    if (auto runs_on = root_.find("runs_on"))
      recipe_.program.on_cpu = pick(*runs_on, Names<bool>{{"gpu", false}, {"cpu", true}});
    read_choices();
    read_costs();
    if (auto depth = root_.find("depth")) {
      const double entries = parse_number(resolve(*depth), depth->place(), "depth");
      if (entries < 1 || entries > 1 << 20 || entries != static_cast<std::uint32_t>(entries))
        refuse(*depth, {"depth"}, "depth is no number of entries",
               "write a whole number, 1 to " + std::to_string(1 << 20));
      recipe_.program.depth = static_cast<std::uint32_t>(entries);
    }
    if (recipe_.choices.count("batch"))
      recipe_.program.batch = static_cast<std::uint32_t>(
          parse_number(recipe_.choices.at("batch"), root_.file(), "batch"));
    read_regions();
    read_words();
    if (auto queues = root_.find("queues"))
      recipe_.program.queues_by_peer =
          pick(*queues, Names<bool>{{"by_peer", true}, {"one_by_peer", true}, {"numbered", false}});
    if (recipe_.program.queues_by_peer)
      recipe_.program.one_queue = root_.at("queues").text() == "one_by_peer";
    const auto consumer = root_.find("consumer");
    const auto nic = root_.find("nic");
    if (!consumer == !nic)
      root_.fail("a recipe says what takes its entries: `nic:` or `consumer:`",
                 consumer ? "keep one of them" : "add one of them");
    if (nic)
      if (auto transport = nic->find("transport"))
        recipe_.program.nic.dc = pick(*transport, Names<bool>{{"dc", true}, {"rc", false}});
    // A DC initiator serves every peer.
    if (recipe_.program.nic.dc) recipe_.program.queues_by_peer = false;
    if (auto proxy = root_.find("proxy")) read_proxy(*proxy, nic.has_value());
    root_.at("put");
    for (std::size_t kind = 0; kind < kOpKindCount; ++kind)
      if (auto section = root_.find(std::string(kOpKindNames[kind])))
        read_operation(static_cast<OpKind>(kind), *section);
    const auto& regions = recipe_.program.regions;
    const bool to_peer = std::any_of(regions.begin(), regions.end(), [](const Region& region) {
      return region.memory == MemoryKind::kPeer;
    });
    if (auto kernel = root_.find("kernel")) read_kernel(*kernel);
    for (const auto& steps : recipe_.program.steps)
      for (const Step& step : steps) check_submission(step);
    if (recipe_.program.on_cpu && !nic)
      root_.fail("a CPU thread posts to a NIC", "add `nic:`, or take out `runs_on: cpu`");
    for (const Region& region : recipe_.program.regions)
      if (!nic && region.memory == MemoryKind::kNic)
        refuse(root_.at("regions"), {region.name + ".memory"},
               "region '" + region.name + "' lies in a NIC, and the recipe has none",
               "put it into memory: gpu or host");
    if (consumer) read_consumer(to_peer ? root_.at("peer_consumer") : *consumer);
    if (nic) read_nic(*nic);
    read_placed_by();
    for (const auto& [key, value] : sets_)
      if (!used_.count(key)) {
        std::vector<std::string_view> known(settable_.begin(), settable_.end());
        const std::string near = nearest(key, known);
        throw InputError("--set protocol." + key,
                         "recipe " + recipe_.program.protocol + " (" + root_.file() +
                             ") has nothing of that name to set",
                         near.empty() ? "`marrow config show " + root_.file() +
                                            "` lists what can be set; change the rest in a copy "
                                            "of the recipe"
                                      : "nearest: protocol." + near);
      }
    note_changed();
    for (const auto& [key, operation] : operations_)
      if (!operation.empty())
        throw InputError("--set protocol." + key + operation + "=",
                         "only costs take += -= *=", "write protocol." + key + "=VALUE");
    return std::move(recipe_);
  }

 private:
  void note_changed() {
    for (const auto& [name, value] : recipe_.choices)
      if (sets_.count(name))
        recipe_.changed["--set protocol." + name] = in_force_.count(name) > 0;
      else if (value != defaults_.at(name))
        recipe_.changed["choice " + name + "=" + value + " of the trace"] =
            in_force_.count(name) > 0;
    for (const RecipeCost& cost : recipe_.costs)
      if (sets_.count(cost.key))
        recipe_.changed["--set protocol." + cost.key] = in_force_.count(cost.key) > 0;
  }

  /// A scalar's text, with $choice replaced by what is chosen and `id.field` by what was set.
  std::string resolve(const YamlNode& node, const std::string& set_key = "") {
    if (!set_key.empty()) {
      settable_.insert(set_key);
      if (auto it = sets_.find(set_key); it != sets_.end()) {
        used_.insert(set_key);
        return it->second;
      }
    }
    std::string text = node.text();
    if (text.empty() || text[0] != '$') return text;
    in_force_.insert(text.substr(1));
    const auto it = recipe_.choices.find(text.substr(1));
    if (it == recipe_.choices.end())
      node.fail("unknown choice '" + text + "'", "declare it under `choices:`");
    return it->second;
  }

  /// Complains about the --set where that gave the value, else about the recipe.
  [[noreturn]] void refuse(const YamlNode& node, const std::vector<std::string>& set_keys,
                           const std::string& problem, const std::string& mend) {
    for (const std::string& key : set_keys)
      if (auto it = sets_.find(key); it != sets_.end())
        throw InputError("--set protocol." + key + "=" + it->second, problem, mend);
    node.fail(problem, mend);
  }

  template <class T>
  T pick(const YamlNode& node, const Names<T>& names, const std::string& set_key = "") {
    const std::string text = resolve(node, set_key);
    std::vector<std::string_view> known;
    for (const auto& [name, value] : names) {
      if (name == text) return value;
      known.push_back(name);
    }
    std::string list;
    for (auto name : known) list += (list.empty() ? "" : ", ") + std::string(name);
    refuse(node, {set_key}, "'" + text + "' is none of " + list, "write one of these");
  }

  std::int64_t whole(const YamlNode& node, std::int64_t min, std::int64_t max,
                     const std::string& set_key = "") {
    const std::string text = resolve(node, set_key);
    const bool set = sets_.count(set_key) > 0;
    const double value =
        parse_number(text, set ? "--set protocol." + set_key + "=" + text : node.place(),
                     set ? "" : node.path());
    if (value < static_cast<double>(min) || value > static_cast<double>(max) ||
        value != static_cast<double>(static_cast<std::int64_t>(value)))
      refuse(node, {set_key}, "'" + text + "' does not fit",
             "write a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    return static_cast<std::int64_t>(value);
  }

  void read_choices() {
    const auto section = root_.find("choices");
    std::vector<std::string> names;
    if (section)
      for (const auto& [name, node] : section->entries()) {
        node.only({"allowed", "default"});
        names.push_back(name);
        std::string value = node.at("default").text();
        std::string place = node.place();
        defaults_[name] = value;
        if (auto it = asked_.find(name); it != asked_.end()) value = it->second;
        settable_.insert(name);
        if (auto it = sets_.find(name); it != sets_.end()) {
          used_.insert(name);
          value = it->second;
          place = "--set protocol." + name + "=" + value;
        }
        if (auto allowed = node.find("allowed")) {
          std::string list;
          bool found = false;
          for (const YamlNode& item : allowed->items()) {
            found |= item.text() == value;
            list += (list.empty() ? "" : ", ") + item.text();
          }
          recipe_.allowed[name] = list;
          if (!found)
            throw InputError(place, "choice " + name + " = '" + value + "' is not allowed",
                             "one of " + list);
        } else {
          recipe_.allowed[name] = "1 to 1000000";
          const double number = parse_number(value, place, name);
          if (number < 1 || number > 1e6 ||
              number != static_cast<double>(static_cast<long>(number)))
            throw InputError(place, "choice " + name + " = '" + value + "'",
                             "write a whole number from 1 to 1000000");
        }
        recipe_.choices[name] = value;
      }
    for (const auto& [name, value] : asked_)
      if (!recipe_.choices.count(name)) {
        std::vector<std::string_view> known(names.begin(), names.end());
        const std::string near = nearest(name, known);
        throw InputError(root_.file(), "the recipe has no choice '" + name + "'",
                         near.empty() ? "take it out of the trace's choices" : "nearest: " + near);
      }
  }

  void read_costs() {
    const auto section = root_.find("costs");
    if (!section) return;
    const std::map<std::string, YamlNode> of_choices = costs_by_choice(*section);
    for (const auto& [name, node] : section->entries()) {
      const auto other = of_choices.find(name);
      RecipeCost cost = read_cost(name, other == of_choices.end() ? node : other->second);
      settable_.insert(name);
      if (auto it = sets_.find(name); it != sets_.end()) {
        used_.insert(name);
        const std::string operation = std::exchange(operations_[name], "");
        const std::string place = "--set protocol." + name + operation + "=" + it->second;
        const double given = parse_number(it->second, place, "");
        cost.value = operation == "+"   ? cost.value + given
                     : operation == "-" ? cost.value - given
                     : operation == "*" ? cost.value * given
                                        : given;
        if (cost.value < 0)
          throw InputError(place, "the cost would be negative", "write 0 or more");
        cost.evidence = Evidence::kAssumed;
        cost.source = cost.place = "--set";
      }
      recipe_.costs.push_back(cost);
    }
  }

  /// What `costs_by:` puts in the place of costs under the choices in force.
  std::map<std::string, YamlNode> costs_by_choice(const YamlNode& costs) {
    std::map<std::string, YamlNode> in_force;
    const auto section = root_.find("costs_by");
    if (!section) return in_force;
    for (const auto& [choice, values] : section->entries()) {
      in_force_.insert(choice);
      const auto chosen = recipe_.choices.find(choice);
      if (chosen == recipe_.choices.end())
        values.fail("the recipe has no choice '" + choice + "'", "declare it under `choices:`");
      for (const auto& [value, others] : values.entries()) {
        if (!allows(root_.at("choices").at(choice), value))
          others.fail("choice " + choice + " is never '" + value + "'",
                      "one of " + recipe_.allowed[choice]);
        for (const auto& [name, node] : others.entries()) {
          read_cost(name, node);
          if (!costs.has(name))
            node.fail("there is no cost '" + name + "' to stand in for",
                      "declare it under `costs:` with its usual value");
          if (value == chosen->second && !in_force.emplace(name, node).second)
            node.fail("cost '" + name + "' hangs on two choices at once", "keep one of them");
        }
      }
    }
    return in_force;
  }

  static bool allows(const YamlNode& choice, const std::string& value) {
    const auto allowed = choice.find("allowed");
    if (!allowed) return true;
    const std::vector<YamlNode> items = allowed->items();
    return std::any_of(items.begin(), items.end(),
                       [&](const YamlNode& item) { return item.text() == value; });
  }

  RecipeCost read_cost(const std::string& name, const YamlNode& node) {
    node.only({"value", "measured", "published", "derived", "fitted", "assumed"});
    RecipeCost cost;
    cost.key = name;
    cost.place = node.place();
    if (unit_of(name) != "cycles" && unit_of(name) != "ns")
      node.fail("cost '" + name + "' has no unit", "end its name with _cycles or _ns");
    int sources = 0;
    for (const auto& [evidence_name, evidence] : kEvidenceNames)
      if (auto source = node.find(evidence_name)) {
        ++sources;
        cost.evidence = evidence;
        cost.source = source->text();
      }
    if (recipe_.program.on_cpu && unit_of(name) != "ns")
      node.fail("cost '" + name + "' is a CPU thread's", "give it in ns: its name ends with _ns");
    if (sources != 1)
      node.fail("cost '" + name + "' needs exactly one source",
                "add measured, published, derived, fitted or assumed with its text");
    cost.value = node.at("value").number(0, 1e6);
    return cost;
  }

  double cost(const YamlNode& node) {
    const std::string key = node.text();
    std::vector<std::string_view> known;
    for (const RecipeCost& c : recipe_.costs) {
      if (c.key == key) {
        in_force_.insert(key);
        return c.value;
      }
      known.push_back(c.key);
    }
    const std::string near = nearest(key, known);
    node.fail("no cost '" + key + "'",
              near.empty() ? "declare it under `costs:` with its source" : "nearest: " + near);
  }

  void read_regions() {
    for (const auto& [name, node] : root_.at("regions").entries()) {
      node.only({"memory", "stride_bytes", "entry_bytes", "owner"});
      Region region;
      region.name = name;
      region.memory = pick(node.at("memory"), kMemoryNames, name + ".memory");
      region.stride_bytes =
          node.has("entry_bytes")  // a ring of the recipe's depth
              ? static_cast<std::uint64_t>(whole(node.at("entry_bytes"), 8, 4096)) *
                    recipe_.program.depth
              : static_cast<std::uint64_t>(whole(node.at("stride_bytes"), 8, 1 << 30));
      if (auto owner = node.find("owner")) region.owner = pick(*owner, kOwnerNames);
      recipe_.program.regions.push_back(region);
    }
  }

  void read_words() {
    for (const auto& [name, node] : root_.at("words").entries()) {
      node.only({"region", "offset_bytes", "bytes", "entry_bytes", "entries", "encoding"});
      Word word;
      word.name = name;
      const std::string region = node.at("region").text();
      const auto& regions = recipe_.program.regions;
      const auto it = std::find_if(regions.begin(), regions.end(),
                                   [&](const Region& r) { return r.name == region; });
      if (it == regions.end()) {
        std::vector<std::string_view> known;
        for (const Region& r : regions) known.push_back(r.name);
        const std::string near = nearest(region, known);
        node.at("region").fail("unknown region '" + region + "'",
                               near.empty() ? "declare it under `regions:`" : "nearest: " + near);
      }
      word.region = static_cast<std::uint32_t>(it - regions.begin());
      if (auto offset = node.find("offset_bytes"))
        word.offset_bytes = static_cast<std::uint64_t>(whole(*offset, 0, 1 << 30));
      word.bytes = static_cast<std::uint32_t>(whole(node.at("bytes"), 1, 64));
      if (auto encoding = node.find("encoding")) word.encoding = pick(*encoding, kEncodingNames);
      if (auto entry = node.find("entry_bytes")) {
        word.entry_bytes = static_cast<std::uint32_t>(whole(*entry, 8, 4096));
        word.entries = recipe_.program.depth;
        if (auto entries = node.find("entries"))
          word.entries = static_cast<std::uint32_t>(whole(*entries, 2, 1 << 20));
      }
      const std::uint64_t end =
          word.offset_bytes + word.bytes +
          static_cast<std::uint64_t>(word.entry_bytes) * (word.entries ? word.entries - 1 : 0);
      if (end > it->stride_bytes)
        node.fail("word '" + name + "' ends at byte " + std::to_string(end) + " of region '" +
                      region + "', whose stride is " + std::to_string(it->stride_bytes),
                  "enlarge stride_bytes or move the word");
      recipe_.program.words.push_back(word);
    }
  }

  std::uint32_t word(const YamlNode& node) {
    const std::string name = node.text();
    std::vector<std::string_view> known;
    const auto& words = recipe_.program.words;
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      if (words[i].name == name) return i;
      known.push_back(words[i].name);
    }
    const std::string near = nearest(name, known);
    node.fail("unknown target '" + name + "'",
              near.empty() ? "declare it under `words:`" : "nearest: " + near);
  }

  std::uint8_t reg(const std::string& name, const YamlNode& node) {
    const auto it = std::find(registers_.begin(), registers_.end(), name);
    if (it != registers_.end()) return static_cast<std::uint8_t>(it - registers_.begin());
    if (registers_.size() == kRegisterCount)
      node.fail("more than " + std::to_string(kRegisterCount) + " results", "use fewer names");
    registers_.push_back(name);
    return static_cast<std::uint8_t>(registers_.size() - 1);
  }
  std::uint8_t known_reg(const YamlNode& node) {
    const std::string name = node.text();
    if (std::find(registers_.begin(), registers_.end(), name) == registers_.end())
      node.fail("no earlier step gives '" + name + "'", "name it as a load's or atomic's result");
    return reg(name, node);
  }

  void result(const YamlNode& node, Step& step) {
    if (auto r = node.find("result")) {
      const std::string name = r->text();
      step.is_index = name == "index";
      step.reg = reg(name, *r);
    }
    if (auto wait = node.find("wait")) step.wait = wait->boolean();
    if (!step.wait && step.reg == kNoRegister)
      node.fail("nothing can wait for this later", "add `result:`");
  }

  void read_operation(OpKind kind, const YamlNode& section) {
    steps_ = &recipe_.program.of(kind);
    const auto k = static_cast<std::size_t>(kind);
    blocks_ = 0;
    last_block_.clear();
    if (section.is_map()) {
      section.only({"lanes", "steps"});
      recipe_.program.lanes[k] = static_cast<std::uint32_t>(whole(section.at("lanes"), 1, 32));
      read_steps(section.at("steps"));
    } else {
      read_steps(section);
    }
    // What a proxy posts for it has been read before.
    if (recipe_.program.proxy.posts[k].empty())
      recipe_.program.entries[k] = blocks_ == 0 && is_message(kind) ? 1 : blocks_;
    for (const Step& step : *steps_)
      if (step.form == EntryForm::kWriteInline) {
        recipe_.program.inlines[k] = true;
        if (step.block != 0)
          section.fail("an inline payload stands behind another entry",
                       "write it as the operation's first entry");
      }
    steps_->push_back({});
    if (recipe_.program.entries[k] > 0 &&
        std::none_of(steps_->begin(), steps_->end(), [](const Step& s) { return s.is_index; }))
      section.fail("no step takes a queue position", "give one atomic `result: index`");
  }

  void read_kernel(const YamlNode& node) {
    node.only({"done", "tail"});
    if (!recipe_.program.on_cpu)
      node.fail("kernels are launched by a CPU thread", "add `runs_on: cpu`, or take it out");
    KernelProgram& kernel = recipe_.program.kernel;
    kernel.present = true;
    const auto needs_host = [&](std::uint32_t w, const YamlNode& at) {
      if (recipe_.program.regions[recipe_.program.words[w].region].memory != MemoryKind::kHost)
        at.fail("a CPU thread polls '" + recipe_.program.words[w].name + "'",
                "put its region into memory: host");
    };
    kernel.done = word(node.at("done"));
    needs_host(kernel.done, node.at("done"));
    if (recipe_.program.words[kernel.done].bytes != 8)
      node.at("done").fail("the word counts what ended", "give it 8 bytes");
    const auto tail = node.find("tail");
    if (!tail) return;
    steps_ = &kernel.tail;
    read_steps(*tail);
    for (const Step& step : kernel.tail) {
      if (step.op != StepOp::kFence && step.op != StepOp::kStore)
        tail->fail("a kernel's tail holds fences and stores", "take the other steps out");
      if (step.op != StepOp::kStore) continue;
      needs_host(step.word, *tail);
      if (step.value != Value::kSubmitted)
        tail->fail("a kernel stores which of the stream's it is", "write value: submitted");
    }
  }

  void check_submission(const Step& step) {
    const bool submits = step.op == StepOp::kLaunch ||
                         (step.op == StepOp::kCopy && step.copy != CopyWay::kInHost) ||
                         (step.op == StepOp::kPoll && step.until == Until::kEnded);
    if (submits && !recipe_.program.kernel.present)
      root_.fail("a step submits to the GPU, or waits for its end, and no word tells that end",
                 "add `kernel: {done: WORD}`");
    if (step.op == StepOp::kCopy && !recipe_.program.on_cpu)
      root_.fail("a payload is copied by a CPU thread", "add `runs_on: cpu`");
  }

  bool is_chosen(const YamlNode& node) {
    bool all = true;
    for (const auto& [choice, wanted] : node.entries()) {
      in_force_.insert(choice);
      const auto it = recipe_.choices.find(choice);
      if (it == recipe_.choices.end())
        node.fail("unknown choice '" + choice + "'", "declare it under `choices:`");
      bool any = false;
      for (const YamlNode& value : wanted.one_or_more()) any |= value.text() == it->second;
      all &= any;
    }
    return all;
  }

  void read_steps(const YamlNode& list) {
    for (const YamlNode& node : list.items()) {
      node.only({"stage", "compute",   "load",  "store",          "atomic", "spin",   "poll", "use",
                 "fence", "own_index", "pick",  "for_each_queue", "part",   "if",     "when", "do",
                 "look",  "then",      "while", "post",           "else",   "launch", "copy"});
      if (auto part = node.find("part")) {
        if (++depth_ > kMostDepth) part->fail("a part contains itself", "take it out there");
        read_steps(root_.at("parts").at(part->text()));
        --depth_;
        continue;
      }
      if (auto chosen = node.find("if")) {
        // Decided by the recipe's choices, once, when it is read.
        if (is_chosen(*chosen)) read_steps(node.at("do"));
        continue;
      }
      if (node.has("look")) {
        read_look(node);
        continue;
      }
      if (auto loop = node.find("while")) {
        const auto begin = static_cast<std::uint32_t>(steps_->size());
        steps_->push_back(read_condition(*loop));
        read_steps(node.at("do"));
        Step back;
        back.op = StepOp::kJump;
        back.target = begin;
        steps_->push_back(back);
        (*steps_)[begin].target = static_cast<std::uint32_t>(steps_->size());
        continue;
      }
      if (auto loop = node.find("for_each_queue")) {
        Step visit;
        visit.op = StepOp::kVisit;
        steps_->push_back(visit);
        Step next;
        next.op = StepOp::kNext;
        next.target = static_cast<std::uint32_t>(steps_->size());
        read_steps(*loop);
        steps_->push_back(next);
        continue;
      }
      if (auto when = node.find("when")) {
        const std::size_t at = steps_->size();
        steps_->push_back(read_condition(*when));
        read_steps(node.at("do"));
        const std::size_t behind = steps_->size();
        const auto otherwise = node.find("else");
        if (otherwise) {
          Step jump;
          jump.op = StepOp::kJump;
          steps_->push_back(jump);
        }
        (*steps_)[at].target = static_cast<std::uint32_t>(steps_->size());
        if (!otherwise) continue;
        read_steps(*otherwise);
        (*steps_)[behind].target = static_cast<std::uint32_t>(steps_->size());
        continue;
      }
      if (node.entries().size() != 1)
        node.fail("a step is one operation", "start each with its own '-'");
      steps_->push_back(read_step(node.entries().front()));
    }
  }

  /// A step that jumps unless the condition holds.
  Step read_condition(const YamlNode& when) {
    when.only({"condition", "of", "than", "modulus"});
    Step skip;
    skip.op = StepOp::kSkipUnless;
    skip.condition = pick(when.at("condition"), kConditionNames);
    if (skip.condition == Condition::kBatchBoundary) in_force_.insert("batch");
    switch (skip.condition) {
      case Condition::kBehind:
        skip.operand = known_reg(when.at("than"));
        [[fallthrough]];
      case Condition::kNewestOrMultiple:
      case Condition::kAdvanced:
        skip.reg = known_reg(when.at("of"));
        break;
      case Condition::kOutstanding:
        skip.modulus = 1;
        [[fallthrough]];
      case Condition::kSingle:
      case Condition::kSeveral:
        if (!in_proxy_) when.fail("only a proxy's thread counts what it posts", "write it there");
        break;
      default:
        break;
    }
    if (skip.condition == Condition::kNewestOrMultiple || skip.condition == Condition::kMultiple ||
        ((skip.condition == Condition::kRingWrapped || skip.condition == Condition::kOutstanding) &&
         when.has("modulus")))
      skip.modulus = static_cast<std::uint32_t>(whole(when.at("modulus"), 1, 1 << 20));
    return skip;
  }

  void read_look(const YamlNode& node) {
    const YamlNode look = node.at("look");
    look.only({"word", "until", "result", "taken", "most", "cost"});
    if (!in_proxy_ || in_look_)
      look.fail("only a proxy's thread looks, and not inside of what it found",
                "write it into `each_queue` of `proxy:`");
    Step step;
    step.op = StepOp::kLook;
    step.word = word(look.at("word"));
    step.until = pick(look.at("until"), Names<Until>{{"present", Until::kPresent},
                                                     {"advanced", Until::kAdvanced},
                                                     {"answered", Until::kAnswered}});
    if (auto most = look.find("most"))
      step.count = static_cast<std::uint32_t>(whole(*most, 1, 1 << 20));
    step.cycles = cost(look.at("cost"));
    if (step.until == Until::kAdvanced) result(look, step);
    if (auto taken = look.find("taken"))
      step.block = pick(*taken, Names<std::uint32_t>{{"yes", 1}, {"no", 0}});
    if (step.until == Until::kAdvanced && step.reg == kNoRegister)
      look.fail("what it goes on from is not kept", "add `result: NAME`, or `result: index`");
    if (step.until == Until::kPresent && recipe_.program.words[step.word].entry_bytes == 0)
      look.fail("'" + recipe_.program.words[step.word].name + "' is no ring of descriptors",
                "give it entry_bytes, or look until it has advanced");
    ProxyProgram& proxy = recipe_.program.proxy;
    if (step.until != Until::kAnswered && proxy.announcement == kNoWord)
      proxy.announcement = step.word;
    const auto at = static_cast<std::uint32_t>(steps_->size());
    steps_->push_back(step);
    in_look_ = true;
    read_steps(node.at("do"));
    Step again;
    again.op = StepOp::kAgain;
    again.target = at;
    steps_->push_back(again);
    (*steps_)[at].then = static_cast<std::uint32_t>(steps_->size());
    if (auto then = node.find("then")) read_steps(*then);
    in_look_ = false;
    (*steps_)[at].target = static_cast<std::uint32_t>(steps_->size());
  }

  void read_proxy(const YamlNode& node, bool has_nic) {
    node.only({"if", "workers", "clock", "ring_depth", "each_queue", "each_pass", "posts"});
    if (auto chosen = node.find("if"))
      if (!is_chosen(*chosen)) return;
    ProxyProgram& proxy = recipe_.program.proxy;
    if (!has_nic || recipe_.program.on_cpu)
      node.fail("a proxy posts to a NIC for lanes on a GPU",
                has_nic ? "take out `runs_on: cpu`" : "add `nic:`");
    proxy.present = in_proxy_ = true;
    if (auto workers = node.find("workers"))
      proxy.workers = static_cast<std::uint32_t>(whole(*workers, 1, 1024));
    if (auto clock = node.find("clock"))
      proxy.cold = pick(*clock, Names<bool>{{"warm", false}, {"cold", true}});
    if (auto depth = node.find("ring_depth"))
      proxy.ring_depth = static_cast<std::uint32_t>(whole(*depth, 2, 1 << 20));
    if (auto pass = node.find("each_pass")) proxy.pass_cycles = cost(*pass);
    steps_ = &proxy.visit;
    read_steps(node.at("each_queue"));
    if (blocks_ > 0)
      node.at("each_queue").fail("an entry belongs to what is asked for", "write it into `posts`");
    steps_->push_back({});
    for (std::size_t pc = 0; proxy.visit[pc].op != StepOp::kEnd;) {
      const Step& step = proxy.visit[pc];
      if (step.op != StepOp::kLook && step.op != StepOp::kCompute && step.op != StepOp::kFence)
        node.at("each_queue")
            .fail("beside its looks a visit only computes and fences",
                  "put the rest under a look's `do:` or `then:`");
      pc = step.op == StepOp::kLook ? step.target : pc + 1;
    }
    if (proxy.announcement == kNoWord)
      node.at("each_queue")
          .fail("it looks at nothing that lanes write",
                "add a look `until: present` or `until: advanced`");
    if (auto posts = node.find("posts"))
      for (const auto& [name, steps] : posts->entries()) {
        const auto known = std::find(kOpKindNames.begin(), kOpKindNames.end(), name);
        if (known == kOpKindNames.end())
          steps.fail("unknown operation '" + name + "'", "put, put_signal, get or atomic");
        const auto k = static_cast<std::size_t>(known - kOpKindNames.begin());
        steps_ = &proxy.posts[k];
        blocks_ = 0;
        last_block_.clear();
        read_steps(steps);
        steps_->push_back({});
        recipe_.program.entries[k] = std::max(blocks_, 1u);
        for (const Step& step : *steps_)
          if (step.form == EntryForm::kWriteInline) recipe_.program.inlines[k] = true;
      }
    blocks_ = 0;
    in_proxy_ = false;
    const auto touches = [&](const std::vector<Step>& steps) {
      for (const Step& step : steps) {
        if (step.op == StepOp::kStore && step.value == Value::kCompleted)
          proxy.completes = step.word;
        if (step.op == StepOp::kLook || step.op == StepOp::kLoad || step.op == StepOp::kStore ||
            step.op == StepOp::kAtomic || step.op == StepOp::kSpin || step.op == StepOp::kPoll)
          recipe_.program.words[step.word].consumer_reads = true;
      }
    };
    touches(proxy.visit);
    for (const auto& posts : proxy.posts) touches(posts);
  }

  Step read_step(const std::pair<std::string, YamlNode>& entry) {
    const auto& [kind, node] = entry;
    Step step;
    if (kind == "stage") {
      step.op = StepOp::kStage;
      const auto stage = stage_named(node.text());
      if (!stage)
        node.fail("unknown stage '" + node.text() + "'",
                  "nearest: " + nearest(node.text(), kStageNames));
      step.stage = *stage;
      return step;
    }
    if (kind == "compute") {
      step.op = StepOp::kCompute;
      if (node.is_map()) {
        node.only({"cost", "times", "per_bytes"});
        step.cycles = cost(node.at("cost"));
        if (auto times = node.find("times"))
          step.cycles *= static_cast<double>(whole(*times, 0, 1'000'000));
        if (auto per = node.find("per_bytes")) {
          if (!recipe_.program.on_cpu)
            per->fail("an SM's lane has no cost by size", "use `times`, or `runs_on: cpu`");
          step.per_bytes = static_cast<std::uint32_t>(whole(*per, 1, 1 << 30));
        }
      } else {
        step.cycles = cost(node);
      }
      return step;
    }
    if (kind == "launch") {
      step.op = StepOp::kLaunch;
      if (node.text() != "kernel") node.fail("what is launched is a kernel", "write: kernel");
      return step;
    }
    if (kind == "copy") {
      step.op = StepOp::kCopy;
      step.copy = pick(node, kCopyNames);
      return step;
    }
    if (kind == "use") {
      step.op = StepOp::kUse;
      step.reg = known_reg(node);
      return step;
    }
    if (kind == "own_index") {
      step.op = StepOp::kOwnIndex;
      step.is_index = true;
      if (node.text() != "index") node.fail("the result is the put's index", "write: index");
      return step;
    }
    if (kind == "post") {
      if (!in_look_ || node.text() != "request")
        node.fail("a proxy posts the request that it found", "write `post: request` under a look");
      step.op = StepOp::kPost;
      return step;
    }
    if (kind == "pick") {
      step.op = StepOp::kPick;
      step.reg = known_reg(node);
      return step;
    }
    if (kind == "do" || kind == "then" || kind == "else")
      node.fail("`do` without `when`", "write `- when: {condition: …}` above it");
    if (auto id = node.find("id")) step.id = id->text();
    const auto key = [&](const char* field) {
      return step.id.empty() ? std::string() : step.id + "." + field;
    };
    if (kind == "fence") {
      node.only({"id", "scope", "acquire"});
      step.op = StepOp::kFence;
      if (const auto acquire = node.find("acquire")) step.acquires = acquire->boolean();
      step.scope = pick(node.at("scope"), kScopeNames, key("scope"));
      return step;
    }
    step.word = word(node.at("word"));
    if (kind == "load") {
      node.only({"id", "word", "result", "wait", "acquire"});
      step.op = StepOp::kLoad;
      result(node, step);
    } else if (kind == "store") {
      node.only({"id", "word", "bytes", "count", "value", "of", "entry", "immediate"});
      step.op = StepOp::kStore;
      if (auto immediate = node.find("immediate"))
        step.immediate = pick(*immediate, Names<bool>{{"yes", true}, {"no", false}});
      if (auto entry_form = node.find("entry")) {
        step.form = pick(*entry_form, kEntryNames, key("entry"));
        // A register that is no ring takes such an entry once more.
        if (const auto it = last_block_.find(step.form); it != last_block_.end())
          step.block = it->second;
        if (recipe_.program.words[step.word].entry_bytes > 0) {
          last_block_[step.form] = step.block = blocks_;
          blocks_ += entry_blocks(step.form, recipe_.program.nic.dc, 0);
        }
        step.count = 0;
      }
      const Word& target = recipe_.program.words[step.word];
      step.bytes = target.bytes;
      if (auto bytes = node.find("bytes"))
        step.bytes = static_cast<std::uint32_t>(whole(*bytes, 1, 16, key("bytes")));
      if (auto count = node.find("count"))
        step.count = static_cast<std::uint32_t>(whole(*count, 1, 64, key("count")));
      if (step.bytes * step.count > (step.form == EntryForm::kNone ? target.bytes : 256))
        refuse(node, {key("bytes"), key("count")},
               std::to_string(step.count) + " stores of " + std::to_string(step.bytes) +
                   " B do not fit '" + target.name + "' of " + std::to_string(target.bytes) + " B",
               "change bytes or count");
      if (auto value = node.find("value")) step.value = pick(*value, kValueNames);
      if (step.value == Value::kCompleted && !in_proxy_)
        node.at("value").fail("only a proxy's thread knows what has completed",
                              "write it into `proxy:`");
      if (step.value == Value::kRegister || step.value == Value::kRegisterNext)
        step.operand = known_reg(node.at("of"));
    } else if (kind == "atomic") {
      node.only({"id", "word", "op", "value", "of", "result", "wait", "acquire"});
      step.op = StepOp::kAtomic;
      step.atomic = pick(node.at("op"), kAtomicNames);
      if (step.atomic == AtomicOp::kCas)
        node.fail("a single compare-and-swap is not a step", "use `spin`");
      step.value = pick(node.at("value"), kValueNames);
      if (step.value == Value::kRegister || step.value == Value::kRegisterNext)
        step.operand = known_reg(node.at("of"));
      result(node, step);
    } else if (kind == "spin") {
      node.only({"id", "word", "expected", "value", "retry", "acquire"});
      step.op = StepOp::kSpin;
      step.expected = pick(node.at("expected"), kValueNames);
      step.value = pick(node.at("value"), kValueNames);
      step.cycles = cost(node.at("retry"));
    } else {  // poll
      node.only({"id", "word", "until", "of", "ahead", "behind", "retry", "acquire"});
      if (auto behind = node.find("behind"))
        step.block = static_cast<std::uint32_t>(whole(*behind, 0, 1 << 20));
      if (auto ahead = node.find("ahead"))
        step.block = static_cast<std::uint32_t>(whole(*ahead, 0, 1 << 20));
      step.op = StepOp::kPoll;
      step.until = pick(node.at("until"), kUntilNames);
      if (step.until == Until::kAdvanced || (step.until == Until::kPresent && !in_proxy_))
        node.at("until").fail("nobody waits for this here",
                              "a proxy looks until something has advanced, and polls the other "
                              "words of a descriptor until they are present");
      if (step.until == Until::kReached) step.operand = known_reg(node.at("of"));
      step.cycles = cost(node.at("retry"));
    }
    if (auto acquire = node.find("acquire"))
      step.acquire = pick(*acquire, kScopeNames, key("acquire"));
    return step;
  }

  std::vector<double> cost_list(const YamlNode& node) {
    std::vector<double> list;
    for (const YamlNode& item : node.one_or_more()) list.push_back(cost(item));
    return list;
  }

  void read_consumer(const YamlNode& node) {
    node.only({"runs_on", "polls", "one_entry_a_notice", "entries", "completes", "poll", "notice",
               "groups", "after", "copies_payload", "copy_round"});
    ConsumerProgram& c = recipe_.program.consumer;
    c.where = pick(node.at("runs_on"), kWhereNames);
    c.announcement = word(node.at("polls"));
    if (auto per_entry = node.find("one_entry_a_notice")) c.per_entry = per_entry->boolean();
    c.entry = word(node.at("entries"));
    c.completion = word(node.at("completes"));
    if (auto poll = node.find("poll")) c.poll_cycles = cost(*poll);
    if (auto notice = node.find("notice")) c.notice_cycles = cost(*notice);
    for (const YamlNode& item : node.at("groups").items()) {
      item.only({"read", "done", "and_more"});
      ConsumerProgram::Group group{cost_list(item.at("read")), cost_list(item.at("done")), false};
      if (auto more = item.find("and_more")) group.and_more = more->boolean();
      if (group.read_cycles.empty() || group.read_cycles.size() != group.done_cycles.size())
        item.fail("read and done need one cost for each entry of the group",
                  "make them equal long");
      c.groups.push_back(std::move(group));
    }
    if (c.groups.empty()) node.at("groups").fail("no group", "give one for single entries");
    std::sort(c.groups.begin(), c.groups.end(), [](const auto& a, const auto& b) {
      return a.read_cycles.size() > b.read_cycles.size();
    });
    if (auto after = node.find("after")) c.after_cycles = cost(*after);
    if (auto copies = node.find("copies_payload")) c.copies_payload = copies->boolean();
    if (auto round = node.find("copy_round")) c.round_cycles = cost(*round);
    const auto memory_of = [&](std::uint32_t w) {
      return recipe_.program.regions[recipe_.program.words[w].region].memory;
    };
    if (c.where == ConsumerProgram::Where::kCpu &&
        (memory_of(c.announcement) != MemoryKind::kHost ||
         memory_of(c.completion) != MemoryKind::kHost))
      node.fail("a CPU consumer polls and completes in host memory",
                "set the memory of those regions to host");
    if ((c.where == ConsumerProgram::Where::kPeer) !=
        (memory_of(c.announcement) == MemoryKind::kPeer))
      node.fail("a consumer on a peer polls in that peer's memory, and only it does",
                "set runs_on to peer and the memory of the doorbell's region to peer, or neither");
    for (std::uint32_t w : {c.announcement, c.entry, c.completion})
      recipe_.program.words[w].consumer_reads = true;
  }

  void read_nic(const YamlNode& node) {
    node.only({"work_queue", "doorbell", "completes", "completion", "asks", "transport", "source",
               "target", "signal", "sink", "inline_bytes", "receives", "relaxed", "claims"});
    NicProgram& nic = recipe_.program.nic;
    nic.present = true;
    nic.entry = word(node.at("work_queue"));
    nic.doorbell = word(node.at("doorbell"));
    nic.completion = word(node.at("completes"));
    nic.kind = pick(node.at("completion"), kCompletionNames);
    if (auto asks = node.find("asks"))
      switch (pick(*asks, Names<int>{{"last", 0}, {"every", 1}, {"chain", 2}})) {
        case 1:
          nic.every = true;
          break;
        case 2:
          recipe_.program.proxy.asks_once = true;
          break;
        default:
          break;
      }
    const auto optional = [&](const char* key, std::uint32_t& target) {
      if (auto name = node.find(key)) target = word(*name);
    };
    optional("source", nic.source);
    optional("target", nic.target);
    optional("signal", nic.signal);
    optional("sink", nic.sink);
    optional("receives", nic.receives);
    if (auto relaxed = node.find("relaxed"))
      for (const YamlNode& item : relaxed->items())
        (pick(item, Names<bool>{{"target", true}, {"signal", false}}) ? nic.relaxed_target
                                                                      : nic.relaxed_signal) = true;
    if (auto claims = node.find("claims"))
      for (const YamlNode& item : claims->items())
        (pick(item, Names<bool>{{"ack_placed", true}, {"atomic_placed", false}})
             ? nic.claims_ack_placed
             : nic.claims_atomic_placed) = true;
    if (auto most = node.find("inline_bytes"))
      nic.inline_bytes = static_cast<std::uint32_t>(whole(*most, 1, 220));
    auto& words = recipe_.program.words;
    if (recipe_.program.regions[words[nic.doorbell].region].memory != MemoryKind::kNic)
      node.at("doorbell").fail("the doorbell is a register", "put its region into memory: nic");
    if (words[nic.entry].entry_bytes != 64)
      node.at("work_queue").fail("the work queue is a ring of 64 B entries", "entry_bytes: 64");
    if (nic.kind == NicProgram::Completion::kPlain &&
        (words[nic.completion].entry_bytes != 64 ||
         (recipe_.program.depth & (recipe_.program.depth - 1)) != 0))
      node.at("completes")
          .fail("a plain CQ is a ring of 64 B entries, a power of two of them",
                "entry_bytes: 64 and a depth that is a power of two");
    for (std::uint32_t w : {nic.entry, nic.doorbell, nic.completion, nic.source, nic.target,
                            nic.signal, nic.sink, nic.receives})
      if (w != kNoWord) words[w].consumer_reads = true;
    for (std::uint32_t w = 0; w < words.size(); ++w) {
      const Region& region = recipe_.program.regions[words[w].region];
      if (w != nic.doorbell && region.memory == MemoryKind::kNic)
        refuse(node, {region.name + ".memory"},
               "'" + words[w].name + "' lies in the NIC: only the doorbell is a register",
               "put its region into memory: gpu or host");
    }
    check_entries(node);
  }

  /// What the entries speak of must be said.
  void check_entries(const YamlNode& node) {
    const NicProgram& nic = recipe_.program.nic;
    const auto need = [&](std::uint32_t w, const char* key, const char* why) {
      if (w == kNoWord) node.fail(std::string("`") + key + "` is missing", why);
    };
    for (const auto& steps : recipe_.program.steps)
      for (const Step& step : steps) {
        if (step.immediate)
          need(nic.receives, "receives", "name the word of the receiver's CQE that is polled");
        switch (step.form) {
          case EntryForm::kNone:
          case EntryForm::kNop:
            break;
          case EntryForm::kWrite:
            need(nic.source, "source", "name the word that a put reads");
            need(nic.target, "target", "name the peer's word that a put writes");
            break;
          case EntryForm::kWriteInline:
            need(nic.target, "target", "name the peer's word that a put writes");
            break;
          case EntryForm::kRead:
          case EntryForm::kDump:
            need(nic.target, "target", "name the peer's word that a get reads");
            need(nic.sink, "sink", "name the own word that receives it");
            break;
          default:
            need(nic.signal, "signal", "name the peer's word that a signal raises");
            need(nic.sink, "sink", "name the own word that receives the old value");
        }
      }
  }

  void read_placed_by() {
    const auto section = root_.find("placed_by");
    if (!section) return;
    for (const auto& [stage_name, node] : section->entries()) {
      const auto stage = stage_named(stage_name);
      if (!stage) node.fail("unknown stage '" + stage_name + "'");
      recipe_.placed_by.emplace_back(*stage, word(node));
    }
  }

  YamlNode root_;
  std::map<std::string, std::string> asked_, sets_;
  std::map<std::string, std::string> operations_;  ///< of sets_: "+", "-", "*"; "" once applied
  std::set<std::string> used_, settable_;
  std::set<std::string> in_force_;                 ///< choices and costs that something asked for
  std::map<std::string, std::string> defaults_;    ///< of choices
  std::vector<Step>* steps_ = nullptr;             ///< of the operation being read
  std::uint32_t blocks_ = 0;                       ///< that its entries take so far
  std::map<EntryForm, std::uint32_t> last_block_;  ///< of each form, where the last one begins
  static constexpr int kMostDepth = 8;
  int depth_ = 0;  ///< of parts in parts
  bool in_proxy_ = false, in_look_ = false;
  std::vector<std::string> registers_;
  Recipe recipe_;
};

}  // namespace

Recipe load_recipe(const std::string& file, const std::map<std::string, std::string>& choices,
                   const std::vector<std::string>& sets) {
  return Reader(file, choices, sets).read();
}

std::string recipe_path(const std::string& name, const std::string& config_dir) {
  namespace fs = std::filesystem;
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) return name;
  const fs::path dir = fs::path(config_dir) / "protocols";
  const fs::path path = dir / (name + ".yaml");
  if (fs::exists(path)) return path.string();
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  throw InputError(path.string(), "no such protocol recipe", "there are: " + list);
}

}  // namespace marrow::config
