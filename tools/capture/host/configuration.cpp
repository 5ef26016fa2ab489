#include "tools/capture/host/configuration.h"

#include "models/common/error.h"
#include "tools/capture/host/layout.h"

namespace marrow::capture {

const char* name(Protocol protocol) {
  switch (protocol) {
    case Protocol::kIbgda:
      return "capture-ibgda";
    case Protocol::kGdaki:
      return "capture-gdaki";
    case Protocol::kHostGdaki:
      return "capture-host-gdaki";
    case Protocol::kHostProxy:
      break;
  }
  return "capture-host-proxy";
}

const char* name(Consumer consumer) {
  switch (consumer) {
    case Consumer::kDevice:
      return "device";
    case Consumer::kPeer:
      return "peer";
    case Consumer::kHost:
      return "host";
    case Consumer::kNic:
      break;
  }
  return "nic";
}

const char* name(Fence fence) {
  return fence == Fence::kNone ? "none" : fence == Fence::kGpu ? "gpu" : "sys";
}

const char* recipe(const Configuration& c) {
  if (c.consumer != Consumer::kNic) return name(c.protocol);
  return c.protocol == Protocol::kIbgda ? "nvshmem-ibgda" : "gdaki";
}

std::map<std::string, std::string> choices(const Configuration& c) {
  std::map<std::string, std::string> choices;
  if (c.consumer == Consumer::kNic) {
    if (c.protocol == Protocol::kGdaki) choices["batch"] = std::to_string(c.batch);
    return choices;
  }
  choices["program"] = "marrow-capture";
  choices["batch"] = std::to_string(c.batch);
  if (c.on_host()) {
    choices["fence_wqe"] = name(c.fence_wqe);
    choices["fence_db"] = name(c.fence_db);
    return choices;
  }
  choices["doorbell_in"] = c.consumer == Consumer::kPeer ? "peer"
                           : c.doorbell_in_host          ? "host"
                                                         : "gpu";
  if (c.store_bytes != 0) choices["store_bytes"] = std::to_string(c.store_bytes);
  if (c.fence_wqe != Fence::kGpu) choices["fence_wqe"] = name(c.fence_wqe);
  return choices;
}

std::string description(const Configuration& c) {
  std::string text = name(c.protocol);
  text += std::string(", ") + name(c.consumer) + " consumer";
  const auto add = [&](const char* what, std::uint64_t value) {
    text += std::string(", ") + what + ' ' + std::to_string(value);
  };
  if (c.doorbell_in_host) text += ", doorbell in host memory";
  add("warps", c.warps);
  add("queues", c.queues);
  if (c.batch != 1) add("batch", c.batch);
  if (c.wait_every == 0)
    text += ", waits at the end";
  else if (c.wait_every != 1)
    add("waits every", c.wait_every);
  if (c.bytes) add("bytes", c.bytes);
  if (c.gap_cycles) add("gap", c.gap_cycles);
  if (c.store_bytes) add("store bytes", c.store_bytes);
  if (c.on_host())
    text += std::string(", fences ") + name(c.fence_wqe) + '/' + name(c.fence_db);
  else if (c.fence_wqe != Fence::kGpu)
    text += std::string(", fence ") + name(c.fence_wqe);
  return text;
}

void check(const Configuration& c) {
  const auto range = [](const char* option, std::uint64_t value, std::uint64_t least,
                        std::uint64_t most) {
    if (value < least || value > most)
      throw InputError(option, std::to_string(value) + " is out of range",
                       "write " + std::to_string(least) + " to " + std::to_string(most));
  };
  range("--warps", c.warps, 1, kMaxWarps);
  range("--queues", c.queues, 1, kMaxQueues);
  range("--puts", c.puts, 1, 100'000);
  range("--batch", c.batch, 1, kDepth);
  range("--wait", c.wait_every, 0, 100'000);
  range("--bytes", c.bytes, 0, 1u << 20);
  range("--gap", c.gap_cycles, 0, 10'000'000);
  if (c.total() > 1'000'000)
    throw InputError("--puts", std::to_string(c.total()) + " puts of all warps together",
                     "at most 1000000");
  if (c.warps % c.queues != 0)
    throw InputError("--queues",
                     std::to_string(c.warps) + " warps cannot share " + std::to_string(c.queues) +
                         " queues evenly",
                     "write a divisor of --warps");
  // A warp that rings late and waits for nothing would wait for a slot that nobody will free.
  if (c.batch > 1 && std::uint64_t{c.batch} * (c.warps / c.queues) > kDepth)
    throw InputError("--batch", "unrung entries of all warps would fill the queue's ring",
                     "write at most " + std::to_string(kDepth / (c.warps / c.queues)));
  if (c.wait_every > 0 && c.batch > 1 && c.wait_every % c.batch != 0)
    throw InputError("--wait", "a warp would wait for puts that it has not announced",
                     "write a multiple of --batch");
  const bool host = c.consumer == Consumer::kHost;
  if (c.on_host() != host)
    throw InputError("--consumer",
                     std::string(name(c.protocol)) + " has its queues in " +
                         (c.on_host() ? "host" : "GPU") + " memory",
                     c.on_host() ? "use --consumer host" : "use --consumer device, peer or nic");
  if (c.doorbell_in_host && c.consumer != Consumer::kDevice)
    throw InputError("--doorbell", "only a device consumer has a choice there",
                     "leave it out, or use --consumer device");
  if (c.bytes && c.consumer == Consumer::kDevice)
    throw InputError("--bytes", "the device consumer moves no payload",
                     "use --consumer host, peer or nic");
  if (c.protocol == Protocol::kIbgda && c.batch != 1)
    throw InputError("--batch", "capture-ibgda decides itself when to ring (each newest put)",
                     "use capture-gdaki or capture-host-gdaki");
  if (c.protocol == Protocol::kHostProxy && c.batch != 1)
    throw InputError("--batch", "capture-host-proxy has no doorbell", "leave it out");
  if (c.store_bytes != 0 &&
      (c.on_host() || (c.store_bytes != 4 && c.store_bytes != 8 && c.store_bytes != 16)))
    throw InputError("--store-bytes", "cannot be chosen so",
                     "write 4, 8 or 16, for a protocol with its queues in GPU memory");
  if (!c.on_host() && c.fence_wqe == Fence::kNone)
    throw InputError("--fence", std::string(name(c.protocol)) + " always fences",
                     "write gpu or sys");
  if (!c.on_host() && c.store_bytes != 0 && c.fence_wqe != Fence::kGpu)
    throw InputError("--store-bytes", "was not built together with --fence sys",
                     "choose one of the two");
  if (c.protocol == Protocol::kHostGdaki &&
      (c.fence_wqe == Fence::kNone || c.fence_db == Fence::kNone ||
       (c.fence_wqe == Fence::kSys && c.fence_db == Fence::kGpu)))
    throw InputError("--fence", "this pair of fences was not built",
                     "write sys/sys, gpu/sys or gpu/gpu");
  if (c.protocol == Protocol::kHostProxy && c.fence_wqe == Fence::kGpu)
    throw InputError("--fence", "was not built for the proxy", "write none or sys");
}

std::vector<Configuration> default_set() {
  std::vector<Configuration> set;
  const auto few = [](std::uint32_t warps) { return warps > 8 ? 200u : 500u; };
  const auto queues_in_gpu = [&](Configuration c) {
    c.puts = 1000;
    c.gap_cycles = 20000;
    set.push_back(c);
    c.gap_cycles = 0;
    c.wait_every = 16;
    set.push_back(c);
    c.wait_every = 1;
    for (const std::uint32_t warps : {2u, 4u, 8u, 16u, 32u})
      for (const std::uint32_t queues : {1u, warps}) {
        Configuration many = c;
        many.warps = warps;
        many.queues = queues;
        many.puts = few(warps);
        set.push_back(many);
      }
    c.wait_every = 16;
    if (c.protocol == Protocol::kGdaki)
      for (const std::uint32_t batch : {4u, 16u}) {
        Configuration late = c;
        late.batch = batch;
        set.push_back(late);
      }
  };
  for (const Protocol protocol : {Protocol::kIbgda, Protocol::kGdaki})
    for (const bool in_host : {false, true}) {
      Configuration c;
      c.protocol = protocol;
      c.doorbell_in_host = in_host;
      queues_in_gpu(c);
      c.wait_every = 16;
      c.puts = 200;
      for (const std::uint32_t warps : {8u, 32u}) {
        c.warps = warps;
        set.push_back(c);
      }
    }

  for (const Protocol protocol : {Protocol::kHostGdaki, Protocol::kHostProxy}) {
    Configuration c;
    c.protocol = protocol;
    c.consumer = Consumer::kHost;
    const bool gdaki = protocol == Protocol::kHostGdaki;
    c.fence_wqe = gdaki ? Fence::kSys : Fence::kNone;
    c.fence_db = gdaki ? Fence::kSys : Fence::kNone;
    c.puts = 2000;
    for (const std::uint32_t wait : {1u, 16u, 0u}) {
      Configuration waits = c;
      waits.wait_every = wait;
      waits.gap_cycles = wait == 1 ? 20000 : 0;
      set.push_back(waits);
    }
    Configuration fenced = c;
    fenced.gap_cycles = 20000;
    fenced.fence_wqe = gdaki ? Fence::kGpu : Fence::kSys;
    set.push_back(fenced);
    if (gdaki) {
      fenced.fence_db = Fence::kGpu;
      set.push_back(fenced);
      for (const std::uint32_t batch : {2u, 4u, 8u, 16u}) {
        Configuration late = c;
        late.batch = batch;
        late.wait_every = 16;
        set.push_back(late);
      }
    }
    for (const std::uint32_t warps : {2u, 4u, 8u, 16u, 32u})
      for (const std::uint32_t queues : {1u, warps}) {
        Configuration many = c;
        many.warps = warps;
        many.queues = queues;
        many.puts = warps > 4 ? 250 : 1000;
        set.push_back(many);
      }
    for (const std::uint64_t bytes : {256u, 1024u, 4096u, 16384u, 65536u, 262144u}) {
      if (!gdaki && (bytes == 1024 || bytes == 16384)) continue;
      Configuration loaded = c;
      loaded.puts = 1000;
      loaded.bytes = bytes;
      loaded.gap_cycles = 20000;
      set.push_back(loaded);
    }
  }

  for (const Protocol protocol : {Protocol::kIbgda, Protocol::kGdaki}) {
    Configuration c;
    c.protocol = protocol;
    c.consumer = Consumer::kPeer;
    queues_in_gpu(c);
    c.puts = 500;
    c.gap_cycles = 20000;
    for (const std::uint64_t bytes : {64u, 512u, 4096u, 65536u}) {
      c.bytes = bytes;
      set.push_back(c);
    }
  }
  return set;
}

}  // namespace marrow::capture
