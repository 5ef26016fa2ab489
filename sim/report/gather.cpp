#include "sim/report/gather.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>

#include "models/common/error.h"
#include "models/common/stage.h"
#include "sim/report/messages.h"
#include "traces/source.h"

namespace marrow::report {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kWhatIsRead =
    "a report is made of `run --json`, `run --messages-csv`, `validate --json` and folders of "
    "`sweep`";

bool is_json(const fs::path& path) { return path.extension() == ".json"; }
bool is_csv(const fs::path& path) {
  return path.extension() == ".csv" ||
         (path.extension() == ".gz" && path.stem().extension() == ".csv");
}

/// Why rows miss: notes by "capture|case|stage", as tools/update-validation.sh reads them.
class Notes {
 public:
  explicit Notes(const std::string& path) {
    if (path.empty()) return;
    trace::Lines lines(path);
    for (std::string_view line; lines.next(line);) {
      if (line.empty() || line.front() == '#') continue;
      std::vector<std::string> parts;
      std::size_t from = 0;
      for (; parts.size() < 3; from = line.find('|', from) + 1) {
        const std::size_t to = line.find('|', from);
        if (to == std::string_view::npos)
          throw InputError(path + ":" + std::to_string(lines.number()), "fewer than four parts",
                           "write \"capture | case | stage | why\"");
        parts.push_back(trimmed(line.substr(from, to - from)));
      }
      why_[parts[0] + "|" + parts[1] + "|" + parts[2]] = trimmed(line.substr(from));
    }
  }
  std::string why(const std::string& capture, const std::string& row,
                  const std::string& stage) const {
    for (const std::string& key : {capture + "|" + row + "|" + stage, capture + "|" + row + "|",
                                   "measurements|" + row + "|"})
      if (const auto it = why_.find(key); it != why_.end()) return it->second;
    return "";
  }

 private:
  static std::string trimmed(std::string_view text) {
    const auto from = text.find_first_not_of(' ');
    if (from == std::string_view::npos) return "";
    return std::string(text.substr(from, text.find_last_not_of(' ') - from + 1));
  }
  std::map<std::string, std::string> why_;
};

/// Points as columns; only sensitivities that a chart could show.
Json slim_sweep(Json sweep) {
  constexpr double kLeast = 1e-4;
  Json parameters = Json::object(), metrics = Json::object(), errors = Json::array();
  const Json& points = sweep.at("points");
  for (const Json& axis : sweep.at("axes")) parameters[axis.at("name")] = Json::array();
  for (const Json& metric : sweep.at("metrics")) metrics[metric] = Json::array();
  for (const Json& point : points) {
    for (auto& [name, column] : parameters.items())
      column.push_back(point.at("parameters").value(name, Json()));
    for (auto& [name, column] : metrics.items())
      column.push_back(point.at("metrics").value(name, Json()));
    if (!point.at("error").is_null())
      errors.push_back({{"point", point.at("point")}, {"error", point.at("error")}});
  }
  Json sensitivity = Json::array();
  for (const Json& s : sweep.at("sensitivity"))
    if (s.at("result").is_number() && std::abs(s.at("result").get<double>()) >= kLeast)
      sensitivity.push_back(s);
  const std::size_t count = points.size();
  sweep["points"] = {
      {"count", count}, {"parameters", parameters}, {"metrics", metrics}, {"errors", errors}};
  sweep["sensitivity"] = sensitivity;
  return sweep;
}

class Gatherer {
 public:
  explicit Gatherer(const std::string& notes) : notes_(notes) {}

  void add(const std::string& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw InputError(path, "no such file or folder", std::string(kWhatIsRead));
    if (!fs::is_directory(path)) {
      if (!add_file(path, true))
        throw InputError(path, "nothing that a report shows", std::string(kWhatIsRead));
      return;
    }
    std::vector<fs::path> files;
    for (const auto& entry :
         fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files)
      if ((is_json(file) || is_csv(file)) && !add_file(file.string(), false) &&
          file.filename() != "results.csv" && file.filename() != "sensitivity.csv")
        sources_.push_back({{"file", file.string()}, {"what", "not shown"}, {"skipped", true}});
  }

  Json done(const std::string& version) const {
    Json stages = Json::array();
    for (const std::string_view name : kStageNames) stages.push_back(name);
    return {{"schema", "marrow.report/1"},
            {"version", version},
            {"sources", sources_},
            {"stages", stages},
            {"runs", runs_},
            {"messages", messages_},
            {"validations", validations_},
            {"sweeps", sweeps_}};
  }
  bool empty() const {
    return runs_.empty() && messages_.empty() && validations_.empty() && sweeps_.empty();
  }

 private:
  /// False if it is of no kind that a report shows.
  bool add_file(const std::string& path, bool named) {
    if (!seen_.insert(fs::weakly_canonical(path).string()).second) return true;
    return is_csv(path) ? add_csv(path) : add_json(path, named);
  }

  bool add_csv(const std::string& path) {
    {
      trace::Lines lines(path);
      std::string_view head;
      if (!lines.next(head) || !head.starts_with(kMessagesHead)) return false;
    }
    take(messages_, summarize_messages(path), path, "messages");
    return true;
  }

  bool add_json(const std::string& path, bool named) {
    std::ifstream file(path);
    Json json = Json::parse(file, nullptr, false);
    if (json.is_discarded()) {
      if (!named) return false;
      throw InputError(path, "not JSON", std::string(kWhatIsRead));
    }
    if (!json.is_object() || !json.value("schema", Json()).is_string()) return false;
    const std::string schema = json["schema"];
    try {
      if (schema == "marrow.run/1") {
        if (json.contains("comparison")) {  // of several protocols: one table instead of runs
          json["runs"] = Json::array();
          json["total"] = {{"stages", Json::array()}};
        }
        check(json.at("runs").is_array() && json.at("total").at("stages").is_array());
        take(runs_, std::move(json), path, "run");
      } else if (schema == "marrow.validate/1") {
        explain(json);
        check(json.at("summary").is_object());
        take(validations_, std::move(json), path, "validation");
      } else if (schema == "marrow.sweep/1") {
        take(sweeps_, slim_sweep(std::move(json)), path, "sweep");
      } else {
        return false;
      }
    } catch (const Json::exception& error) {
      throw InputError(path, "not as " + schema + " has it: " + error.what(),
                       "write it anew with this marrow");
    }
    return true;
  }

  static void check(bool good) {
    if (!good) throw Json::other_error::create(501, "a part of another type", nullptr);
  }

  void take(Json& all, Json json, const std::string& path, const char* what) {
    json["file"] = path;
    all.push_back(std::move(json));
    sources_.push_back({{"file", path}, {"what", what}, {"skipped", false}});
  }

  void explain(Json& validation) const {
    constexpr double kMiss = 0.15;  // as docs/validation.md lists them
    const std::string capture = fs::path(validation.value("capture", "")).stem().string();
    for (Json& row : validation.at("rows")) {
      const double error = row.at("error").get<double>();
      if (std::abs(error) <= kMiss) continue;
      const std::string why = notes_.why(capture, row.at("case"), row.at("stage"));
      if (!why.empty()) row["why"] = why;
    }
  }

  Notes notes_;
  Json sources_ = Json::array(), runs_ = Json::array(), messages_ = Json::array(),
       validations_ = Json::array(), sweeps_ = Json::array();
  std::set<std::string> seen_;
};

}  // namespace

Json gather(const std::vector<std::string>& paths, const std::string& notes,
            const std::string& version) {
  Gatherer gatherer(notes);
  for (const std::string& path : paths) gatherer.add(path);
  if (gatherer.empty())
    throw InputError(paths.empty() ? "report" : paths.front(), "nothing that a report shows",
                     std::string(kWhatIsRead));
  return gatherer.done(version);
}

}  // namespace marrow::report
