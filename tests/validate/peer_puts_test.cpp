// Are many blocks' puts between two GPUs predicted within the bound that was set for them, from
// half of the configurations?
#include "validate/peer_puts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/config/system.h"
#include "tests/support/systemc_fixture.h"

namespace marrow::validate {
namespace {

const std::string kRoot = MARROW_ROOT;
const std::string kTable = kRoot + "/validate/measurements/nvlink/h200x2-l-puts.yaml";

class PeerPutsTest : public SystemC {};

TEST_F(PeerPutsTest, TheOtherHalfIsPredictedWithinFivePercentAndNineTenthsWithinEighteen) {
  const PutsTable table = load_puts_table(kTable);
  PeerPuts puts(config::bind(config::load_system(kRoot + "/configs/systems/h200x2-l.yaml", {})),
                kRoot + "/configs", table.begin_spread_cycles);
  std::vector<double> errors;
  for (const PutsRow& row : table.rows) {
    if (row.fit) continue;
    const PutsResult predicted = puts.predict(row.the);
    errors.push_back(std::abs(predicted.issue.median / row.issue - 1));
    errors.push_back(std::abs(predicted.rtt.median / row.rtt - 1));
  }
  ASSERT_EQ(errors.size(), 72u);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.05);
  EXPECT_LE(errors[errors.size() * 9 / 10], 0.18);
}

TEST_F(PeerPutsTest, TheTableHoldsTheProbesMediansAndEverySecondIsFit) {
  const PutsTable table = load_puts_table(kTable);
  std::map<std::string, std::pair<double, double>> medians;
  std::vector<std::string> order;
  std::ifstream probe(kRoot + "/validate/probes/h200x2-l-probe.jsonl");
  for (std::string line; std::getline(probe, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string name = row.at("name");
    if (!name.starts_with("peer_puts_") && !name.starts_with("peer_dispatch_")) continue;
    auto cond = row.at("cond");
    cond.erase("load_outlasted");
    const std::string key = cond.dump();
    if (!medians.contains(key)) order.push_back(key);
    (name.ends_with("_rtt") ? medians[key].second : medians[key].first) = row.at("median");
  }
  ASSERT_EQ(order.size(), table.rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(table.rows[i].issue, medians[order[i]].first) << table.rows[i].id;
    EXPECT_EQ(table.rows[i].rtt, medians[order[i]].second) << table.rows[i].id;
    EXPECT_EQ(table.rows[i].fit, i % 2 == 0) << table.rows[i].id;
  }
}

}  // namespace
}  // namespace marrow::validate
