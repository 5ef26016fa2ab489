// A put of one's own with stamps around it: 64 bytes, a fence and a flag into host memory, where a
// CPU thread answers. Build: nvcc -std=c++17 -I tools/stamp tools/stamp/example.cu
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "marrow_stamp.cuh"

namespace {

constexpr int kWarps = 2, kPuts = 200;
constexpr long long kLooks = 2'000'000;

struct alignas(256) Channel {
  unsigned long long data[8];
  unsigned long long flag, pad0[7];
  unsigned long long answer, pad1[7];
};

__global__ void put_kernel(Channel* channels, int puts, marrow::StampView view,
                           unsigned long long* cycles, int* gave_up) {
  if (threadIdx.x != 0) return;
  volatile Channel* channel = channels + blockIdx.x;
  marrow::StampLane lane(view, blockIdx.x);
  const long long begin = clock64();
  for (int i = 1; i <= puts; ++i) {
    lane.begin();
    lane.stamp(marrow::StampStage::kWqe);
    for (int k = 0; k < 8; ++k) channel->data[k] = i;
    lane.stamp(marrow::StampStage::kFence);
    __threadfence_system();
    lane.stamp(marrow::StampStage::kRegister);
    channel->flag = i;
    lane.stamp(marrow::StampStage::kCompletion);
    unsigned polls = 1;
    for (long long look = 0; channel->answer != i; ++polls)
      if (++look > kLooks) {
        *gave_up = 1;
        lane.end(polls);
        return;
      }
    lane.end(polls);
  }
  cycles[blockIdx.x] = clock64() - begin;
}

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "marrow-stamp-example: %s\n", cudaGetErrorString(code));
  std::exit(2);
}

/// Cycles a put.
double run(Channel* host, Channel* device, unsigned long long* cycles, int* gave_up,
           const marrow::StampView& view) {
  for (int w = 0; w < kWarps; ++w) host[w] = {};
  std::atomic<bool> stop{false};
  std::thread answering([&] {
    while (!stop)
      for (int w = 0; w < kWarps; ++w) {
        volatile Channel* channel = host + w;
        const unsigned long long flag = channel->flag;
        if (flag != channel->answer) channel->answer = flag;
      }
  });
  put_kernel<<<kWarps, 32>>>(device, kPuts, view, cycles, gave_up);
  const cudaError_t launched = cudaGetLastError(), ended = cudaDeviceSynchronize();
  stop = true;
  answering.join();
  check(launched);
  check(ended);
  if (*gave_up) {
    std::fprintf(stderr, "marrow-stamp-example: no answer came\n");
    std::exit(3);
  }
  return static_cast<double>(cycles[0] + cycles[1]) / (kWarps * kPuts);
}

}  // namespace

int main(int argc, char** argv) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::fprintf(stderr, "marrow-stamp-example: there is no GPU that CUDA can see\n");
    return 2;
  }
  Channel *host = nullptr, *device = nullptr;
  unsigned long long* cycles = nullptr;
  int* gave_up = nullptr;
  check(cudaHostAlloc(&host, kWarps * sizeof(Channel), cudaHostAllocMapped));
  check(cudaHostGetDevicePointer(&device, host, 0));
  check(cudaMallocManaged(&cycles, kWarps * sizeof *cycles));
  check(cudaMallocManaged(&gave_up, sizeof *gave_up));
  *gave_up = 0;

  marrow::Stamps stamps(kWarps, kPuts);
  marrow::StampAbout about;
  about.run = "example";
  about.protocol = "capture-host-gdaki";
  about.consumer = "host";
  about.queues = kWarps;
  about.bytes = 64;
  run(host, device, cycles, gave_up, stamps.off());  // warms up
  about.cycles_per_put_unstamped = run(host, device, cycles, gave_up, stamps.off());
  const double stamped = run(host, device, cycles, gave_up, stamps.view());
  const char* path = argc > 1 ? argv[1] : "stamped.jsonl";
  stamps.write(path, about);
  std::printf("%s: %d puts of %d warps, %.0f cycles a put with stamps, %.0f without\n", path, kPuts,
              kWarps, stamped, about.cycles_per_put_unstamped);
  return 0;
}
