#include "tools/common/output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "models/common/error.h"

namespace marrow::tools {

namespace {

std::string list(const std::vector<std::string>& members) {
  std::string text = "[";
  for (const std::string& member : members) {
    if (text.size() > 1) text += ',';
    text += member;
  }
  text += ']';
  return text;
}

}  // namespace

std::string Object::number(double value) {
  if (!std::isfinite(value)) throw std::invalid_argument("JSON has no infinite numbers");
  std::array<char, 400> text;  // the longest double has 309 digits before the point
  std::snprintf(text.data(), text.size(), "%.4f", value);
  std::string digits = text.data();
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits == "-0" ? "0" : digits;
}

std::string Object::quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

void Object::put(std::string_view key, const std::string& json) {
  if (!members_.empty()) members_ += ',';
  members_ += quoted(key) + ':' + json;
}

Object& Object::add_list(std::string_view key, const std::vector<double>& values) {
  std::vector<std::string> members;
  for (const double value : values) members.push_back(number(value));
  put(key, list(members));
  return *this;
}

Object& Object::add_list(std::string_view key, const std::vector<std::string>& values) {
  std::vector<std::string> members;
  for (const std::string& value : values) members.push_back(quoted(value));
  put(key, list(members));
  return *this;
}

std::string row_text(std::string_view name, const Object& conditions, std::string_view unit,
                     const Summary& summary, std::optional<double> overhead) {
  Object row;
  row.add("name", name).add("cond", conditions).add("unit", unit).add("n", summary.n);
  row.add("min", summary.min).add("p10", summary.p10).add("median", summary.median);
  row.add("p90", summary.p90).add("p99", summary.p99).add("max", summary.max);
  row.add("mean", summary.mean).add("rounds", summary.rounds);
  row.add("median_low", summary.median_low).add("median_high", summary.median_high);
  row.add("median_confidence", summary.median_confidence);
  if (overhead) row.add("overhead", *overhead).add("net_median", summary.median - *overhead);
  return row.text();
}

MeasurementFile::MeasurementFile(std::string path)
    : path_(std::move(path)), draft_(path_ + ".part-" + std::to_string(getpid())) {
  if (!std::ofstream(draft_))
    throw InputError(path_, std::string("cannot be written: ") + std::strerror(errno),
                     "give --out a file in a folder that exists and is yours");
}

MeasurementFile::~MeasurementFile() {
  if (!done_) std::remove(draft_.c_str());
}

void MeasurementFile::commit(const Object& header) {
  std::ofstream draft(draft_, std::ios::trunc);
  draft << header.text() << '\n';
  for (const std::string& line : lines_) draft << line << '\n';
  draft.close();
  if (!draft || std::rename(draft_.c_str(), path_.c_str()) != 0)
    throw InputError(path_, std::string("cannot be written: ") + std::strerror(errno),
                     "make room there and measure again");
  done_ = true;
}

}  // namespace marrow::tools
