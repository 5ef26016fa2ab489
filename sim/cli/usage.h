// How marrow explains its command line: help texts, and complaints about what cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace marrow::cli {

/// Usage lines that name the whole command: "marrow run [OPTIONS]".
class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
};

/// "marrow trace info" for that subcommand.
std::string command_name(const CLI::App* app);

/// Command lines that the help text ends with, each as one would type it.
void add_examples(CLI::App* app, const std::vector<std::string>& lines);

/// What is wrong with a command line that app.parse() threw `error` for: the word that is not known
/// and the nearest that is, else the error's own text; empty where help or the version was asked
/// for.
std::string complaint(const CLI::App& app, const CLI::ParseError& error);

}  // namespace marrow::cli
