// marrow's command line. Exit codes: 0 done, 1 a validation bound was asked for and missed, 2 bad
// usage or input, 3 internal error.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <systemc>

#include "models/common/error.h"
#include "sim/cli/common.h"
#include "sim/cli/usage.h"

int main(int argc, char** argv) {
  // SystemC's own banner and notices have no place in marrow's output.
  sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
  sc_core::sc_report_handler::set_actions(sc_core::SC_WARNING, sc_core::SC_DO_NOTHING);

  CLI::App app{
      "marrow: a cycle-approximate simulator of the GPU-to-NIC path.\n\n"
      "  marrow run       replay a trace and see where every message's time went\n"
      "  marrow validate  hold each predicted stage against what was measured\n"
      "  marrow calibrate fit a system to a lab machine's probe and captures\n"
      "  marrow sweep     what-if studies: vary parameters, recipes and load\n"
      "  marrow litmus    small programs in every order: can the flag be seen before the data?\n"
      "  marrow report    one page of runs, validations and sweeps, to read and to pass on\n"
      "  marrow import    make a trace of a captured file or of a workload written by hand\n"
      "  marrow trace     look into a trace\n"
      "  marrow config    parameters with their units, ranges and sources"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("marrow ") + MARROW_VERSION);
  const auto help = std::make_shared<marrow::cli::Help>();
  help->column_width(34);
  app.formatter(help);
  marrow::cli::add_examples(&app, {"marrow validate --system configs/systems/h200-c.yaml --capture "
                                   "traces/h200-c-device-consumer.trace"});
  marrow::cli::Action action;
  marrow::cli::add_run(app, action);
  marrow::cli::add_validate(app, action);
  marrow::cli::add_calibrate(app, action);
  marrow::cli::add_sweep(app, action);
  marrow::cli::add_litmus(app, action);
  marrow::cli::add_report(app, action);
  marrow::cli::add_import(app, action);
  marrow::cli::add_trace(app, action);
  marrow::cli::add_config(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string complaint = marrow::cli::complaint(app, error);
    if (complaint.empty()) return app.exit(error);
    std::fprintf(stderr, "marrow: %s\n", complaint.c_str());
    return 2;
  }
  try {
    marrow::remove_temporaries_at_signals();
    for (const CLI::App* command : app.get_subcommands()) marrow::cli::check_outputs(*command);
    return action();
  } catch (const marrow::InputError& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "marrow: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "marrow: internal error: %s\n", error.what());
    return 3;
  }
}
