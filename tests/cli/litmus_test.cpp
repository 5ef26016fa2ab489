// Does `marrow litmus` answer as docs/cli.md says?
#include "tests/cli/command.h"

namespace marrow::cli {
namespace {

class LitmusCommand : public Command {};

const char* const kProgram =
    "name: p\nwhy: two stores\nwords: {x: gpu0, y: gpu0}\nthreads:\n"
    "  - {name: A, on: gpu0, do: [{store: {word: x, value: 1}}, {store: {word: y, value: 1}}]}\n"
    "  - {name: B, on: gpu0, do: [{poll: {word: y, at_least: 1}}, {fence: gpu}, {load: {word: x, "
    "result: r}}]}\noutcome: {r: 0}\nrule: ptx-weak\n";

TEST_F(LitmusCommand, ExitsWith0WhereVerdictsAreAsExpectedAndWith1WhereOneDiffers) {
  make("right.yaml", std::string(kProgram) + "expected: allowed\n");
  make("wrong.yaml", std::string(kProgram) + "expected: forbidden\n");
  EXPECT_EQ(marrow({"litmus", path("right.yaml")}).code, 0);
  const Result wrong = marrow({"litmus", path("right.yaml"), path("wrong.yaml")});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.out.find("<-- differs"), std::string::npos) << wrong.out;
  EXPECT_NE(wrong.out.find("2 programs, 1 as expected, 1 not"), std::string::npos) << wrong.out;
}

TEST_F(LitmusCommand, WritesTheSuiteAsJson) {
  ASSERT_EQ(marrow({"litmus", "--json", path("l.json")}).code, 0);
  const auto file = json("l.json");
  EXPECT_EQ(file.at("schema"), "marrow.litmus/1");
  EXPECT_GE(file.at("programs").size(), 24U);
  for (const auto& program : file.at("programs"))
    EXPECT_EQ(program.at("verdict"), program.at("expected")) << program.at("name");
}

TEST_F(LitmusCommand, ChecksARecipeAndSaysWhatAWeakerFenceOpens) {
  EXPECT_EQ(marrow({"litmus", "--recipe", "gdaki"}).code, 0);
  const Result weaker =
      marrow({"litmus", "--recipe", "gdaki", "--set", "protocol.wqe_fence.scope=cta"});
  EXPECT_EQ(weaker.code, 1);
  EXPECT_NE(weaker.out.find("another lane's entry announced before it is visible"),
            std::string::npos)
      << weaker.out;
}

TEST_F(LitmusCommand, RefusesWhatItCannotDo) {
  for (const Arguments& arguments :
       {Arguments{"litmus", path("none.yaml")}, Arguments{"litmus", "--witness", "no-such"},
        Arguments{"litmus", "--recipe", "gin-proxy"},
        Arguments{"litmus", "--recipe", "gdaki", "--set", "gpu.sm.clock_ghz=1"}}) {
    const Result result = marrow(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_FALSE(result.err.empty());
  }
}

}  // namespace
}  // namespace marrow::cli
