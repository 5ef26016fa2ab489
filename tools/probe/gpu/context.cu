#include <algorithm>

#include "tools/probe/gpu/context.cuh"

namespace marrow::probe {

namespace {

__global__ void empty_kernel() {}

__global__ void clock_kernel(std::uint64_t span_ns, std::uint64_t* out) {
  // Begin where globaltimer steps: it moves in steps of 32 ns and more.
  std::uint64_t begin = nanoseconds_now();
  for (const std::uint64_t old = begin; begin == old;) begin = nanoseconds_now();
  const std::uint64_t begin_cycles = cycles_now();
  std::uint64_t end = begin;
  while (end < begin + span_ns) end = nanoseconds_now();
  out[0] = cycles_now() - begin_cycles;
  out[1] = end - begin;
}

__global__ void busy_kernel(std::uint64_t cycles) { idle(cycles); }

}  // namespace

Context::Context(const Options& options, MeasurementFile& file)
    : options_(options), file_(file), taken_(2), gave_up_(1) {
  MARROW_CUDA(cudaGetDeviceProperties(&device_, options.device));
}

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

double Context::clock_ghz(std::uint64_t span_ns) {
  DeviceArray<std::uint64_t> out(2);
  clock_kernel<<<1, 1>>>(span_ns, out.get());
  MARROW_LAUNCHED("clock_kernel");
  MARROW_CUDA(cudaDeviceSynchronize());
  const auto spans = out.values();
  return static_cast<double>(spans[0]) / static_cast<double>(spans[1]);
}

void warm_up(Context& context) {
  for (int i = 0; i < 200; ++i) {
    busy_kernel<<<context.device().multiProcessorCount, 128>>>(2'000'000);
    MARROW_LAUNCHED("busy_kernel");
  }
  MARROW_CUDA(cudaDeviceSynchronize());
}

const char* name_of(CopyLoad load) {
  if (load == CopyLoad::kHostToDevice) return "h2d";
  return load == CopyLoad::kDeviceToHost ? "d2h" : "none";
}

}  // namespace marrow::probe
