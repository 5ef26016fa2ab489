#include <algorithm>

#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

__global__ void empty_kernel() {}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties;
  MARROW_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties;
}

}  // namespace

Context::Context(const Options& options, MeasurementFile& file)
    : options_(options),
      file_(file),
      device_(properties_of(options.device)),
      one_sm_(device_.multiProcessorCount),
      taken_(2),
      gave_up_(1) {}

void Context::row(const char* name, const Object& conditions, const char* unit,
                  const Rounds& rounds, std::optional<double> overhead) {
  file_.add_line(row_text(name, conditions, unit, summarize(rounds), overhead));
}

void Context::throw_if_gave_up(const std::string& what) {
  if (gave_up_.values()[0])
    throw StuckError(what +
                     ": an answer did not come within the limit; is something else running "
                     "on this GPU or on this host's processors?");
}

double Context::none_cycles() {
  if (!none_cycles_) none_cycles_ = measure_none(*this);
  return *none_cycles_;
}

const SideMap& Context::sides() {
  if (!sides_) sides_ = find_sides(*this);
  return *sides_;
}

Rounds Context::event_ms(const std::function<void()>& work) {
  Event begin, end;
  work();
  MARROW_CUDA(cudaDeviceSynchronize());
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) {
    MARROW_CUDA(cudaEventRecord(begin));
    work();
    MARROW_CUDA(cudaEventRecord(end));
    MARROW_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    MARROW_CUDA(cudaEventElapsedTime(&ms, begin, end));
    rounds.push_back({ms});
  }
  return rounds;
}

double Context::empty_kernel_ms() {
  if (!empty_kernel_ms_) {
    const Rounds rounds = event_ms([] {
      empty_kernel<<<1, 1>>>();
      MARROW_LAUNCHED("empty_kernel");
    });
    empty_kernel_ms_ = summarize(rounds).median;
    Rounds us = rounds;
    for (auto& round : us)
      for (double& sample : round) sample *= 1000;
    row("event_none", cond(), "us", us);
  }
  return *empty_kernel_ms_;
}

const char* name_of(CopyLoad load) {
  if (load == CopyLoad::kHostToDevice) return "h2d";
  return load == CopyLoad::kDeviceToHost ? "d2h" : "none";
}

void for_each_peer(Context& context, const std::function<void(int peer)>& measure) {
  int gpus = 0;
  MARROW_CUDA(cudaGetDeviceCount(&gpus));
  const int mine = context.device_number();
  for (int peer = 0; peer < gpus; ++peer) {
    int can = 0;
    if (peer != mine) MARROW_CUDA(cudaDeviceCanAccessPeer(&can, mine, peer));
    if (!can) continue;
    measure(peer);
    if (context.quick()) return;
  }
}

}  // namespace marrow::probe
