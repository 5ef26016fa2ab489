#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "sim/cli/common.h"
#include "sim/cli/usage.h"
#include "traces/commands.h"

namespace marrow::cli {

namespace {
const char* const kTraceHelp = "Trace file (see `marrow import`), or a workload in YAML";
}  // namespace

void add_import(CLI::App& app, Action& action) {
  struct Arguments {
    std::string format, file, out, machine, after, counters;
    double clock_ghz = 1.98;
  };
  auto arguments = std::make_shared<Arguments>();
  std::size_t widest = 0;
  for (const auto& format : trace::import_formats()) widest = std::max(widest, format.name.size());
  std::string formats = "Make a trace of another file. Formats:";
  for (const auto& format : trace::import_formats())
    formats += "\n  " + std::string(format.name) +
               std::string(widest + 2 - format.name.size(), ' ') + std::string(format.about);
  CLI::App* import = app.add_subcommand("import", formats);
  import->add_option("format", arguments->format, "One of the formats above")->required();
  import
      ->add_option("file", arguments->file,
                   "What to read, plain or gzipped; lines may have a launcher's prefixes")
      ->required();
  import->add_option("--out", arguments->out, "The trace to write")->required();
  import->add_option("--machine", arguments->machine,
                     "Name of the machine (default: from the file's name)");
  import
      ->add_option("--sm-clock-ghz", arguments->clock_ghz,
                   "Clock in which captured cycles were counted")
      ->capture_default_str();
  import->add_option("--after", arguments->after,
                     "mlx5-counters: the later snapshot; the trace holds the differences");
  import->add_option("--counters", arguments->counters,
                     "A trace of counters (made with mlx5-counters) to put into this one: what the "
                     "NIC counted meanwhile");
  import->callback([&action, arguments] {
    action = [arguments] {
      trace::ImportOptions options;
  if (!arguments->machine.empty()) options.machine = arguments->machine;
  options.sm_clock_ghz = arguments->clock_ghz;
  if (!arguments->after.empty()) options.after = arguments->after;
  if (!arguments->counters.empty())
    options.counters = trace::Reader(arguments->counters).header().counters;
  trace::import_file(arguments->format, arguments->file, arguments->out, options);
  return 0;
};
}  // namespace marrow::cli
);
add_examples(import,
             {"marrow import workload-yaml workload.yaml --out workload.trace",
              "marrow import device-consumer-csv puts.csv.gz --machine h200-c --out puts.trace",
              "marrow import perftest ib_write_lat.log --out write-lat.trace",
              "marrow import mlx5-counters before --after after --out counters.trace",
              "marrow import gin-proxy-log nccl.log --counters counters.trace --out gin.trace"});
}

void add_trace(CLI::App& app, Action& action) {
  CLI::App* trace = app.add_subcommand("trace", "Look into a trace");
  trace->require_subcommand(1);
  add_examples(trace, {"marrow trace info traces/h200-c-device-consumer.trace"});
  struct Arguments {
    std::string file, run;
    bool json = false;
    std::uint64_t limit = 0;
  };
  auto arguments = std::make_shared<Arguments>();

  CLI::App* info = trace->add_subcommand("info", "What it holds, run by run");
  info->add_option("file", arguments->file, kTraceHelp)->required();
  info->add_flag("--json", arguments->json, "As JSON");
  add_examples(info, {"marrow trace info traces/h200-c-device-consumer.trace"});
  info->callback([&action, arguments] {
    action = [arguments] {
      const TraceFile file(arguments->file);
      trace::Reader reader(file.path());
      trace::info(reader, arguments->file, arguments->json, std::cout);
      return 0;
    };
  });
  CLI::App* check = trace->add_subcommand("check", "Read all of it and check every record");
  check->add_option("file", arguments->file, kTraceHelp)->required();
  add_examples(check, {"marrow trace check traces/h200-c-device-consumer.trace"});
  check->callback([&action, arguments] {
    action = [arguments] {
      const TraceFile file(arguments->file);
      trace::Reader reader(file.path());
      trace::check(reader, arguments->file, std::cout);
      return 0;
    };
  });
  CLI::App* dump = trace->add_subcommand("dump", "Print operations, one JSON object a line");
  dump->add_option("file", arguments->file, kTraceHelp)->required();
  dump->add_option("--run", arguments->run, "Only this run, e.g. \"cfg 4\"");
  dump->add_option("--limit", arguments->limit, "At most so many lines (0: all)")
      ->capture_default_str();
  add_examples(dump,
               {"marrow trace dump traces/h200-c-device-consumer.trace --run \"cfg 4\" --limit 3"});
  dump->callback([&action, arguments] {
    action = [arguments] {
      std::optional<std::string> only;
      if (!arguments->run.empty()) only = arguments->run;
      const TraceFile file(arguments->file);
      trace::Reader reader(file.path());
      trace::dump(reader, arguments->file, only, arguments->limit, std::cout);
      return 0;
    };
  });
}

}  // namespace marrow::cli
