#include "sim/order/litmus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "models/common/error.h"
#include "sim/config/recipe.h"
#include "sim/config/yaml_source.h"
#include "sim/order/build.h"

namespace marrow::order {

namespace {

using config::YamlNode;

std::string one_line(const std::string& text) {
  std::string line;
  for (char c : text) {
    const char plain = c == '\n' ? ' ' : c;
    if (plain == ' ' && (line.empty() || line.back() == ' ')) continue;
    line += plain;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

/// "gpu0", "host1", "peer0", "nic0".
Home home_named(const YamlNode& node) {
  const std::string text = node.text();
  static const std::map<std::string, MemoryKind> kKinds = {{"gpu", MemoryKind::kGpu},
                                                           {"host", MemoryKind::kHost},
                                                           {"peer", MemoryKind::kPeer},
                                                           {"nic", MemoryKind::kNic}};
  for (const auto& [name, kind] : kKinds)
    if (text.size() == name.size() + 1 && text.starts_with(name) && text.back() >= '0' &&
        text.back() <= '9')
      return {static_cast<std::uint8_t>(text.back() - '0'), kind};
  node.fail("'" + text + "' is no place", "write gpu, host or peer and the node's number: gpu0");
}

Scope scope_named(const YamlNode& node) {
  const std::string text = node.one_of({"none", "cta", "gpu", "sys"});
  return text == "cta"   ? Scope::kCta
         : text == "gpu" ? Scope::kGpu
         : text == "sys" ? Scope::kSys
                         : Scope::kNone;
}

class Reader {
 public:
  Reader(const std::string& file, const std::string& config_dir)
      : root_(YamlNode::open(file)), config_dir_(config_dir) {
    litmus_.file = file;
  }

  Litmus read() {
    root_.only({"name", "why", "protocol", "choices", "set", "nodes", "queues", "depth", "relaxed",
                "claims", "gpu_writes", "words", "completes", "threads", "outcome", "hazard",
                "expected", "rule", "reading"});
    litmus_.name = root_.at("name").text();
    litmus_.why = one_line(root_.at("why").text());
    litmus_.expected_allowed = root_.at("expected").one_of({"allowed", "forbidden"}) == "allowed";
    litmus_.rule = root_.at("rule").text();
    if (!rule_named(litmus_.rule)) {
      std::vector<std::string_view> known;
      for (const Rule& rule : rules()) known.push_back(rule.id);
      const std::string near = config::nearest(litmus_.rule, known);
      root_.at("rule").fail("no rule of that name",
                            near.empty() ? "see docs/ordering.md" : "nearest: " + near);
    }
    if (auto reading = root_.find("reading")) litmus_.reading = one_line(reading->text());
    read_setup();
    read_words();
    read_threads();
    if (auto unordered = root_.find("gpu_writes"))
      builder_->program().gdr_unordered =
          unordered->one_of({"ordered", "unordered"}) == "unordered";
    litmus_.program = builder_->finish();
    read_wanted();
    return litmus_;
  }

 private:
  void read_setup() {
    if (auto protocol = root_.find("protocol")) {
      litmus_.protocol = protocol->text();
      std::map<std::string, std::string> choices;
      if (auto section = root_.find("choices"))
        for (const auto& [name, value] : section->entries()) choices[name] = value.text();
      std::vector<std::string> sets;
      if (auto section = root_.find("set"))
        for (const YamlNode& item : section->one_or_more()) sets.push_back(item.text());
      recipe_ =
          config::load_recipe(config::recipe_path(litmus_.protocol, config_dir_), choices, sets);
    }
    const auto number = [&](const char* key, std::uint32_t& value, int least, int most) {
      if (auto node = root_.find(key))
        value = static_cast<std::uint32_t>(node->integer(least, most));
    };
    number("nodes", setup_.nodes, 1, 4);
    number("queues", setup_.queues, 1, 3);
    number("depth", setup_.depth, 1, 16);
    builder_.emplace(recipe_ ? &recipe_->program : nullptr, setup_);
    if (recipe_) {
      const NicProgram& nic = recipe_->program.nic;
      bool target = nic.relaxed_target, signal = nic.relaxed_signal;
      if (auto relaxed = root_.find("relaxed")) {
        target = signal = false;
        for (const YamlNode& item : relaxed->items())
          (item.one_of({"target", "signal"}) == "target" ? target : signal) = true;
      }
      builder_->relax(target, signal);
      builder_->program().ack_placed = nic.claims_ack_placed;
      builder_->program().atomic_placed = nic.claims_atomic_placed;
    }
    if (auto claims = root_.find("claims")) {
      OrderProgram& program = builder_->program();
      program.ack_placed = program.atomic_placed = false;
      for (const YamlNode& item : claims->items())
        (item.one_of({"ack_placed", "atomic_placed"}) == "ack_placed" ? program.ack_placed
                                                                      : program.atomic_placed) =
            true;
    }
  }

  void read_words() {
    if (auto words = root_.find("words"))
      for (const auto& [name, node] : words->entries()) {
        if (!node.is_map()) {
          builder_->word(name, home_named(node), false);
          continue;
        }
        node.only({"in", "relaxed"});
        builder_->word(name, home_named(node.at("in")), node.at("relaxed").boolean());
      }
    if (auto completes = root_.find("completes")) {
      std::uint8_t queue = 0;
      for (const YamlNode& item : completes->items()) builder_->completes(queue++, word(item));
    }
  }

  std::string word(const YamlNode& node) {
    const std::string name = node.text();
    if (!builder_->has_word(name)) node.fail("no word '" + name + "'", "declare it under `words:`");
    return name;
  }

  void read_threads() {
    std::map<std::uint8_t, std::uint8_t> lanes;
    for (const YamlNode& node : root_.at("threads").items()) {
      node.only({"name", "on", "cta", "lane", "queue", "do"});
      const YamlNode on = node.at("on");
      Home home{};
      if (on.text().starts_with("cpu") && on.text().size() == 4) {
        home = {static_cast<std::uint8_t>(on.text().back() - '0'), MemoryKind::kHost};
      } else {
        home = home_named(on);
      }
      if (home.node >= setup_.nodes)
        on.fail("there is no such node", "add `nodes: " + std::to_string(home.node + 1) + "`");
      const auto small = [&](const char* key, std::uint8_t otherwise) {
        const auto value = node.find(key);
        return value ? static_cast<std::uint8_t>(value->integer(0, 9)) : otherwise;
      };
      const std::uint8_t lane = small("lane", lanes[home.node]);
      ++lanes[home.node];
      // Lanes are in CTAs of their own unless they say the same.
      const std::uint8_t thread = builder_->thread(node.at("name").text(), home.node, home.memory,
                                                   small("cta", lane), lane, small("queue", 0));
      for (const YamlNode& step : node.at("do").items()) read_step(thread, step);
    }
  }

  Word16 small(const YamlNode& node) { return static_cast<Word16>(node.integer(0, 100)); }

  void read_step(std::uint8_t t, const YamlNode& node) {
    if (node.is_scalar()) {
      if (node.text() != "kernel_end")
        node.fail("'" + node.text() + "' is no step", "write e.g. `- fence: gpu`, or kernel_end");
      return builder_->kernel_end(t);
    }
    node.only({"call",    "data",  "wait", "flush",     "elsewhere", "await",  "at_least",
               "acquire", "write", "read", "read_sink", "expects",   "result", "store",
               "load",    "poll",  "add",  "fence",     "sync",      "post"});
    const auto result = [&](const YamlNode& at) {
      const auto name = at.find("result");
      return name ? name->text() : std::string();
    };
    const auto acquire = [&](const YamlNode& at) {
      const auto scope = at.find("acquire");
      return scope ? scope_named(*scope) : Scope::kNone;
    };
    const auto expects = [&](const YamlNode& at) {
      const auto value = at.find("expects");
      return value ? small(*value) : Word16{0};
    };
    if (auto call = node.find("call")) {
      if (!recipe_) call->fail("a call needs a recipe", "add `protocol:`");
      Call c;
      const std::string name = call->text();
      const auto it = std::find(kOpKindNames.begin(), kOpKindNames.end(), name);
      if (it == kOpKindNames.end())
        call->fail("'" + name + "' is no operation",
                   "one of put, put_signal, get, atomic, fence, quiet, wait, barrier");
      c.kind = static_cast<OpKind>(it - kOpKindNames.begin());
      if (auto data = node.find("data")) c.data = data->text();
      if (auto wait = node.find("wait")) c.wait = wait->boolean();
      if (auto flush = node.find("flush")) c.flush = flush->boolean();
      if (auto elsewhere = node.find("elsewhere")) c.elsewhere = elsewhere->boolean();
      if (c.elsewhere && setup_.queues < 2) node.fail("there is no other queue", "add `queues: 2`");
      builder_->call(t, c);
    } else if (auto write = node.find("write")) {
      builder_->write(t, write->text());
    } else if (auto read = node.find("read")) {
      builder_->read(t, read->text(), expects(node), result(node));
    } else if (auto await = node.find("await")) {
      const auto at_least = node.find("at_least");
      builder_->await(t, await->text(), at_least ? small(*at_least) : Word16{1}, acquire(node));
    } else if (auto sink = node.find("read_sink")) {
      builder_->read_sink(t, sink->text(), expects(node), result(node));
    } else if (auto fence = node.find("fence")) {
      builder_->fence(t, scope_named(*fence));
    } else if (auto sync = node.find("sync")) {
      builder_->sync(t, static_cast<std::uint8_t>(sync->integer(0, 3)));
    } else if (auto store = node.find("store")) {
      store->only({"word", "value"});
      builder_->store(t, word(store->at("word")), small(store->at("value")));
    } else if (auto load = node.find("load")) {
      load->only({"word", "result", "acquire", "expects"});
      builder_->load(t, word(load->at("word")), result(*load), acquire(*load), expects(*load));
    } else if (auto poll = node.find("poll")) {
      poll->only({"word", "at_least", "acquire"});
      builder_->poll(t, word(poll->at("word")), small(poll->at("at_least")), acquire(*poll));
    } else if (auto add = node.find("add")) {
      add->only({"word", "result", "acquire"});
      builder_->add(t, word(add->at("word")), result(*add), acquire(*add));
    } else if (auto post = node.find("post")) {
      if (recipe_) post->fail("`post` stands for a recipe's put", "write `call: put`");
      post->only({"queue", "write", "inline", "read", "add", "to"});
      std::uint8_t queue = 0;
      if (auto q = post->find("queue"))
        queue = static_cast<std::uint8_t>(q->integer(0, setup_.queues - 1));
      if (auto from = post->find("write"))
        builder_->post(t, queue, EntryForm::kWrite, word(*from), word(post->at("to")));
      else if (auto to = post->find("inline"))
        builder_->post(t, queue, EntryForm::kWriteInline, "", word(*to));
      else if (auto read_from = post->find("read"))
        builder_->post(t, queue, EntryForm::kRead, word(*read_from), word(post->at("to")));
      else
        builder_->post(t, queue, EntryForm::kFetchAdd, "", word(post->at("add")));
    } else {
      node.fail("no step", "write e.g. `- store: {word: x, value: 1}`");
    }
  }

  void read_wanted() {
    const auto outcome = root_.find("outcome");
    const auto hazard = root_.find("hazard");
    if (!outcome == !hazard)
      root_.fail("a program looks for an `outcome:` or for a `hazard:`", "write one of them");
    if (hazard) {
      std::vector<std::string_view> known = {"any"};
      for (std::size_t i = 0; i < static_cast<std::size_t>(Hazard::kCount); ++i)
        known.push_back(name(static_cast<Hazard>(i)).id);
      litmus_.hazard = hazard->text();
      if (std::find(known.begin(), known.end(), litmus_.hazard) == known.end())
        hazard->fail("no such hazard", "nearest: " + config::nearest(litmus_.hazard, known));
      litmus_.looked_for = "hazard " + litmus_.hazard;
      return;
    }
    litmus_.outcome.assign(litmus_.program.results.size(), kAnyValue);
    for (const auto& [wanted, node] : outcome->entries()) {
      bool found = false;
      for (std::size_t i = 0; i < litmus_.program.results.size(); ++i)
        if (litmus_.program.results[i].name == wanted) {
          litmus_.outcome[i] = small(node);
          found = true;
        }
      if (!found) node.fail("no step gives a result '" + wanted + "'", "name it at a load");
      litmus_.looked_for += (litmus_.looked_for.empty() ? "" : ", ") + wanted + " = " + node.text();
    }
  }

  YamlNode root_;
  std::string config_dir_;
  Litmus litmus_;
  Setup setup_;
  std::optional<config::Recipe> recipe_;
  std::optional<Builder> builder_;
};

}  // namespace

std::string text(Verdict::Is is) {
  return is == Verdict::Is::kAllowed     ? "allowed"
         : is == Verdict::Is::kForbidden ? "forbidden"
                                         : "cut off";
}

Litmus load_litmus(const std::string& file, const std::string& config_dir) {
  return Reader(file, config_dir).read();
}

std::vector<std::string> litmus_files(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) throw InputError(path, "no such file or folder", "see configs/litmus");
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  if (files.empty()) throw InputError(path, "no *.yaml in this folder", "see configs/litmus");
  return files;
}

Verdict judge(const Litmus& litmus, std::size_t most_states) {
  Verdict verdict;
  verdict.exploration = explore(litmus.program, most_states, litmus.outcome);
  const Exploration& e = verdict.exploration;
  verdict.states = e.states;
  if (!litmus.hazard.empty()) {
    for (const auto& found : e.found) {
      if (litmus.hazard != "any" && name(found.finding.hazard).id != litmus.hazard) continue;
      const Finding& f = found.finding;
      verdict.is = Verdict::Is::kAllowed;
      verdict.rule = f.rule;
      verdict.witness = found.witness;
      verdict.reason = fmt::format("{} may come before {}. Assumed: {}. {}: {}. Mend: {}", f.second,
                                   f.first, f.assumed, f.rule, rule_named(f.rule)->says, f.mend);
      break;
    }
  } else if (!e.wanted.empty()) {
    verdict.is = Verdict::Is::kAllowed;
    verdict.witness = e.wanted;
    verdict.rule = litmus.rule;
    verdict.reason = fmt::format("{}: {}", litmus.rule, rule_named(litmus.rule)->says);
  }
  if (verdict.is == Verdict::Is::kAllowed) return verdict;
  if (e.cut_off) {
    verdict.is = Verdict::Is::kCutOff;
    verdict.reason = fmt::format("not found in {} states, and there are more", e.states);
  } else {
    verdict.rule = litmus.rule;
    verdict.reason = fmt::format("in none of {} states. {}: {}", e.states, litmus.rule,
                                 rule_named(litmus.rule)->says);
  }
  return verdict;
}

bool as_expected(const Litmus& litmus, const Verdict& verdict) {
  return verdict.is == (litmus.expected_allowed ? Verdict::Is::kAllowed : Verdict::Is::kForbidden);
}

void write_table(std::ostream& out, const std::vector<Judged>& programs) {
  const auto protocol = [](const Litmus& litmus) {
    return litmus.protocol.empty() ? std::string("-") : litmus.protocol;
  };
  std::size_t width = 7, second = 8, third = 9, differing = 0, readings = 0;
  for (const Judged& p : programs) {
    width = std::max(width, p.litmus.name.size());
    second = std::max(second, protocol(p.litmus).size());
    third = std::max(third, p.litmus.looked_for.size());
  }
  const auto line = [&](const std::string& name, const std::string& library,
                        const std::string& wanted, const std::string& expected,
                        const std::string& verdict, const std::string& states,
                        const std::string& rest) {
    out << fmt::format("{:<{}}  {:<{}}  {:<{}}  {:<9}  {:<9} {:>7}  {}\n", name, width, library,
                       second, wanted, third, expected, verdict, states, rest);
  };
  line("program", "protocol", "looks for", "expected", "verdict", "states", "rule");
  for (const Judged& p : programs) {
    const bool fine = as_expected(p.litmus, p.verdict);
    differing += !fine;
    readings += !p.litmus.reading.empty();
    line(p.litmus.name, protocol(p.litmus), p.litmus.looked_for,
         p.litmus.expected_allowed ? "allowed" : "forbidden", text(p.verdict.is),
         std::to_string(p.verdict.states),
         fmt::format("{}{}{}", p.verdict.rule.empty() ? p.litmus.rule : p.verdict.rule,
                     p.litmus.reading.empty() ? "" : " (reading)", fine ? "" : "  <-- differs"));
  }
  out << fmt::format("{} programs, {} as expected, {} not\n", programs.size(),
                     programs.size() - differing, differing);
  if (readings > 0)
    out << "reading: a reading of a library's source, not a verdict on the library; the file says "
           "which\n";
}

void write_witness(std::ostream& out, const Judged& p) {
  out << fmt::format("{}: {}\n", p.litmus.name, p.litmus.why);
  out << fmt::format("looks for {}: {}\n", p.litmus.looked_for, text(p.verdict.is));
  out << p.verdict.reason << '\n';
  if (!p.litmus.reading.empty()) out << "reading: " << p.litmus.reading << '\n';
  for (std::size_t i = 0; i < p.verdict.witness.size(); ++i)
    out << fmt::format("{:>3}  {}\n", i + 1, p.verdict.witness[i]);
}

nlohmann::ordered_json to_json(const std::vector<Judged>& programs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Judged& p : programs) {
    nlohmann::ordered_json item = {
        {"name", p.litmus.name},
        {"protocol", p.litmus.protocol.empty() ? "none" : p.litmus.protocol},
        {"expected", p.litmus.expected_allowed ? "allowed" : "forbidden"},
        {"verdict", text(p.verdict.is)},
        {"reason", p.verdict.reason},
        {"looks_for", p.litmus.looked_for},
        {"rule", p.verdict.rule.empty() ? p.litmus.rule : p.verdict.rule},
        {"why", p.litmus.why},
        {"states", p.verdict.states},
        {"file", p.litmus.file}};
    if (!p.litmus.reading.empty()) item["reading"] = p.litmus.reading;
    nlohmann::ordered_json outcomes = nlohmann::ordered_json::array();
    for (const auto& values : p.verdict.exploration.outcomes) {
      nlohmann::ordered_json outcome = nlohmann::ordered_json::object();
      for (std::size_t i = 0; i < values.size(); ++i)
        outcome[p.litmus.program.results[i].name] = values[i];
      if (!outcome.empty()) outcomes.push_back(outcome);
    }
    if (!outcomes.empty()) item["outcomes"] = outcomes;
    if (!p.verdict.witness.empty()) item["witness"] = p.verdict.witness;
    list.push_back(item);
  }
  return {{"schema", "marrow.litmus/1"}, {"programs", list}};
}

}  // namespace marrow::order
