// Are the probe's options read, and wrong ones refused with a mend?
#include <gtest/gtest.h>

#include "models/common/error.h"
#include "tools/probe/options.h"

namespace marrow::probe {
namespace {

constexpr Topic kTopics[] = {{"loads", "load latencies"}, {"sides", "near and far"}};

Options parse(std::vector<const char*> arguments) { return parse_options(arguments, kTopics); }

std::string refusal(std::vector<const char*> arguments) {
  try {
    parse(std::move(arguments));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ProbeOptions, AreReadInBothForms) {
  const Options options =
      parse({"--out", "a.jsonl", "--quick", "--only=loads", "--only", "sides", "--device", "1"});
  EXPECT_EQ(options.out, "a.jsonl");
  EXPECT_TRUE(options.quick);
  EXPECT_EQ(options.only, (std::vector<std::string>{"loads", "sides"}));
  EXPECT_EQ(options.device, 1);
  EXPECT_EQ(parse({"--out=b"}).out, "b");
  EXPECT_TRUE(parse({"--help"}).help);
  EXPECT_TRUE(parse({"--list"}).list);
}

TEST(ProbeOptions, WrongOnesAreRefusedWithAMend) {
  EXPECT_NE(refusal({}).find("--out"), std::string::npos);
  EXPECT_NE(refusal({"--out"}).find("needs a value"), std::string::npos);
  EXPECT_NE(refusal({"--out="}).find("empty"), std::string::npos);
  EXPECT_NE(refusal({"--out", "a", "--only", "load"}).find("--list"), std::string::npos);
  EXPECT_NE(refusal({"--out", "a", "--device", "first"}).find("'first'"), std::string::npos);
  EXPECT_NE(refusal({"--out", "a", "--device", "-1"}).find("'-1'"), std::string::npos);
  EXPECT_NE(refusal({"--out", "a", "--quick=yes"}).find("--quick"), std::string::npos);
  EXPECT_NE(refusal({"--fast"}).find("--help"), std::string::npos);
}

TEST(ProbeOptions, TheHelpNamesEveryMeasurement) {
  const std::string help = help_text(kTopics);
  for (const Topic& topic : kTopics) EXPECT_NE(help.find(topic.what), std::string::npos);
  for (const char* option : {"--out", "--quick", "--only", "--device", "--list", "--help"})
    EXPECT_NE(help.find(option), std::string::npos) << option;
}

}  // namespace
}  // namespace marrow::probe
