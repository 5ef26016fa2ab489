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

/// What is wrong with a file of a known kind.
struct Fault {
  std::string problem;
};

/// A part of a JSON with its place ("runs[0].stages[2].share"); every way down is checked.
class Part {
 public:
  Part(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  const Json& json() const { return json_; }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  Part at(const char* key) const {
    const std::string place = place_.empty() ? key : place_ + "." + key;
    if (!has(key)) throw Fault{place + " is missing"};
    return {json_[key], place};
  }
  /// of: an entry's name where an empty list cannot be.
  std::vector<Part> items(const char* of = nullptr) const {
    if (!json_.is_array()) throw Fault{place_ + " is no list"};
    if (of && json_.empty()) throw Fault{place_ + " is empty: there is no " + of};
    std::vector<Part> parts;
    for (std::size_t i = 0; i < json_.size(); ++i)
      parts.emplace_back(json_[i], place_ + "[" + std::to_string(i) + "]");
    return parts;
  }
  const Part& object() const {
    if (!json_.is_object()) throw Fault{place_ + " is no object"};
    return *this;
  }
  std::string text() const {
    if (!json_.is_string()) throw Fault{place_ + " is no text"};
    return json_.get<std::string>();
  }
  double number() const {
    if (!json_.is_number()) throw Fault{place_ + " is no number"};
    return json_.get<double>();
  }
  void within(double least, double most) const {
    if (const double value = number(); !(value >= least && value <= most))
      throw Fault{place_ + " is " + json_.dump() + ", out of range"};
  }

 private:
  const Json& json_;
  std::string place_;
};

constexpr double kMostNs = 1e15;  // eleven days

/// Rows of times, as `run --json` has them for stages, operations and kernels.
void check_times(const Part& row, const char* name) {
  row.at(name).text();
  row.at("count").within(1, 1e15);
  for (const char* key : {"p10_ns", "median_ns", "p90_ns", "p99_ns", "mean_ns"})
    if (row.has(key)) row.at(key).within(0, kMostNs);
  if (row.has("share")) row.at("share").within(0, 1.0001);
  if (row.has("interval_ns"))
    for (const Part& end : row.at("interval_ns").items()) end.within(0, kMostNs);
}

void check_run(const Part& file) {
  for (const Part& run : file.at("runs").items("run")) {
    run.at("run").text();
    // A run without put has messages neither, but operations.
    const bool operations = run.has("operations") && !run.at("operations").items().empty();
    run.at("messages").within(operations ? 0 : 1, 1e15);
    const bool some = run.at("messages").number() > 0;
    for (const Part& row : run.at("stages").items(some ? "stage" : nullptr))
      check_times(row, "stage");
    if (operations)
      for (const Part& row : run.at("operations").items()) check_times(row, "operation");
    if (run.has("kernels"))
      for (const Part& row : run.at("kernels").items()) check_times(row, "part");
  }
  file.at("total").at("messages").within(0, 1e15);
  for (const Part& row : file.at("total").at("stages").items()) check_times(row, "stage");
}

void check_comparison(const Part& rows) {
  for (const Part& row : rows.items("row")) {
    for (const char* key : {"run", "protocol"}) row.at(key).text();
    for (const char* key : {"median_ns", "p90_ns", "p99_ns"}) row.at(key).within(0, kMostNs);
  }
}

void check_validation(const Part& file) {
  file.at("summary").object();
  for (const Part& row : file.at("rows").items("row")) {
    for (const char* key : {"case", "stage"}) row.at(key).text();
    row.at("error").number();
    for (const char* side : {"measured", "predicted"})
      if (row.has(side)) row.at(side).at("median").within(0, 1e18);
  }
}

/// Points as columns; only sensitivities that a chart could show.
Json slim_sweep(Json sweep) {
  constexpr double kLeast = 1e-4;
  const Part file(sweep, "");
  Json parameters = Json::object(), metrics = Json::object(), errors = Json::array();
  const std::vector<Part> points = file.at("points").items("point");
  for (const Part& axis : file.at("axes").items("axis"))
    parameters[axis.at("name").text()] = Json::array();
  for (const Part& metric : file.at("metrics").items()) metrics[metric.text()] = Json::array();
  for (const Part& point : points) {
    const auto append = [](Json& columns, const Part& values) {
      for (auto& [name, column] : columns.items())
        column.push_back(values.json().value(name, Json()));
    };
    append(parameters, point.at("parameters").object());
    append(metrics, point.at("metrics").object());
    if (!point.at("error").json().is_null())
      errors.push_back({{"point", point.at("point").json()}, {"error", point.at("error").text()}});
  }
  Json sensitivity = Json::array();
  for (const Part& s : file.at("sensitivity").items())
    if (s.at("result").json().is_number() && std::abs(s.at("result").number()) >= kLeast)
      sensitivity.push_back(s.json());
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
    if (fs::path(path).extension() == ".tmp")
      throw InputError(path, "is what a command was ended over while it wrote", "remove it");
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
      if (is_json(file) || is_csv(file)) add_found(file);
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
  /// In a folder one bad file does not keep the others from being shown.
  void add_found(const fs::path& file) {
    Json source = {{"file", file.string()}, {"what", "not shown"}, {"skipped", true}};
    try {
      if (add_file(file.string(), false)) return;
      if (file.filename() == "results.csv" || file.filename() == "sensitivity.csv" ||
          file.filename() == "chooser.csv")
        return;
    } catch (const InputError& error) {
      source["fault"] = error.what();
    }
    sources_.push_back(source);
  }

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
    if (json.is_discarded())
      throw InputError(path, "not JSON, or cut off",
                       named ? std::string(kWhatIsRead) : "write it anew, or remove it");
    if (!json.is_object() || !json.contains("schema") || !json["schema"].is_string()) return false;
    const std::string schema = json["schema"];
    const Part whole(json, "");
    try {
      if (schema == "marrow.run/1") {
        whole.at("system").text();
        if (json.contains("comparison")) {  // of several protocols: one table instead of runs
          check_comparison(whole.at("comparison"));
          json["runs"] = Json::array();
          json["total"] = {{"stages", Json::array()}};
        } else {
          check_run(whole);
        }
        take(runs_, std::move(json), path, "run");
      } else if (schema == "marrow.validate/1") {
        check_validation(whole);
        explain(json);
        take(validations_, std::move(json), path, "validation");
      } else if (schema == "marrow.sweep/1") {
        take(sweeps_, slim_sweep(std::move(json)), path, "sweep");
      } else {
        return false;
      }
    } catch (const Fault& fault) {
      throw InputError(path, "not as " + schema + " has it: " + fault.problem,
                       "write it anew with this marrow");
    }
    return true;
  }

  void take(Json& all, Json json, const std::string& path, const char* what) {
    json["file"] = path;
    all.push_back(std::move(json));
    sources_.push_back({{"file", path}, {"what", what}, {"skipped", false}});
  }

  void explain(Json& validation) const {
    constexpr double kMiss = 0.15;  // as docs/validation.md lists them
    const Part whole(validation, "");
    const std::string capture =
        whole.has("capture") ? fs::path(whole.at("capture").text()).stem().string() : "";
    for (Json& row : validation["rows"]) {
      if (std::abs(row["error"].get<double>()) <= kMiss) continue;
      const std::string why = notes_.why(capture, row["case"], row["stage"]);
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
