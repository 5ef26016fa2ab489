#include "sim/cli/usage.h"

#include "sim/config/parameters.h"

namespace marrow::cli {

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
}

/// The known word that was meant: the only one that starts so, or the nearest.
std::string meant(const std::string& word, const std::vector<std::string>& known) {
  std::vector<std::string_view> all(known.begin(), known.end()), starts;
  for (std::string_view candidate : all)
    if (candidate.starts_with(word)) starts.push_back(candidate);
  if (starts.size() == 1) return std::string(starts.front());
  return config::nearest(word, all);
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = meant(word, known);
  return near.empty() ? "" : "did you mean " + near + "? ";
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : commands_of(app)) names.push_back(sub->get_name());
  return names;
}

std::string list_of_commands(const CLI::App& app) {
  std::string list;
  for (const std::string& name : command_names(app)) list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::string quoted(const CLI::App& app) { return "`" + command_name(&app) + "`"; }

std::string see_help(const CLI::App& app) {
  return "`" + command_name(&app) + " --help` shows how";
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

std::string unknown_word(const CLI::App& app, const std::string& word) {
  if (is_option(word)) {
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      for (const std::string& name : option->get_snames()) known.push_back("-" + name);
    }
    const std::string name = word.substr(0, word.find('='));
    return quoted(app) + " has no option " + name + "; " + did_you_mean(name, known) +
           see_help(app);
  }
  if (!commands_of(app).empty())
    return quoted(app) + " has no command " + word + "; " + did_you_mean(word, command_names(app)) +
           "write one of " + list_of_commands(app) + ": " + see_help(app);
  return quoted(app) + ": one argument too many, " + word + "; " + see_help(app);
}

}  // namespace

std::string Help::make_usage(const CLI::App* app, std::string name) const {
  return "\n" + CLI::Formatter::make_usage(app, name.empty() ? name : command_name(app));
}

std::string command_name(const CLI::App* app) {
  return app->get_parent() ? command_name(app->get_parent()) + " " + app->get_name() : "marrow";
}

void add_examples(CLI::App* app, const std::vector<std::string>& lines) {
  std::string text = lines.size() == 1 ? "Example:" : "Examples:";
  for (const std::string& line : lines) text += "\n  " + line;
  app->footer(text);
}

std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  // The command that was reached, and on the way there the first word that nobody knows.
  const CLI::App* reached = &app;
  for (const CLI::App* at = &app; at != nullptr;) {
    reached = at;
    const std::vector<std::string> unknown = at->remaining();
    // Help is given all the same, but not that of another command.
    if (!unknown.empty() &&
        (error.get_exit_code() != 0 || (!is_option(unknown.front()) && !commands_of(*at).empty())))
      return unknown_word(*at, unknown.front());
    const auto parsed = at->get_subcommands();
    at = parsed.empty() ? nullptr : parsed.front();
  }
  if (error.get_exit_code() == 0) return "";
  if (!commands_of(*reached).empty() && reached->get_subcommands().empty())
    return quoted(*reached) + " needs a command; write one of " + list_of_commands(*reached) +
           ": " + see_help(*reached);
  return quoted(*reached) + ": " + error.what() + "; " + see_help(*reached);
}

}  // namespace marrow::cli
