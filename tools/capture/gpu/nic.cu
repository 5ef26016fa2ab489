#include <dlfcn.h>
#include <unistd.h>

#include "models/common/error.h"
#include "tools/capture/gpu/nic.cuh"
#include "tools/capture/gpu/puts.cuh"
#include "tools/capture/nic/mlx5_device.h"
#include "tools/capture/nic/put.h"

namespace marrow::capture {

#ifndef MARROW_HAS_MLX5

struct NicRunner::Impl {};
NicRunner::NicRunner(int, const std::string&) {
  throw InputError("--consumer nic", "this marrow-capture was built without rdma-core",
                   "install it (Debian: libibverbs-dev) and build again; or use --consumer host, "
                   "device or peer");
}
NicRunner::~NicRunner() = default;
Run NicRunner::captured(const Configuration&) { return {}; }
std::string NicRunner::about() const { return ""; }

#else

using namespace tools;

namespace {

/// A lane before a real NIC.
struct GpuLane {
  bool stamps;
  __device__ std::uint64_t stamp() const { return stamps ? cycles_now() : 0; }
  __device__ std::uint64_t spins() const { return kLooks; }
  template <class T>
  static __device__ T* at(std::uint64_t address) {
    return reinterpret_cast<T*>(address);
  }
  __device__ u32 load32(std::uint64_t a) const {
    u32 v;
    asm volatile("ld.relaxed.sys.global.u32 %0,[%1];" : "=r"(v) : "l"(a) : "memory");
    return v;
  }
  __device__ std::uint64_t load64(std::uint64_t a) const { return *at<volatile u64>(a); }
  __device__ void store32(std::uint64_t a, u32 v) const {
    asm volatile("st.relaxed.sys.global.u32 [%0],%1;" ::"l"(a), "r"(v) : "memory");
  }
  __device__ void store64(std::uint64_t a, std::uint64_t v) const {
    asm volatile("st.relaxed.sys.global.u64 [%0],%1;" ::"l"(a), "l"(v) : "memory");
  }
  __device__ void store_unit(std::uint64_t a, const nic::Unit& unit) const {
    asm volatile("st.weak.global.cs.v4.b32 [%0],{%1,%2,%3,%4};" ::"l"(a), "r"(unit.words[0]),
                 "r"(unit.words[1]), "r"(unit.words[2]), "r"(unit.words[3])
                 : "memory");
  }
  __device__ std::uint64_t add64(std::uint64_t a, u64 v) const { return atomicAdd(at<u64>(a), v); }
  __device__ std::uint64_t max64(std::uint64_t a, u64 v) const { return atomicMax(at<u64>(a), v); }
  __device__ std::uint64_t cas64(std::uint64_t a, u64 expected, u64 v) const {
    return atomicCAS(at<u64>(a), expected, v);
  }
  __device__ u32 cas32(std::uint64_t a, u32 expected, u32 v) const {
    return atomicCAS(at<u32>(a), expected, v);
  }
  __device__ void fence_cta() const { __threadfence_block(); }
  __device__ void fence_gpu() const { __threadfence(); }
};

struct NicPutsArguments {
  const NicQueue* queues;
  int queue_count, puts, batch, wait_every, gap_cycles;
  Record* records;
  Span* spans;
  u32* gave_up;  ///< 1: no completion, 2: one with an error
};

template <bool kStamps>
__global__ void nic_puts_kernel(bool ibgda, NicPutsArguments a) {
  if (threadIdx.x) return;
  const int warp = blockIdx.x;
  const NicQueue queue = a.queues[warp % a.queue_count];
  GpuLane lane{kStamps};
  const u64 begin = cycles_now();
  for (int i = 0; i < a.puts; ++i) {
    const bool last = i == a.puts - 1;
    const bool waits = last || (a.wait_every && (i + 1) % a.wait_every == 0);
    const std::uint64_t start_ns = kStamps ? nanoseconds_now() : 0;
    NicPut put;
    nic_put(lane, queue, ibgda, last || (i + 1) % a.batch == 0, waits, put);
    if (kStamps) {
      Record r;
      r.start_ns = start_ns;
      for (std::size_t s = 0; s < kStages; ++s)
        r.cycles[s] = static_cast<u32>(put.at[s + 1] - put.at[s]);
      r.polls = put.polls;
      r.sm = sm_now();
      r.warp = warp;
      r.queue = warp % a.queue_count;
      r.index = static_cast<u32>(put.index);
      r.flags = (put.rang ? kRang : 0) | (waits ? kWaited : 0) | (put.stuck ? kTimedOut : 0);
      a.records[static_cast<std::size_t>(warp) * a.puts + i] = r;
    }
    if (put.stuck || put.failed) {
      *a.gave_up = put.failed ? 2 : 1;
      break;
    }
    if (a.gap_cycles) idle(a.gap_cycles);
  }
  a.spans[warp] = {begin, cycles_now()};
}

// One queue's part of the memory; all begin at a page.
constexpr std::size_t kRingAt = 0, kCqAt = 64 << 10, kWordsAt = 128 << 10, kQueueBytes = 192 << 10,
                      kPayloadBytes = 1 << 20;
constexpr std::size_t kNicMemoryBytes = kMaxQueues * kQueueBytes + 2 * kPayloadBytes;
// Within its words; the doorbell record is 8 bytes, the send counter its second half.
constexpr std::size_t kResvAt = 0, kReadyAt = 128, kProdAt = 256, kLockAt = 512, kDbrecAt = 640,
                      kCqDbrecAt = 768;
constexpr std::size_t kCqeTailAt = 60;

/// A descriptor that exports the memory to the NIC, or -1 where driver or kernel do not.
int export_memory(void* address, std::size_t bytes) {
  constexpr int kDmaBuf = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return -1;
  using GetHandle = int (*)(void*, unsigned long long, std::size_t, int, unsigned long long);
  const auto get = reinterpret_cast<GetHandle>(dlsym(driver, "cuMemGetHandleForAddressRange"));
  int file = -1;
  const bool exported = get != nullptr && get(&file, reinterpret_cast<unsigned long long>(address),
                                              bytes, kDmaBuf, 0) == 0;
  dlclose(driver);
  return exported ? file : -1;
}

/// The NIC's register page, as the GPU sees it.
class Registers {
 public:
  explicit Registers(void* page) : page_(page) {
    const cudaError_t code = cudaHostRegister(page, 4096, cudaHostRegisterIoMemory);
    if (code != cudaSuccess) {
      cudaGetLastError();
      throw InputError("mlx5 NIC",
                       std::string("its doorbell register cannot be mapped into the GPU: ") +
                           cudaGetErrorString(code),
                       "the driver allows it with PeerMappingOverride=1 "
                       "(NVreg_RegistryDwords), or run as root");
    }
    MARROW_CUDA(cudaHostGetDevicePointer(&device_, page, 0));
  }
  ~Registers() { cudaHostUnregister(page_); }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
  char* device() const { return static_cast<char*>(device_); }

 private:
  void* page_;
  void* device_ = nullptr;
};

class File {
 public:
  explicit File(int file) : file_(file) {}
  ~File() {
    if (file_ >= 0) close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

}  // namespace

struct NicRunner::Impl {
  std::string name;
  DeviceArray<char> memory{kNicMemoryBytes};
  DeviceArray<Span> spans{kMaxWarps};
  DeviceArray<u32> gave_up{1};
  std::string about;

  std::uint64_t at(std::size_t queue, std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.get()) + queue * kQueueBytes + offset;
  }
  /// Fresh queues, all at their first entry: those of the run before are gone.
  Mlx5Device fresh_queues(std::size_t count) {
    memory.clear();
    std::vector<NicQueuePlace> places;
    for (std::size_t q = 0; q < count; ++q) {
      MARROW_CUDA(cudaMemset(memory.get() + q * kQueueBytes + kCqAt, 0xff,
                             std::size_t{kDepth} * kEntryBytes));
      places.push_back({q * kQueueBytes + kRingAt, q * kQueueBytes + kCqAt,
                        q * kQueueBytes + kWordsAt + kDbrecAt,
                        q * kQueueBytes + kWordsAt + kCqDbrecAt});
    }
    MARROW_CUDA(cudaDeviceSynchronize());
    const File exported(export_memory(memory.get(), kNicMemoryBytes));
    return Mlx5Device(name, {memory.get(), kNicMemoryBytes, exported.get()}, places);
  }
  double run(const Configuration& c, bool stamps, std::vector<Record>& records);
};

double NicRunner::Impl::run(const Configuration& c, bool stamps, std::vector<Record>& records) {
  const Mlx5Device device = fresh_queues(c.queues);
  const Registers registers(device.uar_page());
  const std::uint64_t payload = at(kMaxQueues, 0);
  std::vector<NicQueue> queues;
  for (std::size_t q = 0; q < c.queues; ++q) {
    const auto word = [&](std::size_t offset) { return at(q, kWordsAt + offset); };
    queues.push_back({word(kResvAt), word(kReadyAt), word(kProdAt), word(kLockAt), at(q, kRingAt),
                      word(kDbrecAt + 4),
                      reinterpret_cast<std::uint64_t>(registers.device() + device.uar_offset()),
                      at(q, kCqAt + kCqeTailAt), device.qpn(q), device.lkey(), device.rkey(),
                      static_cast<u32>(c.bytes), payload, payload + kPayloadBytes});
  }
  DeviceArray<NicQueue> on_gpu(queues.size());
  on_gpu.fill_from(queues);
  DeviceArray<Record> written(stamps ? c.total() : 1);
  gave_up.clear();
  spans.clear();
  const NicPutsArguments a{on_gpu.get(),
                           static_cast<int>(c.queues),
                           static_cast<int>(c.puts),
                           static_cast<int>(c.batch),
                           static_cast<int>(c.wait_every),
                           static_cast<int>(c.gap_cycles),
                           written.get(),
                           spans.get(),
                           gave_up.get()};
  const bool ibgda = c.protocol == Protocol::kIbgda;
  const auto kernel = stamps ? nic_puts_kernel<true> : nic_puts_kernel<false>;
  // The formatter takes this file for C++03 and parts the brackets.
  // clang-format off
  kernel<<<c.warps, 32>>>(ibgda, a);
  // clang-format on
  MARROW_LAUNCHED("nic_puts_kernel");
  MARROW_CUDA(cudaDeviceSynchronize());
  if (const u32 how = gave_up.values()[0])
    throw StuckError(description(c) + (how == 2 ? ": the NIC completed an entry with an error"
                                                : ": a completion did not come within the limit"));
  if (stamps) records = written.values();
  double sum = 0;
  for (const Span& span : spans.values(0, c.warps))
    sum += static_cast<double>(span.end_cycles - span.begin_cycles);
  return sum / static_cast<double>(c.total());
}

NicRunner::NicRunner(int, const std::string& name) : impl_(std::make_unique<Impl>()) {
  impl_->name = name;
  const Mlx5Device device = impl_->fresh_queues(1);
  const Registers registers(device.uar_page());
  impl_->about = device.about();
}
NicRunner::~NicRunner() = default;

Run NicRunner::captured(const Configuration& c) {
  Run run;
  run.configuration = c;
  std::vector<Record> none;
  run.cycles_per_put_unstamped = impl_->run(c, false, none);
  run.cycles_per_put = impl_->run(c, true, run.records);
  return run;
}

std::string NicRunner::about() const { return impl_->about; }

#endif

}  // namespace marrow::capture
