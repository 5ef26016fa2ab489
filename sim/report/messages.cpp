#include "sim/report/messages.h"

#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "models/common/error.h"
#include "models/common/stage.h"
#include "sim/results/quantiles.h"
#include "traces/source.h"
#include "traces/text.h"

namespace marrow::report {

namespace {

using Json = nlohmann::ordered_json;
using results::Distribution;

Json ns(Ps ps) { return static_cast<double>(ps) / static_cast<double>(kPsPerNs); }
Json ns(double ps) { return std::round(ps) / static_cast<double>(kPsPerNs); }

/// Every percent, and more of the tails.
std::vector<double> probabilities() {
  std::vector<double> all = {0, 0.001, 0.005};
  for (int percent = 1; percent < 100; ++percent) all.push_back(percent / 100.0);
  for (const double tail : {0.995, 0.999, 1.0}) all.push_back(tail);
  return all;
}

/// End-to-end times by when the message began. The bins get wider as time goes on, so that there
/// are never more than kMost.
class OverTime {
 public:
  void add(Ps start_ps, Ps time_ps) {
    while (start_ps / width_ps_ >= kMost) widen();
    const auto bin = static_cast<std::size_t>(start_ps / width_ps_);
    if (bin >= bins_.size()) bins_.resize(bin + 1);
    bins_[bin].add(time_ps);
  }
  Json as_json() const {
    Json bins = Json::array();
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      const Distribution& d = bins_[i];
      if (d.count() == 0) continue;
      bins.push_back({ns(static_cast<Ps>(i) * width_ps_), d.count(), ns(d.quantile(0.1)),
                      ns(d.quantile(0.5)), ns(d.quantile(0.9)), ns(d.max())});
    }
    return {{"bin_ns", ns(width_ps_)}, {"bins", bins}};
  }

 private:
  static constexpr Ps kMost = 160;

  void widen() {
    std::vector<Distribution> wider((bins_.size() + 1) / 2);
    for (std::size_t i = 0; i < bins_.size(); ++i) wider[i / 2].merge(bins_[i]);
    bins_ = std::move(wider);
    width_ps_ *= 2;
  }

  Ps width_ps_ = 1000 * kPsPerNs;
  std::vector<Distribution> bins_;
};

/// Splits a line of CSV; quoted fields as csv_field() writes them, without line ends.
void split(std::string_view line, std::vector<std::string>& fields) {
  fields.clear();
  std::string field;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"')
        field += c;
      else if (i + 1 < line.size() && line[i + 1] == '"')
        field += line[++i];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      fields.push_back(std::move(field));
      field.clear();
    } else {
      field += c;
    }
  }
  fields.push_back(std::move(field));
}

struct Run {
  std::uint64_t messages = 0;
  std::vector<Distribution> columns;  // as the header's columns of times
  OverTime over_time;
  std::map<std::uint64_t, Distribution> by_size;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), lines_(path) {}

  Json read() {
    std::string_view line;
    if (!lines_.next(line) || !line.starts_with(kMessagesHead))
      throw InputError(path_ + ":1", "not a CSV of messages",
                       "`marrow run --messages-csv FILE` writes one");
    std::vector<std::string> fields;
    split(line, fields);
    head(fields);
    const std::size_t columns = fields.size();
    while (lines_.next(line)) {
      if (line.empty()) continue;
      split(line, fields);
      if (fields.size() != columns)
        fault(std::to_string(fields.size()) + " fields where the first line has " +
              std::to_string(columns));
      message(fields);
    }
    return as_json();
  }

 private:
  static constexpr std::size_t kStart = 6;  // of the header: start_ns
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[noreturn]] void fault(const std::string& problem) const {
    throw InputError(path_ + ":" + std::to_string(lines_.number()), problem,
                     "write it anew with `marrow run --messages-csv`");
  }

  void head(const std::vector<std::string>& names) {
    for (std::size_t i = kStart + 1; i < names.size(); ++i) {
      const std::string& name = names[i];
      if (name == "bytes") bytes_ = i;
      if (!name.ends_with("_ns")) continue;
      const std::string stage = name.substr(0, name.size() - 3);
      if (stage == "end_to_end") end_to_end_ = i;
      columns_.push_back({i, stage, stage_named(stage).has_value()});
    }
    if (end_to_end_ == kNone) fault("no column end_to_end_ns");
  }

  Ps time(const std::string& field) const {
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || !(value >= 0) || value > 9e15)
      fault("'" + trace::shown(field) + "' is no time in ns");
    return std::llround(value * static_cast<double>(kPsPerNs));
  }

  void message(const std::vector<std::string>& fields) {
    auto found = runs_.find(fields[0]);
    if (found == runs_.end()) {
      order_.push_back(fields[0]);
      found = runs_.try_emplace(fields[0]).first;
      found->second.columns.resize(columns_.size());
    }
    Run& run = found->second;
    ++run.messages;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& field = fields[columns_[c].at];
      if (field.empty()) continue;  // completion_ns where nobody waited
      const Ps ps = time(field);
      if (ps > 0 || !columns_[c].stage) run.columns[c].add(ps);
    }
    const Ps end_to_end = time(fields[end_to_end_]);
    run.over_time.add(time(fields[kStart]), end_to_end);
    if (bytes_ == kNone) return;
    std::uint64_t bytes = 0;
    const std::string& field = fields[bytes_];
    if (std::from_chars(field.data(), field.data() + field.size(), bytes).ec != std::errc())
      fault("'" + trace::shown(field) + "' is no number of bytes");
    constexpr std::size_t kMostSizes = 256;  // a message of any size: no curve, and no bound
    if (run.by_size.size() < kMostSizes || run.by_size.count(bytes))
      run.by_size[bytes].add(end_to_end);
  }

  Json as_json() const {
    const std::vector<double> at = probabilities();
    Json runs = Json::array();
    for (const std::string& name : order_) {
      const Run& run = runs_.at(name);
      Json stages = Json::array(), sizes = Json::array();
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const Distribution& d = run.columns[c];
        if (d.count() == 0) continue;
        Json quantiles = Json::array();
        for (const double p : at) quantiles.push_back(ns(d.quantile(p)));
        stages.push_back({{"stage", columns_[c].name},
                          {"count", d.count()},
                          {"mean_ns", ns(d.mean())},
                          {"quantiles_ns", quantiles}});
      }
      for (const auto& [bytes, d] : run.by_size)
        sizes.push_back({{"bytes", bytes},
                         {"count", d.count()},
                         {"p10_ns", ns(d.quantile(0.1))},
                         {"median_ns", ns(d.quantile(0.5))},
                         {"p90_ns", ns(d.quantile(0.9))}});
      runs.push_back({{"run", name},
                      {"messages", run.messages},
                      {"stages", stages},
                      {"over_time", run.over_time.as_json()},
                      {"by_size", sizes}});
    }
    return {{"probabilities", at}, {"runs", runs}};
  }

  struct Column {
    std::size_t at;
    std::string name;
    bool stage;
  };
  std::string path_;
  trace::Lines lines_;
  std::vector<Column> columns_;
  std::size_t end_to_end_ = kNone, bytes_ = kNone;
  std::map<std::string, Run> runs_;
  std::vector<std::string> order_;
};

}  // namespace

Json summarize_messages(const std::string& path) { return Reader(path).read(); }

}  // namespace marrow::report
