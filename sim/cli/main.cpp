// marrow's command line. Exit codes: 0 done, 1 a validation bound was asked for and missed, 2 bad
// usage or input, 3 internal error.
#include <cstdio>
#include <exception>
#include <memory>
#include <systemc>

#include "models/common/error.h"
#include "sim/cli/common.h"

namespace {

/// Usage lines that name the whole command: "marrow run [OPTIONS]".
class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string whole;
    for (const CLI::App* a = app; a != nullptr; a = a->get_parent())
      whole = (a->get_parent() ? a->get_name() : std::string("marrow")) +
              (whole.empty() ? "" : " " + whole);
    return "\n" + CLI::Formatter::make_usage(app, name.empty() ? name : whole);
  }
};

}  // namespace

int main(int argc, char** argv) {
  // SystemC's own banner and notices have no place in marrow's output.
  sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
  sc_core::sc_report_handler::set_actions(sc_core::SC_WARNING, sc_core::SC_DO_NOTHING);

  CLI::App app{
      "marrow: a cycle-approximate simulator of the GPU-to-NIC path.\n\n"
      "  marrow run       replay a trace and see where every message's time went\n"
      "  marrow validate  hold each predicted stage against what was measured\n"
      "  marrow import    make a trace of a captured file or of a workload written by hand\n"
      "  marrow trace     look into a trace\n"
      "  marrow config    parameters with their units, ranges and sources\n\n"
      "A first try:\n"
      "  marrow validate --system configs/systems/h200-c.yaml \\\n"
      "                  --capture traces/h200-c-device-consumer.trace"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("marrow ") + MARROW_VERSION);
  const auto help = std::make_shared<Help>();
  help->column_width(34);
  app.formatter(help);
  marrow::cli::Action action;
  marrow::cli::add_run(app, action);
  marrow::cli::add_validate(app, action);
  marrow::cli::add_import(app, action);
  marrow::cli::add_trace(app, action);
  marrow::cli::add_config(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  try {
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
