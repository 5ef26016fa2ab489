// Does the page get what is in the files, and does it say what is wrong with those that it cannot
// read?
#include "sim/report/gather.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "models/common/error.h"
#include "sim/report/messages.h"
#include "sim/report/page.h"

namespace marrow::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const char* const kRun =
    R"({"schema":"marrow.run/1","system":"s","runs":[{"run":"r","messages":2,"stages":[
        {"stage":"wqe","count":2,"p10_ns":1,"median_ns":2,"p90_ns":3,"p99_ns":3,"mean_ns":2,"share":1}
        ]}],"total":{"messages":2,"stages":[]}})";
const char* const kHead =
    "run,warp,sm,queue,index,op,start_ns,wqe_ns,completion_ns,polls,rang,put_ns,end_to_end_ns,"
    "bytes\n";

class Report : public testing::Test {
 protected:
  Report() {
    root_ = fs::path(testing::TempDir()) /
            (std::string("marrow-report-") +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~Report() override { fs::remove_all(root_); }

  std::string make(const std::string& name, const std::string& text) const {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  std::string folder() const { return root_.string(); }
  static std::string refused(const std::vector<std::string>& paths) {
    try {
      gather(paths, "", "1");
    } catch (const InputError& error) {
      return error.what();
    }
    return "not refused";
  }

 private:
  fs::path root_;
};

TEST_F(Report, QuantilesOfMessagesAreThoseOfTheirLines) {
  // wqe 1 to 1000 ns in turn: quantile p is the time at floor(1000 p) of the sorted times.
  std::string csv = kHead;
  for (int i = 0; i < 1000; ++i) {
    const int wqe = 1 + (i * 7) % 1000;  // each once, in another order
    csv += "\"a, b\",0,0,0," + std::to_string(i) + ',' + std::to_string(i) + ',' +
           std::to_string(i * 10) + ',' + std::to_string(wqe) + ",,0,1," + std::to_string(wqe) +
           ',' + std::to_string(wqe + 100) + (i % 4 == 0 ? ",4096\n" : ",8\n");
  }
  const Json json = summarize_messages(make("m.csv", csv));
  ASSERT_EQ(json["runs"].size(), 1u);
  const Json& run = json["runs"][0];
  EXPECT_EQ(run["run"], "a, b");
  EXPECT_EQ(run["messages"], 1000);
  ASSERT_EQ(run["stages"].size(), 3u);  // nobody waited: no completion
  const Json& wqe = run["stages"][0];
  EXPECT_EQ(wqe["stage"], "wqe");
  EXPECT_EQ(wqe["mean_ns"], 500.5);
  for (std::size_t i = 0; i < json["probabilities"].size(); ++i) {
    const double p = json["probabilities"][i];
    const int at = std::min(999, static_cast<int>(1000 * p + 1e-9));
    EXPECT_EQ(wqe["quantiles_ns"][i], at + 1) << p;
  }
  // 250 of 4096 B, 750 of 8 B.
  ASSERT_EQ(run["by_size"].size(), 2u);
  EXPECT_EQ(run["by_size"][0]["bytes"], 8);
  EXPECT_EQ(run["by_size"][0]["count"], 750);
  EXPECT_EQ(run["by_size"][1]["count"], 250);
}

TEST_F(Report, BinsOverTimeHoldEveryMessageAndStayFew) {
  // A message every us, for 100,000 us; it takes 50 ns, in the second half 80.
  std::string csv = kHead;
  for (int i = 0; i < 100'000; ++i) {
    const std::string ns = i < 50'000 ? "50" : "80";
    csv += "r,0,0,0,0,0," + std::to_string(i) + "000," + ns + ",,0,1," + ns + "," + ns + ",8\n";
  }
  const Json time = summarize_messages(make("m.csv", csv))["runs"][0]["over_time"];
  std::uint64_t messages = 0;
  for (const Json& bin : time["bins"]) messages += bin[1].get<std::uint64_t>();
  EXPECT_EQ(messages, 100'000u);
  EXPECT_LE(time["bins"].size(), 160u);
  EXPECT_GT(time["bins"].size(), 80u);
  EXPECT_EQ(time["bins"].front()[3], 50);
  EXPECT_EQ(time["bins"].back()[3], 80);
}

TEST_F(Report, AFolderGivesWhatIsKnownAndNamesTheRest) {
  make("a/run.json", kRun);
  make("b/messages.csv", std::string(kHead) + "r,0,0,0,0,0,0,5,,0,1,5,5,8\n");
  make("b/other.json", R"({"schema":"marrow.config/1"})");
  make("b/results.csv", "point,x\n");
  make("notes.txt", "hello");
  const Json data = gather({folder()}, "", "1.2");
  EXPECT_EQ(data["schema"], "marrow.report/1");
  EXPECT_EQ(data["version"], "1.2");
  EXPECT_EQ(data["runs"].size(), 1u);
  EXPECT_EQ(data["messages"].size(), 1u);
  ASSERT_EQ(data["sources"].size(), 3u);
  EXPECT_EQ(data["sources"][2]["skipped"], true);
  EXPECT_EQ(data["stages"][1], "host_notice");
  // The same file given twice is shown once.
  EXPECT_EQ(gather({folder(), folder() + "/a/run.json"}, "", "1")["runs"].size(), 1u);
}

TEST_F(Report, RowsThatMissGetTheirReason) {
  const std::string notes = make("notes.txt",
                                 "# head\ncap | cfg 1 | wqe | this one\ncap | cfg 2 | | all of it\n"
                                 "measurements | t-1 | | the cell\n");
  const std::string rows =
      R"("rows":[{"case":"cfg 1","stage":"wqe","error":0.2},{"case":"cfg 1","stage":"slot","error":0.2},
         {"case":"cfg 2","stage":"slot","error":-0.2},{"case":"cfg 2","stage":"wqe","error":0.1},
         {"case":"t-1","stage":"rate","error":0.5}],"summary":{})";
  const std::string path = make(
      "v.json", R"({"schema":"marrow.validate/1","capture":"some/where/cap.trace",)" + rows + "}");
  const Json got = gather({path}, notes, "1")["validations"][0]["rows"];
  EXPECT_EQ(got[0]["why"], "this one");
  EXPECT_FALSE(got[1].contains("why"));
  EXPECT_EQ(got[2]["why"], "all of it");
  EXPECT_FALSE(got[3].contains("why"));  // it does not miss
  EXPECT_EQ(got[4]["why"], "the cell");
}

TEST_F(Report, ASweepsPointsBecomeColumns) {
  const std::string path = make("s.json", R"({"schema":"marrow.sweep/1","axes":[{"name":"x"}],
      "metrics":["m"],"points":[
        {"point":0,"parameters":{"x":1},"metrics":{"m":10.5},"error":null},
        {"point":1,"parameters":{"x":2},"metrics":{},"error":"stuck"}],
      "sensitivity":[{"what":"elasticity","axis":"x","metric":"m","result":0.5},
                     {"what":"elasticity","axis":"y","metric":"m","result":0.00001}]})");
  const Json sweep = gather({path}, "", "1")["sweeps"][0];
  EXPECT_EQ(sweep["points"]["count"], 2);
  EXPECT_EQ(sweep["points"]["parameters"]["x"], Json::array({1, 2}));
  EXPECT_EQ(sweep["points"]["metrics"]["m"], Json::array({10.5, nullptr}));
  EXPECT_EQ(sweep["points"]["errors"][0]["error"], "stuck");
  EXPECT_EQ(sweep["sensitivity"].size(), 1u);
}

TEST_F(Report, WhatCannotBeReadIsRefusedWithItsPlace) {
  EXPECT_NE(refused({folder() + "/none"}).find("/none: no such file"), std::string::npos);
  EXPECT_NE(refused({folder()}).find("nothing that a report shows"), std::string::npos);
  const std::string config = make("c.json", R"({"schema":"marrow.config/1"})");
  EXPECT_NE(refused({config}).find(config + ": nothing that a report shows"), std::string::npos);
  EXPECT_NE(refused({make("cut.json", R"({"schema":"marr)")}).find("cut.json: not JSON"),
            std::string::npos);
  EXPECT_NE(
      refused({make("r.json", R"({"schema":"marrow.run/1"})")}).find("r.json: not as marrow.run/1"),
      std::string::npos);
  EXPECT_NE(refused({make("points.csv", "point,x,error\n0,1,\n")}).find("nothing that a report"),
            std::string::npos);
  const std::string head = kHead;
  EXPECT_NE(refused({make("a.csv", head + "r,0,0,0,0,0,0,5,,0,1,5,5,8\nr,0,0\n")})
                .find("a.csv:3: 3 fields where the first line has 14"),
            std::string::npos);
  EXPECT_NE(refused({make("b.csv", head + "r,0,0,0,0,0,0,x,,0,1,5,5,8\n")})
                .find("b.csv:2: 'x' is no time in ns"),
            std::string::npos);
  EXPECT_NE(refused({make("d.csv", head + "r,0,0,0,0,0,0,-1,,0,1,5,5,8\n")}).find("d.csv:2"),
            std::string::npos);
}

TEST_F(Report, ARunThatNoRunCanBeIsRefusedWithThePlaceInIt) {
  const std::string good = kRun;
  EXPECT_EQ(refused({make("good.json", good)}), "not refused");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refused({make("bad.json", text.replace(at, from.size(), to))});
  };
  for (const auto& [from, to, says] : std::vector<std::array<std::string, 3>>{
           {R"("median_ns":2)", R"("median_ns":-2)", "runs[0].stages[0].median_ns is -2"},
           {R"("median_ns":2)", R"("median_ns":1e30)", "runs[0].stages[0].median_ns"},
           {R"("median_ns":2)", R"("median_ns":"2")", "runs[0].stages[0].median_ns is no number"},
           {R"("share":1)", R"("share":7)", "runs[0].stages[0].share is 7"},
           {R"("count":2)", R"("count":0)", "runs[0].stages[0].count is 0"},
           {R"("stage":"wqe")", R"("stage":5)", "runs[0].stages[0].stage is no text"},
           {R"("stage":"wqe",)", "", "runs[0].stages[0].stage is missing"},
           {R"("run":"r")", R"("run":null)", "runs[0].run is no text"},
           {R"("messages":2,)", "", "runs[0].messages is missing"},
           {R"("total":{)", R"("totals":{)", "total is missing"},
           {R"("system":"s",)", "", "system is missing"}})
    EXPECT_NE(with(from, to).find("bad.json: not as marrow.run/1 has it: " + says),
              std::string::npos)
        << with(from, to);
  // Nothing in it.
  for (const char* empty :
       {R"({"schema":"marrow.run/1","system":"s","runs":[],"total":{"messages":0,"stages":[]}})",
        R"({"schema":"marrow.run/1","system":"s","runs":[{"run":"r","messages":1,"stages":[]}],
            "total":{"messages":0,"stages":[]}})",
        R"({"schema":"marrow.run/1","system":"s","comparison":[]})",
        R"({"schema":"marrow.validate/1","rows":[],"summary":{}})",
        R"({"schema":"marrow.sweep/1","axes":[],"metrics":[],"points":[],"sensitivity":[]})"})
    EXPECT_NE(refused({make("empty.json", empty)}).find("is empty"), std::string::npos) << empty;
}

TEST_F(Report, NoValueOfAnotherTypeLeaksTheParsersWords) {
  const char* const files[] = {
      kRun,
      R"({"schema":"marrow.validate/1","capture":"c","rows":[{"case":"a","stage":"wqe","error":0.2,
          "measured":{"median":1},"predicted":{"median":1}}],"summary":{}})",
      R"({"schema":"marrow.sweep/1","axes":[{"name":"x"}],"metrics":["m"],"points":[
          {"point":0,"parameters":{"x":1},"metrics":{"m":10.5},"error":null}],
          "sensitivity":[{"what":"elasticity","axis":"x","metric":"m","result":0.5}]})"};
  for (const char* text : files) {
    const Json whole = Json::parse(text);
    const auto flat = whole.flatten();
    std::set<std::string> places;  // of every value, and of what it is in
    for (const auto& [place, value] : flat.items())
      for (std::size_t at = place.size(); at > 0; at = place.rfind('/', at - 1))
        if (places.insert(place.substr(0, at)).second)
          for (const char* other : {"null", "\"x\"", "-1e300", "[]", "{}", "[1]", "true"}) {
            Json bad = whole;
            bad[Json::json_pointer(place.substr(0, at))] = Json::parse(other);
            std::string said;
            EXPECT_NO_THROW(said = refused({make("bad.json", bad.dump())}))
                << bad.dump() << " at " << place.substr(0, at);
            EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
          }
  }
}

TEST_F(Report, OneBadFileInAFolderIsNamedAndTheOthersAreShown) {
  make("a/run.json", kRun);
  const std::string cut = make("b/cut.csv", std::string(kHead) + "r,0,0,0,0,0,0,5,,0,1,5,5,8\nr,0");
  const std::string half = make("b/half.json", R"({"schema":"marrow.run/1","runs":[)");
  const std::string absurd = make("b/x.json", R"({"schema":"marrow.run/1","system":"s","runs":5})");
  const Json data = gather({folder()}, "", "1");
  EXPECT_EQ(data["runs"].size(), 1u);
  EXPECT_EQ(data["messages"].size(), 0u);
  std::map<std::string, std::string> faults;
  for (const Json& source : data["sources"])
    if (source.contains("fault")) faults[source["file"]] = source["fault"];
  ASSERT_EQ(faults.size(), 3u) << data["sources"].dump(1);
  EXPECT_NE(faults[cut].find("cut.csv:3"), std::string::npos) << faults[cut];
  EXPECT_NE(faults[half].find("cut off"), std::string::npos) << faults[half];
  EXPECT_NE(faults[absurd].find("runs is no list"), std::string::npos) << faults[absurd];
}

TEST_F(Report, WhatIsStillBeingWrittenIsNoOutput) {
  make("run.json", kRun);
  make("run.json.123-0.tmp", kRun);
  make("m.csv.9-1.tmp", std::string(kHead) + "r,0,0,0,0,0,0,5,,0,1,5,5,8\n");
  const Json data = gather({folder()}, "", "1");
  EXPECT_EQ(data["runs"].size(), 1u);
  EXPECT_EQ(data["messages"].size(), 0u);
  EXPECT_NE(refused({folder() + "/run.json.123-0.tmp"}), "not refused");
}

TEST_F(Report, DataStandInThePageWithoutEndingItsScript) {
  const std::string page = make("t.html", "<script>\"MARROW_DATA\"</script>");
  std::ostringstream out;
  write_page(out, page, {{"run", "</script><!--"}});
  EXPECT_EQ(out.str(), "<script>{\"run\":\"\\u003c/script>\\u003c!--\"}</script>");
  EXPECT_EQ(Json::parse(out.str().substr(8, out.str().size() - 17))["run"], "</script><!--");
}

TEST_F(Report, WithoutNodeItSaysWhatToInstall) {
  std::ostringstream out;
  try {
    write_page(out, folder() + "/none.html", Json::object());
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("apt-get install nodejs npm"), std::string::npos);
  }
}

}  // namespace
}  // namespace marrow::report
