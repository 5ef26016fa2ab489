// Do the DMA engine and its link reproduce pcie-bench's latency and bandwidth curves?
#include "validate/pcie_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "sim/config/yaml_source.h"

namespace marrow::validate {
namespace {

const std::string kRoot = MARROW_ROOT;

struct Cell {
  std::string id, system, role;
  PcieBenchCase what;
  double value = 0;
};

std::vector<Cell> cells() {
  const auto file = config::YamlNode::open(kRoot + "/validate/measurements/pcie-bench/pcie-bench.yaml");
  std::vector<Cell> all;
  for (const auto& row : file.at("rows").items()) {
    row.only({"id", "system", "test", "size_bytes", "window_bytes", "iommu", "memory", "value",
              "unit", "avg", "role", "note"});
    Cell cell;
    cell.id = row.at("id").text();
    cell.role = row.at("role").one_of({"fit", "predicted", "none"});
    if (const auto system = row.find("system")) cell.system = system->text();
    const auto test = pcie_test(row.at("test").text());
    if (!test) row.at("test").fail("no such test");
    cell.what = {*test, static_cast<std::uint64_t>(row.at("size_bytes").integer(1, 4096)),
                 static_cast<std::uint64_t>(row.at("window_bytes").integer(64)), row.has("memory")};
    cell.value = row.at("value").number(0);
    all.push_back(cell);
  }
  return all;
}

double predict(const Cell& cell) {
  static std::map<std::string, config::SystemSpec> systems;
  if (!systems.contains(cell.system))
    systems[cell.system] =
        config::bind(config::load_system(kRoot + "/configs/systems/" + cell.system + ".yaml"));
  return predict_pcie_bench(systems[cell.system], cell.what);
}

/// The cells whose id starts with `prefix`; with MARROW_SHOW set they are printed.
std::map<std::string, double> errors(const std::string& prefix) {
  std::map<std::string, double> all;
  for (const Cell& cell : cells()) {
    if (!cell.id.starts_with(prefix) || cell.role == "none") continue;
    const double predicted = predict(cell);
    all[cell.id] = predicted / cell.value - 1;
    if (std::getenv("MARROW_SHOW"))
      std::cout << cell.id << ' ' << cell.role << ' ' << cell.what.size_bytes << " B: measured "
                << cell.value << ", predicted " << std::setprecision(5) << predicted << ", "
                << std::showpos << std::setprecision(3) << 100 * all[cell.id] << " %\n"
                << std::noshowpos;
  }
  return all;
}

TEST(PcieBench, EveryCellOfTheMeasurementSetIsListedOnce) {
  std::map<std::string, int> count;
  for (const Cell& cell : cells()) ++count[cell.id.substr(0, cell.id.rfind('-'))];
  const std::map<std::string, int> published = {
      {"pcie-lat", 30}, {"pcie-cmd", 4}, {"pcie-sys", 20}, {"pcie-bw", 36}, {"pcie-iommu-bw", 16}};
  EXPECT_EQ(count, published);
}

void expect_within(const std::map<std::string, double>& errors, double bound,
                   const std::map<std::string, double>& misses = {}) {
  for (const auto& [id, error] : errors) {
    const auto miss = misses.find(id);
    EXPECT_LE(std::abs(error), miss == misses.end() ? bound : miss->second) << id;
    // A miss that is none any more is to be struck off the list.
    if (miss != misses.end()) {
      EXPECT_GT(std::abs(error), bound) << id;
    }
  }
}

TEST(PcieBench, LatenciesAreWithin10Percent) { expect_within(errors("pcie-lat"), 0.10); }

TEST(PcieBench, BandwidthsAreWithin5Percent) {
  // At 1024 B the root complex combined only part of the completions; why is not known. In the same
  // table 1023 B read at 54.0 Gb/s and 1535 B at 55.3 Gb/s, as predicted, 1024 B at 49.1 Gb/s.
  expect_within(errors("pcie-bw"), 0.05, {{"pcie-bw-010", 0.13}, {"pcie-bw-034", 0.10}});
}

TEST(PcieBench, OthersAreWithin10Percent) {
  expect_within(errors("pcie-cmd"), 0.10);
  expect_within(errors("pcie-sys"), 0.10);
  // A window of 64 MB does not fit the last-level cache; memory behind it is not modelled.
  expect_within(errors("pcie-iommu-bw"), 0.10, {{"pcie-iommu-bw-004", 0.12}});
}

}  // namespace
}  // namespace marrow::validate
