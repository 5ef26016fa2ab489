#include "sim/sweep/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "models/common/error.h"
#include "sim/config/system.h"

namespace marrow::sweep {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchema = "marrow.sweep.points/1";

class Hash {  // FNV-1a
 public:
  void add(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0);
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  void byte(unsigned char c) { value_ = (value_ ^ c) * 0x100000001b3ULL; }
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

std::string fingerprint(const Study& study, const std::vector<Point>& points) {
  std::set<std::string> systems, protocols;
  for (const Point& point : points) try {
      const Setup setup = setup_of(study, point);
      systems.insert(setup.system);
      protocols.insert(setup.protocol);
    } catch (const InputError&) {  // a point that fails rests on nothing
    }
  Hash hash;
  hash.add(study.text);
  for (const std::string& system : systems) {
    const config::ParameterSet parameters = config::load_system(system);
    for (const config::Parameter& parameter : parameters.all())
      hash.add(fmt::format("{}={}", parameter.key, parameter.value));
  }
  for (const std::string& protocol : protocols)
    if (!protocol.empty()) hash.add(text_of(protocol));
  if (!study.trace.empty()) hash.add(text_of(study.trace));
  return hash.text();
}

std::string fingerprint(const std::vector<std::string>& texts) {
  Hash hash;
  for (const std::string& text : texts) hash.add(text);
  return hash.text();
}

namespace {

std::string made(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw InputError(folder, "cannot be made: " + error.message(), "choose another with --out");
  return folder;
}

}  // namespace

Journal::Journal(const std::string& folder, const std::string& study,
                 const std::string& fingerprint, std::size_t points)
    : Journal(made(folder) + "/points.jsonl",
              nlohmann::ordered_json({{"schema", kSchema},
                                      {"study", study},
                                      {"fingerprint", fingerprint},
                                      {"points", points}})
                  .dump(),
              {"marrow sweep",
               "holds points of another study, or of this one before its file, system, recipe or "
               "trace was changed",
               folder, "folder with --out"}) {}

Journal::Journal(const std::string& path, const std::string& head, const JournalOf& of)
    : path_(path) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0)
    throw InputError(path_, std::string("cannot be written: ") + std::strerror(errno),
                     "choose another " + of.option);
  // Children of a fork do not inherit this lock, so that it ends with the process that holds it.
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file_, F_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES)) {
    close(file_);
    throw InputError(of.place, "another " + of.command + " is writing there",
                     "wait for it, or choose another " + of.option);
  }
  std::string text;
  std::array<char, 65536> block{};
  for (ssize_t got = 0; (got = read(file_, block.data(), block.size())) > 0;)
    text.append(block.data(), static_cast<std::size_t>(got));
  const std::size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  if (whole != text.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0)
    throw InputError(path_, std::strerror(errno));
  text.resize(whole);
  if (text.empty()) {
    append(head);
    return;
  }
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  if (line != head) {
    close(file_);
    throw InputError(path_, of.other, "choose another " + of.option + ", or remove " + of.place);
  }
  while (std::getline(in, line)) {
    const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("line")) continue;
    if (!json.contains("point") || !json["point"].is_number_unsigned()) continue;
    lines_[json["point"].get<std::size_t>()] = json["line"].dump();
  }
}

Journal::~Journal() { close(file_); }

void Journal::append(const std::string& line) {
  const std::string text = line + "\n";
  if (write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw InputError(path_, std::string("cannot be written: ") + std::strerror(errno),
                     "make room there and start it again: it goes on where it was");
}

void Journal::add(std::size_t point, const std::string& line) {
  lines_[point] = line;
  append(fmt::format("{{\"point\":{},\"line\":{}}}", point, line));
}

}  // namespace marrow::sweep
