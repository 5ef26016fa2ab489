// What every kernel here needs: clocks, loads and stores of one kind each, checked calls, memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace marrow::tools {

/// A call of the CUDA runtime failed.
class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& call, cudaError_t code)
      : std::runtime_error(call + ": " + cudaGetErrorString(code)), call_(call), code_(code) {}
  const std::string& call() const { return call_; }
  cudaError_t code() const { return code_; }

 private:
  std::string call_;
  cudaError_t code_;
};

/// A wait reached its limit: what was waited for did not come.
class StuckError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw CudaError(call, code);
}
#define MARROW_CUDA(call) ::marrow::tools::check((call), #call)
/// After a launch: did it start?
#define MARROW_LAUNCHED(name) ::marrow::tools::check(cudaGetLastError(), "launch of " name)

// How often a kernel looks before it gives up, by the way that a look goes: about two seconds.
constexpr std::uint64_t kGpuLooks = 10'000'000;
constexpr std::uint64_t kFarLooks = 2'000'000;

__device__ __forceinline__ std::uint64_t cycles_now() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ std::uint64_t nanoseconds_now() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ std::uint32_t sm_now() {
  std::uint32_t s;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(s));
  return s;
}
__device__ __forceinline__ std::uint64_t load_relaxed(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.relaxed.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0],%1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ void store16(void* p, std::uint32_t v) {
  asm volatile("st.volatile.global.v4.u32 [%0],{%1,%1,%1,%1};" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void idle(std::uint64_t cycles) {
  for (const std::uint64_t begin = cycles_now(); cycles_now() - begin < cycles;) {
  }
}
/// Looks until the word holds the value; false after `looks` of them.
__device__ __forceinline__ bool wait_for(const std::uint64_t* word, std::uint64_t value,
                                         std::uint64_t looks, std::uint64_t& seen_after) {
  std::uint64_t look = 0;
  while (load_relaxed(word) != value && ++look < looks) {
  }
  seen_after = look;
  return look < looks;
}

/// Makes a GPU the current one, and the old one again at the end.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    MARROW_CUDA(cudaGetDevice(&before_));
    MARROW_CUDA(cudaSetDevice(device));
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

inline void enable_peer_access(int from, int to) {
  const OnDevice device(from);
  const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();  // forgets it
  else
    MARROW_CUDA(code);
}

/// Memory of the current device, zero at first.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    MARROW_CUDA(cudaMalloc(&data_, count * sizeof(T)));
    clear();
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  std::size_t count() const { return count_; }
  void clear() {
    MARROW_CUDA(cudaMemset(data_, 0, count_ * sizeof(T)));
    MARROW_CUDA(cudaDeviceSynchronize());
  }
  void fill_from(const std::vector<T>& values) {
    MARROW_CUDA(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault));
  }
  std::vector<T> values(std::size_t first, std::size_t count) const {
    std::vector<T> values(count);
    MARROW_CUDA(cudaMemcpy(values.data(), data_ + first, count * sizeof(T), cudaMemcpyDefault));
    return values;
  }
  std::vector<T> values() const { return values(0, count_); }
  /// As samples.
  std::vector<double> samples(std::size_t first, std::size_t count) const {
    const std::vector<T> raw = values(first, count);
    return {raw.begin(), raw.end()};
  }
  std::vector<double> samples() const { return samples(0, count_); }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// Pinned memory of the host that the GPU sees, zero at first.
template <class T>
class HostArray {
 public:
  explicit HostArray(std::size_t count) {
    MARROW_CUDA(
        cudaHostAlloc(&host_, count * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable));
    std::memset(host_, 0, count * sizeof(T));
    MARROW_CUDA(cudaHostGetDevicePointer(&device_, host_, 0));
  }
  ~HostArray() { cudaFreeHost(host_); }
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;

  T* host() const { return host_; }
  T* device() const { return device_; }

 private:
  T* host_ = nullptr;
  T* device_ = nullptr;
};

class Stream {
 public:
  Stream() { MARROW_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { MARROW_CUDA(cudaStreamSynchronize(stream_)); }
  bool busy() const { return cudaStreamQuery(stream_) == cudaErrorNotReady; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) {
    MARROW_CUDA(cudaEventCreateWithFlags(&event_, flags));
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace marrow::tools
