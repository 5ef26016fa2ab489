// Stamps around your own puts. Header-only, CUDA C++17, needs nothing else of marrow: copy it
// beside your sources, or into your copy of NVSHMEM's or DOCA GPUNetIO's device headers.
//
//   marrow::Stamps stamps(warps, puts);                 // host: room for so many puts of each warp
//   kernel<<<...>>>(..., stamps.view());
//   stamps.write("puts.jsonl", about);                  // after the kernel's end
//
//   marrow::StampLane lane(view, warp);                 // device: one thread of a warp
//   lane.begin();                                       // the call
//   lane.stamp(marrow::StampStage::kSlot);              // this stage begins here
//   ...
//   lane.end();                                         // the put is done
//
// `marrow import capture puts.jsonl --out puts.trace` makes a trace of it. What is where to stamp:
// docs/capture.md.
//
// A stamp is one read of clock64 and, at begin(), one of globaltimer and the SM's number, then a
// plain 16-byte store into the warp's own part of GPU memory: no atomics, no fences. Give
// stamps.off() instead of stamps.view() and every call does nothing: run your kernel both ways and
// tell the difference (StampAbout::cycles_per_put_unstamped).
#pragma once

#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

namespace marrow {

/// docs/stages.md says what each holds. A stage lasts until the next stamp.
enum class StampStage : std::uint32_t {
  kLookup,
  kSlot,
  kWqe,
  kFence,
  kPublish,
  kLock,
  kRecord,
  kRegister,
  kCompletion,
  kCount
};
constexpr const char* kStampStageNames[] = {"lookup",
                                            "slot",
                                            "wqe",
                                            "order.fence",
                                            "order.publish",
                                            "order.lock",
                                            "doorbell.record",
                                            "doorbell.register",
                                            "completion"};

/// What the kernel gets; pass it by value.
struct StampView {
  struct alignas(16) Slot {
    std::uint64_t time;  ///< begin: globaltimer; else clock64
    std::uint32_t what;  ///< a stage, or kBegin, kCycles, kEnd
    std::uint32_t more;  ///< kBegin: the SM; kEnd: polls
  };
  static constexpr std::uint32_t kBegin = 100, kCycles = 101, kEnd = 102;
  Slot* slots = nullptr;          ///< [warp][slot]; null: stamps do nothing
  std::uint32_t* used = nullptr;  ///< [warp]
  std::uint32_t warps = 0, slots_per_warp = 0;
};

#if defined(__CUDACC__)
/// One warp's stamps; used by one of its threads. Lives in registers.
class StampLane {
 public:
  __device__ StampLane(const StampView& view, std::uint32_t warp)
      : at_(view.slots && warp < view.warps
                ? view.slots + static_cast<std::size_t>(warp) * view.slots_per_warp
                : nullptr),
        used_(view.used + warp),
        room_(view.slots_per_warp) {}

  __device__ __forceinline__ void begin() {
    if (!at_) return;
    std::uint64_t ns;
    std::uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    put(ns, StampView::kBegin, sm);
    put(cycles(), StampView::kCycles, 0);
  }
  __device__ __forceinline__ void stamp(StampStage stage) {
    if (at_) put(cycles(), static_cast<std::uint32_t>(stage), 0);
  }
  /// polls: how often completion was looked at, where you count that.
  __device__ __forceinline__ void end(std::uint32_t polls = 0) {
    if (!at_) return;
    put(cycles(), StampView::kEnd, polls);
    *used_ = next_;
  }

 private:
  static __device__ __forceinline__ std::uint64_t cycles() {
    std::uint64_t t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
  }
  __device__ __forceinline__ void put(std::uint64_t time, std::uint32_t what, std::uint32_t more) {
    if (next_ < room_)
      *reinterpret_cast<ulonglong2*>(at_ + next_) =
          make_ulonglong2(time, static_cast<std::uint64_t>(more) << 32 | what);
    ++next_;
  }
  StampView::Slot* at_;
  std::uint32_t* used_;
  std::uint32_t room_, next_ = 0;
};
#endif

/// What the stamps cannot know of your run.
struct StampAbout {
  std::string run = "run";       ///< its name
  std::string protocol;          ///< the recipe that it follows: "nvshmem-ibgda", "gdaki", ...
  std::string consumer = "nic";  ///< who takes the puts: nic, proxy, device, peer, host
  std::uint32_t queues = 1;      ///< warp w is taken to use queue w mod queues
  std::uint32_t wait_every = 1;  ///< a warp waits after so many puts; 0: at the end only
  std::uint64_t bytes = 0;       ///< of each put
  std::uint32_t gap_cycles = 0;  ///< between puts
  double cycles_per_put_unstamped = 0;  ///< of the same run with Stamps::off(); 0: not measured
};

/// One put, as written.
struct StampedPut {
  std::uint32_t warp = 0, sm = 0, polls = 0;
  std::uint64_t start_ns = 0, begin_cycles = 0, end_cycles = 0;
  std::uint64_t stage_cycles[static_cast<int>(StampStage::kCount)] = {};
};

/// Makes puts of one warp's slots. Throws std::runtime_error if they are not begin, stages, end,
/// again and again.
inline std::vector<StampedPut> stamped_puts(const StampView::Slot* slots, std::size_t count,
                                            std::uint32_t warp) {
  std::vector<StampedPut> puts;
  bool open = false;
  std::uint64_t last = 0;
  int stage = -1;  // that is under way
  for (std::size_t i = 0; i < count; ++i) {
    const StampView::Slot& slot = slots[i];
    if (slot.what == StampView::kBegin) {
      if (open) throw std::runtime_error("marrow stamps: begin() without an end() before it");
      open = true;
      stage = -1;
      puts.emplace_back();
      puts.back().warp = warp;
      puts.back().sm = slot.more;
      puts.back().start_ns = slot.time;
      continue;
    }
    if (!open) throw std::runtime_error("marrow stamps: a stamp before begin()");
    StampedPut& put = puts.back();
    if (stage >= 0) put.stage_cycles[stage] += slot.time - last;
    last = slot.time;
    if (slot.what == StampView::kCycles) {
      put.begin_cycles = slot.time;
    } else if (slot.what == StampView::kEnd) {
      put.end_cycles = slot.time;
      put.polls = slot.more;
      open = false;
    } else if (slot.what < static_cast<std::uint32_t>(StampStage::kCount)) {
      stage = static_cast<int>(slot.what);
    } else {
      throw std::runtime_error("marrow stamps: the slots were overwritten");
    }
  }
  if (open) throw std::runtime_error("marrow stamps: the last put has no end()");
  return puts;
}

/// Writes puts as `marrow import capture` reads them, whole or not at all. Throws
/// std::runtime_error if the warps did not do equally many puts, or the file cannot be written.
inline void write_stamped(const std::string& path, const StampAbout& about,
                          const std::vector<std::vector<StampedPut>>& puts, double sm_clock_ghz,
                          const std::string& gpu) {
  const auto text = [](const std::string& s) {  // as a JSON string
    std::string out = "\"";
    for (const char c : s) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out + '"';
  };
  if (puts.empty() || puts.front().empty() || about.protocol.empty() || about.queues == 0)
    throw std::runtime_error("marrow stamps: no puts, no protocol's name or no queues");
  std::vector<int> stages;
  for (int s = 0; s < static_cast<int>(StampStage::kCount); ++s)
    for (const auto& warp : puts)
      if (std::any_of(warp.begin(), warp.end(),
                      [s](const StampedPut& p) { return p.stage_cycles[s] != 0; })) {
        stages.push_back(s);
        break;
      }
  struct Row {
    std::uint64_t order_ns;
    std::size_t index;
    const StampedPut* put;
  };
  std::vector<Row> rows;
  std::uint64_t epoch = ~std::uint64_t{0};
  double cycles = 0;
  for (const auto& warp : puts) {
    if (warp.size() != puts.front().size())
      throw std::runtime_error("marrow stamps: the warps did not do equally many puts");
    std::uint64_t order = 0;
    for (std::size_t i = 0; i < warp.size(); ++i) {
      epoch = std::min(epoch, warp[i].start_ns);
      rows.push_back({order = std::max(order, warp[i].start_ns), i, &warp[i]});
    }
    cycles += static_cast<double>(warp.back().end_cycles - warp.front().begin_cycles);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.order_ns < b.order_ns; });

  const std::string draft = path + ".part";
  std::FILE* f = std::fopen(draft.c_str(), "w");
  if (!f) throw std::runtime_error("marrow stamps: " + path + " cannot be written");
  char date[16] = "";
  const std::time_t now = std::time(nullptr);
  if (const std::tm* utc = std::gmtime(&now)) std::strftime(date, sizeof date, "%Y-%m-%d", utc);
  std::fprintf(f,
               "{\"schema\":\"marrow.capture/1\",\"date\":\"%s\",\"gpu\":%s,"
               "\"sm_clock_ghz\":%.4f}\n",
               date, text(gpu).c_str(), sm_clock_ghz);
  std::fprintf(f,
               "{\"run\":%s,\"protocol\":%s,\"choices\":{},\"consumer\":%s,\"warps\":%zu,"
               "\"queues\":%u,\"puts_per_warp\":%zu,\"wait_every\":%u,\"bytes\":%llu,"
               "\"gap_cycles\":%u,\"sm_clock_ghz\":%.4f,\"epoch_ns\":%llu,\"cycles_per_put\":%.2f,"
               "\"cycles_per_put_unstamped\":%.2f,\"stages\":[",
               text(about.run).c_str(), text(about.protocol).c_str(), text(about.consumer).c_str(),
               puts.size(), about.queues, puts.front().size(), about.wait_every,
               static_cast<unsigned long long>(about.bytes), about.gap_cycles, sm_clock_ghz,
               static_cast<unsigned long long>(epoch), cycles / static_cast<double>(rows.size()),
               about.cycles_per_put_unstamped);
  for (std::size_t s = 0; s < stages.size(); ++s)
    std::fprintf(f, "%s\"%s\"", s ? "," : "", kStampStageNames[stages[s]]);
  std::fprintf(f, "],\"columns\":[\"warp\",\"index\",\"flags\",\"start_ns\",\"polls\"");
  for (const int s : stages) std::fprintf(f, ",\"%s\"", kStampStageNames[s]);
  std::fprintf(f, ",\"seen_ns\",\"read_ns\",\"done_ns\"],\"lanes\":[");
  for (std::size_t w = 0; w < puts.size(); ++w)
    std::fprintf(f, "%s{\"warp\":%zu,\"sm\":%u,\"queue\":%zu}", w ? "," : "", w, puts[w].front().sm,
                 w % about.queues);
  std::fprintf(f, "],\"words\":[]}\n");
  for (const Row& row : rows) {
    const bool last = row.index + 1 == puts.front().size();
    const bool waits = last || (about.wait_every != 0 && (row.index + 1) % about.wait_every == 0);
    std::fprintf(f, "[%u,%zu,%d,%llu,%u", row.put->warp, row.index, waits ? 2 : 0,
                 static_cast<unsigned long long>(row.put->start_ns - epoch), row.put->polls);
    for (const int s : stages)
      std::fprintf(f, ",%llu", static_cast<unsigned long long>(row.put->stage_cycles[s]));
    std::fprintf(f, ",0,0,0]\n");
  }
  std::fprintf(f, "{\"end\":true,\"runs\":1,\"puts\":%zu}\n", rows.size());
  const bool good = std::fflush(f) == 0 && std::ferror(f) == 0;
  if (std::fclose(f) != 0 || !good || std::rename(draft.c_str(), path.c_str()) != 0) {
    std::remove(draft.c_str());
    throw std::runtime_error("marrow stamps: " + path + " cannot be written");
  }
}

#if __has_include(<cuda_runtime.h>)
/// The stamps' memory on the current GPU. All throw std::runtime_error on an error of CUDA.
class Stamps {
 public:
  Stamps(std::uint32_t warps, std::uint32_t puts_per_warp, std::uint32_t stamps_per_put = 12) {
    view_.warps = warps;
    view_.slots_per_warp = puts_per_warp * stamps_per_put;
    check(cudaMalloc(&view_.slots, bytes()));
    const cudaError_t code = cudaMalloc(&view_.used, warps * sizeof(std::uint32_t));
    if (code != cudaSuccess) cudaFree(view_.slots);
    check(code);
    clear();
  }
  ~Stamps() {
    cudaFree(view_.slots);
    cudaFree(view_.used);
  }
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  StampView view() const { return view_; }
  /// For the same run without stamps.
  StampView off() const { return {}; }
  void clear() {
    check(cudaMemset(view_.slots, 0, bytes()));
    check(cudaMemset(view_.used, 0, view_.warps * sizeof(std::uint32_t)));
  }

  /// [warp][put], once the kernel has ended.
  std::vector<std::vector<StampedPut>> collect() const {
    check(cudaDeviceSynchronize());
    std::vector<std::uint32_t> used(view_.warps);
    check(
        cudaMemcpy(used.data(), view_.used, used.size() * sizeof used[0], cudaMemcpyDeviceToHost));
    std::vector<std::vector<StampedPut>> puts;
    std::vector<StampView::Slot> slots(view_.slots_per_warp);
    for (std::uint32_t warp = 0; warp < view_.warps; ++warp) {
      if (used[warp] > view_.slots_per_warp)
        throw std::runtime_error("marrow stamps: more puts or stamps than there is room for");
      check(cudaMemcpy(slots.data(), view_.slots + std::size_t{warp} * view_.slots_per_warp,
                       used[warp] * sizeof slots[0], cudaMemcpyDeviceToHost));
      puts.push_back(stamped_puts(slots.data(), used[warp], warp));
    }
    return puts;
  }
  /// sm_clock_ghz: the clock during the run; 0: the device's nominal one.
  void write(const std::string& path, const StampAbout& about, double sm_clock_ghz = 0) const {
    int device = 0, khz = 0;
    cudaDeviceProp properties;
    check(cudaGetDevice(&device));
    check(cudaGetDeviceProperties(&properties, device));
    check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device));
    write_stamped(path, about, collect(), sm_clock_ghz > 0 ? sm_clock_ghz : khz * 1e-6,
                  properties.name);
  }

 private:
  static void check(cudaError_t code) {
    if (code != cudaSuccess)
      throw std::runtime_error(std::string("marrow stamps: ") + cudaGetErrorString(code));
  }
  std::size_t bytes() const {
    return std::size_t{view_.warps} * view_.slots_per_warp * sizeof(StampView::Slot);
  }
  StampView view_;
};
#endif

}  // namespace marrow
