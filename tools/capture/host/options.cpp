#include "tools/capture/host/options.h"

#include <charconv>
#include <functional>
#include <map>

#include "models/common/error.h"

namespace marrow::capture {

namespace {

template <class T>
T number_of(const std::string& option, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < T{})
    throw InputError(option, "'" + text + "' is no number that fits", "write one from 0 on");
  return value;
}

template <class T>
T one_of(const std::string& option, const std::string& text,
         const std::map<std::string, T>& known) {
  const auto it = known.find(text);
  if (it != known.end()) return it->second;
  std::string names;
  for (const auto& [name, value] : known) names += (names.empty() ? "" : ", ") + name;
  throw InputError(option, "there is no '" + text + "'", "one of " + names);
}

const std::map<std::string, Protocol> kProtocols = {{"capture-ibgda", Protocol::kIbgda},
                                                    {"capture-gdaki", Protocol::kGdaki},
                                                    {"capture-host-gdaki", Protocol::kHostGdaki},
                                                    {"capture-host-proxy", Protocol::kHostProxy}};
const std::map<std::string, Consumer> kConsumers = {{"device", Consumer::kDevice},
                                                    {"peer", Consumer::kPeer},
                                                    {"host", Consumer::kHost},
                                                    {"nic", Consumer::kNic}};
const std::map<std::string, Fence> kFences = {
    {"none", Fence::kNone}, {"gpu", Fence::kGpu}, {"sys", Fence::kSys}};

}  // namespace

Options parse_options(std::span<const char* const> arguments) {
  Options options;
  Configuration one;
  bool described = false, protocol_named = false;
  std::optional<Fence> fence_wqe, fence_db;
  std::string described_by;

  using Set = std::function<void(const std::string& option, const std::string& value)>;
  const auto whole = [](std::uint32_t& to) {
    return Set([&to](const auto& o, const auto& v) { to = number_of<std::uint32_t>(o, v); });
  };
  const std::map<std::string, Set> of_file = {
      {"--out", [&](const auto&, const auto& v) { options.out = v; }},
      {"--only",
       [&](const auto& o, const auto& v) {
         const auto number = number_of<std::uint32_t>(o, v);
         if (number >= default_set().size())
           throw InputError(o, "there is no configuration " + v, "--list numbers them");
         options.only.push_back(number);
       }},
      {"--device", [&](const auto& o, const auto& v) { options.device = number_of<int>(o, v); }},
      {"--peer", [&](const auto& o, const auto& v) { options.peer = number_of<int>(o, v); }},
      {"--nic", [&](const auto&, const auto& v) { options.nic = v; }},
      {"--consumer",
       [&](const auto& o, const auto& v) { options.consumer = one_of(o, v, kConsumers); }},
      {"--repeats", whole(options.repeats)},
      {"--seconds",
       [&](const auto& o, const auto& v) { options.seconds = number_of<std::uint32_t>(o, v); }},
  };
  const std::map<std::string, Set> of_one = {
      {"--protocol",
       [&](const auto& o, const auto& v) {
         one.protocol = one_of(o, v, kProtocols);
         protocol_named = true;
       }},
      {"--doorbell",
       [&](const auto& o, const auto& v) {
         one.doorbell_in_host = one_of<bool>(o, v, {{"gpu", false}, {"host", true}});
       }},
      {"--warps", whole(one.warps)},
      {"--queues", whole(one.queues)},
      {"--puts", whole(one.puts)},
      {"--batch", whole(one.batch)},
      {"--wait", whole(one.wait_every)},
      {"--bytes",
       [&](const auto& o, const auto& v) { one.bytes = number_of<std::uint64_t>(o, v); }},
      {"--gap", whole(one.gap_cycles)},
      {"--store-bytes", whole(one.store_bytes)},
      {"--fence", [&](const auto& o, const auto& v) { fence_wqe = one_of(o, v, kFences); }},
      {"--fence-doorbell", [&](const auto& o, const auto& v) { fence_db = one_of(o, v, kFences); }},
  };
  const std::map<std::string, bool*> flags = {{"--quick", &options.quick},
                                              {"--list", &options.list},
                                              {"--help", &options.help},
                                              {"-h", &options.help}};

  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string option = arguments[i];
    std::optional<std::string> value;
    if (const auto equals = option.find('=');
        option.starts_with("--") && equals != std::string::npos) {
      value = option.substr(equals + 1);
      option.resize(equals);
    }
    if (option == "-o") option = "--out";
    if (const auto flag = flags.find(option); flag != flags.end()) {
      if (value) throw InputError(option, "takes no value", "see --help");
      *flag->second = true;
      continue;
    }
    const auto file = of_file.find(option), single = of_one.find(option);
    if (file == of_file.end() && single == of_one.end())
      throw InputError(option, "is not an option", "see --help");
    if (!value) {
      if (i + 1 == arguments.size()) throw InputError(option, "needs a value", "see --help");
      value = arguments[++i];
    }
    if (value->empty()) throw InputError(option, "the value is empty", "see --help");
    if (single != of_one.end()) {
      described = true;
      described_by = option;
      single->second(option, *value);
    } else {
      file->second(option, *value);
    }
  }

  if (options.repeats < 1 || options.repeats > 100)
    throw InputError("--repeats", std::to_string(options.repeats) + " is out of range",
                     "write 1 to 100");
  if (options.seconds < 1 || options.seconds > 3600)
    throw InputError("--seconds", "is out of range", "write 1 to 3600");
  if (options.help || options.list) return options;
  if (options.out.empty())
    throw InputError("--out", "is missing", "say where to: marrow-capture --out capture.jsonl");
  if (!described) return options;
  if (!protocol_named)
    throw InputError(described_by, "describes one configuration, but --protocol is missing",
                     "name the recipe: --protocol capture-ibgda");
  if (!options.only.empty())
    throw InputError(
        "--only",
        "picks from the default set, but " + described_by + " describes another configuration",
        "use one of the two");
  one.consumer = options.consumer.value_or(one.on_host() ? Consumer::kHost : Consumer::kDevice);
  const Fence own = one.protocol == Protocol::kHostGdaki   ? Fence::kSys
                    : one.protocol == Protocol::kHostProxy ? Fence::kNone
                                                           : Fence::kGpu;
  one.fence_wqe = fence_wqe.value_or(own);
  one.fence_db = fence_db.value_or(own);
  if (fence_db && one.protocol != Protocol::kHostGdaki)
    throw InputError("--fence-doorbell", "only capture-host-gdaki lets it be chosen",
                     "leave it out");
  check(one);
  options.one = one;
  return options;
}

std::string list_text() {
  std::string text;
  std::size_t number = 0;
  for (const Configuration& configuration : default_set()) {
    std::string digits = std::to_string(number++);
    digits.insert(0, 4 - digits.size(), ' ');
    text += digits + "  " + description(configuration) + '\n';
  }
  return text;
}

std::string help_text() {
  return "marrow-capture: runs GPU-initiated puts on this machine and notes when each step\n"
         "happened\n"
         "\n"
         "  marrow-capture --out FILE [--consumer KIND] [--only N]... [--quick]\n"
         "  marrow-capture --out FILE --protocol NAME [--warps N] [--queues N] ...\n"
         "\n"
         "Writes one capture (JSON lines), which `marrow import capture FILE --out T.trace` makes\n"
         "a trace of. Each run holds the time of every stage of every put, the SM of every warp,\n"
         "the address of every queue word, on which side of the L2 it lies for that SM, and what\n"
         "the stamps themselves cost. Changes no setting of the device. Without --protocol it\n"
         "runs the default set (--list); what needs a second GPU is left out where there is none.\n"
         "\n"
         "  -o, --out FILE        the file; written whole at the end, or not at all\n"
         "      --consumer KIND   who takes the puts: device (a warp on another SM), peer (a warp\n"
         "                        on another GPU), host (a CPU thread), nic (a real mlx5 NIC, in\n"
         "                        loopback). Default: each configuration's own\n"
         "      --only N          this configuration of the default set only; several times\n"
         "      --quick           a quarter of the puts, once\n"
         "      --repeats N       how often each configuration runs (2)\n"
         "      --seconds N       start no configuration after so many seconds (150)\n"
         "      --device N        the GPU that puts, by CUDA's number (0)\n"
         "      --peer N          the GPU that consumes (the first other one in reach)\n"
         "      --nic NAME        the mlx5 device (the first one with a link)\n"
         "      --list            the default set, and nothing else\n"
         "  -h, --help            this text\n"
         "\n"
         "One configuration of your own:\n"
         "      --protocol NAME   whose steps: capture-ibgda, capture-gdaki (queues in GPU\n"
         "                        memory), capture-host-gdaki, capture-host-proxy (in host "
         "memory)\n"
         "      --warps N         that put, each alone in its block (1)\n"
         "      --queues N        warp w uses queue w mod N (1)\n"
         "      --puts N          of each warp (1000)\n"
         "      --batch N         ring after every N puts of a warp (1)\n"
         "      --wait N          wait for completion after every N puts (1); 0: at the end\n"
         "      --bytes N         payload (0)\n"
         "      --gap N           cycles of idling between puts (0)\n"
         "      --doorbell WHERE  gpu or host memory, device consumer (gpu)\n"
         "      --store-bytes N   width of an entry's stores: 4, 8, 16 (the protocol's own)\n"
         "      --fence SCOPE     behind the entry: none, gpu, sys (the protocol's own)\n"
         "      --fence-doorbell SCOPE   before the doorbell, capture-host-gdaki (sys)\n"
         "\n"
         "Examples:\n"
         "  marrow-capture --out my-h200.jsonl\n"
         "  marrow-capture --only 0 --only 30 --out two.jsonl\n"
         "  marrow-capture --protocol capture-gdaki --warps 8 --queues 2 --wait 16 --out g.jsonl\n"
         "\n"
         "Exit codes: 0 written; 2 no GPU, an old driver, something asked for that is not there,\n"
         "bad usage; 3 a run failed (no answer within its limit, or an error of the device).\n";
}

}  // namespace marrow::capture
