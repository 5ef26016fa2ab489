// What the operating system knows about the machine; nothing that names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "tools/common/output.h"

namespace marrow::tools {

/// The PCI Express capability of a function's configuration space (Device Control, Link Status).
struct PcieFacts {
  std::optional<int> generation, width;          ///< of the link as it is now
  std::optional<int> max_generation, max_width;  ///< of the function
  std::optional<int> mps_bytes, mps_supported_bytes, mrrs_bytes;
  std::optional<bool> relaxed_ordering, extended_tags, no_snoop;

  Object object() const;
};

/// From the bytes of a configuration space; what they do not hold stays empty (without root the
/// kernel gives 64 bytes, and the capability lies beyond).
PcieFacts read_config_space(std::span<const std::uint8_t> bytes);

/// Of the function at `device` (/sys/bus/pci/devices/0000:17:00.0).
PcieFacts read_pcie(const std::filesystem::path& device);

/// Model name, family, model and number of processors from text in the form of /proc/cpuinfo.
Object read_cpu(const std::string& cpuinfo);

/// "580.159.04" from text in the form of /proc/driver/nvidia/version; empty if it has none.
std::string read_driver_version(const std::string& text);

/// A file's text; empty if it cannot be read.
std::string file_text(const std::filesystem::path& file);

}  // namespace marrow::tools
