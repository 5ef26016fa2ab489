// A real mlx5 NIC in loopback: queue pairs made by DevX, each connected to itself, whose rings,
// completion queues and doorbell records lie in memory that the caller gives (a GPU's). The layouts
// of the commands are those of the Programmer's Reference Manual as rdma-core states them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace marrow::capture {

/// Memory for queues and payload. dmabuf: a file descriptor that exports it, or -1 where the kernel
/// can pin the address itself (nvidia-peermem).
struct NicMemory {
  void* address;
  std::size_t bytes;
  int dmabuf;
};

/// Where a queue pair's parts lie in the memory, in bytes from its begin. Rings and completion
/// queues are of kDepth entries and begin at a page.
struct NicQueuePlace {
  std::size_t ring, cq, dbrec, cq_dbrec;
};

class Mlx5Device {
 public:
  /// Opens the device of that name, or the first one with an active port. The completion queues'
  /// memory must be filled with 0xff, the rest with 0. Throws InputError: why there is none.
  Mlx5Device(const std::string& name, const NicMemory& memory,
             const std::vector<NicQueuePlace>& places);
  ~Mlx5Device();
  Mlx5Device(const Mlx5Device&) = delete;
  Mlx5Device& operator=(const Mlx5Device&) = delete;

  std::uint32_t qpn(std::size_t queue) const;
  std::uint32_t lkey() const;
  std::uint32_t rkey() const;
  /// The page that holds the doorbell register, and the register in it.
  void* uar_page() const;
  std::size_t uar_offset() const;
  /// For a person: model and link, no serial numbers or addresses.
  std::string about() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace marrow::capture
