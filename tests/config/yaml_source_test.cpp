// Does the YAML reader read what is right, and say file, line, key and mend for what is wrong?
#include "sim/config/yaml_source.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/config/files.h"

namespace marrow::config {
namespace {

using YamlFile = Files;

YamlNode parse(const std::string& text) { return YamlNode::parse(text, "f.yaml"); }

std::string parse_complaint(const std::string& text) {
  return complaint([&] { parse(text); });
}

TEST(YamlNode, ReadsEveryKindOfValue) {
  const YamlNode root = parse(
      "name: put\n"
      "size: 0x40\n"
      "ratio: +1.5e1\n"
      "inline: true\n"
      "nothing:\n"
      "steps:\n"
      "  - {store: 16}\n"
      "  - fence\n");
  EXPECT_EQ(root.at("name").text(), "put");
  EXPECT_EQ(root.at("size").integer(0, 64), 64);
  EXPECT_EQ(root.at("ratio").number(), 15.0);
  EXPECT_TRUE(root.at("inline").boolean());
  EXPECT_TRUE(root.at("nothing").is_null());
  EXPECT_FALSE(root.has("absent"));
  EXPECT_FALSE(root.find("absent"));
  const auto steps = root.at("steps").items();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].at("store").integer(), 16);
  EXPECT_EQ(steps[0].at("store").path(), "steps[0].store");
  EXPECT_EQ(steps[1].place(), "f.yaml:8");
  EXPECT_EQ(steps[1].one_of({"fence", "lock"}), "fence");
  EXPECT_EQ(root.entries().size(), 6u);
  EXPECT_EQ(root.entries()[1].first, "size");
  EXPECT_EQ(root.at("name").one_or_more().size(), 1u);
  EXPECT_EQ(root.at("steps").one_or_more().size(), 2u);
}

TEST(YamlNode, PlaceIsTheLineOfTheKey) {
  const YamlNode root = parse("a:\n  b: 1\n\n  c:\n    d: 2\n");
  EXPECT_EQ(root.at("a").place(), "f.yaml:1");
  EXPECT_EQ(root.at("a").at("c").place(), "f.yaml:4");
  EXPECT_EQ(root.at("a").at("c").at("d").place(), "f.yaml:5");
}

TEST(YamlNode, AnEmptyFileIsEmpty) {
  EXPECT_TRUE(parse("").is_null());
  EXPECT_TRUE(parse("# nothing\n").is_null());
  EXPECT_TRUE(says(complaint([] { parse("").at("system"); }), {"f.yaml:1", "empty, not a map"}));
}

TEST(YamlNode, RefusesWhatIsNotANumberAlone) {
  const auto number = [](const std::string& text) {
    return complaint([&] { parse("\nx_ns: " + text + "\n").at("x_ns").number(0, 100); });
  };
  EXPECT_TRUE(says(number("20 ns"), {"f.yaml:2: x_ns: \"20 ns\"", "write the number alone",
                                     "the unit is in the key"}));
  EXPECT_TRUE(says(number("1.2.3"), {"f.yaml:2: x_ns", "write the number alone"}));
  EXPECT_TRUE(says(number("0x10"), {"f.yaml:2: x_ns", "write the number alone"}));
  EXPECT_TRUE(says(number("fast"), {"f.yaml:2: x_ns: \"fast\" is not a number", "write a number"}));
  EXPECT_TRUE(says(number("+-3"), {"f.yaml:2: x_ns", "is not a number"}));
  EXPECT_TRUE(says(number("+"), {"f.yaml:2: x_ns", "is empty"}));
  EXPECT_TRUE(says(number("nan"), {"f.yaml:2: x_ns", "write a finite number"}));
  EXPECT_TRUE(says(number("inf"), {"f.yaml:2: x_ns", "write a finite number"}));
  EXPECT_TRUE(says(number(".inf"), {"f.yaml:2: x_ns", "is not a number"}));
  EXPECT_TRUE(says(number("1e999"), {"f.yaml:2: x_ns", "write a finite number"}));
  EXPECT_TRUE(says(number(""), {"f.yaml:2: x_ns: is empty", "write a number"}));
  EXPECT_TRUE(says(number("\"\""), {"f.yaml:2: x_ns: is empty", "write a number"}));
  EXPECT_TRUE(says(number("[1]"), {"f.yaml:2: x_ns: is a list, not a number", "write a number"}));
  EXPECT_TRUE(says(number("101"), {"f.yaml:2: x_ns: 101 is out of range", "0 to 100"}));
  EXPECT_EQ(number("100"), "");
}

TEST(YamlNode, RefusesWhatIsNotAWholeNumber) {
  const auto integer = [](const std::string& text) {
    return complaint([&] { parse("n: " + text).at("n").integer(-8, 8); });
  };
  for (const char* text : {"1.5", "1e3", "8 B", "x", "0x", "0x-1", "+-1"}) {
    EXPECT_TRUE(says(integer(text), {"f.yaml:1: n: ", "is not a whole number", "write digits"}));
  }
  EXPECT_TRUE(says(integer("9"), {"f.yaml:1: n: 9 is out of range", "-8 to 8"}));
  EXPECT_TRUE(says(integer("99999999999999999999"), {"f.yaml:1: n: ", "is out of range"}));
  EXPECT_EQ(integer("-8"), "");
  EXPECT_EQ(integer("+8"), "");
}

TEST(YamlNode, RefusesOtherKinds) {
  const YamlNode root = parse("a: yes\nb: {c: 1}\nd: [1]\n");
  EXPECT_TRUE(says(complaint([&] { root.at("a").boolean(); }),
                   {"f.yaml:1: a: \"yes\"", "write true or false"}));
  EXPECT_TRUE(says(complaint([&] { root.at("b").text(); }), {"f.yaml:2: b: is a map, not a text"}));
  EXPECT_TRUE(
      says(complaint([&] { root.at("b").items(); }), {"f.yaml:2: b: is a map, not a list"}));
  EXPECT_TRUE(
      says(complaint([&] { root.at("d").entries(); }), {"f.yaml:3: d: is a list, not a map"}));
  EXPECT_TRUE(says(complaint([&] { root.at("a").has("x"); }), {"f.yaml:1: a: ", "not a map"}));
  EXPECT_TRUE(says(complaint([&] { root.at("b").at("size"); }),
                   {"f.yaml:2: b: no key \"size\"", "add \"size: ...\""}));
  EXPECT_TRUE(says(complaint([&] {
                     root.at("a").one_of({"lock", "yet"});
                   }),
                   {"f.yaml:1: a: \"yes\" is not known", "did you mean \"yet\"?", "lock, yet"}));
  EXPECT_TRUE(says(complaint([&] {
                     root.at("a").one_of({"lock", "fence"});
                   }),
                   {"f.yaml:1: a: \"yes\" is not known", "write one of lock, fence"}));
}

TEST(YamlNode, RefusesUnknownKeys) {
  const YamlNode root = parse("step: {size: 1,\n  scpoe: gpu}\n");
  EXPECT_TRUE(
      says(complaint([&] {
             root.at("step").only({"size", "scope"});
           }),
           {"f.yaml:2: step.scpoe: unknown key", "did you mean \"scope\"?", "size, scope"}));
  EXPECT_TRUE(says(complaint([] { parse("{size:1}").only({"size"}); }),
                   {"f.yaml:1: size:1: unknown key", "a colon needs a space"}));
  root.only({"step"});
}

TEST(YamlNode, RefusesDuplicateKeys) {
  EXPECT_TRUE(says(parse_complaint("a: 1\nb: 2\na: 3\n"),
                   {"f.yaml:3: a: duplicate key", "line 1", "keep one"}));
  EXPECT_TRUE(says(parse_complaint("x: {a: 1, a: 1}"), {"f.yaml:1: a: duplicate key"}));
  EXPECT_EQ(parse_complaint("- {a: 1}\n- {a: 1}\n"), "");
}

TEST(YamlNode, RefusesBrokenSyntax) {
  EXPECT_TRUE(says(parse_complaint("a: 1\nb: {c: 2\nd: 3\n"), {"f.yaml:", "YAML syntax", "check"}));
  EXPECT_TRUE(says(parse_complaint("a: 1\n\tb: 2\n"), {"f.yaml:2", "YAML syntax, column 1"}));
  EXPECT_TRUE(says(parse_complaint("a: *nowhere\n"), {"f.yaml:1", "YAML syntax"}));
  EXPECT_TRUE(says(parse_complaint("a: 1\n---\nb: 1\n"), {"f.yaml:", "second YAML document"}));
  EXPECT_TRUE(says(parse_complaint("? [a, b]\n: 1\n"), {"f.yaml:1", "write \"key: value\""}));
  EXPECT_TRUE(says(parse_complaint("a: 1\n~: 1\n"), {"f.yaml:2", "write \"key: value\""}));
  EXPECT_TRUE(says(parse_complaint("a: 1\nb: \x04\nc: 3\n"),
                   {"f.yaml:2: control character 0x04", "plain UTF-8"}));
  EXPECT_TRUE(says(parse_complaint(std::string("a\0b", 3)), {"f.yaml:1: control character 0x00"}));
}

TEST(YamlNode, AliasesStandForTheirValue) {
  const YamlNode root = parse("a: &x {b: 1}\nc: *x\nd: [*x, *x]\n");
  EXPECT_EQ(root.at("c").at("b").integer(), 1);
  EXPECT_EQ(root.at("c").place(), "f.yaml:2");
  EXPECT_EQ(root.at("d").items()[1].at("b").integer(), 1);
}

TEST(YamlNode, RefusesBombs) {
  std::ostringstream bomb;
  bomb << "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 30; ++i) {
    bomb << "a" << i << ": &a" << i << " [";
    for (int j = 0; j < 10; ++j) bomb << "*a" << i - 1 << ", ";
    bomb << "1]\n";
  }
  EXPECT_TRUE(says(parse_complaint(bomb.str()),
                   {"f.yaml:6", "aliases multiplied out", "use fewer aliases"}));

  std::ostringstream ladder;
  ladder << "a0: &a0 [1]\n";
  for (int i = 1; i < 100; ++i) {
    ladder << "a" << i << ": &a" << i << " [*a" << i - 1 << "]\n";
  }
  EXPECT_TRUE(says(parse_complaint(ladder.str()), {"f.yaml:", "nested deeper than 64"}));
  EXPECT_TRUE(says(parse_complaint("a: &x [*x]\n"), {"f.yaml:1", "alias inside"}));
}

TEST(YamlNode, RefusesDeepNesting) {
  const auto nested = [](std::size_t depth) {
    return parse_complaint(std::string(depth, '[') + "1" + std::string(depth, ']'));
  };
  EXPECT_EQ(nested(64), "");
  EXPECT_TRUE(says(nested(65), {"f.yaml:1", "nested deeper than 64 levels", "brackets"}));
  EXPECT_TRUE(says(nested(200'000), {"f.yaml:1", "nested deeper than 64 levels"}));
  EXPECT_NE(parse_complaint(std::string(200'000, '[')), "");
  EXPECT_NE(parse_complaint(std::string(200'000, '{')), "");
  std::string dashes;
  for (int i = 0; i < 100'000; ++i) dashes += "- ";
  EXPECT_NE(parse_complaint(dashes), "");
}

TEST_F(YamlFile, RefusesWhatCannotBeRead) {
  const auto open = [](const std::string& file) {
    return complaint([&] { YamlNode::open(file); });
  };
  EXPECT_TRUE(says(open(path("none.yaml")), {path("none.yaml"), "No such file", "check the name"}));
  EXPECT_TRUE(says(open(path(".")), {"is a directory", "name a YAML file"}));
  EXPECT_TRUE(says(open(path(std::string(5000, 'x'))), {"File name too long"}));
  EXPECT_NE(open(""), "");
  EXPECT_TRUE(says(open("/dev/zero"), {"/dev/zero: is larger than 4 MiB"}));
  EXPECT_TRUE(says(open(write("bad.yaml", "a: [1\n")), {path("bad.yaml") + ":"}));
  EXPECT_EQ(open(write("good.yaml", "a: [1]\r\nb: 2\r\n")), "");
}

}  // namespace
}  // namespace marrow::config
