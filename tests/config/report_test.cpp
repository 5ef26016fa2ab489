// Does a listing of parameters show every value with its evidence?
#include "sim/config/report.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/config/files.h"

namespace marrow::config {
namespace {

constexpr std::array kDeclarations = {
    Declaration{"gpu.clock_ghz", 0.1, 3, "SM clock"},
    Declaration{"nic.fetch_ns", 0, std::numeric_limits<double>::infinity(), "WQE fetch"},
    Declaration{"gpu.queues", 1, 64, "queues"},
};

class Report : public Files {
 protected:
  Report()
      : parameters_(ParameterSet::load(
            write("s.yaml",
                  "system: test\n"
                  "description: a small one\n"
                  "parameters:\n"
                  "  gpu.clock_ghz: {value: 1.98, measured: probe, interval: [1.97, 1.99]}\n"
                  "  nic.fetch_ns: {value: 500, assumed: a reason that is so long that it takes "
                  "more than one line of the table; ± 3 µs}\n"
                  "  gpu.queues: {value: 4, assumed: \"\\xff\"}\n"),
            kDeclarations)) {}

  ParameterSet parameters_;
};

TEST_F(Report, TableIsGroupedAndNamesUnitsAndSources) {
  std::ostringstream out;
  show(parameters_, false, out);
  const std::string table = out.str();
  EXPECT_TRUE(
      says(table, {"system test: a small one\n", "\ngpu\n", "\nnic\n", "1.97 to 1.99", "measured",
                   path("s.yaml") + ":4\n", "± 3 µs", "3 parameters: 1 measured, 2 assumed\n"}));
  EXPECT_LT(table.find("gpu.queues"), table.find("nic.fetch_ns"));
  EXPECT_EQ(table.find(" \n"), std::string::npos);
  // The columns of two rows of different groups line up.
  const auto column = [&](const std::string& row, const std::string& cell) {
    const std::size_t start = table.find(row);
    return table.find(cell, start) - start;
  };
  EXPECT_EQ(column("gpu.clock_ghz", "measured"), column("nic.fetch_ns", "assumed"));
}

TEST_F(Report, JsonHoldsEverything) {
  std::ostringstream out;
  show(parameters_, true, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["schema"], "marrow.config/1");
  EXPECT_EQ(json["system"], "test");
  EXPECT_EQ(json["evidence"]["assumed"], 2);
  ASSERT_EQ(json["parameters"].size(), 3u);
  const auto& clock = json["parameters"][0];
  EXPECT_EQ(clock["key"], "gpu.clock_ghz");
  EXPECT_EQ(clock["value"], 1.98);
  EXPECT_EQ(clock["unit"], "ghz");
  EXPECT_EQ(clock["min"], 0.1);
  EXPECT_EQ(clock["max"], 3.0);
  EXPECT_EQ(clock["evidence"], "measured");
  EXPECT_EQ(clock["source"], "probe");
  EXPECT_EQ(clock["interval"], nlohmann::json({1.97, 1.99}));
  EXPECT_EQ(clock["place"], path("s.yaml") + ":4");
  EXPECT_EQ(clock["doc"], "SM clock");
  EXPECT_TRUE(json["parameters"][1]["interval"].is_null());
  EXPECT_TRUE(json["parameters"][1]["max"].is_null());  // JSON has no infinity
  EXPECT_EQ(json["parameters"][2]["unit"], "");
}

TEST_F(Report, CountsEvidence) {
  const auto counts = evidence_counts(parameters_);
  EXPECT_EQ(counts[static_cast<std::size_t>(Evidence::kMeasured)], 1u);
  EXPECT_EQ(counts[static_cast<std::size_t>(Evidence::kAssumed)], 2u);
  EXPECT_EQ(counts[static_cast<std::size_t>(Evidence::kFitted)], 0u);
}

}  // namespace
}  // namespace marrow::config
