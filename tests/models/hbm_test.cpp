// What does a load cost that finds its line in the L2, and one that does not?
//
// Round numbers: a hit takes 200 ns; a miss 400 ns more. Eight channels share 8192 Gb/s, so one
// hands out a line of 128 B in 128 / (1024 / 8) = 1 ns.
#include "models/gpu/hbm.h"

#include "models/gpu/l2.h"
#include "tests/support/agents.h"
#include "tests/support/round_machine.h"

namespace marrow::gpu {
namespace {

GpuSpec spec_with_hbm(double l2_bytes) {
  GpuSpec spec = round_gpu();
  spec.hbm_cycles = 400;
  spec.l2_bytes = l2_bytes;
  return spec;
}

class HbmTest : public SystemC {
 protected:
  void build(double l2_bytes) {
    spec_ = spec_with_hbm(l2_bytes);
    hbm_ = std::make_unique<Hbm>("hbm", spec_);
    l2_ = std::make_unique<L2>("l2", spec_, 0, hbm_->memory());
    sm_ = std::make_unique<Requester>("sm");
    host_ = std::make_unique<FarEnd>("host", 0);
    sm_->out.bind(l2_->from_sms);
    l2_->to_host.bind(host_->in);
    l2_->to_hbm.bind(hbm_->from_l2);
    placement_.draw(1 << 20, 4, 1, 0);
    all_near(placement_);
    hbm_->reset(placement_.gpu_bytes());
    l2_->reset(placement_.gpu_bytes(), &placement_, 1);
    elaborate();
  }
  GpuSpec spec_;
  Placement placement_;
  std::unique_ptr<Hbm> hbm_;
  std::unique_ptr<L2> l2_;
  std::unique_ptr<Requester> sm_;
  std::unique_ptr<FarEnd> host_;
};

TEST_F(HbmTest, IsReadOnceForALine) {
  build(1 << 20);
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 0), 600'000);
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 64), 200'000) << "the same line of 128 B";
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 128), 600'000);
}

TEST_F(HbmTest, IsNotReadForALineThatWasStoredTo) {
  build(1 << 20);
  sm_->at_once(AccessKind::kStore, 256, 7);
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 256), 200'000);
}

TEST_F(HbmTest, IsReadAgainWhenTheL2IsTooSmallForBothLines) {
  build(65536);  // 512 lines: lines 0 and 512 share a place
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 0), 600'000);
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 65536), 601'000) << "behind line 0 on channel 0";
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 0), 602'000);
}

TEST_F(HbmTest, HandsOutOneLineAfterTheOtherOnAChannel) {
  build(1 << 20);
  // Lines 0 and 8 are on channel 0, line 1 on channel 1; all asked for at once.
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 0), 600'000);
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 8 * 128), 601'000);
  EXPECT_EQ(sm_->at_once(AccessKind::kLoad, 128), 600'000);
}

}  // namespace
}  // namespace marrow::gpu
