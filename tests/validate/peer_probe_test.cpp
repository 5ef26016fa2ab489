// Are the microbenchmarks between two GPUs predicted within the bound that was set for them?
#include "validate/peer_probe.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/common/error.h"
#include "sim/config/system.h"
#include "tests/support/systemc_fixture.h"

namespace marrow::validate {
namespace {

const std::string kRoot = MARROW_ROOT;
const std::string kTable = kRoot + "/validate/measurements/nvlink/h200x2-f-peer.yaml";

class PeerProbeTest : public SystemC {
 protected:
  static config::SystemSpec spec(const std::vector<std::string>& sets = {}) {
    return config::bind(config::load_system(kRoot + "/configs/systems/h200x2-f.yaml", sets));
  }
};

TEST_F(PeerProbeTest, EveryRowIsPredictedWithinTenPercent) {
  const PeerTable table = load_peer_table(kTable);
  PeerProbe probe(spec(), table.costs);
  for (const PeerRow& row : table.rows) {
    const double error = probe.predict(row) / row.measured - 1;
    std::string text = row.name;
    for (const auto& [name, value] : row.conditions) text += " " + name + "=" + value;
    EXPECT_LE(std::abs(error), 0.10)
        << text << ": " << probe.predict(row) << " against " << row.measured << " at " << row.place;
  }
}

TEST_F(PeerProbeTest, TheTableHoldsTheProbesMedians) {
  const PeerTable table = load_peer_table(kTable);
  std::ifstream probe(kRoot + "/validate/probes/h200x2-f-peer.jsonl");
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(probe, line);)
    if (auto row = nlohmann::json::parse(line); row.contains("median")) rows.push_back(row);
  ASSERT_EQ(rows.size(), table.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("name"), table.rows[i].name);
    EXPECT_EQ(rows[i].at("unit"), table.rows[i].unit);
    EXPECT_EQ(rows[i].at("median"), table.rows[i].measured) << table.rows[i].place;
    for (const auto& [name, value] : table.rows[i].conditions) {
      const auto& there = rows[i].at("cond").at(name);
      EXPECT_EQ(there.is_string() ? there.get<std::string>() : there.dump(), value);
    }
  }
}

TEST_F(PeerProbeTest, ParametersMoveTheRowsThatTheyAreAbout) {
  const PeerTable table = load_peer_table(kTable);
  const PeerRow load{"peer_op", {{"op", "ld8"}}, "cycles", 0, false, ""};
  const PeerRow copy{"peer_copy_engine_bw", {{"bytes", "67108864"}}, "GB/s", 0, false, ""};
  const PeerRow beside{"peer_pingpong_rtt", {{"load", "copy 1 to 0"}}, "cycles", 0, false, ""};
  PeerProbe as_is(spec(), table.costs);
  const double load_cycles = as_is.predict(load), copy_rate = as_is.predict(copy);
  const double beside_cycles = as_is.predict(beside);
  renew();
  PeerProbe changed(spec({"nvlink.load_round_trip_ns+=100", "nvlink.rate_gbps=1800",
                          "nvlink.copy_queue_bytes=0"}),
                    table.costs);
  // The spread of loads is drawn: its median moves by some cycles.
  EXPECT_NEAR(changed.predict(load) - load_cycles, 198, 10) << "100 ns at 1.98 GHz";
  EXPECT_NEAR(changed.predict(copy) / copy_rate, 0.5, 0.03);
  EXPECT_LT(changed.predict(beside), beside_cycles - 500);
}

TEST_F(PeerProbeTest, RowsThatNoModelIsForAreRefused) {
  const PeerTable table = load_peer_table(kTable);
  PeerProbe probe(spec(), table.costs);
  EXPECT_THROW(probe.predict({"peer_dance", {}, "cycles", 0, false, "f:1"}), InputError);
  EXPECT_THROW(probe.predict({"peer_op", {{"op", "ld9"}}, "cycles", 0, false, "f:1"}), InputError);
  EXPECT_THROW(probe.predict({"peer_store_bw", {}, "GB/s", 0, false, "f:1"}), InputError);
  EXPECT_THROW(probe.predict({"peer_store_bw", {{"blocks", "0"}}, "GB/s", 0, false, "f:1"}),
               InputError);
}

TEST_F(PeerProbeTest, ASystemWithOneGpuIsRefused) {
  EXPECT_THROW(PeerProbe(spec({"nvlink.peers_count=0"}), {}), InputError);
}

}  // namespace
}  // namespace marrow::validate
