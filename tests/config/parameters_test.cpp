// Are parameters read with their evidence, and is every fault told so that it can be mended?
#include "sim/config/parameters.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>

#include "sim/config/system.h"
#include "tests/config/files.h"

namespace marrow::config {
namespace {

constexpr std::array kDeclarations = {
    Declaration{"gpu.sm.clock_ghz", 0.1, 3, "SM clock"},
    Declaration{"gpu.l2.load_cycles", 0, 10000, "L2 hit, SM clock"},
    Declaration{"nic.fetch_ns", 0, 1e6, "WQE fetch"},
};

const std::string kGood =
    "system: test\n"
    "description: a small one\n"
    "parameters:\n"
    "  gpu:\n"
    "    sm:\n"
    "      clock_ghz: {value: 1.98, measured: \"probe\", interval: [1.97, 1.99]}\n"
    "    l2.load_cycles: {value: 273, published: \"a paper\"}\n"
    "  nic.fetch_ns:\n"
    "    value: 500\n"
    "    assumed: no capture yet\n";

class Parameters : public Files {
 protected:
  ParameterSet load(const std::string& text) const {
    return ParameterSet::load(write("s.yaml", text), kDeclarations);
  }
  std::string load_complaint(const std::string& text) const {
    return complaint([&] { load(text); });
  }
  /// What is said when the clock's entry, on line 6, reads so.
  std::string clock_complaint(const std::string& entry) const {
    return changed("{value: 1.98, measured: \"probe\", interval: [1.97, 1.99]}", entry);
  }
  std::string changed(const std::string& from, const std::string& to) const {
    std::string text = kGood;
    text.replace(text.find(from), from.size(), to);
    return load_complaint(text);
  }
};

TEST_F(Parameters, AreReadWithTheirEvidence) {
  const ParameterSet set = load(kGood);
  EXPECT_EQ(set.system(), "test");
  EXPECT_EQ(set.description(), "a small one");
  ASSERT_EQ(set.all().size(), 3u);
  EXPECT_EQ(set.all()[1].key, "gpu.l2.load_cycles");  // in the order of the declarations
  EXPECT_EQ(set.get("gpu.l2.load_cycles"), 273);
  const Parameter& clock = set.parameter("gpu.sm.clock_ghz");
  EXPECT_EQ(clock.value, 1.98);
  EXPECT_EQ(clock.evidence, Evidence::kMeasured);
  EXPECT_EQ(clock.source, "probe");
  EXPECT_EQ(clock.interval, std::pair(1.97, 1.99));
  EXPECT_EQ(clock.place, path("s.yaml") + ":6");
  EXPECT_EQ(clock.declaration, &kDeclarations[0]);
  EXPECT_EQ(set.parameter("nic.fetch_ns").evidence, Evidence::kAssumed);
  EXPECT_EQ(set.parameter("nic.fetch_ns").place, path("s.yaml") + ":8");
  EXPECT_FALSE(set.parameter("nic.fetch_ns").interval);
  EXPECT_THROW(set.get("nic.none_ns"), std::logic_error);
}

TEST_F(Parameters, SurviveCopies) {
  auto original = std::make_unique<ParameterSet>(load(kGood));
  ParameterSet copy = *original;
  copy.set("nic.fetch_ns=1");
  EXPECT_EQ(original->get("nic.fetch_ns"), 500);
  original.reset();
  EXPECT_EQ(copy.get("nic.fetch_ns"), 1);
  EXPECT_EQ(copy.get("gpu.sm.clock_ghz"), 1.98);
}

TEST_F(Parameters, KnowEveryEvidenceClass) {
  for (const char* word : {"measured", "published", "derived", "fitted", "assumed"}) {
    const ParameterSet set = load(
        "system: s\nparameters:\n  gpu.sm.clock_ghz: {value: 1, " + std::string(word) +
        ": x}\n  gpu.l2.load_cycles: {value: 1, assumed: x}\n  nic.fetch_ns: {value: 1, assumed: "
        "x}\n");
    EXPECT_EQ(name(set.parameter("gpu.sm.clock_ghz").evidence), word);
  }
}

TEST_F(Parameters, OverrideIncludedOnes) {
  write("gpus/base.yaml",
        "fragment: base\n"
        "parameters:\n"
        "  gpu.sm.clock_ghz: {value: 1.5, measured: base, interval: [1, 2]}\n"
        "  gpu.l2.load_cycles: {value: 200, published: base}\n");
  write("gpus/nic.yaml",
        "fragment: nic\n"
        "include: base.yaml\n"
        "parameters:\n"
        "  nic.fetch_ns: {value: 400, derived: nic}\n"
        "  gpu.l2.load_cycles: {value: 210, derived: nic}\n");
  const std::string file = write("systems/s.yaml",
                                 "system: top\n"
                                 "include: [../gpus/base.yaml, ../gpus/nic.yaml]\n"
                                 "parameters:\n"
                                 "  gpu.sm.clock_ghz: {value: 1.9, fitted: top}\n");
  const ParameterSet set = ParameterSet::load(file, kDeclarations);
  EXPECT_EQ(set.system(), "top");
  const Parameter& clock = set.parameter("gpu.sm.clock_ghz");
  EXPECT_EQ(clock.value, 1.9);
  EXPECT_EQ(clock.evidence, Evidence::kFitted);
  EXPECT_EQ(clock.source, "top");
  EXPECT_FALSE(clock.interval);  // the included one belongs to the included value
  EXPECT_EQ(set.parameter("gpu.l2.load_cycles").source, "nic");
  EXPECT_EQ(set.parameter("gpu.l2.load_cycles").place, path("gpus/nic.yaml") + ":5");
  EXPECT_EQ(set.get("nic.fetch_ns"), 400);
}

TEST_F(Parameters, RefuseBadIncludes) {
  EXPECT_TRUE(says(load_complaint("system: s\ninclude: none.yaml\n"),
                   {"s.yaml:2: include: no file", "none.yaml", "relative to the including file"}));
  EXPECT_TRUE(says(load_complaint("system: s\ninclude:\n  - {a: 1}\n"),
                   {"s.yaml:3: include[0]: is a map, not a text"}));
  EXPECT_TRUE(says(load_complaint("system: s\ninclude: .\n"), {"is a directory"}));
  EXPECT_TRUE(says(load_complaint("system: s\ninclude: s.yaml\n"),
                   {"s.yaml:2: include: include cycle: ", "remove one"}));
  write("a.yaml", "fragment: a\ninclude: [b.yaml]\n");
  write("b.yaml", "fragment: b\n\ninclude: a.yaml\n");
  const std::string cycle = load_complaint("system: s\ninclude: a.yaml\n");
  EXPECT_TRUE(says(cycle, {path("b.yaml") + ":3: include: include cycle: " + path("a.yaml") +
                               " -> " + path("b.yaml") + " -> " + path("a.yaml"),
                           "remove one"}));
  write("broken.yaml", "fragment: [\n");
  EXPECT_TRUE(says(load_complaint("system: s\ninclude: broken.yaml\n"),
                   {path("broken.yaml") + ":", "YAML syntax"}));
}

TEST_F(Parameters, IncludesDoNotMultiply) {
  for (int i = 0; i < 40; ++i) {
    const std::string next = std::to_string(i + 1) + ".yaml";
    write(std::to_string(i) + ".yaml", "fragment: x\ninclude: [" + next + ", " + next + "]\n");
  }
  write("40.yaml", "fragment: x\n");
  EXPECT_TRUE(says(load_complaint("system: s\ninclude: 0.yaml\n"),
                   {".yaml:2: include", "more than 256 files", "include each file once"}));
}

TEST_F(Parameters, RefuseBadFiles) {
  EXPECT_TRUE(says(complaint([&] { ParameterSet::load(path("none.yaml"), kDeclarations); }),
                   {"none.yaml", "No such file", "check"}));
  EXPECT_TRUE(says(changed("system: test", "sytem: test"),
                   {"s.yaml:1: sytem: unknown key", "did you mean \"system\"?"}));
  EXPECT_TRUE(says(changed("system: test", "fragment: test"),
                   {"s.yaml:1: fragment: is a part that systems include", "name a system"}));
  EXPECT_TRUE(
      says(changed("system: test\n", ""), {"s.yaml:1: no key \"system\"", "add \"system: name\""}));
  EXPECT_TRUE(says(load_complaint("protocol: small\nput: []\n"),
                   {"s.yaml:1: protocol: is a protocol recipe", "marrow config show ",
                    "marrow run --protocol ", "name a system"}));
  EXPECT_TRUE(says(changed("system: test", "system: test\nfragment: test"),
                   {"s.yaml:2: fragment: beside `system`", "keep one"}));
  EXPECT_TRUE(says(changed("system: test", "system:"), {"s.yaml:1: system: is empty"}));
  EXPECT_TRUE(says(load_complaint("system: s\nparameters: [1]\n"),
                   {"s.yaml:2: parameters: is a list, not a map"}));
}

TEST_F(Parameters, RefuseUnknownKeys) {
  EXPECT_TRUE(says(changed("clock_ghz", "clok_ghz"),
                   {"s.yaml:6: unknown parameter gpu.sm.clok_ghz", "did you mean gpu.sm.clock_ghz?",
                    "gpu.sm.clock_ghz (SM clock)"}));
  EXPECT_TRUE(says(changed("l2.load_cycles", "l3.very.different.load_cycles"),
                   {"s.yaml:7: unknown parameter gpu.l3.very.different.load_cycles",
                    "did you mean gpu.l2.load_cycles?"}));
  EXPECT_TRUE(says(changed("nic.fetch_ns", "frobnicate"),
                   {"s.yaml:8: unknown parameter frobnicate", "`marrow config show`"}));
  EXPECT_TRUE(
      says(changed("  gpu:", "  gpuu:"), {"s.yaml:4: unknown group gpuu", "did you mean gpu?"}));
  EXPECT_TRUE(says(clock_complaint("{value: 1, measured: x, intervall: [1, 1]}"),
                   {"s.yaml:6: parameters.gpu.sm.clock_ghz.intervall: unknown key",
                    "did you mean \"interval\"?"}));
}

TEST_F(Parameters, RefuseWrongUnits) {
  EXPECT_TRUE(says(changed("clock_ghz", "clock_mhz"),
                   {"s.yaml:6: wrong unit: gpu.sm.clock_mhz",
                    "this parameter is gpu.sm.clock_ghz: convert the value"}));
  EXPECT_TRUE(says(changed("nic.fetch_ns", "nic.fetch_us"),
                   {"s.yaml:8: wrong unit: nic.fetch_us", "this parameter is nic.fetch_ns"}));
  EXPECT_TRUE(says(clock_complaint("{value: 1980 mhz, measured: x}"),
                   {"s.yaml:6: parameters.gpu.sm.clock_ghz.value", "write the number alone"}));
}

TEST_F(Parameters, RefuseBadValues) {
  EXPECT_TRUE(says(
      clock_complaint("{value: 1980, measured: x}"),
      {"s.yaml:6: gpu.sm.clock_ghz: 1980 ghz is out of range", "write 0.1 to 3 ghz", "SM clock"}));
  EXPECT_TRUE(says(clock_complaint("{value: nan, measured: x}"),
                   {"s.yaml:6: parameters.gpu.sm.clock_ghz.value", "write a finite number"}));
  EXPECT_TRUE(says(clock_complaint("{measured: x}"),
                   {"s.yaml:6: parameters.gpu.sm.clock_ghz: no key \"value\"", "add \"value"}));
  EXPECT_TRUE(says(clock_complaint(""), {"s.yaml:6: parameters.gpu.sm.clock_ghz: is empty"}));
  EXPECT_TRUE(
      says(clock_complaint("[1, 2]"), {"s.yaml:6: parameters.gpu.sm.clock_ghz: is a list"}));
}

TEST_F(Parameters, RefuseMissingAndDoubleSources) {
  EXPECT_TRUE(says(clock_complaint("1.98"), {"s.yaml:6: gpu.sm.clock_ghz: a value without a source",
                                             "write {value: 1.98, measured: \"which capture\"}"}));
  EXPECT_TRUE(says(clock_complaint("{value: 1}"),
                   {"s.yaml:6: gpu.sm.clock_ghz: no source",
                    "add one of measured, published, derived, fitted or assumed"}));
  EXPECT_TRUE(says(clock_complaint("{value: 1, measured: x, assumed: y}"),
                   {"s.yaml:6: gpu.sm.clock_ghz: 2 sources: measured, assumed", "keep the one"}));
  for (const char* empty : {"", "\"\"", "\" \""}) {
    EXPECT_TRUE(says(clock_complaint("{value: 1, measured: " + std::string(empty) + "}"),
                     {"s.yaml:6: parameters.gpu.sm.clock_ghz.measured: is empty", "write a text"}));
  }
}

TEST_F(Parameters, RefuseBadIntervals) {
  const auto interval = [&](const std::string& text) {
    return clock_complaint("{value: 1, measured: x, interval: " + text + "}");
  };
  const std::string at = "s.yaml:6: parameters.gpu.sm.clock_ghz.interval";
  EXPECT_TRUE(says(interval("[1.1, 2]"), {at, "does not contain the value 1", "around the value"}));
  EXPECT_TRUE(says(interval("[2, 0.5]"), {at, "does not contain", "write [low, high]"}));
  EXPECT_TRUE(says(interval("[1]"), {at + ": 1 numbers", "write [low, high]"}));
  EXPECT_TRUE(says(interval("1"), {at, "not a list"}));
  EXPECT_TRUE(says(interval("[x, 2]"), {at + "[0]: \"x\" is not a number"}));
  EXPECT_TRUE(says(interval("[0, 2]"), {"s.yaml:6: gpu.sm.clock_ghz: 0 ghz is out of range"}));
  EXPECT_EQ(interval("[1, 1]"), "");
}

TEST_F(Parameters, RefuseDuplicates) {
  EXPECT_TRUE(says(
      changed("  nic.fetch_ns:", "  gpu.sm.clock_ghz: {value: 2, assumed: x}\n  nic.fetch_ns:"),
      {"s.yaml:8: gpu.sm.clock_ghz: duplicate key", "line 6", "keep one"}));
}

TEST_F(Parameters, MustAllBeGiven) {
  const std::string message = load_complaint(
      "system: s\nparameters:\n  nic:\n  gpu.sm.clock_ghz: {value: 1, assumed: x}\n");
  EXPECT_TRUE(says(message, {"s.yaml: parameters given nowhere: gpu.l2.load_cycles (L2 hit, SM "
                             "clock), nic.fetch_ns (WQE fetch)",
                             "add {value: ..., measured: ...} entries"}));
  EXPECT_TRUE(says(load_complaint("system: s\n"), {"given nowhere", "gpu.sm.clock_ghz"}));
}

TEST_F(Parameters, TellAllFaultsTogether) {
  const std::string message = load_complaint(
      "system: s\n"
      "parameters:\n"
      "  gpu:\n"
      "    sm.clock_mhz: {value: 1980, measured: x}\n"
      "    sm.clock_ghz: {value: 20 ghz, measured: x}\n"
      "    l2.load_cycles: 273\n"
      "  nicc: {fetch_ns: {value: 1, assumed: x}}\n"
      "  nic.fetch: {value: 1, assumed: x}\n");
  EXPECT_TRUE(says(message, {"s.yaml: 6 faults:\n", "s.yaml:4: wrong unit: gpu.sm.clock_mhz",
                             "s.yaml:5: parameters.gpu.sm.clock_ghz.value: \"20 ghz\"",
                             "s.yaml:6: gpu.l2.load_cycles: a value without a source",
                             "s.yaml:7: unknown group nicc; did you mean nic?",
                             "s.yaml:8: unknown parameter nic.fetch; did you mean nic.fetch_ns?",
                             "s.yaml: parameter given nowhere: nic.fetch_ns"}));
}

TEST_F(Parameters, DeclaredTwiceIsAnError) {
  const std::array twice = {kDeclarations[0], kDeclarations[0]};
  const std::string file = write("s.yaml", kGood);
  EXPECT_THROW(ParameterSet::load(file, twice), std::logic_error);
}

TEST_F(Parameters, CanBeSet) {
  ParameterSet set = load(kGood);
  set.set("gpu.sm.clock_ghz=1.5");
  EXPECT_EQ(set.get("gpu.sm.clock_ghz"), 1.5);
  const Parameter& clock = set.parameter("gpu.sm.clock_ghz");
  EXPECT_EQ(clock.evidence, Evidence::kAssumed);
  EXPECT_EQ(clock.source, "--set");
  EXPECT_EQ(clock.place, "--set");
  EXPECT_FALSE(clock.interval);
  set.set("nic.fetch_ns += 20");
  EXPECT_EQ(set.get("nic.fetch_ns"), 520);
  set.set("nic.fetch_ns-=120");
  EXPECT_EQ(set.get("nic.fetch_ns"), 400);
  set.set("nic.fetch_ns*=0.5");
  EXPECT_EQ(set.get("nic.fetch_ns"), 200);
  set.set("nic.fetch_ns=+7");
  EXPECT_EQ(set.get("nic.fetch_ns"), 7);
}

TEST_F(Parameters, RefuseBadAssignments) {
  ParameterSet set = load(kGood);
  const auto assign = [&](const std::string& text) { return complaint([&] { set.set(text); }); };
  for (const char* text : {"", "nic.fetch_ns", "=3", "nic.fetch_ns 3"}) {
    EXPECT_TRUE(
        says(assign(text), {"--set " + std::string(text), "not an assignment", "key=value"}));
  }
  EXPECT_TRUE(says(assign("+=3"), {"no key", "key=value"}));
  EXPECT_TRUE(says(assign("nic.fetch_ns="), {"--set", "nic.fetch_ns: is empty", "write a number"}));
  EXPECT_TRUE(says(assign("nic.fetch_ns==3"), {"nic.fetch_ns: \"=3\" is not a number"}));
  EXPECT_TRUE(says(assign("nic.fetch_ns=20 ns"), {"write the number alone"}));
  EXPECT_TRUE(says(assign("nic.fetch_ns/=2"),
                   {"unknown parameter nic.fetch_ns/", "did you mean nic.fetch_ns?"}));
  EXPECT_TRUE(says(assign("nic.fech_ns=2"), {"did you mean nic.fetch_ns?"}));
  EXPECT_TRUE(says(assign("nic.fetch_us=2"), {"wrong unit", "this parameter is nic.fetch_ns"}));
  EXPECT_TRUE(says(assign("nic.fetch_ns=-1"), {"-1 ns is out of range", "write 0 to 1000000"}));
  EXPECT_TRUE(says(assign("nic.fetch_ns*=1e308"), {"out of range"}));
  EXPECT_TRUE(says(assign("nic.fetch_ns=nan"), {"write a finite number"}));
  EXPECT_EQ(set.get("nic.fetch_ns"), 500);
  EXPECT_EQ(set.parameter("nic.fetch_ns").source, "no capture yet");
}

// A half-written file must load or be refused; anything else is a crash.
TEST_F(Parameters, EveryPrefixLoadsOrIsRefused) {
  std::size_t loaded = 0;
  for (std::size_t length = 0; length <= kGood.size(); ++length) {
    if (load_complaint(kGood.substr(0, length)).empty()) ++loaded;
  }
  EXPECT_GE(loaded, 1u);
  EXPECT_LT(loaded, 20u);  // only cuts within the last text leave a whole file
}

TEST_F(Parameters, EveryByteChangedLoadsOrIsRefused) {
  std::mt19937 random(1);
  const std::string alphabet = "{}[]:,#&*!|>'\"%@`-? \n\t\x04\xff~.0aZ\\<=";
  for (std::size_t i = 0; i < kGood.size(); ++i) {
    for (int j = 0; j < 6; ++j) {
      std::string text = kGood;
      text[i] = alphabet[random() % alphabet.size()];
      load_complaint(text);
      text.insert(random() % text.size(), 1, alphabet[random() % alphabet.size()]);
      load_complaint(text);
    }
  }
}

TEST(Key, HasItsUnitAtTheEnd) {
  EXPECT_EQ(unit_of("gpu.sm.clock_ghz"), "ghz");
  EXPECT_EQ(unit_of("a.hit_rate_percent"), "percent");
  EXPECT_EQ(unit_of("gpu.sm.clock"), "");
  EXPECT_EQ(unit_of("gpu.sm.clock_source"), "");
  EXPECT_EQ(unit_of(""), "");
}

TEST(Key, FindsTheNearest) {
  constexpr std::array<std::string_view, 3> words = {"scope", "size", "target"};
  EXPECT_EQ(nearest("scpoe", words), "scope");
  EXPECT_EQ(nearest("siz", words), "size");
  EXPECT_EQ(nearest("completely_else", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest(std::string(100'000, 's'), words), "");
  EXPECT_EQ(nearest("scope", {}), "");
}

TEST(Assignments, WithoutTheirGroupsNameTheWholeKey) {
  // Every parameter of a system: without its first group, without any, and with a slip in it.
  ParameterSet set = load_system(MARROW_SOURCE_DIR "/configs/systems/h200-c.yaml");
  for (const Declaration& declaration : declarations()) {
    // Two are one letter apart: mrrs_bytes, less an r, is as near to mps_bytes.
    if (!set.has(declaration.key) || declaration.key == "pcie.mrrs_bytes") continue;
    const std::string whole(declaration.key);
    const std::string tail = whole.substr(whole.find('.') + 1);
    std::string slip = tail;
    slip.erase(slip.rfind('.') + 2, 1);
    for (const std::string& key : {tail, whole.substr(whole.rfind('.') + 1), slip}) {
      const std::string said = complaint([&] { set.set(key + "=1"); });
      EXPECT_TRUE(says(said, {"--set " + key + "=1", "unknown parameter " + key, "did you mean "}));
      EXPECT_NE(said.find(whole), std::string::npos) << said;
    }
  }
}

}  // namespace
}  // namespace marrow::config
