// Other GPUs of the host under load: many blocks that put at once, one way and both, beside copies
// and beside kernels that use the L2; tokens handed out as a mixture of experts does.
#include <memory>

#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

constexpr std::size_t kMostBlocks = 128;
constexpr std::size_t kPayloadBytes = 64u << 20;  // of each side, shared by the blocks
constexpr std::size_t kCopyBytes = 64u << 20;
constexpr std::size_t kBusyBytes = 16u << 20;  // fits into the L2
constexpr std::size_t kFlagStrideWords = kPageBytes / sizeof(std::uint64_t);
constexpr int kThreads = 256;
constexpr int kSkipped = 20;  // turns until every block of both sides runs

enum class Form { kStores, kBulk };

__device__ void store_to_peer(char* to, const char* from, std::size_t bytes) {
  for (std::size_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
    const uint4 v = *reinterpret_cast<const uint4*>(from + at);
    asm volatile("st.relaxed.sys.global.v4.b32 [%0],{%1,%2,%3,%4};" ::"l"(to + at), "r"(v.x),
                 "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  }
}

// The chunk that a block's bulk copies go through, in shared memory.
constexpr std::uint32_t kChunkBytes = 16384;

/// One thread's bulk copies, by way of shared memory; returns when the peer's memory has them.
__device__ void copy_in_bulk(char* to, const char* from, std::size_t bytes, char* chunk,
                             std::uint64_t* barrier, std::uint32_t& phase, std::uint32_t* gave_up) {
#if __CUDA_ARCH__ >= 900
  const auto shared = [](const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
  };
  for (std::size_t at = 0; at < bytes; at += kChunkBytes) {
    const auto part = static_cast<std::uint32_t>(min(bytes - at, std::size_t{kChunkBytes}));
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(shared(barrier)),
                 "r"(part)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::
            "r"(shared(chunk)),
        "l"(from + at), "r"(part), "r"(shared(barrier))
        : "memory");
    std::uint32_t done = 0;
    for (std::uint64_t look = 0; !done && look < kGpuLooks; ++look)
      asm volatile(
          "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p,[%1],%2; selp.u32 %0,1,0,p;}"
          : "=r"(done)
          : "r"(shared(barrier)), "r"(phase)
          : "memory");
    if (!done) *gave_up = 1;
    phase ^= 1;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0],[%1],%2;" ::"l"(to + at),
                 "r"(shared(chunk)), "r"(part)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#else
  (void)to, (void)from, (void)bytes, (void)chunk, (void)barrier, (void)phase;
  *gave_up = 1;
#endif
}

/// Each block puts its share of `bytes` x `items` into the peer, with a system fence and a flag of
/// its own behind it, and waits for the answer of the peer's block of its number.
template <Form form>
__global__ void puts_kernel(char* to, const char* from, std::size_t bytes, int items,
                            const std::uint64_t* mine, std::uint64_t* theirs, int count,
                            std::uint32_t* cycles, std::uint32_t* issue, std::uint32_t* gave_up) {
  __shared__ bool stuck;
  __shared__ alignas(128) char chunk[form == Form::kBulk ? kChunkBytes : 16];
  __shared__ alignas(8) std::uint64_t barrier;
  std::uint32_t phase = 0;
  const std::size_t block = blockIdx.x;
  if (threadIdx.x == 0) {
    stuck = false;
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(&barrier)))
                 : "memory");
#endif
  }
  __syncthreads();
  for (int i = 1; i <= count && !stuck; ++i) {
    const std::uint64_t begin = cycles_now();
    for (std::size_t item = block; item < items; item += gridDim.x) {
      if constexpr (form == Form::kStores)
        store_to_peer(to + item * bytes, from + item * bytes, bytes);
      else if (threadIdx.x == 0)
        copy_in_bulk(to + item * bytes, from + item * bytes, bytes, chunk, &barrier, phase,
                     gave_up);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence_system();
      const std::uint64_t issued = cycles_now();
      store_relaxed(theirs + block * kFlagStrideWords, i);
      std::uint64_t looks;
      if (!wait_for(mine + block * kFlagStrideWords, i, kGpuLooks, looks)) {
        *gave_up = 1;
        stuck = true;
      }
      const std::size_t at = block * count + i - 1;
      cycles[at] = static_cast<std::uint32_t>(cycles_now() - begin);
      issue[at] = static_cast<std::uint32_t>(issued - begin);
    }
    __syncthreads();
  }
}

__global__ void answers_kernel(const std::uint64_t* mine, std::uint64_t* theirs, int count,
                               std::uint32_t* gave_up) {
  const std::size_t at = blockIdx.x * kFlagStrideWords;
  for (int i = 1; i <= count; ++i) {
    std::uint64_t looks;
    if (!wait_for(mine + at, i, kGpuLooks, looks)) {
      *gave_up = 1;
      return;
    }
    store_relaxed(theirs + at, i);
  }
}

/// Reads what fits into the L2 until the stop word is set, or for so many rounds. The word lies in
/// this GPU's memory: reads of host memory would hold up every system fence.
__global__ void busy_kernel(const uint4* memory, std::size_t words, const std::uint64_t* stop,
                            int rounds, std::uint32_t* sink) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  std::uint32_t sum = 0;
  for (int round = 0; round < rounds && load_relaxed(stop) == 0; ++round)
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
         i += threads) {
      uint4 v;
      asm volatile("ld.relaxed.gpu.global.v4.b32 {%0,%1,%2,%3},[%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(memory + i));
      sum += v.x ^ v.w;
    }
  if (sum == 0x1234567) *sink = sum;
}

/// What one GPU has for this: memory, flags to be asked and answered by, streams.
struct Side {
  explicit Side(int number, std::size_t samples)
      : device(number),
        payload(kPayloadBytes),
        copies(kCopyBytes),
        busy_memory(kBusyBytes),
        asked(kMostBlocks * kFlagStrideWords),
        answered(kMostBlocks * kFlagStrideWords),
        cycles(samples),
        issue(samples),
        gave_up(1),
        sink(1),
        stop(1) {}
  int device;
  DeviceArray<char> payload, copies, busy_memory;
  DeviceArray<std::uint64_t> asked, answered;
  DeviceArray<std::uint32_t> cycles, issue, gave_up, sink;
  DeviceArray<std::uint64_t> stop;
  Stream puts, answers, other;
};

enum class Beside { kNothing, kCopyTo, kCopyFrom, kBusyHere, kBusyThere };
const char* name_of(Beside beside) {
  constexpr const char* names[] = {"none", "copy to the peer", "copy from the peer",
                                   "L2 reads here", "L2 reads there"};
  return names[static_cast<int>(beside)];
}

struct Case {
  int blocks = 1;
  std::size_t bytes = 16;
  int items = 1;  ///< in all; block b takes b, b + blocks, ...
  bool both = false;
  Beside beside = Beside::kNothing;
  Form form = Form::kStores;
};

class Loaded {
 public:
  Loaded(Context& context, int peer) : context_(context) {
    const int mine = context.device_number();
    enable_peer_access(mine, peer);
    enable_peer_access(peer, mine);
    const std::size_t samples = kMostBlocks * static_cast<std::size_t>(count());
    here_ = std::make_unique<Side>(mine, samples);
    const OnDevice on(peer);
    there_ = std::make_unique<Side>(peer, samples);
  }
  ~Loaded() {
    const OnDevice on(there_->device);
    there_.reset();
  }

  void measure(const char* rtt, const char* issue, const Case& the) {
    Rounds turns, issued;
    bool outlasted = the.beside != Beside::kNothing;
    for (int round = 0; round < kRounds; ++round) {
      for (Side* side : {here_.get(), there_.get()}) {
        const OnDevice on(side->device);
        side->asked.clear();
        side->answered.clear();
        side->gave_up.clear();
        side->stop.clear();
      }
      const std::unique_ptr<Stream> copies = start_beside(the);
      answer(*there_, *here_, the.blocks);
      if (the.both) answer(*here_, *there_, the.blocks);
      put(*here_, *there_, the);
      if (the.both) put(*there_, *here_, the);
      here_->puts.wait();
      if (copies) outlasted = copies->busy() && outlasted;
      for (Side* side : {here_.get(), there_.get()}) {
        const OnDevice on(side->device);
        side->puts.wait();
        side->answers.wait();
        outlasted = (the.beside == Beside::kCopyTo || the.beside == Beside::kCopyFrom ||
                     the.beside == Beside::kNothing || side->device != busy_device(the) ||
                     side->other.busy()) &&
                    outlasted;
      }
      for (Side* side : {here_.get(), there_.get()}) {
        const OnDevice on(side->device);
        MARROW_CUDA(cudaMemsetAsync(side->stop.get(), 1, sizeof(std::uint64_t), side->puts));
        MARROW_CUDA(cudaDeviceSynchronize());
        if (side->gave_up.values()[0])
          throw StuckError("GPU " + std::to_string(here_->device) + " and GPU " +
                           std::to_string(there_->device) +
                           ": an answer did not come within the limit");
      }
      turns.push_back(samples(here_->cycles, the.blocks));
      issued.push_back(samples(here_->issue, the.blocks));
    }
    Object conditions;
    conditions.add("gpu", here_->device)
        .add("peer", there_->device)
        .add("blocks", the.blocks)
        .add("threads", kThreads)
        .add("bytes", the.bytes)
        .add("items", the.items)
        .add("form", the.form == Form::kBulk ? "bulk" : "stores")
        .add("both_ways", the.both)
        .add("load", name_of(the.beside))
        .add("load_outlasted", outlasted);
    context_.row(rtt, conditions, "cycles", turns);
    context_.row(issue, conditions, "cycles", issued);
  }

 private:
  int count() const { return context_.per_round(600) + kSkipped; }
  int busy_device(const Case& the) const {
    return the.beside == Beside::kBusyHere ? here_->device : there_->device;
  }

  void answer(Side& by, Side& to, int blocks) {
    const OnDevice on(by.device);
    answers_kernel<<<blocks, 1, 0, by.answers>>>(by.asked.get(), to.answered.get(), count(),
                                                 by.gave_up.get());
    MARROW_LAUNCHED("answers_kernel");
  }

  void put(Side& by, Side& to, const Case& the) {
    const OnDevice on(by.device);
    const auto kernel =
        the.form == Form::kBulk ? puts_kernel<Form::kBulk> : puts_kernel<Form::kStores>;
    kernel<<<the.blocks, kThreads, 0, by.puts>>>(
        to.payload.get(), by.payload.get(), the.bytes, the.items, by.answered.get(), to.asked.get(),
        count(), by.cycles.get(), by.issue.get(), by.gave_up.get());
    MARROW_LAUNCHED("puts_kernel");
  }

  std::unique_ptr<Stream> start_beside(const Case& the) {
    if (the.beside == Beside::kNothing) return nullptr;
    if (the.beside == Beside::kBusyHere || the.beside == Beside::kBusyThere) {
      Side& side = the.beside == Beside::kBusyHere ? *here_ : *there_;
      const OnDevice on(side.device);
      // Half of the SMs are left to the puts; ended by the stop flag, or after some seconds.
      constexpr int kMostRounds = 200'000;
      busy_kernel<<<context_.device().multiProcessorCount / 2, 1024, 0, side.other>>>(
          reinterpret_cast<const uint4*>(side.busy_memory.get()), kBusyBytes / sizeof(uint4),
          side.stop.get(), kMostRounds, side.sink.get());
      MARROW_LAUNCHED("busy_kernel");
      return nullptr;
    }
    auto copies = std::make_unique<Stream>();
    const bool to = the.beside == Beside::kCopyTo;
    // A copy takes about 0.2 ms; the puts beside it, some ms.
    for (int i = 0; i < 60; ++i)
      MARROW_CUDA(cudaMemcpyPeerAsync(to ? there_->copies.get() : here_->copies.get(),
                                      to ? there_->device : here_->device,
                                      to ? here_->copies.get() : there_->copies.get(),
                                      to ? here_->device : there_->device, kCopyBytes, *copies));
    return copies;
  }

  std::vector<double> samples(const DeviceArray<std::uint32_t>& of, int blocks) const {
    std::vector<double> all;
    for (int block = 0; block < blocks; ++block) {
      const auto one =
          of.samples(static_cast<std::size_t>(block) * count() + kSkipped, count() - kSkipped);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  Context& context_;
  std::unique_ptr<Side> here_, there_;
};

void measure_pair(Context& context, int peer) {
  Loaded loaded(context, peer);
  const auto put = [&](Case the) {
    the.items = the.blocks;
    loaded.measure("peer_puts_rtt", "peer_puts_issue", the);
  };
  for (const bool both : {false, true})
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{4096}, std::size_t{65536}})
      for (const int blocks : {1, 4, 16, 64, 128})
        put({blocks, bytes, 1, both, Beside::kNothing, Form::kStores});
  for (const Beside beside :
       {Beside::kCopyTo, Beside::kCopyFrom, Beside::kBusyHere, Beside::kBusyThere})
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{4096}})
      for (const int blocks : {1, 16}) put({blocks, bytes, 1, false, beside, Form::kStores});
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65536}})
    for (const int blocks : {1, 16, 64})
      put({blocks, bytes, 1, false, Beside::kNothing, Form::kBulk});
  // Tokens of a mixture of experts: 7168 values of 1 B (and their scales) or of 2 B.
  for (const Form form : {Form::kStores, Form::kBulk})
    for (const std::size_t bytes : {std::size_t{7392}, std::size_t{14336}})
      for (const int tokens : {16, 128, 1024})
        for (const int blocks : {16, 64})
          if (tokens >= blocks)
            loaded.measure("peer_dispatch_rtt", "peer_dispatch_issue",
                           {blocks, bytes, tokens, false, Beside::kNothing, form});
}

/// Between and beyond those: for holding predictions against what nothing was fitted to.
void measure_others(Context& context, int peer) {
  Loaded loaded(context, peer);
  const auto put = [&](Case the) {
    the.items = the.blocks;
    loaded.measure("peer_puts_rtt", "peer_puts_issue", the);
  };
  for (const std::size_t bytes : {256u, 2048u, 16384u, 32768u})
    for (const int blocks : {2, 8, 32, 96})
      put({blocks, bytes, 1, false, Beside::kNothing, Form::kStores});
  for (const std::size_t bytes : {2048u, 32768u})
    for (const int blocks : {8, 32}) {
      put({blocks, bytes, 1, true, Beside::kNothing, Form::kStores});
      put({blocks, bytes, 1, false, Beside::kNothing, Form::kBulk});
    }
  for (const Beside beside :
       {Beside::kCopyTo, Beside::kCopyFrom, Beside::kBusyHere, Beside::kBusyThere})
    for (const int blocks : {4, 48}) put({blocks, 1024, 1, false, beside, Form::kStores});
  for (const Form form : {Form::kStores, Form::kBulk})
    for (const std::size_t bytes : {5120u, 10240u})
      for (const int tokens : {96, 480})
        for (const int blocks : {24, 48})
          loaded.measure("peer_dispatch_rtt", "peer_dispatch_issue",
                         {blocks, bytes, tokens, false, Beside::kNothing, form});
}

}  // namespace

void measure_peers_loaded(Context& context) {
  for_each_peer(context, [&](int peer) { measure_pair(context, peer); });
}

void measure_peers_others(Context& context) {
  for_each_peer(context, [&](int peer) { measure_others(context, peer); });
}

}  // namespace marrow::probe
