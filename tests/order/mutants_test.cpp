// Is a recipe that lost a fence, an acquire, a wait or a queue flagged where the rules make it
// unsafe, and only there? tests/order/mutants.txt lists every mutant with the reason.
#include "sim/order/mutants.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "sim/config/recipe.h"

namespace marrow::order {
namespace {

const std::string kRoot = MARROW_SOURCE_DIR;

struct Section {
  std::string title, recipe;
  std::vector<std::string> sets;
  CheckOptions options;
  std::map<std::string, std::string> verdicts;
};

std::vector<Section> sections() {
  std::ifstream in(kRoot + "/tests/order/mutants.txt");
  std::vector<Section> list;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      Section s;
      s.title = line.substr(1, line.size() - 2);
      std::istringstream fields(s.title);
      for (std::string field; std::getline(fields, field, ';');) {
        if (field[0] == ' ') field.erase(0, 1);
        if (s.recipe.empty())
          s.recipe = field;
        else if (field == "same_cta")
          s.options.same_cta = true;
        else if (field == "caller_releases")
          s.options.caller_releases = true;
        else if (field == "caller_acquires")
          s.options.caller_acquires = true;
        else
          s.sets.push_back(field);
      }
      list.push_back(std::move(s));
      continue;
    }
    const auto one = line.find(" | "), two = line.find(" | ", one + 3);
    EXPECT_NE(two, std::string::npos) << line;
    EXPECT_GT(line.size(), two + 3) << "no reason: " << line;
    list.back().verdicts[line.substr(one + 3, two - one - 3)] = line.substr(0, one);
  }
  return list;
}

class MutantsOf : public testing::TestWithParam<std::size_t> {};

TEST_P(MutantsOf, AreFlaggedWhereTheListCallsThemUnsafeAndOnlyThere) {
  const Section section = sections()[GetParam()];
  const Program program =
      config::load_recipe(config::recipe_path(section.recipe, kRoot + "/configs"), {}, section.sets)
          .program;
  ASSERT_TRUE(check(program, section.options).findings.empty()) << section.title;
  CheckOptions options = section.options;
  options.stop_at_first = true;
  auto left = section.verdicts;
  for (const Mutant& mutant : mutants(program, options)) {
    const auto it = left.find(mutant.name);
    ASSERT_NE(it, left.end()) << section.title << ": not in the list: " << mutant.name;
    const CheckResult result = check(mutant.program, mutant.options);
    EXPECT_TRUE(!result.findings.empty() || result.cut_off.empty()) << mutant.name;
    EXPECT_EQ(!result.findings.empty(), it->second == "unsafe")
        << section.title << ": " << mutant.name;
    left.erase(it);
  }
  EXPECT_TRUE(left.empty()) << section.title << " has no mutant " << left.begin()->first;
}

std::string test_name(const testing::TestParamInfo<std::size_t>& info) {
  const std::string title = sections()[info.param].title;
  std::string name;
  for (char c : title) name += std::isalnum(c) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recipes, MutantsOf, testing::Range<std::size_t>(0, sections().size()),
                         test_name);

// The bar: 95 % of the unsafe ones.
TEST(Mutants, AreMissedRarely) {
  std::map<std::string, int> count;
  for (const Section& section : sections())
    for (const auto& [mutant, verdict] : section.verdicts) ++count[verdict];
  EXPECT_EQ(count.size(), 3U);
  EXPECT_GT(count["equivalent"], 0);
  EXPECT_GE(count["unsafe"], 0.95 * (count["unsafe"] + count["missed"]));
}

}  // namespace
}  // namespace marrow::order
