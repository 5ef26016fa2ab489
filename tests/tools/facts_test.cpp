// Are the machine's facts read from where the system keeps them?
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/common/machine_facts.h"

namespace marrow::tools {
namespace {

// The first 128 bytes of an H200's configuration space. lspci would say of the capability at 0x60:
// DevCap MaxPayload 256; DevCtl RlxdOrd+ ExtTag+ NoSnoop-, MaxPayload 256, MaxReadReq 4096;
// LnkCap and LnkSta 32 GT/s, x16.
constexpr const char* kConfig =
    "de 10 35 23 46 05 10 00 a1 00 02 03 00 00 00 00 0c 00 00 02 40 10 00 00 0c 00 00 00 00 10 00 "
    "00 0c 00 00 00 40 10 00 00 00 00 00 00 de 10 bf 18 00 00 00 00 40 00 00 00 00 00 00 00 ff 01 "
    "00 00 01 48 13 00 08 00 00 00 05 60 88 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
    "00 00 00 10 b0 02 00 21 80 2c 11 34 51 00 00 05 79 45 00 00 00 05 11 00 00 00 00 00 00 00 00 "
    "00 00 00 00";

std::vector<std::uint8_t> config_bytes() {
  std::vector<std::uint8_t> bytes;
  std::istringstream text(kConfig);
  for (unsigned byte = 0; text >> std::hex >> byte;)
    bytes.push_back(static_cast<std::uint8_t>(byte));
  return bytes;
}

TEST(ProbeFacts, AnH200sConfigurationSpaceIsRead) {
  const PcieFacts facts = read_config_space(config_bytes());
  EXPECT_EQ(facts.generation, 5);
  EXPECT_EQ(facts.width, 16);
  EXPECT_EQ(facts.max_generation, 5);
  EXPECT_EQ(facts.max_width, 16);
  EXPECT_EQ(facts.mps_bytes, 256);
  EXPECT_EQ(facts.mps_supported_bytes, 256);
  EXPECT_EQ(facts.mrrs_bytes, 4096);
  EXPECT_EQ(facts.relaxed_ordering, true);
  EXPECT_EQ(facts.extended_tags, true);
  EXPECT_EQ(facts.no_snoop, false);
}

TEST(ProbeFacts, WithoutRootTheRestIsUnknownNotInvented) {
  auto bytes = config_bytes();
  bytes.resize(64);
  const PcieFacts facts = read_config_space(bytes);
  EXPECT_FALSE(facts.mps_bytes);
  EXPECT_FALSE(facts.relaxed_ordering);
  EXPECT_TRUE(nlohmann::json::parse(facts.object().text()).at("mrrs_bytes").is_null());
  EXPECT_FALSE(read_config_space({}).generation);
}

TEST(ProbeFacts, ACapabilityListThatBitesItsTailEnds) {
  auto bytes = config_bytes();
  bytes[0x48] = 0x05;  // an MSI capability ...
  bytes[0x49] = 0x40;  // ... points back to the first
  bytes[0x41] = 0x48;
  EXPECT_FALSE(read_config_space(bytes).generation);
}

TEST(ProbeFacts, SpeedAndWidthAreReadWithoutRoot) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "probe_facts";
  fs::remove_all(folder);
  fs::create_directory(folder);
  std::ofstream(folder / "current_link_speed") << "16.0 GT/s PCIe\n";
  std::ofstream(folder / "current_link_width") << "8\n";
  std::ofstream(folder / "max_link_speed") << "Unknown\n";
  const PcieFacts facts = read_pcie(folder);
  EXPECT_EQ(facts.generation, 4);
  EXPECT_EQ(facts.width, 8);
  EXPECT_FALSE(facts.max_generation);
  EXPECT_FALSE(facts.max_width);
  fs::remove_all(folder);
}

TEST(ProbeFacts, TheProcessorIsReadAndTheDriver) {
  const auto cpu = nlohmann::json::parse(
      read_cpu("processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Some Xeon\n"
               "power management:\n\nprocessor\t: 1\ncpu family\t: 6\n")
          .text());
  EXPECT_EQ(cpu.at("model_name"), "Some Xeon");
  EXPECT_EQ(cpu.at("family"), "6");
  EXPECT_EQ(cpu.at("model"), "207");
  EXPECT_EQ(cpu.at("processors"), 2);
  EXPECT_EQ(read_driver_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                                "580.159.04  Release Build  (builder@)\nGCC version: 15.3.0\n"),
            "580.159.04");
  EXPECT_EQ(read_driver_version("nothing"), "");
}

}  // namespace
}  // namespace marrow::tools
