// From this GPU to each other one whose memory it can reach: across NVLink, or PCIe.
#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

constexpr std::size_t kMemoryBytes = std::size_t{256} << 20;
constexpr std::size_t kFlagAt = std::size_t{64} << 20;  // bytes from the memory's begin
constexpr std::size_t kCopyAt = std::size_t{128} << 20;
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;
constexpr int kUncounted = 16;

enum class Op {
  kNone,
  kStore8,
  kStore8FenceGpu,
  kStore8FenceSys,
  kLoad8,
  kAddSys,
  kStore64FenceSys,
  kCasSys,
  kLocalAndPeerFenceSys,
};

template <Op op>
struct PeerOperation {
  std::uint64_t *peer, *local;
  int count;
  std::uint32_t* cycles;

  __device__ void operator()() const {
    __shared__ volatile std::uint64_t hold;
    auto* counter = reinterpret_cast<unsigned long long*>(peer);
    for (int i = 0; i < count + kUncounted; ++i) {
      std::uint64_t* p = peer + i % 64 * 16;
      std::uint64_t result = 0;
      const std::uint64_t begin = cycles_now();
      if constexpr (op == Op::kLocalAndPeerFenceSys) store_relaxed(local + i % 64 * 16, i);
      if constexpr (op == Op::kStore8 || op == Op::kStore8FenceGpu || op == Op::kStore8FenceSys ||
                    op == Op::kLocalAndPeerFenceSys)
        store_relaxed(p, i);
      if constexpr (op == Op::kStore64FenceSys)
        for (int k = 0; k < 8; ++k) store_relaxed(p + k, i);
      if constexpr (op == Op::kStore8FenceGpu) __threadfence();
      if constexpr (op == Op::kStore8FenceSys || op == Op::kStore64FenceSys ||
                    op == Op::kLocalAndPeerFenceSys)
        __threadfence_system();
      if constexpr (op == Op::kLoad8) result = load_relaxed(p);
      if constexpr (op == Op::kAddSys) result = atomicAdd_system(counter, 1ull);
      if constexpr (op == Op::kCasSys)
        result = atomicCAS_system(counter, static_cast<unsigned long long>(i), i + 1ull);
      hold = result;
      const std::uint64_t end = cycles_now();
      if (i >= kUncounted) cycles[i - kUncounted] = static_cast<std::uint32_t>(end - begin);
      idle(6000);
    }
  }
};

struct PeerChase {
  const std::uint64_t* words;
  std::uint64_t* at;
  int warm, count;
  std::uint32_t* cycles;
  __device__ void operator()() const {
    __shared__ volatile std::uint64_t hold;
    std::uint64_t index = *at;
    for (int i = 0; i < warm; ++i) index = load_relaxed(words + index);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t begin = cycles_now();
      index = load_relaxed(words + index);
      hold = index;
      cycles[i] = static_cast<std::uint32_t>(cycles_now() - begin);
    }
    *at = index;
  }
};

__global__ void answer_kernel(const std::uint64_t* mine, std::uint64_t* theirs, int count,
                              std::uint32_t* gave_up) {
  for (int i = 1; i <= count; ++i) {
    std::uint64_t looks;
    if (!wait_for(mine, i, kGpuLooks, looks)) {
      *gave_up = 1;
      return;
    }
    store_relaxed(theirs, i);
  }
}

/// Threads store `bytes` into the peer, a system fence, a flag; the peer answers with its own.
/// bytes 0: the flag alone, without a fence.
__global__ void put_kernel(char* to, const char* from, std::size_t bytes, const std::uint64_t* mine,
                           std::uint64_t* theirs, int count, std::uint32_t* cycles,
                           std::uint32_t* issue, std::uint32_t* gave_up) {
  __shared__ bool stuck;
  if (threadIdx.x == 0) stuck = false;
  __syncthreads();
  for (int i = 1; i <= count && !stuck; ++i) {
    const std::uint64_t begin = cycles_now();
    for (std::size_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
      const uint4 v = *reinterpret_cast<const uint4*>(from + at);
      asm volatile("st.relaxed.sys.global.v4.b32 [%0],{%1,%2,%3,%4};" ::"l"(to + at), "r"(v.x),
                   "r"(v.y), "r"(v.z), "r"(v.w)
                   : "memory");
    }
    if (bytes) __syncthreads();
    if (threadIdx.x == 0) {
      if (bytes) __threadfence_system();
      const std::uint64_t issued = cycles_now();
      store_relaxed(theirs, i);
      std::uint64_t looks;
      if (!wait_for(mine, i, kGpuLooks, looks)) {
        *gave_up = 1;
        stuck = true;
      }
      cycles[i - 1] = static_cast<std::uint32_t>(cycles_now() - begin);
      issue[i - 1] = static_cast<std::uint32_t>(issued - begin);
    }
    __syncthreads();
  }
}

__global__ void store_all_kernel(uint4* memory, std::size_t each) {
  const std::size_t thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = 0; i < each; ++i)
    memory[i * threads + thread] =
        make_uint4(static_cast<unsigned>(i), static_cast<unsigned>(i), 0, 0);
}

__global__ void load_all_kernel(const uint4* memory, std::size_t each, std::uint32_t* sink) {
  const std::size_t thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < each; ++i) {
    const uint4 v = memory[i * threads + thread];
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x1234567) *sink = sum;
}

__global__ void scattered_kernel(std::uint64_t* memory, int each) {
  const std::size_t thread = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  for (int i = 0; i < each; ++i) store_relaxed(memory + (i * threads + thread) % (1 << 20) * 8, i);
  __threadfence_system();
}

/// Memory, flags and a stream on both sides.
class Pair {
 public:
  Pair(Context& context, int peer)
      : context_(context), mine_(context.device_number()), peer_(peer), here_(kMemoryBytes) {
    enable_peer_access(mine_, peer_);
    enable_peer_access(peer_, mine_);
    const OnDevice there(peer_);
    there_ = std::make_unique<DeviceArray<char>>(kMemoryBytes);
    answers_ = std::make_unique<Stream>();
    MARROW_CUDA(cudaDeviceSynchronize());
  }
  ~Pair() {
    const OnDevice there(peer_);
    there_.reset();
    answers_.reset();
  }

  char* here() const { return here_.get(); }
  char* there() const { return there_->get(); }
  std::uint64_t* words_there() const { return reinterpret_cast<std::uint64_t*>(there()); }
  Object cond() const { return Object().add("gpu", mine_).add("peer", peer_); }
  int mine() const { return mine_; }
  int peer() const { return peer_; }

  /// The answering side first, then the asking one; flags start at zero. `beside` starts what
  /// shall run at the same time.
  template <class Ask>
  void exchange(
      int count, const Ask& ask, const std::function<void()>& beside = [] {}) {
    auto* flag_here = reinterpret_cast<std::uint64_t*>(here() + kFlagAt);
    auto* flag_there = reinterpret_cast<std::uint64_t*>(there() + kFlagAt);
    for (std::uint64_t* flag : {flag_here, flag_there}) MARROW_CUDA(cudaMemset(flag, 0, 8));
    context_.clear_gave_up();
    wait_both();
    beside();
    {
      const OnDevice there(peer_);
      answer_kernel<<<1, 1, 0, *answers_>>>(flag_there, flag_here, count, context_.gave_up());
      MARROW_LAUNCHED("answer_kernel");
    }
    ask(flag_here, flag_there, questions_);
    MARROW_LAUNCHED("put_kernel");
    questions_.wait();
    answers_->wait();
    context_.throw_if_gave_up("GPU " + std::to_string(mine_) + " and GPU " + std::to_string(peer_));
  }

 private:
  void wait_both() const {
    for (const int device : {peer_, mine_}) {
      const OnDevice on(device);
      MARROW_CUDA(cudaDeviceSynchronize());
    }
  }

  Context& context_;
  int mine_, peer_;
  DeviceArray<char> here_;
  std::unique_ptr<DeviceArray<char>> there_;
  Stream questions_;
  std::unique_ptr<Stream> answers_;
};

void loads(Context& context, const Pair& pair) {
  const int count = context.per_round(4000);
  DeviceArray<std::uint32_t> cycles(count);
  DeviceArray<std::uint64_t> at(1);
  for (const std::size_t footprint : {16u << 10, 2u << 20, 128u << 20}) {
    const std::size_t stride = footprint > (16u << 20) ? kPageBytes : kLineBytes;
    write_chain(pair.words_there(), footprint, stride, 3);
    at.clear();
    int warm = footprint <= (2u << 20) ? static_cast<int>(footprint / stride) : 0;
    Rounds rounds;
    for (int round = 0; round < kRounds; ++round) {
      context.run_on_sm(0, PeerChase{pair.words_there(), at.get(), warm, count, cycles.get()});
      rounds.push_back(cycles.samples());
      warm = 0;
    }
    context.row("peer_load", pair.cond().add("footprint", footprint), "cycles", rounds);
  }
}

template <Op op>
double operation(Context& context, const Pair& pair, const char* name,
                 std::optional<double> overhead) {
  const int count = context.per_round(2000);
  DeviceArray<std::uint32_t> cycles(count);
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) {
    context.run_on_sm(
        0, PeerOperation<op>{pair.words_there(), reinterpret_cast<std::uint64_t*>(pair.here()),
                             count, cycles.get()});
    rounds.push_back(cycles.samples());
  }
  context.row("peer_op", pair.cond().add("op", name), "cycles", rounds, overhead);
  return summarize(rounds).median;
}

void operations(Context& context, const Pair& pair) {
  const double none = operation<Op::kNone>(context, pair, "none", std::nullopt);
  operation<Op::kStore8>(context, pair, "st8", none);
  operation<Op::kStore8FenceGpu>(context, pair, "st8+fence.gpu", none);
  operation<Op::kStore8FenceSys>(context, pair, "st8+fence.sys", none);
  operation<Op::kLoad8>(context, pair, "ld8", none);
  operation<Op::kAddSys>(context, pair, "atom.add.sys", none);
  operation<Op::kStore64FenceSys>(context, pair, "st64+fence.sys", none);
  operation<Op::kCasSys>(context, pair, "atom.cas.sys", none);
  operation<Op::kLocalAndPeerFenceSys>(context, pair, "st8 local+st8 peer+fence.sys", none);
}

void pingpongs(Context& context, Pair& pair) {
  const int skipped = 50, count = context.per_round(4000) + skipped;
  DeviceArray<std::uint32_t> cycles(count), issue(count);
  for (int load = 0; load < 3; ++load) {
    const char* names[] = {"none", "copy to the peer", "copy from the peer"};
    Rounds rounds;
    bool outlasted = load != 0;
    for (int round = 0; round < kRounds; ++round) {
      Stream copies;
      const auto start_copies = [&] {
        char *to = pair.there() + kCopyAt, *from = pair.here() + kCopyAt;
        // A turn takes about 2 us, a copy about 0.2 ms; starting the kernels, some 50 us.
        for (int i = 0; load != 0 && i < 8 + count / 25; ++i)
          MARROW_CUDA(
              load == 1
                  ? cudaMemcpyPeerAsync(to, pair.peer(), from, pair.mine(), kCopyBytes, copies)
                  : cudaMemcpyPeerAsync(from, pair.mine(), to, pair.peer(), kCopyBytes, copies));
      };
      pair.exchange(
          count,
          [&](auto* mine, auto* theirs, cudaStream_t stream) {
            put_kernel<<<1, 1, 0, stream>>>(nullptr, nullptr, 0, mine, theirs, count, cycles.get(),
                                            issue.get(), context.gave_up());
          },
          start_copies);
      outlasted = copies.busy() && outlasted;
      copies.wait();
      rounds.push_back(cycles.samples(skipped, count - skipped));
    }
    context.row("peer_pingpong_rtt",
                pair.cond().add("load", names[load]).add("load_outlasted", outlasted), "cycles",
                rounds);
  }
}

void puts(Context& context, Pair& pair) {
  for (const int threads : {1, 32, 1024})
    for (const std::size_t bytes : {16u, 128u, 1024u, 4096u, 16384u, 65536u, 1048576u}) {
      if (threads == 1 && bytes > 16384) continue;
      const int count = context.per_round(bytes > 65536 ? 200 : 1000);
      DeviceArray<std::uint32_t> cycles(count), issue(count);
      Rounds rtt, issued;
      for (int round = 0; round < kRounds; ++round) {
        pair.exchange(count, [&](auto* mine, auto* theirs, cudaStream_t stream) {
          put_kernel<<<1, threads, 0, stream>>>(pair.there(), pair.here(), bytes, mine, theirs,
                                                count, cycles.get(), issue.get(),
                                                context.gave_up());
        });
        rtt.push_back(cycles.samples());
        issued.push_back(issue.samples());
      }
      const Object conditions = pair.cond().add("bytes", bytes).add("threads", threads);
      context.row("peer_put_flag_rtt", conditions, "cycles", rtt);
      context.row("peer_put_flag_issue", conditions, "cycles", issued);
    }
}

void bulk(Context& context, const Pair& pair) {
  DeviceArray<std::uint32_t> sink(1);
  for (const int blocks : {1, 2, 4, 8, 16, 32, 64, context.device().multiProcessorCount}) {
    const std::size_t each = blocks < 8 ? 200 : 64;
    const double bytes = static_cast<double>(blocks) * 512 * each * 16;
    const double scattered = static_cast<double>(blocks) * 32 * 2000;
    const auto rates = [&](const Rounds& ms, double amount, bool interval) {
      Rounds rounds;
      for (const auto& round : ms)
        rounds.push_back({interval ? round[0] * 1e6 / amount : amount / (round[0] * 1e6)});
      return rounds;
    };
    auto* there = reinterpret_cast<uint4*>(pair.there());
    const Object conditions = pair.cond().add("blocks", blocks);
    const Rounds stores = context.event_ms([&] { store_all_kernel<<<blocks, 512>>>(there, each); });
    MARROW_LAUNCHED("store_all_kernel");
    context.row("peer_store_bw", conditions, "GB/s", rates(stores, bytes, false));
    const Rounds reads =
        context.event_ms([&] { load_all_kernel<<<blocks, 512>>>(there, each, sink.get()); });
    MARROW_LAUNCHED("load_all_kernel");
    context.row("peer_load_bw", conditions, "GB/s", rates(reads, bytes, false));
    const Rounds words =
        context.event_ms([&] { scattered_kernel<<<blocks, 32>>>(pair.words_there(), 2000); });
    MARROW_LAUNCHED("scattered_kernel");
    context.row("peer_st8_interval", conditions, "ns_per_store", rates(words, scattered, true),
                context.empty_kernel_ms() * 1e6 / scattered);
  }
  for (std::size_t bytes = 4096; bytes <= kCopyBytes; bytes *= 4) {
    const int copies = bytes <= 65536 ? 64 : 8;
    const Rounds ms = context.event_ms([&] {
      for (int i = 0; i < copies; ++i)
        MARROW_CUDA(cudaMemcpyPeerAsync(pair.there(), pair.peer(), pair.here(), pair.mine(), bytes,
                                        nullptr));
    });
    Rounds rounds;
    for (const auto& round : ms)
      rounds.push_back({static_cast<double>(bytes) * copies / (round[0] * 1e6)});
    context.row("peer_copy_engine_bw", pair.cond().add("bytes", bytes), "GB/s", rounds);
  }
}

}  // namespace

void measure_peers(Context& context) {
  for_each_peer(context, [&](int peer) {
    const int mine = context.device_number();
    int rank = 0, atomics = 0;
    MARROW_CUDA(cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, mine, peer));
    MARROW_CUDA(
        cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, mine, peer));
    Pair pair(context, peer);
    context.line(Object()
                     .add("name", "p2p")
                     .add("cond", pair.cond())
                     .add("rank", rank)
                     .add("native_atomics", atomics != 0));
    loads(context, pair);
    operations(context, pair);
    pingpongs(context, pair);
    puts(context, pair);
    bulk(context, pair);
  });
}

}  // namespace marrow::probe
