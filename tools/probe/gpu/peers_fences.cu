// System fences beside stores to another GPU: what one waits for of what other SMs and the copy
// engine have under way, and how blocks that store without end share the way to the peer.
#include <algorithm>
#include <cmath>
#include <memory>

#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

constexpr int kMostBlocks = 132;
constexpr int kWarmTurns = 20;
constexpr std::size_t kWordStride = kPageBytes / sizeof(std::uint64_t);
constexpr std::size_t kStreamBytes = 65536;  // of a block, again and again
constexpr std::size_t kCopyBytes = 64u << 20;

enum class Act { kNothing, kFence, kStore, kStoreFence, kStoreGpuFence, kOwnStoreFence };
const char* name_of(Act act) {
  constexpr const char* names[] = {"none",
                                   "fence.sys",
                                   "st8 peer",
                                   "st8 peer+fence.sys",
                                   "st8 peer+fence.gpu",
                                   "st8 own+fence.sys"};
  return names[static_cast<int>(act)];
}

__device__ void do_act(Act act, std::uint64_t* own, std::uint64_t* peer, std::uint64_t value) {
  if (act == Act::kOwnStoreFence) store_relaxed(own, value);
  if (act == Act::kStore || act == Act::kStoreFence || act == Act::kStoreGpuFence)
    store_relaxed(peer, value);
  if (act == Act::kFence || act == Act::kStoreFence || act == Act::kOwnStoreFence)
    __threadfence_system();
  if (act == Act::kStoreGpuFence) __threadfence();
}

struct Turn {
  std::uint64_t begin_cycles, begin_ns;
  std::uint32_t cycles;
};

/// Blocks of one thread. The first `firsts` do `mine`, `count` times, the others `theirs` until
/// those are done; each waits up to `gap` cycles, drawn anew, before each turn.
__global__ void turns_kernel(Act mine, Act theirs, int firsts, int count, std::uint32_t gap,
                             std::uint64_t* own, std::uint64_t* peer, std::uint32_t* done,
                             Turn* turns) {
  const std::size_t block = blockIdx.x;
  const bool first = block < firsts;
  std::uint64_t state = 0x9e3779b97f4a7c15ull * (block + 1);
  const int limit = first ? count : 50 * count;
  for (int i = 0; i < limit; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    if (gap != 0) idle(state % gap);
    const std::uint64_t ns = nanoseconds_now();
    const std::uint64_t begin = cycles_now();
    do_act(first ? mine : theirs, own + block * kWordStride, peer + block * kWordStride, i);
    const auto took = static_cast<std::uint32_t>(cycles_now() - begin);
    if (i < count) turns[block * count + i] = {begin, ns, took};
    if (!first && *reinterpret_cast<volatile std::uint32_t*>(done) >= firsts) break;
  }
  if (first) atomicAdd(done, 1u);
}

/// Each block stores its share into the peer again and again until the time is over.
__global__ void stream_kernel(char* to, const char* from, std::uint64_t for_ns, bool fences,
                              std::uint32_t* sms, std::uint32_t* turns, std::uint32_t* spent_ns) {
  const std::size_t at_block = blockIdx.x * kStreamBytes;
  __shared__ bool over;
  const std::uint64_t begin = nanoseconds_now();
  std::uint32_t count = 0;
  for (;;) {
    for (std::size_t at = threadIdx.x * 16; at < kStreamBytes; at += blockDim.x * 16) {
      const uint4 v = *reinterpret_cast<const uint4*>(from + at_block + at);
      asm volatile("st.relaxed.sys.global.v4.b32 [%0],{%1,%2,%3,%4};" ::"l"(to + at_block + at),
                   "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                   : "memory");
    }
    ++count;
    __syncthreads();
    if (threadIdx.x == 0) {
      if (fences) __threadfence_system();
      over = nanoseconds_now() - begin > for_ns;
    }
    __syncthreads();
    if (over) break;
  }
  if (threadIdx.x != 0) return;
  sms[blockIdx.x] = sm_now();
  turns[blockIdx.x] = count;
  spent_ns[blockIdx.x] = static_cast<std::uint32_t>(nanoseconds_now() - begin);
}

class Fences {
 public:
  Fences(Context& context, int peer)
      : context_(context),
        peer_(peer),
        count_(context.per_round(12'000)),
        own_(kMostBlocks * kWordStride),
        done_(1),
        turns_(static_cast<std::size_t>(kMostBlocks) * count_),
        payload_(std::max(kMostBlocks * kStreamBytes, kCopyBytes)),
        sms_(kMostBlocks),
        streamed_(kMostBlocks),
        spent_(kMostBlocks) {
    enable_peer_access(context.device_number(), peer);
    enable_peer_access(peer, context.device_number());
    const OnDevice on(peer);
    words_ = std::make_unique<DeviceArray<std::uint64_t>>(kMostBlocks * kWordStride);
    theirs_ = std::make_unique<DeviceArray<char>>(payload_.count());
  }
  ~Fences() {
    const OnDevice on(peer_);
    words_.reset();
    theirs_.reset();
  }

  void many(Act mine, Act theirs, int firsts, int blocks, std::uint32_t gap) {
    Rounds rounds;
    for (int round = 0; round < kRounds; ++round) {
      turn(mine, theirs, firsts, blocks, gap, 0);
      std::vector<double> all;
      for (const Turn& t : turns_.values(0, static_cast<std::size_t>(firsts) * count_))
        all.push_back(t.cycles);
      rounds.push_back(std::move(all));
    }
    context_.row("peer_fence_many",
                 cond()
                     .add("op", name_of(mine))
                     .add("others", blocks > firsts ? name_of(theirs) : "none")
                     .add("blocks", blocks)
                     .add("gap", gap),
                 "cycles", rounds);
  }

  void beside_copy(Act mine, bool to) {
    Rounds rounds;
    bool outlasted = true;
    for (int round = 0; round < kRounds; ++round) {
      outlasted = turn(mine, Act::kNothing, 1, 1, 2000, to ? 1 : -1) && outlasted;
      const auto one = turns_.values(kWarmTurns, count_ - kWarmTurns);
      std::vector<double> all;
      for (const Turn& t : one) all.push_back(t.cycles);
      rounds.push_back(std::move(all));
    }
    context_.row("peer_fence_beside_copy",
                 cond()
                     .add("op", name_of(mine))
                     .add("load", to ? "copy to the peer" : "copy from the peer")
                     .add("load_outlasted", outlasted),
                 "cycles", rounds);
  }

  /// What one turn takes by how much later another SM's begins, where no other is near.
  void offsets(Act mine, Act theirs) {
    constexpr double kBin = 200, kReach = 3000;
    constexpr int kBins = 2 * kReach / kBin + 1;
    std::vector<Rounds> bins(kBins, Rounds(kRounds));
    for (int round = 0; round < kRounds; ++round) {
      turn(mine, theirs, 1, 2, 16'000, 0);
      const std::vector<Turn> ours = turns_of(0), others = turns_of(1);
      const double ghz = static_cast<double>(ours.back().begin_cycles - ours.front().begin_cycles) /
                         static_cast<double>(ours.back().begin_ns - ours.front().begin_ns);
      const double skew =
          mean_offset(ours, ours.front(), ghz) - mean_offset(others, ours.front(), ghz);
      std::size_t next = 0;
      for (std::size_t i = kWarmTurns; i < ours.size(); ++i) {
        const auto at = [&](std::size_t j) {
          return static_cast<double>(
                     static_cast<std::int64_t>(others[j].begin_cycles - ours[i].begin_cycles)) +
                 skew;
        };
        while (next < others.size() && at(next) < -2 * kReach) ++next;
        int near = 0;
        double offset = 0;
        for (std::size_t j = next; j < others.size() && at(j) < 2 * kReach; ++j) {
          ++near;
          if (near == 1 || std::abs(at(j)) < std::abs(offset)) offset = at(j);
        }
        const int bin = static_cast<int>(std::floor((offset + kReach) / kBin + 0.5));
        if (near == 1 && bin >= 0 && bin < kBins) bins[bin][round].push_back(ours[i].cycles);
      }
    }
    for (int bin = 0; bin < kBins; ++bin) {
      Rounds& rounds = bins[bin];
      rounds.erase(std::remove_if(rounds.begin(), rounds.end(),
                                  [](const auto& round) { return round.empty(); }),
                   rounds.end());
      if (rounds.empty()) continue;
      context_.row("peer_fence_offset",
                   cond()
                       .add("op", name_of(mine))
                       .add("other", name_of(theirs))
                       .add("other_begins_later", bin * kBin - kReach),
                   "cycles", rounds);
    }
  }

  /// How many GB/s each block gets, and where it ran.
  void shares(int blocks, bool fences) {
    std::vector<double> all;
    for (int round = 0; round < 3; ++round) {
      stream_kernel<<<blocks, 256>>>(theirs_->get(), payload_.get(), 2'000'000, fences, sms_.get(),
                                     streamed_.get(), spent_.get());
      MARROW_LAUNCHED("stream_kernel");
      MARROW_CUDA(cudaDeviceSynchronize());
      std::vector<double> rates;
      const auto turns = streamed_.values(0, blocks);
      const auto spent = spent_.values(0, blocks);
      for (int block = 0; block < blocks; ++block)
        rates.push_back(double(turns[block]) * kStreamBytes / spent[block]);
      context_.line(Object()
                        .add("name", "peer_stream_shares")
                        .add("cond", cond()
                                         .add("gpu", context_.device_number())
                                         .add("peer", peer_)
                                         .add("blocks", blocks)
                                         .add("fences", fences)
                                         .add("round", round))
                        .add("unit", "GB/s")
                        .add_list("sms", sms_.samples(0, blocks))
                        .add_list("rates", rates));
    }
  }

 private:
  Object cond() const { return Object().add("gpu", context_.device_number()).add("peer", peer_); }

  /// How far a block's cycles are ahead of the common clock, whose steps are coarser.
  static double mean_offset(const std::vector<Turn>& turns, const Turn& zero, double ghz) {
    double sum = 0;
    for (const Turn& turn : turns)
      sum += static_cast<double>(static_cast<std::int64_t>(turn.begin_cycles - zero.begin_cycles)) -
             static_cast<double>(static_cast<std::int64_t>(turn.begin_ns - zero.begin_ns)) * ghz;
    return sum / static_cast<double>(turns.size());
  }
  std::vector<Turn> turns_of(int block) const {
    std::vector<Turn> turns = turns_.values(static_cast<std::size_t>(block) * count_, count_);
    turns.erase(std::find_if(turns.begin(), turns.end(),
                             [](const Turn& turn) { return turn.begin_ns == 0; }),
                turns.end());
    return turns;
  }

  /// copy: 1 to the peer, -1 from it; did the copies last longer than the turns?
  bool turn(Act mine, Act theirs, int firsts, int blocks, std::uint32_t gap, int copy) {
    done_.clear();
    turns_.clear();
    Stream copies, turns;
    for (int i = 0; copy != 0 && i < 8 + count_ / 20; ++i)
      MARROW_CUDA(cudaMemcpyPeerAsync(
          copy > 0 ? theirs_->get() : payload_.get(), copy > 0 ? peer_ : context_.device_number(),
          copy > 0 ? payload_.get() : theirs_->get(), copy > 0 ? context_.device_number() : peer_,
          kCopyBytes, copies));
    turns_kernel<<<blocks, 1, 0, turns>>>(mine, theirs, firsts, count_, gap, own_.get(),
                                          words_->get(), done_.get(), turns_.get());
    MARROW_LAUNCHED("turns_kernel");
    turns.wait();
    const bool outlasted = copies.busy();
    copies.wait();
    return outlasted;
  }

  Context& context_;
  const int peer_;
  const int count_;
  DeviceArray<std::uint64_t> own_;
  DeviceArray<std::uint32_t> done_;
  DeviceArray<Turn> turns_;
  DeviceArray<char> payload_;
  DeviceArray<std::uint32_t> sms_, streamed_, spent_;
  std::unique_ptr<DeviceArray<std::uint64_t>> words_;
  std::unique_ptr<DeviceArray<char>> theirs_;
};

}  // namespace

void measure_peers_fences(Context& context) {
  for_each_peer(context, [&](int peer) {
    Fences fences(context, peer);
    for (const int blocks : {1, 2, 4, 8, 16, 32, 64, 128}) {
      for (const std::uint32_t gap : {0u, 8000u}) {
        fences.many(Act::kStoreFence, Act::kNothing, blocks, blocks, gap);
        fences.many(Act::kOwnStoreFence, Act::kNothing, blocks, blocks, gap);
      }
      if (blocks == 1) continue;
      fences.many(Act::kStoreFence, Act::kStore, 1, blocks, 8000);
      fences.many(Act::kStoreFence, Act::kFence, 1, blocks, 8000);
      fences.many(Act::kOwnStoreFence, Act::kStore, 1, blocks, 8000);
      fences.many(Act::kOwnStoreFence, Act::kStoreFence, 1, blocks, 8000);
    }
    for (const Act act : {Act::kFence, Act::kStoreFence, Act::kStoreGpuFence, Act::kOwnStoreFence})
      for (const bool to : {true, false}) fences.beside_copy(act, to);
    for (const Act theirs : {Act::kStoreFence, Act::kFence, Act::kStore, Act::kOwnStoreFence})
      fences.offsets(Act::kStoreFence, theirs);
    for (const Act theirs : {Act::kStoreFence, Act::kStore})
      fences.offsets(Act::kOwnStoreFence, theirs);
    for (const int blocks : {1, 8, 16, 32, 64, 128, 132})
      for (const bool each : {false, true}) fences.shares(blocks, each);
  });
}

}  // namespace marrow::probe
