// One program run: which put, from where, into which queues, consumed by whom.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace marrow::capture {

enum class Protocol { kIbgda, kGdaki, kHostGdaki, kHostProxy };
enum class Consumer { kDevice, kPeer, kHost, kNic };
enum class Fence { kNone, kGpu, kSys };

struct Configuration {
  Protocol protocol = Protocol::kIbgda;
  Consumer consumer = Consumer::kDevice;
  bool doorbell_in_host = false;  ///< device consumer: it polls across PCIe
  std::uint32_t store_bytes = 0;  ///< width of an entry's stores, queues in GPU memory; 0: own
  Fence fence_wqe = Fence::kGpu;  ///< behind the entry's stores
  Fence fence_db = Fence::kGpu;   ///< before the doorbell, queues in host memory
  std::uint32_t warps = 1;        ///< one block each, one lane puts
  std::uint32_t queues = 1;       ///< warp w uses queue w mod queues
  std::uint32_t puts = 1000;      ///< of each warp
  std::uint32_t batch = 1;        ///< a warp rings after so many of its puts
  std::uint32_t wait_every = 1;   ///< and waits after so many; 0: at the end only
  std::uint64_t bytes = 0;        ///< payload that the consumer moves
  std::uint32_t gap_cycles = 0;   ///< idle between puts

  std::uint64_t total() const { return std::uint64_t{warps} * puts; }
  bool on_host() const {
    return protocol == Protocol::kHostGdaki || protocol == Protocol::kHostProxy;
  }
};

const char* name(Protocol protocol);  ///< "capture-ibgda", also the name of its recipe
const char* name(Consumer consumer);
const char* name(Fence fence);

/// The recipe whose steps are run. A real NIC gets mlx5 entries, and the recipes that end at a NIC
/// have other names: "nvshmem-ibgda".
const char* recipe(const Configuration& configuration);
/// What of the recipe's choices is not as it is by default, and those that a reader looks for.
std::map<std::string, std::string> choices(const Configuration& configuration);

/// For a person: "capture-ibgda device gpu-doorbell warps 8 queues 1".
std::string description(const Configuration& configuration);

/// Why the program cannot run it, or nothing: throws InputError naming the option and the mend.
void check(const Configuration& configuration);

/// What is run where nothing else is asked for: the configurations of the older captures.
std::vector<Configuration> default_set();

}  // namespace marrow::capture
