// What does `marrow run --check-order` say of a run: which hazard, by which rule, and did it
// happen? Expectations follow from the rules (sim/order/rules.cpp), worked out beside each case.
#include <optional>

#include "command.h"

namespace marrow::cli {
namespace {

struct Work {
  std::string protocol;  ///< of configs/protocols; or a file beside the trace
  std::string does, peer_does = {};
  std::string bytes = "8", warps = "1", queues = "1", rounds = "20";
};

class CheckOrder : public Command {
 protected:
  Result run(const Work& work, const Arguments& more) {
    make("work.yaml",
         "machine: made-up\nruns:\n  - {name: r, protocol: " + work.protocol + ", warps: " +
             work.warps + ", queues: " + work.queues + ", puts_per_warp: " + work.rounds +
             ", bytes: " + work.bytes + ", does: [" + work.does + "]" +
             (work.peer_does.empty() ? "" : ", peer_does: [" + work.peer_does + "]") + "}\n");
    return marrow(Arguments{"run", "--system", source_file("configs/systems/p-ib.yaml"), "--trace",
                            "work.yaml", "--check-order", "--json", "run.json"} +
                  more);
  }
  /// "hazard rule" of each, with " happened".
  std::set<std::string> hazards(const Work& work, const Arguments& more = {}) {
    const Result result = run(work, more);
    EXPECT_EQ(result.code, 0) << result.err;
    std::set<std::string> found;
    if (result.code != 0) return found;
    const auto told = json("run.json");
    for (const auto& hazard : told.at("order").at(0).at("hazards")) {
      const std::string key =
          hazard.at("hazard").get<std::string>() + " " + hazard.at("rule").get<std::string>();
      found.insert(key + (hazard.at("happened") ? " happened" : ""));
      for (const char* said : {"first", "second", "assumed", "rule_says", "mend"})
        EXPECT_FALSE(hazard.at(said).get<std::string>().empty()) << key << " " << said;
    }
    return found;
  }
  /// A bundled recipe with `from` replaced by `to`.
  void recipe(const std::string& name, const std::string& from, const std::string& to) {
    make("recipe.yaml",
         replaced(read_file(source_file("configs/protocols/" + name + ".yaml")), from, to));
  }
};
using Found = std::set<std::string>;

TEST_F(CheckOrder, FindsNothingWhereTheLibrarySaysWhy) {
  EXPECT_EQ(hazards({"gdaki", "put_signal, wait", "wait, put_signal"}), Found{});
  EXPECT_EQ(hazards({"gdaki", "put, put, quiet", "", "65536", "4", "2"}), Found{});
  EXPECT_EQ(hazards({"nvshmem-ibgda", "put, quiet", "", "8", "1", "2"}), Found{});
  EXPECT_EQ(hazards({"nvshmem-ibgda", "put, fence, put_signal", "wait", "65536", "1", "2"},
                    {"--caller", "acquires"}),
            Found{});
  EXPECT_EQ(hazards({"nvshmem-ibgda", "put, barrier", "put, barrier", "65536", "1", "2"},
                    {"--caller", "acquires"}),
            Found{});
  EXPECT_EQ(hazards({"perftest", "put", "wait"}), Found{});
}

// A wait that polls with volatile loads: the load behind it may have been done before
// (ptx-acquire). Lanes of the models load in order, so it cannot happen here.
TEST_F(CheckOrder, ReportsALibrarysReadingAsOne) {
  EXPECT_EQ(hazards({"nvshmem-ibgda", "put_signal", "wait", "8", "1", "2"}),
            Found{"reader ptx-acquire"});
  const auto hazard = json("run.json").at("order").at(0).at("hazards").at(0);
  EXPECT_NE(hazard.at("reading").get<std::string>().find("path.md 1.A.4"), std::string::npos);
}

// Rotating queues: the atomic leaves behind the data's last packet, on the other queue, and is
// carried out before their last bytes are placed.
TEST_F(CheckOrder, SeesASignalPassTheDataOnAnotherQueue) {
  EXPECT_EQ(hazards({"nvshmem-ibgda", "put, atomic, quiet", "wait", "1048576", "1", "2"},
                    {"--caller", "acquires"}),
            Found{"reader rc-queues happened"});
}

// The same on one queue: the atomic is carried out behind the write.
TEST_F(CheckOrder, SeesNoSignalPassTheDataOnItsOwnQueue) {
  EXPECT_EQ(hazards({"nvshmem-ibgda", "put, atomic, quiet", "wait", "1048576", "1", "1"},
                    {"--caller", "acquires", "--protocol", "deepep", "--set", "protocol.batch=1"}),
            Found{});
}

// A receiver that waits for nothing: its load is done 4 us before the put is placed.
TEST_F(CheckOrder, SeesAReaderThatWaitsForNothing) {
  recipe("nvshmem-ibgda", "  - poll: {word: signal, until: signalled, retry: poll_cycles}\n\nproxy",
         "  - load: {word: signal}\n\nproxy");
  EXPECT_EQ(hazards({"./recipe.yaml", "put_signal, quiet", "wait", "8", "1", "2"},
                    {"--caller", "acquires"}),
            Found{"reader no-wait happened"});
}

// One source, no quiet between two puts: the NIC has not read 64 KiB when the next put begins.
TEST_F(CheckOrder, SeesASourceUsedBeforeItsCompletion) {
  EXPECT_EQ(hazards({"gdaki", "put, put, quiet", "", "65536"}, {"--caller", "one-source"}),
            Found{"source nic-fetch happened"});
  EXPECT_EQ(hazards({"gdaki", "put, quiet", "", "65536"}, {"--caller", "one-source"}), Found{});
}

// A quiet of the queue at hand says nothing of the other (nic-fetch: behind a bell at any time).
TEST_F(CheckOrder, FindsACompletionOfOneQueueTakenForAll) {
  EXPECT_TRUE(hazards({"nvshmem-ibgda", "put, put, quiet", "", "65536", "1", "2"},
                      {"--set", "protocol.quiet=used"})
                  .count("source nic-fetch"));
}

// The entry's fence narrowed to the CTA, or none: the ringer announces another lane's entry that
// its stores have not reached.
TEST_F(CheckOrder, FindsAnEntryAnnouncedWithoutItsWritersFence) {
  const Work shared{"gdaki", "put, quiet", "", "8", "2", "1"};
  EXPECT_TRUE(
      hazards(shared, {"--set", "protocol.wqe_fence.scope=cta"}).count("other_entry ptx-scope"));
  // In one CTA its lanes see each other's; the ringer's own gpu fence answers for both.
  EXPECT_EQ(hazards(shared, {"--set", "protocol.wqe_fence.scope=cta", "--caller", "one-cta"}),
            Found{});
  EXPECT_TRUE(hazards({"mini-gda", "put, quiet"}, {"--set", "protocol.ordering=none"})
                  .count("entry ptx-weak"));
}

TEST_F(CheckOrder, FindsADoorbellBeforePayloadOrRecord) {
  EXPECT_TRUE(hazards({"gdaki", "put, quiet"}, {"--set", "protocol.record_fence.scope=none"})
                  .count("record nic-record"));
  EXPECT_EQ(hazards({"nvshmem-ibrc", "put, quiet"}, {"--set", "protocol.request_fence.scope=none"}),
            Found{"payload ptx-weak"});
}

// The signal in a relaxed-ordered window may pass the data (PCIe A2b).
TEST_F(CheckOrder, FindsASignalInARelaxedWindow) {
  recipe("gdaki", "relaxed: [target]", "relaxed: [target, signal]");
  EXPECT_EQ(hazards({"./recipe.yaml", "put_signal", "wait"}), Found{"reader pcie-relaxed"});
}

// A get's data, taken behind its CQE without an acquire.
TEST_F(CheckOrder, FindsAPayloadReadBehindACompletionWithoutAnAcquire) {
  EXPECT_EQ(hazards({"nvshmem-ibgda", "get"}), Found{"reader ptx-acquire"});
}

// DeepEP's ring of 8, whose put looks at no slot: entry 8 is written over entry 0. The NIC finds
// another entry than announced and stops; what was found is told all the same.
TEST_F(CheckOrder, TellsOfASlotWrittenOverThoughTheRunBreaksOff) {
  recipe("deepep", "depth: 1024", "depth: 8");
  const Result result = run({"./recipe.yaml", "put", "", "65536", "1", "1", "64"}, {});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("the NIC stopped a queue"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("slot of the queue overwritten before its entry was read: HAPPENED"),
            std::string::npos)
      << result.out;
}

TEST_F(CheckOrder, StandsBesideAComparison) {
  const Result result =
      run({"gdaki", "put, quiet", "", "65536"},
          {"--protocol", "gdaki", "--protocol", "nvshmem-ibgda", "--caller", "one-source"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto order = json("run.json").at("order");
  ASSERT_EQ(order.size(), 2U);
  EXPECT_EQ(order.at(0).at("protocol"), "gdaki");
  EXPECT_EQ(order.at(1).at("protocol"), "nvshmem-ibgda");
}

// Timed runs of the suite's programs whose hazard the exhaustive search calls impossible: with
// every size and placement the far lane finds what it waited for.
TEST_F(CheckOrder, SeesNothingHappenThatTheExhaustiveSearchCallsImpossible) {
  const std::vector<Work> forbidden = {
      {"gdaki", "put_signal", "wait"},          // gin-put-signal
      {"nvshmem-ibgda", "put_signal", "wait"},  // put-signal-one-queue
      {"nvshmem-ibgda", "put, fence, put_signal", "wait"},
      {"nvshmem-ibgda", "put, barrier", "put, barrier"},
      {"deepep", "put, put, put, atomic", "wait"},
      {"gin-proxy", "put_signal", "wait"}};
  for (Work work : forbidden)
    for (const char* bytes : {"8", "16384", "1048576"})
      for (const char* seed : {"1", "2"}) {
        work.bytes = bytes;
        work.queues = "1";  // signals of two queues have no order, and a wait only counts them
        for (const std::string& hazard :
             hazards(work, {"--seed", seed, "--caller", "acquires", "--only", "r"}))
          EXPECT_EQ(hazard.find("happened"), std::string::npos)
              << work.protocol << ": " << work.does << ", " << bytes << " B: " << hazard;
      }
}

TEST_F(CheckOrder, HasItsPagesPicturesFromTheseVeryPrograms) {
  const std::string folder = std::filesystem::path(MARROW_BINARY).parent_path().string();
  const Result result =
      shell(source_file("tools/update-order-pictures.sh") + " --check '" + folder + "'");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST_F(CheckOrder, ChangesNoPrediction) {
  const Work work{"nvshmem-ibgda", "put, put_signal, quiet", "wait", "4096", "2", "2"};
  ASSERT_EQ(run(work, {}).code, 0);
  auto with = json("run.json");
  ASSERT_EQ(marrow({"run", "--system", source_file("configs/systems/p-ib.yaml"), "--trace",
                    "work.yaml", "--json", "without.json"})
                .code,
            0);
  with.erase("order");
  EXPECT_EQ(with, json("without.json"));
}

}  // namespace
}  // namespace marrow::cli
