#include <algorithm>
#include <atomic>
#include <thread>

#include "tools/capture/gpu/runner.cuh"
#include "tools/capture/host/host_consumer.h"
#include "tools/common/gpu/program.cuh"
#include "tools/common/host_clock.h"
#include "tools/common/statistics.h"

namespace marrow::capture {

using namespace tools;

namespace {

// Where the parts of the arenas begin. Each is a multiple of 64 KiB, so that a page holds what the
// recipes' layout has in it; the allocation itself begins at a multiple of 2 MiB.
constexpr std::size_t kCountersAt = 128 << 10, kDoorbellsAt = 192 << 10, kPayloadAt = 1 << 20,
                      kRingsAt = 2 << 20,
                      kArenaBytes = kRingsAt + std::size_t{kMaxQueues} * kDepth * kEntryBytes;
constexpr std::size_t kHostQueuesAt = 0, kHostFlagsAt = 256 << 10;
static_assert(kMaxQueues * sizeof(DeviceQueue) <= kCountersAt);
constexpr std::uint32_t kPageEntries = 4096 / kEntryBytes;

// A device's looks before it gives up: four seconds, by the way that a look goes.
constexpr u64 kLooksNear = 24'000'000, kLooksAcrossPcie = 3'400'000;
constexpr double kHostLimitNs = 6e9;
constexpr int kPingPongs = 120, kUncounted = 20;

__global__ void ping_pong_kernel(std::uint64_t* to_cpu, const std::uint64_t* to_gpu, int count,
                                 std::uint64_t* times_ns, u32* gave_up) {
  for (int i = 1; i <= count; ++i) {
    std::uint64_t looks;
    times_ns[2 * (i - 1)] = nanoseconds_now();
    store_relaxed(to_cpu, i);
    if (!wait_for(to_gpu, i, kFarLooks, looks)) {
      *gave_up = 1;
      return;
    }
    times_ns[2 * (i - 1) + 1] = nanoseconds_now();
    idle(8000);
  }
}

__global__ void peer_consumer_kernel(ConsumerArguments consumer) { consume_across(consumer); }

/// Runs beside the kernel; ends before what it reads goes away, whatever is thrown meanwhile.
class ConsumerThread {
 public:
  explicit ConsumerThread(HostConsumer& consumer)
      : thread_([this, &consumer] { consumer.run(stop_); }) {}
  ~ConsumerThread() { finish(); }
  /// Lets it end; what it has not consumed by now it will not.
  void finish() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

int multiprocessors(int device) {
  int sms = 0;
  MARROW_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return sms;
}

}  // namespace

/// What lies on the consuming GPU.
struct Runner::Peer {
  int device;
  DeviceArray<char> memory;  ///< doorbells, then payload
  Stream stream;
  Peer(int gpu, std::size_t bytes) : device(gpu), memory(bytes) {}
};

Runner::Runner(int device, std::optional<int> peer)
    : device_(device),
      sms_(multiprocessors(device)),
      gpu_(kArenaBytes),
      host_(kArenaBytes),
      spans_(kMaxWarps),
      gave_up_(1),
      consumer_sm_(1),
      sink_(8) {
  if (!peer) return;
  enable_peer_access(device, *peer);
  enable_peer_access(*peer, device);
  const OnDevice there(*peer);
  peer_ = std::make_unique<Peer>(*peer, 2 * kPayloadAt);
}

Runner::~Runner() {
  if (!peer_) return;
  const OnDevice there(peer_->device);
  peer_.reset();
}

Counters* Runner::counters() const { return reinterpret_cast<Counters*>(gpu_.get() + kCountersAt); }
unsigned long long* Runner::doorbells() const {
  return reinterpret_cast<unsigned long long*>(gpu_.get() + kDoorbellsAt);
}
char* Runner::rings() const { return gpu_.get() + kRingsAt; }

void Runner::clear(const Configuration& c) {
  gpu_.clear();
  spans_.clear();
  gave_up_.clear();
  if (c.consumer == Consumer::kHost || c.doorbell_in_host)
    std::memset(host_.host(), 0, kArenaBytes);
  if (c.consumer == Consumer::kPeer) {
    const OnDevice there(peer_->device);
    peer_->memory.clear();
  }
}

void Runner::throw_if_gave_up(const Configuration& c) {
  if (gave_up_.values()[0])
    throw StuckError(description(c) +
                     ": an answer did not come within the limit; is something else running on "
                     "this GPU or on this host's processors?");
}

double Runner::cycles_per_put(const Configuration& c) const {
  double sum = 0;
  for (const Span& span : spans_.values(0, c.warps))
    sum += static_cast<double>(span.end_cycles - span.begin_cycles);
  return sum / static_cast<double>(c.total());
}

ClockOffset Runner::align_clocks() {
  DeviceArray<std::uint64_t> times(2 * kPingPongs);
  auto* to_cpu = reinterpret_cast<std::uint64_t*>(host_.host() + kHostFlagsAt);
  auto* to_gpu = to_cpu + 512;
  *to_cpu = *to_gpu = 0;
  auto* on_gpu = reinterpret_cast<std::uint64_t*>(host_.device() + kHostFlagsAt);
  const double tick_ns = ns_per_tick();
  gave_up_.clear();
  ping_pong_kernel<<<1, 1, 0, stream_>>>(on_gpu, on_gpu + 512, kPingPongs, times.get(),
                                         gave_up_.get());
  MARROW_LAUNCHED("ping_pong_kernel");
  std::vector<PingPong> samples(kPingPongs);
  bool answered = true;
  for (int i = 1; i <= kPingPongs && answered; ++i) {
    answered = host_wait_for(to_cpu, i);
    samples[i - 1].cpu_seen_ns = static_cast<double>(ticks_now()) * tick_ns;
    *static_cast<volatile std::uint64_t*>(to_gpu) = i;
    samples[i - 1].cpu_reply_ns = static_cast<double>(ticks_now()) * tick_ns;
  }
  stream_.wait();
  if (!answered || gave_up_.values()[0])
    throw StuckError("aligning the clocks: no answer between GPU and processor");
  const auto gpu = times.values();
  for (int i = 0; i < kPingPongs; ++i) {
    // Small numbers: a double holds a globaltimer of today only to 256 ns.
    samples[i].gpu_send_ns = static_cast<double>(gpu[2 * i] - gpu[0]);
    samples[i].gpu_seen_ns = static_cast<double>(gpu[2 * i + 1] - gpu[0]);
  }
  samples.erase(samples.begin(), samples.begin() + kUncounted);
  ClockOffset offset = align(samples);
  offset.gpu_zero_ns = gpu[0];
  return offset;
}

namespace {

template <bool kStamps, int kStoreBytes, Fence kWqeFence>
void launch_device(const Configuration& c, const PutsArguments& puts,
                   const ConsumerArguments& consumer, cudaStream_t stream) {
  const bool ibgda = c.protocol == Protocol::kIbgda;
  if (c.consumer == Consumer::kDevice)
    puts_and_consumer_kernel<kStamps, kStoreBytes, kWqeFence>
        <<<c.warps + 1, 32, 0, stream>>>(ibgda, puts, consumer);
  else
    puts_kernel<kStamps, kStoreBytes, kWqeFence><<<c.warps, 32, 0, stream>>>(ibgda, puts);
  MARROW_LAUNCHED("puts_kernel");
}

template <bool kStamps>
void launch_variant(const Configuration& c, const PutsArguments& puts,
                    const ConsumerArguments& consumer, cudaStream_t stream) {
  if (c.fence_wqe == Fence::kSys)
    return launch_device<kStamps, 0, Fence::kSys>(c, puts, consumer, stream);
  switch (c.store_bytes) {
    case 4:
      return launch_device<kStamps, 4, Fence::kGpu>(c, puts, consumer, stream);
    case 8:
      return launch_device<kStamps, 8, Fence::kGpu>(c, puts, consumer, stream);
    case 16:
      return launch_device<kStamps, 16, Fence::kGpu>(c, puts, consumer, stream);
    default:
      return launch_device<kStamps, 0, Fence::kGpu>(c, puts, consumer, stream);
  }
}

template <bool kStamps>
void launch_host_variant(const Configuration& c, const HostPutsArguments& a, cudaStream_t stream) {
  if (c.protocol == Protocol::kHostProxy) {
    if (c.fence_wqe == Fence::kSys)
      host_proxy_kernel<kStamps, Fence::kSys><<<c.warps, 32, 0, stream>>>(a);
    else
      host_proxy_kernel<kStamps, Fence::kNone><<<c.warps, 32, 0, stream>>>(a);
  } else if (c.fence_wqe == Fence::kSys) {
    host_gdaki_kernel<kStamps, Fence::kSys, Fence::kSys><<<c.warps, 32, 0, stream>>>(a);
  } else if (c.fence_db == Fence::kSys) {
    host_gdaki_kernel<kStamps, Fence::kGpu, Fence::kSys><<<c.warps, 32, 0, stream>>>(a);
  } else {
    host_gdaki_kernel<kStamps, Fence::kGpu, Fence::kGpu><<<c.warps, 32, 0, stream>>>(a);
  }
  MARROW_LAUNCHED("host puts kernel");
}

}  // namespace

void Runner::launch(const Configuration& c, bool stamps, DeviceArray<Record>& records,
                    DeviceArray<Consumed>& consumed) {
  u64* doorbell = doorbells();
  if (c.doorbell_in_host) doorbell = reinterpret_cast<u64*>(host_.device() + kDoorbellsAt);
  if (c.consumer == Consumer::kPeer) doorbell = reinterpret_cast<u64*>(peer_->memory.get());
  const PutsArguments puts{queues(),
                           rings(),
                           doorbell,
                           static_cast<int>(c.queues),
                           static_cast<int>(c.warps),
                           static_cast<int>(c.puts),
                           static_cast<int>(c.batch),
                           static_cast<int>(c.wait_every),
                           static_cast<int>(c.gap_cycles),
                           c.bytes,
                           records.get(),
                           spans_.get(),
                           gave_up_.get(),
                           sink_.get()};
  // Puts that follow each other take tens of looks each; the gaps are the producer's.
  const u64 more_looks = 64 * c.total() / c.queues + c.puts * u64{c.gap_cycles} / 300;
  const ConsumerArguments consumer{
      queues(),
      rings(),
      doorbell,
      static_cast<int>(c.queues),
      c.total(),
      (c.doorbell_in_host ? kLooksAcrossPcie : kLooksNear) / c.queues + more_looks,
      c.bytes,
      gpu_.get() + kPayloadAt,
      c.consumer == Consumer::kPeer ? peer_->memory.get() + kPayloadAt : nullptr,
      consumed.get(),
      consumer_sm_.get()};
  if (c.consumer == Consumer::kPeer) {
    const OnDevice there(peer_->device);
    peer_consumer_kernel<<<1, 32, 0, peer_->stream>>>(consumer);
    MARROW_LAUNCHED("peer_consumer_kernel");
  }
  if (stamps)
    launch_variant<true>(c, puts, consumer, stream_);
  else
    launch_variant<false>(c, puts, consumer, stream_);
  stream_.wait();
  if (c.consumer == Consumer::kPeer) peer_->stream.wait();
}

void Runner::launch_host(const Configuration& c, bool stamps, DeviceArray<Record>& records) {
  const HostPutsArguments a{reinterpret_cast<HostQueue*>(host_.device() + kHostQueuesAt),
                            counters(),
                            reinterpret_cast<Entry*>(host_.device() + kRingsAt),
                            static_cast<int>(c.queues),
                            static_cast<int>(c.puts),
                            static_cast<int>(c.batch),
                            static_cast<int>(c.wait_every),
                            static_cast<int>(c.gap_cycles),
                            c.bytes,
                            records.get(),
                            spans_.get(),
                            gave_up_.get()};
  if (stamps)
    launch_host_variant<true>(c, a, stream_);
  else
    launch_host_variant<false>(c, a, stream_);
}

Outcome Runner::run_host(const Configuration& c, bool stamps, DeviceArray<Record>& records) {
  Outcome outcome;
  const ClockOffset begin = align_clocks();
  clear(c);
  HostConsumer consumer({reinterpret_cast<HostQueue*>(host_.host() + kHostQueuesAt),
                         reinterpret_cast<const Entry*>(host_.host() + kRingsAt), c.queues,
                         c.total() / c.queues, c.bytes, c.protocol == Protocol::kHostProxy,
                         kHostLimitNs});
  {
    ConsumerThread thread(consumer);
    launch_host(c, stamps, records);
    stream_.wait();
    thread.finish();
  }
  throw_if_gave_up(c);
  if (!stamps) return outcome;
  const ClockMap clocks(begin, align_clocks());
  outcome.consumer_clock_bound_ns = clocks.bound_ns();
  outcome.records = records.values();
  const std::uint64_t epoch = epoch_ns(outcome.records);
  const double tick_ns = ns_per_tick();
  for (std::uint32_t q = 0; q < c.queues; ++q) {
    auto& of_queue = outcome.consumed.emplace_back();
    for (const HostConsumer::Times& t : consumer.times(q)) {
      const double seen = static_cast<double>(t.seen) * tick_ns;
      of_queue.push_back({clocks.gpu_ns_after(seen, epoch),
                          static_cast<double>(t.read - t.seen) * tick_ns,
                          static_cast<double>(t.done - t.read) * tick_ns});
    }
  }
  return outcome;
}

Outcome Runner::run(const Configuration& c, bool stamps) {
  DeviceArray<Record> records(stamps ? c.total() : 1);
  Outcome outcome;
  if (c.consumer == Consumer::kHost) {
    outcome = run_host(c, stamps, records);
  } else {
    clear(c);
    std::unique_ptr<DeviceArray<Consumed>> consumed;
    {
      const OnDevice there(c.consumer == Consumer::kPeer ? peer_->device : device_);
      consumed = std::make_unique<DeviceArray<Consumed>>(c.total());
    }
    launch(c, stamps, records, *consumed);
    throw_if_gave_up(c);
    if (stamps) {
      outcome.records = records.values();
      if (c.consumer == Consumer::kDevice) outcome.consumer_sm = consumer_sm_.values()[0];
      const std::uint64_t epoch = epoch_ns(outcome.records);
      // The peer's globaltimer is not this one's: tell what it says, as the older captures do.
      const auto all = consumed->values();
      const std::size_t per_queue = c.total() / c.queues;
      const OnDevice there(c.consumer == Consumer::kPeer ? peer_->device : device_);
      const double ns_per_cycle = 1 / clock_ghz(500'000);
      for (std::uint32_t q = 0; q < c.queues; ++q) {
        auto& of_queue = outcome.consumed.emplace_back();
        for (std::size_t i = 0; i < per_queue; ++i) {
          const Consumed& k = all[q * per_queue + i];
          of_queue.push_back({static_cast<double>(static_cast<std::int64_t>(k.seen_ns - epoch)),
                              k.read_cycles * ns_per_cycle, k.done_cycles * ns_per_cycle});
        }
      }
    }
  }
  outcome.cycles_per_put = cycles_per_put(c);
  return outcome;
}

void Runner::find_sides() {
  gpu_.clear();
  lines_.clear();
  const auto word = [](void* at) { return reinterpret_cast<std::uint64_t*>(at); };
  for (std::uint32_t q = 0; q < kMaxQueues; ++q) {
    DeviceQueue& queue = queues()[q];
    const std::pair<const char*, void*> words[] = {
        {"resv", &queue.resv}, {"ready", &queue.ready}, {"prod", &queue.prod},
        {"lock", &queue.lock}, {"dbrec", &queue.dbrec}, {"cqe", &queue.cqe[14]},
        {"rr", &queue.rr},     {"keys", &queue.keys},   {"doorbell", doorbells() + 16 * q}};
    for (const auto& [name, at] : words) lines_.push_back({name, q, 0, word(at), false});
    for (std::uint32_t first = 0; first < kDepth; first += kPageEntries)
      lines_.push_back({"entry", q, first,
                        word(rings() + (std::size_t{q} * kDepth + first) * kEntryBytes), false});
    for (const char* name : {"resv", "ready", "prod", "lock"})
      lines_.push_back({name, q, 0, word(counters() + q), true});
  }
  std::vector<std::uint64_t*> targets;
  for (const Line& line : lines_) targets.push_back(line.at);
  DeviceArray<std::uint64_t*> list(targets.size());
  list.fill_from(targets);
  DeviceArray<std::uint32_t> cycles(targets.size());
  OneSm one(sms_);
  std::vector<double> near, far;
  constexpr int kRounds = 3;
  for (int sm = 0; sm < sms_; ++sm) {
    std::vector<std::vector<std::uint32_t>> rounds;
    for (int round = 0; round < kRounds; ++round) {
      one.run(sm, TouchWords<Touch::kCas, ListedWords>{
                      {list.get()}, static_cast<int>(targets.size()), 3, cycles.get()});
      rounds.push_back(cycles.values());
    }
    std::vector<double> medians;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      std::uint32_t of_line[kRounds];
      for (int round = 0; round < kRounds; ++round) of_line[round] = rounds[round][i];
      std::sort(of_line, of_line + kRounds);
      medians.push_back(of_line[kRounds / 2]);
    }
    const Sides sides = split_sides(medians);
    two_sides_ = two_sides_ || sides.two;
    for (std::size_t i = 0; i < medians.size(); ++i)
      (sides.far[i] ? far : near).push_back(medians[i]);
    cycles_.emplace_back(medians.begin(), medians.end());
    far_.push_back(sides.far);
  }
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
  };
  near_cycles_ = mean(near);
  far_cycles_ = mean(far);
}

std::vector<PlacedWord> Runner::words(const Configuration& c, const std::vector<Record>& records,
                                      std::optional<std::uint32_t> consumer_sm) const {
  const std::uint64_t entries = std::min<std::uint64_t>(c.total() / c.queues, kDepth);
  std::vector<PlacedWord> words;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    if (line.queue >= c.queues || line.on_host_path != c.on_host()) continue;
    if (line.first_entry >= entries) continue;
    const std::string name = line.word;
    if (name == "doorbell" && (c.consumer != Consumer::kDevice || c.doorbell_in_host)) continue;
    if (name == "rr" && c.protocol != Protocol::kIbgda) continue;
    PlacedWord word{
        name, line.queue, line.first_entry, reinterpret_cast<std::uint64_t>(line.at), {}};
    for (std::uint32_t warp = line.queue; warp < c.warps; warp += c.queues) {
      const std::uint32_t sm = records[std::size_t{warp} * c.puts].sm;
      word.seen.push_back({warp, cycles_.at(sm).at(i), far_.at(sm).at(i)});
    }
    if (consumer_sm)
      word.from_consumer = {0, cycles_.at(*consumer_sm).at(i), far_.at(*consumer_sm).at(i)};
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace marrow::capture
