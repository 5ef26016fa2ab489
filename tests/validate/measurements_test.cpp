// Do published tables read as they are written, are wrong ones refused, and is a metric what the
// README of validate/measurements says, on operations that were made up?
#include "validate/measurements.h"

#include <cmath>
#include <sstream>

#include "tests/config/files.h"

namespace marrow::validate {
namespace {

const std::string kConfigs = MARROW_ROOT "/configs";
const std::string kHead =
    "table: t\n"
    "title: a table\n"
    "source: {title: a paper, url: 'https://example.org', year: 2026}\n";
const std::string kRuns =
    "runs:\n"
    "  one:\n"
    "    system: p-ib\n"
    "    protocol: mini-gda\n"
    "    work: {does: [put, quiet], rounds: 20}\n"
    "sweeps:\n"
    "  clocks: {run: one, vary: gpu.sm.clock_ghz, values: [1, 2]}\n"
    "  sizes: {run: one, vary: work.bytes, values: [8, 16]}\n";

class Measurements : public config::Files {
 protected:
  std::vector<Table> load(const std::string& text) const {
    return load_measurements(write("m.yaml", text), kConfigs);
  }
  /// What is said of a file with this one row.
  std::string refused(const std::string& row) const {
    return config::complaint([&] { load(kHead + kRuns + "rows:\n  - {" + row + "}\n"); });
  }
  static MeasurementOptions options() {
    MeasurementOptions options;
    options.config_dir = kConfigs;
    options.seeds = 2;
    return options;
  }
};

Operation op(OpKind kind, Ps begin_ps, Ps end_ps, std::uint32_t warp = 0) {
  Operation operation;
  operation.kind = kind;
  operation.warp = warp;
  operation.begin_ps = begin_ps;
  operation.end_ps = end_ps;
  return operation;
}

/// Ten rounds of one lane, 10 us apart. Round k: put of 1 us + k ns, then `closes` until 4 us.
std::vector<Operation> ten_rounds(OpKind closes) {
  std::vector<Operation> operations;
  for (Ps k = 0; k < 10; ++k) {
    const Ps at = k * 10'000'000;
    operations.push_back(op(OpKind::kPut, at, at + 1'000'000 + 1000 * k));
    operations.push_back(op(closes, at + 2'000'000, at + 4'000'000));
  }
  return operations;
}

// ---- files ----

TEST_F(Measurements, ReadsRunsSweepsAndRows) {
  const auto tables = load(kHead + kRuns +
                           "rows:\n"
                           "  - {id: a, run: one, metric: issue, value: 0.7, unit: us, role: fit}\n"
                           "  - {id: b, value: 3, unit: percent, not_covered: needs a proxy}\n");
  ASSERT_EQ(tables.size(), 1U);
  ASSERT_EQ(tables[0].cells.size(), 2U);
  EXPECT_EQ(tables[0].cells[0].role, Role::kFit);
  EXPECT_EQ(tables[0].cells[0].what, "one: issue");
  EXPECT_DOUBLE_EQ(tables[0].cells[0].per_unit, 1e-3);
  EXPECT_EQ(tables[0].cells[1].not_covered, "needs a proxy");
  EXPECT_EQ(tables[0].runs[0].work.does, (std::vector<OpKind>{OpKind::kPut, OpKind::kQuiet}));
  EXPECT_EQ(tables[0].sweeps.at("sizes").values[1].second, 16);
}

TEST_F(Measurements, LikeReplacesSingleKeys) {
  const auto tables = load(kHead +
                           "runs:\n"
                           "  one: {system: p-ib, protocol: mini-gda, choices: {payload: write},\n"
                           "        work: {does: [put, quiet], rounds: 20, bytes: 64}}\n"
                           "  two: {like: one, choices: {batch: 4}, work: {rounds: 30}}\n"
                           "rows: []\n");
  const Scenario& two = tables[0].runs[1];
  EXPECT_EQ(two.name, "two");
  EXPECT_EQ(two.system, "p-ib");
  EXPECT_EQ(two.work.rounds, 30U);
  EXPECT_EQ(two.work.bytes, 64U);
  EXPECT_EQ(two.choices.at("payload"), "write");
  EXPECT_EQ(two.choices.at("batch"), "4");
}

TEST_F(Measurements, ARunThatIsNotCoveredNeedsNoSystemAndPassesItsReasonOn) {
  const auto tables = load(
      kHead +
      "runs:\n"
      "  one: {system: nowhere, protocol: nothing, work: {does: [put]}, not_covered: needs it}\n"
      "rows: [{id: a, run: one, metric: issue, value: 1, unit: us}]\n");
  EXPECT_EQ(tables[0].cells[0].not_covered, "needs it");
  EXPECT_TRUE(predict(tables, options()).empty());
}

TEST_F(Measurements, RefusesWhatItDoesNotKnow) {
  using config::says;
  EXPECT_TRUE(says(refused("id: a, run: one, metric: issue, value: 1, units: us"),
                   {"m.yaml:13", "unknown key", "did you mean \"unit\""}));
  EXPECT_TRUE(says(refused("id: a, run: one, metric: issues, value: 1, unit: us"),
                   {"m.yaml:13", "\"issues\" is not known", "did you mean \"issue\""}));
  EXPECT_TRUE(says(refused("id: a, run: two, metric: issue, value: 1, unit: us"),
                   {"m.yaml:13", "no run \"two\"", "known: one"}));
  EXPECT_TRUE(says(refused("id: a, sweep: clock, metric: issue, take: slope, value: 1, unit: us"),
                   {"no sweep \"clock\""}));
  EXPECT_TRUE(says(refused("id: a, run: one, metric: issue, value: 1, unit: us, role: fitted"),
                   {"\"fitted\" is not known", "fit"}));
  const std::string run =
      "runs:\n  one: {system: p-ibb, protocol: mini-gda, work: {does: [put]}}\n";
  EXPECT_TRUE(says(config::complaint([&] { load(kHead + run + "rows: []\n"); }),
                   {"m.yaml:5", "no system \"p-ibb\"", "known: ", "p-ib"}));
  const std::string protocol =
      "runs:\n  one: {system: p-ib, protocol: mini-gdb, work: {does: [put]}}\n";
  EXPECT_TRUE(says(config::complaint([&] { load(kHead + protocol + "rows: []\n"); }),
                   {"m.yaml:5", "mini-gdb"}));
  EXPECT_TRUE(says(config::complaint([&] { load_measurements(path("no.yaml"), kConfigs); }),
                   {"no.yaml", "cannot be opened"}));
}

TEST_F(Measurements, RefusesWhatIsMissingOrStandsTwice) {
  using config::says;
  EXPECT_TRUE(
      says(refused("id: a, run: one, metric: issue, unit: us"), {"m.yaml:13", "no key \"value\""}));
  EXPECT_TRUE(says(refused("id: a, run: one, value: 1, unit: us"), {"no key \"metric\""}));
  EXPECT_TRUE(says(refused("id: a, value: 1, unit: us"), {"neither run nor sweep"}));
  EXPECT_TRUE(
      says(refused("id: a, sweep: sizes, metric: issue, value: 1, unit: us"), {"no key \"take\""}));
  EXPECT_TRUE(says(refused("id: a, sweep: sizes, metric: rate, take: reach, value: 1, unit: B"),
                   {"no key \"at_least\""}));
  EXPECT_TRUE(says(refused("id: a, run: one, metric: issue, value: 1, unit: us}\n"
                           "  - {id: a, run: one, metric: issue, value: 1, unit: us"),
                   {"m.yaml:14", "stands twice"}));
  EXPECT_TRUE(
      says(refused("id: a, run: one, metric: issue, value: 0, unit: us"), {"no relative error"}));
}

TEST_F(Measurements, RefusesAUnitThatDoesNotFit) {
  using config::says;
  EXPECT_TRUE(says(refused("id: a, run: one, metric: issue, value: 1, unit: GB/s"),
                   {"m.yaml:13", "\"GB/s\" does not fit issue", "write us or ns"}));
  EXPECT_TRUE(says(refused("id: a, run: one, metric: rate, value: 1, unit: msg/s"),
                   {"does not fit rate", "Mmsg/s"}));
  EXPECT_TRUE(
      says(refused("id: a, sweep: clocks, metric: issue, take: clock_cycles, value: 1, unit: us"),
           {"does not fit clock_cycles", "write cycles"}));
  EXPECT_TRUE(says(refused("id: a, sweep: sizes, metric: issue, take: slope, value: 1, unit: us"),
                   {"does not fit a slope", "us per 16 B"}));
  EXPECT_TRUE(
      says(refused("id: a, sweep: sizes, metric: issue, take: reach, at_least: 1, value: 8, "
                   "unit: us"),
           {"not the unit of what the sweep varies"}));
}

TEST_F(Measurements, RefusesTheIssueOfAPutThatWaits) {
  const std::string text = kHead +
                           "runs:\n  one: {system: p-ib, protocol: mini-gda, work: {does: [put], "
                           "wait_every: 1}}\n"
                           "rows: [{id: a, run: one, metric: issue, value: 1, unit: us}]\n";
  EXPECT_TRUE(config::says(config::complaint([&] { load(text); }), {"m.yaml:6", "wait_every"}));
}

// ---- arithmetic ----

TEST(MeasurementMetrics, TimesLeaveTheFirstTenthOut) {
  Observed observed;
  observed.operations = ten_rounds(OpKind::kQuiet);
  // Of rounds 0 to 9 the first one is cold: 1001 to 1009 ns.
  const auto issue = samples(Metric::kIssue, observed);
  ASSERT_EQ(issue.size(), 9U);
  EXPECT_DOUBLE_EQ(issue.front(), 1001);
  EXPECT_DOUBLE_EQ(issue.back(), 1009);
  EXPECT_EQ(samples(Metric::kPutCompletion, observed), std::vector<double>(9, 4000));
  // 4000 - 1001
  EXPECT_DOUBLE_EQ(samples(Metric::kDoorbellToCompletion, observed).front(), 2999);
  EXPECT_TRUE(samples(Metric::kRoundTrip, observed).empty());
}

TEST(MeasurementMetrics, RoundTripEndsWithTheWait) {
  Observed observed;
  observed.operations = ten_rounds(OpKind::kWait);
  EXPECT_EQ(samples(Metric::kRoundTrip, observed), std::vector<double>(9, 4000));
  EXPECT_EQ(samples(Metric::kOneWay, observed), std::vector<double>(9, 2000));
  EXPECT_TRUE(samples(Metric::kPutCompletion, observed).empty());
}

TEST(MeasurementMetrics, AQuietEndsEveryPutBeforeItOfItsLaneAlone) {
  Observed observed;
  observed.operations = {op(OpKind::kPut, 0, 1000), op(OpKind::kPut, 0, 1000, 1),
                         op(OpKind::kPut, 2000, 3000), op(OpKind::kQuiet, 3000, 9000),
                         op(OpKind::kQuiet, 3000, 7000, 1)};
  // Lane 0: 9 - 0 and 9 - 2 ns; lane 1: 7 - 0 ns. Fewer than ten samples: none is cold.
  EXPECT_EQ(samples(Metric::kPutCompletion, observed), (std::vector<double>{9, 7, 7}));
}

TEST(MeasurementMetrics, RateIsOverTheMiddleOfTheRun) {
  Observed observed;
  observed.bytes = 100;
  // The run lasts from 0 to 1000 ns; only completions in (100, 900] count: 200, 300, ... 900.
  for (Ps k = 1; k <= 10; ++k) observed.messages.emplace_back(0, k * 100'000);
  // 8 messages in 800 ns are 10 Mmsg/s; 100 B each, 1 GB/s.
  EXPECT_DOUBLE_EQ(samples(Metric::kRate, observed).at(0), 10);
  EXPECT_DOUBLE_EQ(samples(Metric::kGoodput, observed).at(0), 1);
  EXPECT_TRUE(samples(Metric::kRate, {}).empty());
}

TEST(MeasurementFits, LeastSquares) {
  // Means 2 and 4; sums of products 4 and of squares 2: slope 2, constant 0.
  const Line line = fit_line({{1, 2}, {2, 4}, {3, 6}});
  EXPECT_DOUBLE_EQ(line.slope, 2);
  EXPECT_DOUBLE_EQ(line.constant, 0);
  // Means 1 and 2; (-1)(-2) + 0 + 1 * 1 = 3 over 2: slope 1.5, constant 0.5.
  const Line scattered = fit_line({{0, 0}, {1, 3}, {2, 3}});
  EXPECT_DOUBLE_EQ(scattered.slope, 1.5);
  EXPECT_DOUBLE_EQ(scattered.constant, 0.5);
}

TEST(MeasurementFits, ClockSlopeReachAndDifference) {
  Sweep clocks;
  clocks.values = {{"0.5", 0.5}, {"1", 1}, {"2", 2}};
  // 2000 cycles and 300 ns: 2000 / f + 300.
  const std::vector<Spread> times = {{4300, 0, 0}, {2300, 0, 0}, {1300, 0, 0}};
  Cell cell;
  cell.id = "x";
  cell.take = Take::kClockCycles;
  EXPECT_NEAR(predict(cell, clocks, times).median, 2000, 1e-9);
  EXPECT_TRUE(std::isnan(predict(cell, clocks, times).p10));
  cell.take = Take::kClockConstant;
  cell.per_unit = 1e-3;
  EXPECT_NEAR(predict(cell, clocks, times).median, 0.3, 1e-12);

  Sweep sizes;
  sizes.values = {{"8", 8}, {"24", 24}, {"40", 40}};
  cell.take = Take::kSlope;
  cell.per_unit = 16 * 1e-3;  // us per 16 B
  // 100 ns for each 16 B.
  EXPECT_NEAR(predict(cell, sizes, {{700, 0, 0}, {800, 0, 0}, {900, 0, 0}}).median, 0.1, 1e-12);
  cell.take = Take::kReach;
  cell.per_unit = 1;
  cell.at_least = 22.32;
  EXPECT_EQ(predict(cell, sizes, {{10, 0, 0}, {22.32, 0, 0}, {24, 0, 0}}).median, 24);
  EXPECT_TRUE(config::says(config::complaint([&] {
                             predict(cell, sizes, {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}});
                           }),
                           {"x: ", "up to 40", "reaches 22.32"}));

  cell.take = Take::kValue;
  cell.less = "other";
  cell.per_unit = 1e-3;
  EXPECT_NEAR(predict(cell, {}, {{4640, 0, 0}, {4030, 0, 0}}).median, 0.61, 1e-12);
}

// ---- simulating ----

TEST_F(Measurements, SimulatesEachRunInAProcessOfItsOwn) {
  const auto tables =
      load(kHead + kRuns +
           "  doubled: {run: one, vary: protocol.build_cycles, values: [100, 1000]}\n"
           "rows:\n"
           "  - {id: a, run: one, metric: issue, value: 0.5, unit: us}\n"
           "  - {id: b, sweep: doubled, metric: issue, take: slope, value: 1, unit: ns per cycle}\n"
           "  - {id: c, run: one, metric: round_trip, value: 1, unit: us}\n");
  std::size_t done = 0, all = 0;
  MeasurementOptions with = options();
  with.on_progress = [&](std::size_t d, std::size_t a) { done = d, all = a; };
  const auto predictions = predict(tables, with);
  ASSERT_EQ(predictions.size(), 3U);
  EXPECT_EQ(done, 3U);  // `one` once, `doubled` twice
  EXPECT_EQ(all, 3U);
  EXPECT_GT(predictions[0].predicted.median, 0);
  EXPECT_DOUBLE_EQ(predictions[0].error, predictions[0].predicted.median / 0.5 - 1);
  // A cycle of p-ib's SM clock, 1.98 GHz.
  EXPECT_NEAR(predictions[1].predicted.median, 1 / 1.98, 0.01);
  EXPECT_TRUE(config::says(predictions[2].fault, {"m.yaml:5", "shows no round_trip"}));
}

TEST_F(Measurements, ARunThatFailsFailsItsRowsAlone) {
  const auto tables =
      load(kHead + kRuns +
           "  wrong: {run: one, vary: gpu.sm.clock, values: [1, 2]}\n"
           "rows:\n"
           "  - {id: a, run: one, metric: issue, value: 0.5, unit: us}\n"
           "  - {id: b, sweep: wrong, metric: issue, take: slope, value: 1, unit: us per 1 x}\n"
           "  - {id: c, value: 1, unit: us, not_covered: needs a proxy}\n");
  const auto predictions = predict(tables, options());
  EXPECT_EQ(predictions[0].fault, "");
  EXPECT_TRUE(config::says(predictions[1].fault, {"gpu.sm.clock"}));
  const auto json = as_json(tables, predictions);
  EXPECT_EQ(json["rows"].size(), 1U);
  EXPECT_EQ(json["failed"][0]["case"], "b");
  EXPECT_EQ(json["not_covered"][0]["reason"], "needs a proxy");
  EXPECT_TRUE(json["rows"][0]["measured"]["p10"].is_null() ||
              std::isnan(json["rows"][0]["measured"]["p10"].get<double>()));
  EXPECT_EQ(json["summary"]["rows"], 1);
  std::ostringstream out;
  write_table(out, tables, predictions, 2);
  EXPECT_TRUE(config::says(out.str(), {"failed", "not covered: needs a proxy\n  rows c"}));
}

TEST(BundledMeasurements, EveryTableReads) {
  const auto tables = load_measurements(MARROW_ROOT "/validate/measurements/dissecting", kConfigs);
  ASSERT_EQ(tables.size(), 14U);
  std::size_t cells = 0, fits = 0;
  for (const Table& table : tables)
    for (const Cell& cell : table.cells) {
      // What the paper's text says beside a table may stand with that table's.
      EXPECT_TRUE(cell.id.starts_with(table.id + "-") || cell.id.starts_with("dissect-tx-"))
          << cell.id;
      ++cells;
      fits += cell.role == Role::kFit;
    }
  // Tables 3 to 13 (11 with row 010 of the text), 16 (with 017 to 019), figure 8 and the text's
  // others:
  EXPECT_EQ(cells, 58U + 28 + 14 + 12 + 24 + 6 + 12 + 12 + 13 + 8 + 11 + 11 + 10 + 21);
  // 10 of table 3, 4 of its in table 4, 4 of table 6, 2 of table 9, 2 of table 5, 3 of table 11, 4
  // each of tables 13 and 16, and of the text 2 that table 3 says too, what DC costs more than RC,
  // and the NIC's rate.
  EXPECT_EQ(fits, 10U + 4 + 4 + 2 + 2 + 3 + 4 + 4 + 4);
}

// The bar: launch, notice and kernel-to-kernel rows of every machine within 10 %, fitted to one.
TEST(BundledMeasurements, LaunchRowsOfEveryMachineAreWithinATenth) {
  auto tables =
      load_measurements(MARROW_ROOT "/validate/measurements/launch/h200-launch.yaml", kConfigs);
  auto& cells = tables.front().cells;
  std::erase_if(cells, [](const Cell& cell) { return cell.launch.test == LaunchTest::kCopy; });
  ASSERT_EQ(cells.size(), 7U * 6);
  MeasurementOptions options;
  options.config_dir = kConfigs;
  std::size_t predicted = 0;
  for (const Prediction& p : predict(tables, options)) {
    EXPECT_EQ(p.fault, "") << p.cell->what;
    EXPECT_LE(std::abs(p.error), 0.1) << p.cell->what;
    predicted += p.cell->role == Role::kPredicted;
  }
  EXPECT_EQ(predicted, 6U * 5) << "six machines, all but the launch call itself";
}

TEST_F(Measurements, RefusesALaunchRowThatTheProbeHasNot) {
  const std::string head =
      "kind: launch_probe\ntable: l\ntitle: t\nsource: {title: t, url: u, year: 2026}\nrows:\n";
  EXPECT_TRUE(
      config::says(config::complaint([&] {
                     load(head + "  - {id: a, system: h200-c, test: launch, value: 1, unit: ns}\n");
                   }),
                   {"m.yaml:6", "no such test", "launch_call_cpu_cost"}));
  EXPECT_TRUE(config::says(
      config::complaint([&] {
        load(head + "  - {id: a, system: h200-c, test: copy_engine, value: 1, unit: us}\n");
      }),
      {"m.yaml:6", "bytes"}));
}

}  // namespace
}  // namespace marrow::validate
