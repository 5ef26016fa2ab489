// Does the comparison do its sums right, and does it find the placement again, on captures that
// were made up: by the model itself with a known placement, or number by number?
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/common/error.h"
#include "sim/config/system.h"
#include "tests/config/files.h"
#include "tests/support/round_machine.h"
#include "traces/trace.h"
#include "validate/compare.h"
#include "validate/placement.h"

namespace marrow::validate {
namespace {

const std::string kConfigs = MARROW_ROOT "/configs";
const std::vector<std::string> kStages = {"lookup",
                                          "slot",
                                          "wqe",
                                          "order.fence",
                                          "order.publish",
                                          "order.lock",
                                          "doorbell.record",
                                          "doorbell.register",
                                          "completion"};
constexpr double kGhz = 1.98;

/// h200-c without noise.
config::SystemSpec quiet() {
  return config::bind(
      config::load_system(kConfigs + "/systems/h200-c.yaml", {"gpu.l2.jitter_cycles=0"}));
}

trace::Run run_of(const std::string& name,
                  std::vector<std::pair<std::uint32_t, std::uint32_t>> sm_queue, std::uint64_t puts,
                  const std::string& doorbell_in = "gpu") {
  trace::Run run;
  run.name = name;
  run.protocol = "capture-gdaki";
  run.choices = {{"doorbell_in", doorbell_in}};
  run.puts_per_lane = puts;
  run.measured_stages = kStages;
  for (std::uint32_t warp = 0; warp < sm_queue.size(); ++warp) {
    run.lanes.push_back({warp, sm_queue[warp].first, sm_queue[warp].second});
    run.queues = std::max(run.queues, sm_queue[warp].second + 1);
  }
  return run;
}

class Capture : public config::Files {
 protected:
  struct Kernel : SystemC {
    void TestBody() override {}
    using SystemC::renew;
  };
  Capture() { Kernel(); }

  /// Protocols as they are, and what was fitted to what as the test has it.
  std::string config_dir(const std::string& fit_rows = "nowhere: {}\n") const {
    write("configs/fit-rows.yaml", fit_rows);
    std::filesystem::copy(kConfigs + "/protocols", path("configs/protocols"),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    return path("configs");
  }
  Comparison compare_with(const std::string& fit_rows = "nowhere: {}\n", std::uint64_t seed = 1,
                          std::vector<std::string> only = {}) {
    Kernel::renew();
    const auto spec = quiet();
    sim::Machine machine(spec);
    Options options;
    options.config_dir = config_dir(fit_rows);
    options.system = "made-up";
    options.trace_file = path("t.trace");
    options.seed = seed;
    options.only = std::move(only);
    return compare(machine, machine, spec, options);
  }

  /// Runs whose measured times are these, the same for every lane: by stage, then put by put.
  struct ByHand {
    trace::Run run;
    std::function<std::uint32_t(std::size_t stage, std::uint64_t put)> cycles;
  };
  void write_by_hand(const std::vector<ByHand>& runs) {
    trace::Writer writer(path("t.trace"), {"made-up", "a test", kGhz});
    for (const ByHand& by_hand : runs) {
      writer.run(by_hand.run);
      for (std::uint64_t put = 0; put < by_hand.run.puts_per_lane; ++put)
        for (const trace::Lane& lane : by_hand.run.lanes) {
          trace::Op op;
          op.warp = lane.warp;
          op.wait = op.flush = true;
          op.measured.emplace();
          op.measured->index = put;
          for (std::size_t stage = 0; stage < kStages.size(); ++stage)
            op.measured->stage_cycles.push_back(by_hand.cycles(stage, put));
          writer.op(op);
        }
    }
    writer.close();
  }

  /// Runs whose measured times are the model's own, with this placement.
  void write_by_model(const std::vector<trace::Run>& runs,
                      const std::function<void(const QueueLayout&, Placement&)>& place,
                      std::uint64_t seed = 1) {
    Kernel::renew();
    sim::Machine machine(quiet());
    trace::Writer writer(path("t.trace"), {"made-up", "a test", kGhz, {}, {}, kNear, kFar});
    for (const trace::Run& run : runs) {
      const config::Recipe recipe =
          config::load_recipe(config::recipe_path(run.protocol, kConfigs), run.choices);
      std::vector<std::uint64_t> left(run.lanes.size(), run.puts_per_lane);
      Journeys journeys;
      sim::RunSetup setup;
      setup.recipe = &recipe;
      setup.run = &run;
      setup.observer = &journeys;
      setup.seed = seed;
      setup.place = place;
      setup.next_op = [&](std::uint32_t warp, gpu::Op& put) {
        put = {OpKind::kPut, 0, true, true, kGap};
        return left[warp]-- > 0;
      };
      machine.run(setup);
      std::stable_sort(journeys.all.begin(), journeys.all.end(),
                       [](const Journey& a, const Journey& b) { return a.start_ps < b.start_ps; });
      writer.run(run);
      for (const Journey& journey : journeys.all) {
        trace::Op op;
        op.warp = journey.warp;
        op.wait = op.flush = true;
        op.compute_cycles = kGap;
        op.measured.emplace();
        op.measured->start_ns = static_cast<std::uint64_t>(journey.start_ps / kPsPerNs);
        op.measured->index = journey.index;
        op.measured->polls = journey.polls;
        op.measured->rang = journey.rang;
        for (const std::string& name : kStages) {
          const auto stage = stage_named(name);
          const Ps ps = stage ? journey.at(*stage) : journey.waited_ps;
          op.measured->stage_cycles.push_back(
              static_cast<std::uint32_t>(static_cast<double>(ps) * kGhz / 1000 + 0.5));
        }
        writer.op(op);
      }
    }
    writer.close();
  }
  static constexpr std::uint64_t kGap = 20'000;
  static constexpr double kNear = 330, kFar = 540;  ///< mean round trips that a record counts from

  static const Row& row(const Comparison& comparison, const std::string& run,
                        const std::string& stage) {
    for (const Row& r : comparison.rows)
      if (r.run == run && r.stage == stage) return r;
    throw std::runtime_error("no row " + run + " " + stage);
  }
  static std::size_t count(const Comparison& comparison, const std::string& run) {
    return static_cast<std::size_t>(std::count_if(comparison.rows.begin(), comparison.rows.end(),
                                                  [&](const Row& r) { return r.run == run; }));
  }
};

/// Every stage of every put takes this long, but for one stage.
std::function<std::uint32_t(std::size_t, std::uint64_t)> all_but_lookup(
    std::uint32_t cycles, std::function<std::uint32_t(std::uint64_t)> lookup) {
  return [=](std::size_t stage, std::uint64_t put) { return stage == 0 ? lookup(put) : cycles; };
}

// ------------------------------------------------------------------------ captures of the model's

/// Lines at the mean distance.
void at_mean_distance(Placement& placement) {
  for (std::uint64_t a = 0; a < placement.gpu_bytes(); a += Placement::kLineBytes)
    placement.set_distance(a, 0);
}

/// Where the truth lies: the rings on the queues' side or on the other, lines at their mean
/// distance or at drawn ones.
struct Truth {
  const char* name;
  bool rings_on_the_other_side;
  bool distances;
};
void PrintTo(const Truth& truth, std::ostream* out) { *out << truth.name; }

class PlacementOfCapture : public Capture, public testing::WithParamInterface<Truth> {};

TEST_P(PlacementOfCapture, IsFoundAgainAndLeavesNoError) {
  // Of eight lanes four are on the queues' side. The seed that is looked with draws other sides.
  const trace::Run run =
      run_of("cfg 1", {{3, 0}, {20, 1}, {6, 2}, {41, 3}, {8, 4}, {11, 5}, {12, 6}, {15, 7}}, 100);
  const config::Recipe recipe =
      config::load_recipe(config::recipe_path(run.protocol, kConfigs), run.choices);
  const Program& program = recipe.program;
  const auto place = [&](const QueueLayout& layout, Placement& placement) {
    if (!GetParam().distances) at_mean_distance(placement);
    for (std::uint32_t r = 0; r < program.regions.size(); ++r)
      for (std::uint64_t a = layout.region_begin(r); a < layout.region_end(r);
           a += Placement::kPageBytes)
        placement.set_page_side(
            a, GetParam().rings_on_the_other_side && program.regions[r].name == "ring");
    for (const trace::Lane& lane : run.lanes) placement.set_sm_side(*lane.sm, lane.warp % 2 != 0);
  };
  write_by_model({run}, place);

  Kernel::renew();
  const auto spec = quiet();
  sim::Machine machine(spec);
  trace::Reader reader(path("t.trace"));
  const InferredPlacement inferred = infer_placement(reader, machine, config_dir(), 5, spec);
  EXPECT_EQ(inferred.runs(), (std::vector<std::string>{"cfg 1"}));

  const QueueLayout layout(program, run.queues);
  Placement truth, found;
  for (Placement* placement : {&truth, &found})
    placement->draw(layout.gpu_bytes(), static_cast<std::uint32_t>(spec.gpu.sm_count), 5,
                    spec.gpu.distance_spread_cycles);
  place(layout, truth);
  inferred.apply(recipe, layout, found);
  for (const trace::Lane& lane : run.lanes) {
    const auto check = [&](std::uint32_t word, std::uint64_t index) {
      const std::uint64_t address = layout.address(program, word, lane.queue, index);
      EXPECT_EQ(found.is_far(*lane.sm, address), truth.is_far(*lane.sm, address))
          << program.words[word].name << " " << index << " of queue " << lane.queue;
    };
    for (std::uint32_t w = 0; w < program.words.size(); ++w) {
      const std::string& name = program.words[w].name;
      if (name == "resv" || name == "ready" || name == "prod" || name == "lock" ||
          name == "doorbell")
        check(w, 0);
      // The fence that shows an entry's side also waits for the far counter. A hundred entries of
      // 64 B lie in two pages.
      if (name == "entry" && lane.warp % 2 == 0) {
        check(w, 0);
        check(w, 99);
      }
    }
  }
  const Comparison comparison = compare_with();
  ASSERT_EQ(count(comparison, "cfg 1"), kStages.size() + 1);
  for (const Row& r : comparison.rows) {
    // No stage shows how far the completion's line lies, nor the record's, which hides the
    // doorbell's from far SMs; the fence behind the next entry waits for that.
    const bool rests_on_unseen =
        GetParam().distances && (r.stage == "completion" || r.stage == "order.fence");
    EXPECT_LT(std::abs(r.error), rests_on_unseen ? 0.05 : 0.01) << r.stage;
  }
}
INSTANTIATE_TEST_SUITE_P(Truths, PlacementOfCapture,
                         testing::Values(Truth{"AllOnOneSide", false, false},
                                         Truth{"RingsOnTheOther", true, false},
                                         Truth{"AllOnOneSideAtTheirDistances", false, true},
                                         Truth{"RingsOnTheOtherAtTheirDistances", true, true}),
                         [](const auto& test) { return test.param.name; });

TEST_F(Capture, WhereverTheWordsLieNoFenceIsTakenForAnotherWord) {
  // A fence takes as long as the farthest of all words that it waits for, whichever of them the
  // recipe's stage is placed by: the record may be far and the doorbell near, and the other way.
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> lanes = {
      {3, 0}, {20, 1}, {6, 2}, {41, 3}, {8, 4}, {11, 5}, {12, 6}, {15, 7}};
  for (const char* protocol : {"capture-gdaki", "capture-ibgda"})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(protocol + std::string(" of seed ") + std::to_string(seed));
      trace::Run run = run_of("cfg 1", lanes, 100);
      run.protocol = protocol;
      write_by_model({run}, nullptr, seed);
      for (const Row& r : compare_with("nowhere: {}\n", 1000 + seed).rows)
        // No stage shows where the consumer is, and so how long a completion takes it.
        EXPECT_LT(std::abs(r.error), r.stage == "completion" ? 0.15 : 0.05) << r.stage;
    }
}

TEST_F(Capture, WithoutAnUncontendedRunIsComparedWithTheSeedsPlacement) {
  write_by_model({run_of("cfg 1", {{0, 0}, {2, 0}, {4, 0}}, 50)},
                 [](const QueueLayout&, Placement& drawn) { at_mean_distance(drawn); });
  const Comparison comparison = compare_with();
  EXPECT_TRUE(comparison.placement_runs.empty());
  ASSERT_EQ(comparison.rows.size(), kStages.size() + 1);
  for (const Row& r : comparison.rows) {
    EXPECT_EQ(r.role, Role::kPredicted);
    EXPECT_FALSE(r.baseline_error);
    // The capture was made with the same seed's placement.
    EXPECT_LT(std::abs(r.error), 0.01) << r.stage;
  }
}

TEST_F(Capture, ARecordedPlacementIsUsedAsItIsAlsoOfContendedRuns) {
  // Four lanes share a queue: nothing can be inferred of where its words lie. The truth is another
  // seed's draw, recorded word by word as marrow-capture does.
  for (const std::uint64_t seed : {3u, 4u, 5u}) {
    SCOPED_TRACE(seed);
    trace::Run run = run_of("cfg 1", {{3, 0}, {20, 0}, {6, 0}, {41, 0}}, 60);
    run.consumer_sm = 90;
    const config::Recipe recipe =
        config::load_recipe(config::recipe_path(run.protocol, kConfigs), run.choices);
    const Program& program = recipe.program;
    const QueueLayout layout(program, run.queues);
    const auto spec = quiet();
    Placement truth;
    truth.draw(layout.gpu_bytes(), static_cast<std::uint32_t>(spec.gpu.sm_count), seed,
               spec.gpu.distance_spread_cycles);
    // As a record has them: whole cycles, one distance for a ring's page.
    for (std::uint64_t page = 0; page < truth.gpu_bytes(); page += Placement::kPageBytes)
      for (std::uint64_t a = page; a < page + Placement::kPageBytes; a += Placement::kLineBytes)
        truth.set_distance(
            a, std::round(truth.distance_cycles(3, page >= layout.region_begin(1) ? page : a)));
    for (std::uint32_t w = 0; w < program.words.size(); ++w) {
      const std::uint64_t step =
          program.words[w].entry_bytes ? Placement::kPageBytes / program.words[w].entry_bytes : 240;
      for (std::uint64_t first = 0; first < (program.words[w].entry_bytes ? 240 : 1);
           first += step) {
        const std::uint64_t address = layout.address(program, w, 0, first);
        trace::PlacedWord word{program.words[w].name,    0,  static_cast<std::uint32_t>(first),
                               0x7f0000000000 + address, {}, std::nullopt};
        const auto sight = [&](std::uint32_t warp, std::uint32_t sm) {
          const bool far = truth.is_far(sm, address);
          const double cycles = (far ? kFar : kNear) + truth.distance_cycles(sm, address);
          return trace::Sight{warp, static_cast<std::uint32_t>(cycles + 0.5), far};
        };
        for (const trace::Lane& lane : run.lanes) word.seen.push_back(sight(lane.warp, *lane.sm));
        word.from_consumer = sight(0, *run.consumer_sm);
        run.words.push_back(word);
      }
    }
    write_by_model({run}, [&](const QueueLayout&, Placement& placement) { placement = truth; });
    const Comparison comparison = compare_with("nowhere: {}\n", 1000 + seed);
    EXPECT_TRUE(comparison.placement_runs.empty());
    ASSERT_EQ(comparison.rows.size(), kStages.size() + 1);
    for (const Row& r : comparison.rows) {
      EXPECT_EQ(r.role, Role::kPredicted);
      EXPECT_LT(std::abs(r.error), 0.01) << r.stage;
    }
  }
}

// A program may lay out words that the sequence it runs never touches.
TEST_F(Capture, ARecordOfAWordThatTheRecipeDoesNotHaveIsPassedOver) {
  trace::Run run = run_of("cfg 1", {{3, 0}}, 5);
  run.words = {{"nonsense", 0, 0, 0x7f0000000000, {{0, 330, false}}, std::nullopt}};
  write_by_model({run}, nullptr);
  EXPECT_GT(row(compare_with(), "cfg 1", "lookup").predicted.median, 0);
}

// --------------------------------------------------------------------------------- number by
// number

TEST_F(Capture, MediansAndTailsAreTheElementsAtFloorOfPTimesN) {
  // 100, 200, … 1000 in a mixed order: positions 1, 5 and 9 of the sorted ten.
  write_by_hand({{run_of("cfg 1", {{0, 0}}, 10), all_but_lookup(500, [](std::uint64_t put) {
                    return static_cast<std::uint32_t>(100 * (1 + put * 7 % 10));
                  })}});
  const Comparison comparison = compare_with();
  const Spread& lookup = row(comparison, "cfg 1", "lookup").measured;
  EXPECT_EQ(lookup.p10, 200);
  EXPECT_EQ(lookup.median, 600);
  EXPECT_EQ(lookup.p90, 1000);
}

TEST_F(Capture, PutIsAMean) {
  // Eight stages of 200 and a lookup of 100, once of 1100: puts of 1700 and one of 2700.
  write_by_hand({{run_of("cfg 1", {{0, 0}}, 10),
                  all_but_lookup(200, [](std::uint64_t put) { return put == 3 ? 1100u : 100u; })}});
  const Comparison comparison = compare_with();
  EXPECT_DOUBLE_EQ(row(comparison, "cfg 1", "put").measured.median, 1800);
  EXPECT_DOUBLE_EQ(row(comparison, "cfg 1", "lookup").measured.median, 100);
}

TEST_F(Capture, ErrorIsPredictedOverMeasuredLessOne) {
  write_by_hand(
      {{run_of("cfg 1", {{0, 0}}, 10), all_but_lookup(200, [](std::uint64_t) { return 800u; })}});
  for (const Row& r : compare_with().rows)
    EXPECT_DOUBLE_EQ(r.error, r.predicted.median / r.measured.median - 1) << r.stage;
}

TEST_F(Capture, ARowWhoseHalvesDifferByMoreThan15PercentIsUnstable) {
  const auto halves = [](std::uint32_t second) {
    return all_but_lookup(500, [=](std::uint64_t put) { return put < 10 ? 1000u : second; });
  };
  // 15 % of the larger: 1176 less 1000 is 176 of 176.4, 1177 less 1000 is 177 of 176.55.
  write_by_hand({{run_of("cfg 1", {{0, 0}}, 20), halves(1176)},
                 {run_of("cfg 2", {{0, 0}}, 20), halves(1177)}});
  const Comparison comparison = compare_with();
  EXPECT_TRUE(row(comparison, "cfg 1", "lookup").stable);
  EXPECT_FALSE(row(comparison, "cfg 2", "lookup").stable);
  EXPECT_TRUE(row(comparison, "cfg 2", "slot").stable);
  EXPECT_TRUE(row(comparison, "cfg 2", "put").stable) << "5000 and 5177";
  EXPECT_EQ(comparison.unstable, 1u);
  EXPECT_EQ(comparison.groups().front().rows, comparison.rows.size() - 1) << "it is not scored";
}

TEST_F(Capture, StagesBelow100CyclesAreNoRows) {
  write_by_hand(
      {{run_of("cfg 1", {{0, 0}}, 10), all_but_lookup(100, [](std::uint64_t) { return 99u; })}});
  const Comparison comparison = compare_with();
  EXPECT_THROW(row(comparison, "cfg 1", "lookup"), std::runtime_error);
  EXPECT_NO_THROW(row(comparison, "cfg 1", "slot"));
}

TEST_F(Capture, BaselineRepeatsTheFirstUncontendedRunOfItsKind) {
  const auto lookup = [](std::uint32_t cycles) {
    return all_but_lookup(500, [=](std::uint64_t) { return cycles; });
  };
  write_by_hand({{run_of("first", {{0, 0}}, 10), lookup(1000)},
                 {run_of("second", {{0, 0}}, 10), lookup(800)},
                 {run_of("contended", {{0, 0}, {2, 0}}, 10), lookup(4000)},
                 {run_of("near it", {{0, 0}}, 10), lookup(950)},
                 {run_of("other doorbell", {{0, 0}}, 10, "host"), lookup(2000)}});
  const Comparison comparison = compare_with();
  const auto baseline = [&](const char* run) {
    return *row(comparison, run, "lookup").baseline_error;
  };
  EXPECT_DOUBLE_EQ(baseline("first"), 0);
  EXPECT_DOUBLE_EQ(baseline("second"), 0.25);       // 1000 / 800 - 1
  EXPECT_DOUBLE_EQ(baseline("contended"), -0.75);   // 1000 / 4000 - 1
  EXPECT_DOUBLE_EQ(baseline("other doorbell"), 0);  // a kind of its own
  EXPECT_TRUE(row(comparison, "second", "lookup").hard());
  EXPECT_FALSE(row(comparison, "near it", "lookup").hard()) << "1000 / 950 - 1 is 5 %";
}

TEST_F(Capture, BaselineAlsoHoldsForRunsBeforeTheUncontendedOne) {
  const auto lookup = [](std::uint32_t cycles) {
    return all_but_lookup(500, [=](std::uint64_t) { return cycles; });
  };
  write_by_hand({{run_of("contended", {{0, 0}, {2, 0}}, 10), lookup(4000)},
                 {run_of("other doorbell", {{0, 0}, {2, 0}}, 10, "host"), lookup(2000)},
                 {run_of("alone", {{0, 0}}, 10), lookup(1000)}});
  for (const auto& only : {std::vector<std::string>{}, std::vector<std::string>{"contended"}}) {
    const Comparison comparison = compare_with("nowhere: {}\n", 1, only);
    const Row& contended = row(comparison, "contended", "lookup");
    ASSERT_TRUE(contended.baseline_error);
    EXPECT_DOUBLE_EQ(*contended.baseline_error, -0.75);  // 1000 / 4000 - 1
    EXPECT_TRUE(contended.hard());
    EXPECT_DOUBLE_EQ(*row(comparison, "contended", "put").baseline_error, 5000. / 8000 - 1);
    if (only.empty()) {
      EXPECT_FALSE(row(comparison, "other doorbell", "lookup").baseline_error) << "has none";
    }
  }
}

TEST_F(Capture, RolesTellWhatAPredictionRestsOn) {
  const auto cycles = all_but_lookup(500, [](std::uint64_t) { return 500u; });
  // The second run shows another SM and queue than the first, the third none of its own.
  write_by_hand({{run_of("fitted", {{0, 0}}, 10), cycles},
                 {run_of("placed", {{0, 0}, {20, 1}}, 10), cycles},
                 {run_of("free", {{0, 0}, {2, 0}}, 10), cycles}});
  const Comparison comparison = compare_with("made-up:\n  capture-gdaki: [fitted]\n");
  EXPECT_EQ(row(comparison, "fitted", "slot").role, Role::kFit);
  EXPECT_EQ(row(comparison, "placed", "slot").role, Role::kPlacement);
  EXPECT_EQ(row(comparison, "free", "slot").role, Role::kPredicted);
}

TEST_F(Capture, WithoutTimesIsRefused) {
  {
    trace::Writer writer(path("t.trace"), {"made-up", "a test", 0});
    trace::Run run = run_of("cfg 1", {{0, 0}}, 1);
    run.measured_stages.clear();
    writer.run(run);
    writer.close();
  }
  EXPECT_TRUE(config::says(config::complaint([&] { compare_with(); }),
                           {path("t.trace"), "no captured times", "marrow run"}));
}

TEST(Groups, TellMedianTailAndWorstOfTheirRows) {
  // Ten rows that err by 1 % to 10 %, the ninth downwards; element 5 and 9 of the sorted ten.
  Comparison comparison;
  for (int i = 1; i <= 10; ++i) {
    Row row;
    row.run = "cfg " + std::to_string(i);
    row.stage = i <= 2 ? "put" : "slot";
    row.role = i <= 4 ? Role::kFit : Role::kPredicted;
    row.error = i == 10 ? -0.10 : i / 100.0;
    if (i >= 8) row.baseline_error = -0.5;
    comparison.rows.push_back(row);
  }
  Row unstable;
  unstable.error = 9;
  unstable.stable = false;
  comparison.rows.push_back(unstable);
  std::map<std::string, Group> groups;
  for (const Group& group : comparison.groups()) groups[group.name] = group;
  EXPECT_EQ(groups.at("all rows").rows, 10u);
  EXPECT_DOUBLE_EQ(groups.at("all rows").median_abs_error, 0.06);
  EXPECT_DOUBLE_EQ(groups.at("all rows").p90_abs_error, 0.10);
  EXPECT_DOUBLE_EQ(groups.at("all rows").worst_error, -0.10);
  EXPECT_EQ(groups.at("all rows").worst_run, "cfg 10");
  EXPECT_EQ(groups.at("put rows").rows, 2u);
  EXPECT_DOUBLE_EQ(groups.at("put rows").median_abs_error, 0.02);
  EXPECT_EQ(groups.at("hard rows").rows, 3u);
  EXPECT_DOUBLE_EQ(groups.at("hard rows").median_abs_error, 0.09);
  EXPECT_EQ(groups.at("predicted: all rows").rows, 6u);
  EXPECT_DOUBLE_EQ(groups.at("predicted: all rows").median_abs_error, 0.08);
  EXPECT_EQ(groups.at("predicted: put rows").rows, 0u);
}

}  // namespace
}  // namespace marrow::validate
