// What an mlx5 NIC has counted: /sys/class/infiniband/DEVICE/ports/N/{hw_counters,counters} copied
// as folders or printed as "path:value" lines, `ethtool -S`, or `rdma statistic`. One snapshot, or
// the difference of two.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "models/common/error.h"
#include "traces/guess.h"
#include "traces/importers/importers.h"
#include "traces/importers/log.h"
#include "traces/text.h"
#include "traces/trace.h"

namespace marrow::trace {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCounters = 100000;

const char* const kMend =
    "lines read 'PATH:VALUE' (grep . .../hw_counters/*) or 'NAME: VALUE' (ethtool -S)";

using Key = std::pair<std::string, std::string>;  ///< device, counter

struct Entry {
  double value = 0;
  std::string place;
};
using Snapshot = std::map<Key, Entry>;

/// Not counters: settings that lie among them.
bool is_setting(std::string_view name) { return name == "lifespan"; }

/// port_xmit_data and port_rcv_data count 4 B words.
std::string unit_of(std::string_view name) {
  if (name == "port_xmit_data" || name == "port_rcv_data") return "4 B";
  return "";
}

/// "mlx5_0/1" for ".../mlx5_0/ports/1/hw_counters/rx_write_requests", else the folder's name.
std::string device_of(const fs::path& path) {
  std::vector<std::string> parts;
  for (const auto& part : path) parts.push_back(part.string());
  for (std::size_t i = 1; i + 1 < parts.size(); ++i)
    if (parts[i] == "ports") return parts[i - 1] + "/" + parts[i + 1];
  return "";
}

class SnapshotReader {
 public:
  explicit SnapshotReader(const std::string& path) : path_(path) {}

  Snapshot read() {
    std::error_code ignored;
    if (fs::is_directory(path_, ignored))
      read_folder();
    else
      read_text();
    if (all_.empty())
      throw InputError(path_, "holds no counters",
                       "copy /sys/class/infiniband/DEVICE/ports/N/hw_counters, or print it with: "
                       "grep . /sys/class/infiniband/*/ports/*/hw_counters/*");
    return std::move(all_);
  }

 private:
  void add(const std::string& place, std::string_view device, std::string_view name,
           std::string_view text) {
    if (is_setting(name)) return;
    const auto value = to_whole(text);
    if (!value)
      throw InputError(place, fmt::format("'{}' is no count", shown(text)),
                       "counters are whole numbers from 0 on, of 64 bits");
    if (all_.size() >= kMostCounters)
      throw InputError(place, fmt::format("more than {} counters", kMostCounters),
                       "name the folder of one device");
    const auto [at, fresh] = all_.try_emplace(Key(device, name));
    if (!fresh)
      throw InputError(
          place,
          fmt::format("counter '{}' stands twice, first in {}", shown(name), at->second.place),
          "give one snapshot at a time: before, and --after");
    at->second = {static_cast<double>(*value), place};
  }

  void read_folder() {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::recursive_directory_iterator at(path_, error), end; !error && at != end;
         at.increment(error)) {
      if (at->is_regular_file(error)) files.push_back(at->path());
      if (files.size() > kMostCounters)
        throw InputError(path_, fmt::format("more than {} files", kMostCounters),
                         "name the folder of one device");
    }
    if (error) throw InputError(path_, "the folder cannot be read", error.message());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      std::ifstream in(file);
      std::string line, more;
      std::getline(in, line);
      if (in.bad()) throw InputError(file.string(), "cannot be read", "check its permissions");
      std::getline(in, more);
      if (!trimmed(more).empty())
        throw InputError(file.string() + ":2", "a counter's file has one line",
                         "name a folder that holds counters alone");
      add(file.string() + ":1", device_of(file), file.filename().string(), trimmed(line));
    }
  }

  void read_text() {
    Log log(path_);
    while (log.next()) take_line(log);
  }

  void take_line(const Log& log) {
    const std::string_view text = trimmed(log.whole());
    if (text.empty() || text.starts_with('#')) return;
    // rdma: "link mlx5_0/1 rx_write_requests 12 rx_read_requests 0 ..."
    if (const auto found = words(text); found.front() == "link") {
      if (found.size() % 2 != 0 || found.size() < 4)
        log.fail("the line has a counter without value", "is it cut off?");
      log.must_be_whole();
      for (std::size_t i = 2; i < found.size(); i += 2)
        add(log.place(), found[1], found[i], found[i + 1]);
      return;
    }
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos && all_.empty())
      found_nothing(path_, log.head(), "mlx5-counters",
                    fmt::format("line {} is no counter", log.number()), kMend);
    if (colon == std::string_view::npos)
      log.fail(fmt::format("'{}' is no counter", shown(text)), kMend);
    const std::string_view name = trimmed(text.substr(0, colon));
    const std::string_view value = trimmed(text.substr(colon + 1));
    if (name == "NIC statistics" && value.empty()) return;  // ethtool's heading
    log.must_be_whole();
    const fs::path path(name);
    add(log.place(), device_of(path), path.filename().string(), value);
  }

  std::string path_;
  Snapshot all_;
};

}  // namespace

void import_mlx5_counters(const std::string& in, const std::string& out,
                          const ImportOptions& options) {
  const Snapshot before = SnapshotReader(in).read();
  Header header{machine_of(in, options.machine), file_name(in) + ": NIC counters", 0,
                options.counters};
  if (!options.after) {
    for (const auto& [key, entry] : before)
      header.counters.push_back(
          {key.first, key.second, entry.value, unit_of(key.second), "snapshot"});
  } else {
    header.origin = fmt::format("{} to {}: NIC counters", file_name(in), file_name(*options.after));
    const Snapshot after = SnapshotReader(*options.after).read();
    for (const auto& [key, entry] : after) {
      const auto first = before.find(key);
      if (first == before.end())
        throw InputError(entry.place, fmt::format("counter '{}' is not in {}", key.second, in),
                         "take both snapshots of the same devices");
      if (entry.value < first->second.value)
        throw InputError(entry.place,
                         fmt::format("counter '{}' falls from {:.0f} to {:.0f}", key.second,
                                     first->second.value, entry.value),
                         "give the earlier snapshot first, the later one with --after");
      header.counters.push_back({key.first, key.second, entry.value - first->second.value,
                                 unit_of(key.second), "difference"});
    }
    for (const auto& [key, entry] : before)
      if (after.count(key) == 0)
        throw InputError(entry.place,
                         fmt::format("counter '{}' is not in {}", key.second, *options.after),
                         "take both snapshots of the same devices");
  }
  Writer writer(out, header);
  writer.close();
}

}  // namespace marrow::trace
