#include "tools/probe/options.h"

#include <algorithm>
#include <charconv>

#include "models/common/error.h"

namespace marrow::probe {

Options parse_options(std::span<const char* const> arguments, std::span<const Topic> topics) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    std::string value;
    const std::size_t equals = name.find('=');
    const bool joined = name.starts_with("--") && equals != std::string::npos;
    if (joined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const auto take_value = [&] {
      if (!joined) {
        if (i + 1 == arguments.size()) throw InputError(name, "needs a value", "see --help");
        value = arguments[++i];
      }
      if (value.empty()) throw InputError(name, "the value is empty", "see --help");
    };
    if (name == "--out" || name == "-o") {
      take_value();
      options.out = value;
    } else if (name == "--only") {
      take_value();
      const bool known = std::any_of(topics.begin(), topics.end(),
                                     [&](const Topic& topic) { return topic.name == value; });
      if (!known)
        throw InputError(name, "there is no measurement '" + value + "'", "--list names them");
      options.only.push_back(value);
    } else if (name == "--device") {
      take_value();
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), options.device);
      if (error != std::errc() || end != value.data() + value.size() || options.device < 0)
        throw InputError(name, "'" + value + "' is no number of a GPU",
                         "write 0 for the first one, as nvidia-smi numbers them with "
                         "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    } else if (joined) {
      throw InputError(name, "is not an option that takes a value", "see --help");
    } else if (name == "--quick") {
      options.quick = true;
    } else if (name == "--list") {
      options.list = true;
    } else if (name == "--help" || name == "-h") {
      options.help = true;
    } else {
      throw InputError(name, "is not an option", "see --help");
    }
  }
  if (options.out.empty() && !options.help && !options.list)
    throw InputError("--out", "is missing", "say where to: marrow-probe --out probe.jsonl");
  return options;
}

std::string list_text(std::span<const Topic> topics) {
  std::string text;
  for (const Topic& topic : topics) {
    std::string name = topic.name;
    name.resize(std::max<std::size_t>(name.size(), 14), ' ');
    text += "  " + name + topic.what + "\n";
  }
  return text;
}

std::string help_text(std::span<const Topic> topics) {
  return "marrow-probe: measures on this machine what marrow's models need to know\n"
         "\n"
         "  marrow-probe --out FILE [--quick] [--only NAME]... [--device N]\n"
         "\n"
         "Writes one measurement file (JSON lines: a header, then one row for each measurement,\n"
         "with p10, median, p90 and an interval of the median). Changes no setting of the device.\n"
         "For figures worth keeping, run it on a machine that does nothing else.\n"
         "\n"
         "  -o, --out FILE   the file; written whole at the end, or not at all\n"
         "      --quick      fewer repeats, one peer: below 20 s\n"
         "      --only NAME  this measurement only; may be given several times\n"
         "      --device N   the GPU, by CUDA's number (0)\n"
         "      --list       the measurements there are, and nothing else\n"
         "  -h, --help       this text\n"
         "\n"
         "Measurements, in their order:\n" +
         list_text(topics) +
         "\n"
         "Examples:\n"
         "  marrow-probe --out my-h200.jsonl\n"
         "  marrow-probe --quick --only sides --only operations --out sides.jsonl\n"
         "\n"
         "Reading the clocks costs some cycles: row `op`, op `none`. Rows hold it; where it is\n"
         "known, `overhead` states it and `net_median` is without it. An SM clock that moves\n"
         "between measurements is told, and the header names them (clock_changed_in): measure\n"
         "again then. PCIe facts beyond speed and width need root.\n"
         "\n"
         "Exit codes: 0 written; 2 no GPU, an old driver, or bad usage; 3 a measurement failed\n"
         "(no answer within its limit, or an error of the device).\n";
}

}  // namespace marrow::probe
