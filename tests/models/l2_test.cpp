// How long do accesses to the L2 take, who waits for whom, and when does a waiting one succeed?
//
// Round numbers (round_gpu()): a load takes 200 ns there and back, home is 300 ns away and back in
// the near partition and 500 in the far one; an access takes effect half way.
#include "models/gpu/l2.h"

#include "models/gpu/hbm.h"
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow::gpu {
namespace {

constexpr std::uint64_t kNear = 0, kFar = Placement::kPageBytes;  // seen from SMs 0 to 2
constexpr std::uint32_t kOtherSide = 3;                           // an SM of the other partition

class L2Test : public SystemC {
 protected:
  L2Test() {
    a_.out.bind(l2_.from_sms);
    b_.out.bind(l2_.from_sms);
    c_.out.bind(l2_.from_sms);
    other_side_.out.bind(l2_.from_sms);
    l2_.to_host.bind(host_.in);
    l2_.to_hbm.bind(hbm_.from_l2);
    placement_.draw(2 * Placement::kPageBytes, 4, 1, 0);
    all_near(placement_);
    placement_.set_page_side(kFar, true);
    placement_.set_sm_side(kOtherSide, true);
    hbm_.reset(placement_.gpu_bytes());
    l2_.reset(placement_.gpu_bytes(), &placement_, 1);
    elaborate();
  }
  /// A word that spins until it is 0 and makes it 1: a lock.
  const Requester::Request& spin(Requester& requester, Ps at_ps, std::uint64_t expected = 0,
                                 std::uint64_t value = 1) {
    auto& request = requester.prepare(AccessKind::kSpin, kNear, value);
    request.access.expected = expected;
    request.access.retry_ps = 60'000;
    requester.issue(request, at_ps);
    return request;
  }
  const Requester::Request& poll(Requester& requester, Ps at_ps, std::uint64_t threshold,
                                 std::uint64_t address = kNear) {
    auto& request = requester.prepare(AccessKind::kPoll, address);
    request.access.threshold = threshold;
    request.access.retry_ps = 50'000;
    requester.issue(request, at_ps);
    return request;
  }
  /// A store that takes effect at this time.
  void store(Ps effect_ps, std::uint64_t value, std::uint64_t address = kNear) {
    c_.issue(AccessKind::kStore, address, effect_ps - (address == kNear ? 150'000 : 250'000),
             value);
  }

  Hbm hbm_{"hbm", round_gpu()};
  L2 l2_{"l2", round_gpu(), 800'000, hbm_.memory()};
  FarEnd host_{"host", 800'000};
  Requester a_{"a", 0}, b_{"b", 1}, c_{"c", 2}, other_side_{"other_side", kOtherSide};
  Placement placement_;
};

TEST_F(L2Test, AnswersAnAtomicAfterTheRoundTripToItsNearOrFarHome) {
  const auto& near = a_.issue(AccessKind::kAtomic, kNear, 1'000, 1);
  const auto& far = a_.issue(AccessKind::kAtomic, kFar, 1'000, 1);
  const auto& far_is_near_there = other_side_.issue(AccessKind::kAtomic, kFar + 8, 1'000, 1);
  run();
  EXPECT_EQ(near.answered_ps, 301'000);
  EXPECT_EQ(far.answered_ps, 501'000);
  EXPECT_EQ(far_is_near_there.answered_ps, 301'000);
}

TEST_F(L2Test, AddsALinesOwnDistance) {
  placement_.set_distance(kNear, 20);
  placement_.set_distance(1, kNear, -30);
  const auto& a = a_.issue(AccessKind::kAtomic, kNear, 0, 1);
  const auto& b = b_.issue(AccessKind::kAtomic, kNear + 8, 0, 1);
  const auto& next_line = a_.issue(AccessKind::kAtomic, kNear + 128, 0, 1);
  run();
  EXPECT_EQ(a.answered_ps, 320'000);
  EXPECT_EQ(b.answered_ps, 270'000) << "one SM's own distance";
  EXPECT_EQ(next_line.answered_ps, 300'000);
}

TEST_F(L2Test, CountsInItsOwnClock) {
  renew();
  GpuSpec spec = round_gpu();
  spec.l2_clock_ghz = 2;
  Hbm hbm{"hbm", spec};
  L2 fast{"l2", spec, 800'000, hbm.memory()};
  fast.to_hbm.bind(hbm.from_l2);
  hbm.reset(placement_.gpu_bytes());
  Requester sm{"sm"};
  FarEnd host{"host", 0};
  sm.out.bind(fast.from_sms);
  fast.to_host.bind(host.in);
  fast.reset(placement_.gpu_bytes(), &placement_, 1);
  elaborate();
  const auto& near = sm.issue(AccessKind::kAtomic, kNear, 0, 1);
  run();
  EXPECT_EQ(near.answered_ps, 150'000);
}

TEST_F(L2Test, GivesEachAtomicWhatTheOneBeforeLeft) {
  const auto& first = a_.issue(AccessKind::kAtomic, kNear, 0, 5);
  const auto& second = b_.issue(AccessKind::kAtomic, kNear, 1'000, 7);
  run();
  EXPECT_EQ(first.access.value, 0u);
  EXPECT_EQ(second.access.value, 5u);
  EXPECT_EQ(l2_.memory().load(kNear, 8), 12u);
}

TEST_F(L2Test, LetsAtomicsOnOneWordFollowAtTheIntervalAndNotSooner) {
  // The first is there at 150 ns and keeps the word for 10.
  const auto& first = a_.issue(AccessKind::kAtomic, kNear, 0, 1);
  const auto& together = b_.issue(AccessKind::kAtomic, kNear, 0, 1);
  run();
  EXPECT_EQ(first.answered_ps, 300'000);
  EXPECT_EQ(together.answered_ps, 310'000);
  const Ps next = 1'000'000;
  a_.issue(AccessKind::kAtomic, kNear, next, 1);
  const auto& too_early = b_.issue(AccessKind::kAtomic, kNear, next + 9'999, 1);
  run();
  EXPECT_EQ(too_early.answered_ps, next + 310'000);
  const Ps last = 2'000'000;
  a_.issue(AccessKind::kAtomic, kNear, last, 1);
  const auto& in_time = b_.issue(AccessKind::kAtomic, kNear, last + 10'000, 1);
  run();
  EXPECT_EQ(in_time.answered_ps, last + 310'000);
}

TEST_F(L2Test, LetsAtomicsOnTwoWordsPassAtOnce) {
  const auto& one = a_.issue(AccessKind::kAtomic, kNear, 0, 1);
  const auto& other = b_.issue(AccessKind::kAtomic, kNear + 8, 0, 1);
  run();
  EXPECT_EQ(one.answered_ps, 300'000);
  EXPECT_EQ(other.answered_ps, 300'000);
}

TEST_F(L2Test, ChargesALineWrittenInTheFarPartitionOnceMoreForTheNextLoad) {
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kFar), 200'000) << "never written";
  other_side_.at_once(AccessKind::kStore, kFar, 1);
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kFar), 300'000) << "written: fetched anew";
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kFar), 200'000) << "and there from then on";
  a_.at_once(AccessKind::kAtomic, kFar, 1);
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kFar + 128), 200'000) << "another line";
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kFar + 8), 300'000) << "the same line";
  b_.at_once(AccessKind::kStore, kNear, 1);
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kNear), 200'000) << "a near line costs nothing more";
}

// Probe rows l2_load_written of h200-k, load of a far line: 303 cycles where an SM of the reader's
// side wrote it, as near lines (290); 468 where one of the other side did.
TEST_F(L2Test, KeepsTheCopyThatAStoreFromItsOwnSidePasses) {
  b_.at_once(AccessKind::kStore, kFar, 1);
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kFar), 200'000) << "in passing";
  c_.issue(AccessKind::kStore, kFar, 0, 2);
  run();
  const Ps now = now_ps();
  const auto& seen = a_.issue(AccessKind::kLoad, kFar, now);
  run();
  EXPECT_EQ(seen.answered_ps, now + 200'000) << "where others can see it, too";
  other_side_.at_once(AccessKind::kStore, kFar, 3);
  b_.at_once(AccessKind::kStore, kFar, 4);
  EXPECT_EQ(a_.at_once(AccessKind::kLoad, kFar), 300'000) << "a stale line is not mended by a word";
}

TEST_F(L2Test, ChargesTheSameForLoadsThatOthersCanSee) {
  other_side_.issue(AccessKind::kStore, kFar, 850'000, 1);
  run();
  const Ps now = now_ps();
  const auto& first = a_.issue(AccessKind::kLoad, kFar, now);
  run();
  const Ps later = now_ps();
  const auto& second = a_.issue(AccessKind::kLoad, kFar, later);
  run();
  EXPECT_EQ(first.answered_ps, now + 300'000);
  EXPECT_EQ(second.answered_ps, later + 200'000);
  EXPECT_EQ(first.access.value, 1u);
}

TEST_F(L2Test, ShowsAStoreToLoadsThatComeAfterItAndToNoneBefore) {
  store(500'000, 9);
  // A load is at the L2 after 100 ns.
  const auto& before = a_.issue(AccessKind::kLoad, kNear, 399'999);
  const auto& after = b_.issue(AccessKind::kLoad, kNear, 400'001);
  run();
  EXPECT_EQ(before.access.value, 0u);
  EXPECT_EQ(after.access.value, 9u);
}

// A spinner that is issued at 0 looks at 150 ns and then every 300 + 60: 510, 870, 1230.

TEST_F(L2Test, LetsASpinSucceedAtItsFirstLookIfTheWordIsFree) {
  const auto& spinner = spin(a_, 0);
  run();
  EXPECT_EQ(spinner.answered_ps, 300'000);
  EXPECT_EQ(spinner.access.rounds, 1u);
  EXPECT_EQ(l2_.memory().load(kNear, 8), 1u);
}

TEST_F(L2Test, LetsASpinThatFailedLookAgainAfterARoundTripAndTheRetry) {
  l2_.memory().store(kNear, 1, 8);
  const auto& spinner = spin(a_, 0);
  store(160'000, 0);
  run();
  EXPECT_EQ(spinner.answered_ps, 510'000 + 150'000);
  EXPECT_EQ(spinner.access.rounds, 2u);
}

TEST_F(L2Test, LetsASpinSucceedAtALookThatCoincidesWithTheRelease) {
  l2_.memory().store(kNear, 1, 8);
  const auto& spinner = spin(a_, 0);
  store(510'000, 0);
  run();
  EXPECT_EQ(spinner.answered_ps, 510'000 + 150'000);
  EXPECT_EQ(spinner.access.rounds, 2u);
}

TEST_F(L2Test, LetsNoSpinSucceedAtALookBeforeTheRelease) {
  l2_.memory().store(kNear, 1, 8);
  const auto& spinner = spin(a_, 0);
  store(510'001, 0);
  run();
  EXPECT_EQ(spinner.answered_ps, 870'000 + 150'000) << "a picosecond late: one look more";
  EXPECT_EQ(spinner.access.rounds, 3u);
}

TEST_F(L2Test, GivesALockToTheSpinnerThatLooksFirst) {
  l2_.memory().store(kNear, 1, 8);
  const auto& a = spin(a_, 0);        // looks at 150, 510, 870, 1230
  const auto& b = spin(b_, 100'000);  // looks at 250, 610, 970
  store(520'000, 0);                  // b is the next to look
  store(1'000'000, 0);                // b releases
  run();
  EXPECT_EQ(b.answered_ps, 610'000 + 150'000);
  EXPECT_EQ(a.answered_ps, 1'230'000 + 150'000);
  EXPECT_EQ(l2_.memory().load(kNear, 8), 1u);
}

TEST_F(L2Test, LetsANewcomerTakeALockBeforeThoseWhoWaitLookAgain) {
  l2_.memory().store(kNear, 1, 8);
  const auto& waiting = spin(a_, 0);  // looks at 870 next
  store(520'000, 0);
  const auto& newcomer = spin(b_, 400'000);  // looks at 550
  store(800'000, 0);                         // its release
  run();
  EXPECT_EQ(newcomer.answered_ps, 700'000);
  EXPECT_EQ(waiting.answered_ps, 870'000 + 150'000);
}

TEST_F(L2Test, LetsASpinWaitForItsVeryValue) {
  const auto& second = spin(a_, 0, 2, 3);       // looks at 150, 510, 870, 1230
  const auto& first = spin(b_, 100'000, 1, 2);  // looks at 250, 610, 970
  store(300'000, 1);
  run();
  EXPECT_EQ(first.answered_ps, 610'000 + 150'000);
  EXPECT_EQ(second.answered_ps, 870'000 + 150'000) << "the first look after the word became 2";
  EXPECT_EQ(l2_.memory().load(kNear, 8), 3u);
}

// A poll that is issued at 0 looks at 100 ns and then every 200 + 50: 350, 600, 850.

TEST_F(L2Test, WakesAPollAtItsNextLookAfterTheStore) {
  const auto& poller = poll(a_, 0, 1);
  store(360'000, 1);
  run();
  EXPECT_EQ(poller.answered_ps, 600'000 + 100'000);
  EXPECT_EQ(poller.access.rounds, 3u);
  EXPECT_EQ(counted(l2_, "l2", "of them polls"), 3);
}

TEST_F(L2Test, WakesAPollWhoseLookCoincidesWithTheStore) {
  const auto& poller = poll(a_, 0, 1);
  store(600'000, 1);
  run();
  EXPECT_EQ(poller.answered_ps, 600'000 + 100'000);
}

TEST_F(L2Test, WakesNoPollAtALookBeforeTheStore) {
  const auto& poller = poll(a_, 0, 1);
  store(600'001, 1);
  run();
  EXPECT_EQ(poller.answered_ps, 850'000 + 100'000) << "a picosecond late: one look more";
}

TEST_F(L2Test, WakesEveryPollWhoseThresholdIsReachedAndNoOther) {
  const auto& one = poll(a_, 0, 1);
  const auto& three = poll(b_, 0, 3);
  const auto& four = poll(a_, 0, 4);
  store(400'000, 3);
  run();
  EXPECT_EQ(one.answered_ps, 700'000);
  EXPECT_EQ(three.answered_ps, 700'000);
  EXPECT_EQ(four.answered_ps, -1);
  store(2'000'000, 4);
  run();
  // Looks at 100 + 250 k: 2100 is the first at or after 2000.
  EXPECT_EQ(four.answered_ps, 2'100'000 + 100'000);
}

TEST_F(L2Test, ChargesAPollThatFindsAFarLineRenewed) {
  const auto& poller = poll(a_, 0, 1, kFar);
  other_side_.issue(AccessKind::kStore, kFar, 210'000, 1);
  run();
  EXPECT_EQ(poller.answered_ps, 600'000 + 150'000) << "300 ns of round trip, half of it ahead";
}

// Host memory answers 800 ns after a read has come to it; the L2 is half a load, 100 ns, away.

TEST_F(L2Test, ReadsHostMemoryAcrossBothWays) {
  const auto& read = a_.issue(AccessKind::kLoad, kHostBase, 1'000);
  run();
  ASSERT_EQ(host_.arrivals().size(), 1u);
  EXPECT_EQ(host_.arrivals()[0].at_ps, 101'000);
  EXPECT_EQ(read.answered_ps, 1'001'000);
}

TEST_F(L2Test, LetsReadsOfOneHostLineFollowEachOther) {
  const auto& a = a_.issue(AccessKind::kPoll, kHostBase, 0);
  const auto& b = b_.issue(AccessKind::kPoll, kHostBase + 120, 0);
  run();
  ASSERT_EQ(host_.arrivals().size(), 2u);
  EXPECT_EQ(host_.arrivals()[1].at_ps, 900'000) << "when the first is back at the L2, not before";
  EXPECT_EQ(a.answered_ps, 1'000'000);
  EXPECT_EQ(b.answered_ps, 1'800'000);
}

TEST_F(L2Test, LetsReadsOfTwoHostLinesGoTogether) {
  const auto& a = a_.issue(AccessKind::kPoll, kHostBase, 0);
  const auto& b = b_.issue(AccessKind::kPoll, kHostBase + 128, 0);
  run();
  EXPECT_EQ(a.answered_ps, 1'000'000);
  EXPECT_EQ(b.answered_ps, 1'000'000);
}

TEST_F(L2Test, SendsPostedWritesToTheHostAndWaitsForNone) {
  a_.issue(AccessKind::kStore, kHostBase, 1'000, 5);
  run();
  ASSERT_EQ(host_.arrivals().size(), 1u);
  EXPECT_EQ(host_.arrivals()[0].kind, AccessKind::kStore);
  EXPECT_EQ(host_.arrivals()[0].at_ps, 101'000);
  EXPECT_EQ(counted(l2_, "l2", "host stores"), 1);
}

TEST_F(L2Test, TellsTheWatcherOfStoresInItsRangeOnly) {
  std::vector<std::pair<std::uint64_t, Ps>> told;
  l2_.watch(64, 128, [&](std::uint64_t address, std::uint64_t, Ps at_ps) {
    told.emplace_back(address, at_ps);
  });
  for (std::uint64_t address : {56u, 64u, 120u, 128u})
    a_.issue(AccessKind::kStore, address, 1'000, 1);
  run();
  EXPECT_EQ(told, (std::vector<std::pair<std::uint64_t, Ps>>{{64, 151'000}, {120, 151'000}}));
}

}  // namespace
}  // namespace marrow::gpu
