// Puts into a real mlx5 NIC.
#pragma once

#include <memory>
#include <string>

#include "tools/capture/host/capture_file.h"

namespace marrow::capture {

class NicRunner {
 public:
  /// name: of the mlx5 device; empty: the first that can be used. Throws InputError: why there is
  /// none.
  NicRunner(int device, const std::string& name);
  ~NicRunner();

  /// Without clocks and places, which the caller knows. Throws StuckError if a completion did not
  /// come within its limit, or came with an error.
  Run captured(const Configuration& configuration);
  std::string about() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace marrow::capture
