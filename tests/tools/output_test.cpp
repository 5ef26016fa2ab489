// Is a measurement file whole or absent, and its rows such that old readers read them?
#include "tools/common/output.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/common/error.h"

namespace marrow::tools {
namespace {

namespace fs = std::filesystem;

class ProbeOutput : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("probe_output_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file() const { return folder_ / "probe.jsonl"; }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(ProbeOutput, ARowHasTheOlderFilesMembersInTheirOrder) {
  std::ifstream old(std::string(MARROW_ROOT) + "/validate/probes/h200-e-probe.jsonl");
  std::string line;
  while (std::getline(old, line) && line.find("\"median\"") == std::string::npos) {
  }
  const auto theirs = nlohmann::ordered_json::parse(line);
  const auto ours = nlohmann::ordered_json::parse(
      row_text("op", Object().add("op", "none"), "cycles", summarize({{48, 48}})));
  auto our = ours.begin();
  for (auto their = theirs.begin(); their != theirs.end(); ++their, ++our) {
    ASSERT_NE(our, ours.end());
    EXPECT_EQ(our.key(), their.key());
    EXPECT_EQ(our.value().type_name(), std::string(their.value().type_name()));
  }
}

TEST_F(ProbeOutput, TheOverheadIsStatedAndSubtracted) {
  // h200-c's probe: a system fence takes 1098 cycles, of which the clocks' reading is 48.
  const auto row = nlohmann::json::parse(row_text("op", Object().add("op", "fence.sys"), "cycles",
                                                  summarize({{1098, 1098, 1098}}), 48.0));
  EXPECT_EQ(row.at("median"), 1098);
  EXPECT_EQ(row.at("overhead"), 48);
  EXPECT_EQ(row.at("net_median"), 1050);
  const auto without =
      nlohmann::json::parse(row_text("op", Object(), "cycles", summarize({{1098}})));
  EXPECT_FALSE(without.contains("net_median"));
}

TEST_F(ProbeOutput, TextIsJsonWhateverItHolds) {
  const Object object = Object()
                            .add("text", "a \"quoted\" \\ \n word")
                            .add("yes", true)
                            .add("whole", std::size_t{1} << 40)
                            .add("absent", std::optional<int>())
                            .add("there", std::optional<int>(5))
                            .add("inner", Object().add("rate", 1.98))
                            .add_list("numbers", std::vector<double>{1, 2.5})
                            .add_list("words", std::vector<std::string>{"a", "b"});
  const auto json = nlohmann::json::parse(object.text());
  EXPECT_EQ(json.at("text"), "a \"quoted\" \\ \n word");
  EXPECT_EQ(json.at("yes"), true);
  EXPECT_EQ(json.at("whole"), 1099511627776);
  EXPECT_TRUE(json.at("absent").is_null());
  EXPECT_EQ(json.at("there"), 5);
  EXPECT_EQ(json.at("inner").at("rate"), 1.98);
  EXPECT_EQ(json.at("numbers"), (nlohmann::json{1, 2.5}));
  EXPECT_EQ(json.at("words"), (nlohmann::json{"a", "b"}));
}

TEST_F(ProbeOutput, NumbersHaveNoDecimalsThatSayNothing) {
  EXPECT_EQ(Object::number(48), "48");
  EXPECT_EQ(Object::number(280.82), "280.82");
  EXPECT_EQ(Object::number(1.9799612), "1.98");
  EXPECT_EQ(Object::number(-0.00001), "0");
  EXPECT_EQ(Object::number(703964), "703964");
  EXPECT_EQ(Object::number(100), "100");
  EXPECT_THROW(Object::number(1 / 0.0), std::invalid_argument);
}

TEST_F(ProbeOutput, AFileIsThereOnceItIsWhole) {
  {
    MeasurementFile measurements(file());
    measurements.add_line("{\"name\":\"a\"}");
    EXPECT_FALSE(fs::exists(file()));
    measurements.commit(Object().add("schema", "marrow.probe/1"));
  }
  std::ifstream in(file());
  std::string header, row, more;
  std::getline(in, header);
  std::getline(in, row);
  EXPECT_EQ(header, "{\"schema\":\"marrow.probe/1\"}");
  EXPECT_EQ(row, "{\"name\":\"a\"}");
  EXPECT_FALSE(std::getline(in, more));
  EXPECT_EQ(entries(), 1u) << "no draft stays";
}

TEST_F(ProbeOutput, WithoutAnEndTheOldFileStays) {
  std::ofstream(file()) << "old\n";
  {
    MeasurementFile measurements(file());
    measurements.add_line("{}");
  }
  std::ifstream in(file());
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(ProbeOutput, AFolderThatIsNotThereIsToldBeforeMeasuring) {
  try {
    MeasurementFile measurements((folder_ / "nowhere/probe.jsonl").string());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("nowhere/probe.jsonl"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--out"), std::string::npos);
  }
}

}  // namespace
}  // namespace marrow::tools
