// Does the chooser name, for each situation, the choice that hand-written outcomes make best?
#include "sim/sweep/chooser.h"

#include <gtest/gtest.h>

#include <sstream>

namespace marrow::sweep {
namespace {

Value named(const std::string& label, const std::string& key) {
  return {label, {}, {{key, label}}};
}

struct Chooser : testing::Test {
  Chooser() {
    study.mode = Mode::kGrid;
    study.metrics = {"put_completion"};
    study.choose_for = {"size"};
    for (const char* name : {"mode", "size"}) {
      Axis axis;
      axis.name = name;
      study.axes.push_back(axis);
    }
    study.axes[0].values = {named("gpu", "protocol"), named("cpu", "protocol")};
    for (const char* mode : {"gpu", "cpu"})
      for (const char* size : {"8", "4096"})
        points.push_back({named(mode, "protocol"), {size, {}, {}}});
  }
  void show(std::initializer_list<double> put_ns) {
    for (const double ns : put_ns)
      outcomes.push_back(ns > 0 ? Outcome{{{"put_completion_median_ns", ns}}, ""}
                                : Outcome{{}, "broke"});
  }
  std::string csv() const {
    std::ostringstream out;
    write_chooser_csv(out, {&study, &points, outcomes, {}});
    return out.str();
  }

  Study study;
  std::vector<Point> points;
  std::vector<Outcome> outcomes;
};

TEST_F(Chooser, TakesTheLeastTimeOfEachSituation) {
  // 8 B: gpu 100 against cpu 150, which is 50 % more. 4096 B: cpu 200 against gpu 250, 25 % more.
  show({100, 250, 150, 200});
  EXPECT_EQ(csv(),
            "size,mode,protocol,put_completion_median_ns,second,margin_percent\n"
            "8,gpu,gpu,100,cpu,50.00\n"
            "4096,cpu,cpu,200,gpu,25.00\n");
}

TEST_F(Chooser, PrefersTheFirstListedAmongEquals) {
  // 100.4 is 0.4 % more than 100: equal. 201.2 is 0.6 % more than 200: not.
  show({100.4, 201.2, 100, 200});
  EXPECT_EQ(csv(),
            "size,mode,protocol,put_completion_median_ns,second,margin_percent\n"
            "8,gpu,gpu,100.4,cpu,-0.40\n"
            "4096,cpu,cpu,200,gpu,0.60\n");
}

TEST_F(Chooser, TakesTheHighestRate) {
  study.metrics = {"rate"};
  for (const double rate : {8., 1., 6., 2.}) outcomes.push_back({{{"rate_mmsg_per_s", rate}}, ""});
  // 8 B: gpu 8, cpu 6: a quarter less. 4096 B: cpu 2, gpu 1: half.
  EXPECT_EQ(csv(),
            "size,mode,protocol,rate_mmsg_per_s,second,margin_percent\n"
            "8,gpu,gpu,8,cpu,25.00\n"
            "4096,cpu,cpu,2,gpu,50.00\n");
}

TEST_F(Chooser, NeverTakesAPointThatFailedAndShowsWhereEveryWayDid) {
  show({-1, -1, 150, -1});
  EXPECT_EQ(csv(),
            "size,mode,protocol,put_completion_median_ns,second,margin_percent\n"
            "8,cpu,cpu,150,,\n"
            "4096,,,,,\n");
  std::ostringstream table;
  write_chooser(table, {&study, &points, outcomes, {}});
  const std::string text = table.str();
  const std::size_t at = text.find("\n4096");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.find("every way failed", at), std::string::npos) << text;
}

TEST_F(Chooser, IsSilentWhereNobodyAsked) {
  study.choose_for.clear();
  show({100, 250, 150, 200});
  std::ostringstream out;
  write_chooser(out, {&study, &points, outcomes, {}});
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace marrow::sweep
