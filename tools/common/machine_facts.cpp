#include "tools/common/machine_facts.h"

#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <vector>

namespace marrow::tools {

namespace {

// Offsets and fields as in the PCI Express Base Specification, section 7.5.3.
constexpr std::size_t kStatus = 0x06, kCapabilityPointer = 0x34;
constexpr std::uint8_t kPciExpressCapability = 0x10;
constexpr std::size_t kDeviceCapabilities = 0x04, kDeviceControl = 0x08, kLinkCapabilities = 0x0c,
                      kLinkStatus = 0x12;

int generation_of(double gigatransfers) {
  if (gigatransfers > 60) return 6;
  if (gigatransfers > 30) return 5;
  if (gigatransfers > 15) return 4;
  if (gigatransfers > 7) return 3;
  return gigatransfers > 4 ? 2 : 1;
}

/// "32.0 GT/s PCIe" -> 5.
std::optional<int> speed_file(const std::filesystem::path& file) {
  std::istringstream text(file_text(file));
  double gigatransfers = 0;
  if (!(text >> gigatransfers) || gigatransfers <= 0) return std::nullopt;
  return generation_of(gigatransfers);
}

std::optional<int> width_file(const std::filesystem::path& file) {
  std::istringstream text(file_text(file));
  int lanes = 0;
  if (!(text >> lanes) || lanes <= 0 || lanes > 32) return std::nullopt;
  return lanes;
}

}  // namespace

std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Object PcieFacts::object() const {
  Object object;
  object.add("generation", generation).add("width", width);
  object.add("max_generation", max_generation).add("max_width", max_width);
  object.add("mps_bytes", mps_bytes).add("mps_supported_bytes", mps_supported_bytes);
  object.add("mrrs_bytes", mrrs_bytes).add("relaxed_ordering", relaxed_ordering);
  object.add("extended_tags", extended_tags).add("no_snoop", no_snoop);
  return object;
}

PcieFacts read_config_space(std::span<const std::uint8_t> bytes) {
  PcieFacts facts;
  const auto word = [&](std::size_t at) {
    return static_cast<unsigned>(bytes[at]) | static_cast<unsigned>(bytes[at + 1]) << 8;
  };
  if (bytes.size() < 64 || !(bytes[kStatus] & 0x10)) return facts;
  std::size_t at = bytes[kCapabilityPointer] & 0xfcu;
  for (int hops = 0; at >= 64 && at + 20 <= bytes.size() && hops < 48; ++hops) {
    if (bytes[at] != kPciExpressCapability) {
      at = bytes[at + 1] & 0xfcu;
      continue;
    }
    const unsigned control = word(at + kDeviceControl);
    facts.relaxed_ordering = (control & 1u << 4) != 0;
    facts.extended_tags = (control & 1u << 8) != 0;
    facts.no_snoop = (control & 1u << 11) != 0;
    facts.mps_supported_bytes = 128 << (word(at + kDeviceCapabilities) & 7);
    facts.mps_bytes = 128 << (control >> 5 & 7);
    facts.mrrs_bytes = 128 << (control >> 12 & 7);
    const unsigned now = word(at + kLinkStatus), most = word(at + kLinkCapabilities);
    if (now & 0xf) facts.generation = static_cast<int>(now & 0xf);
    if (now >> 4 & 0x3f) facts.width = static_cast<int>(now >> 4 & 0x3f);
    if (most & 0xf) facts.max_generation = static_cast<int>(most & 0xf);
    if (most >> 4 & 0x3f) facts.max_width = static_cast<int>(most >> 4 & 0x3f);
    break;
  }
  return facts;
}

PcieFacts read_pcie(const std::filesystem::path& device) {
  const std::string bytes = file_text(device / "config");
  PcieFacts facts = read_config_space(
      std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  if (!facts.generation) facts.generation = speed_file(device / "current_link_speed");
  if (!facts.width) facts.width = width_file(device / "current_link_width");
  if (!facts.max_generation) facts.max_generation = speed_file(device / "max_link_speed");
  if (!facts.max_width) facts.max_width = width_file(device / "max_link_width");
  return facts;
}

Object read_cpu(const std::string& cpuinfo) {
  std::string model_name, family, model;
  std::size_t processors = 0;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    const std::string value = begin == std::string::npos ? "" : line.substr(begin);
    if (key == "processor") ++processors;
    if (key == "model name") model_name = value;
    if (key == "cpu family") family = value;
    if (key == "model") model = value;
  }
  Object object;
  object.add("model_name", model_name).add("family", family).add("model", model);
  return object.add("processors", processors);
}

std::string read_driver_version(const std::string& text) {
  std::smatch match;
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (...)"
  static const std::regex pattern(R"(NVRM version:.*?\s(\d+\.\d+(\.\d+)?)\s)");
  return std::regex_search(text, match, pattern) ? match[1].str() : "";
}

}  // namespace marrow::tools
