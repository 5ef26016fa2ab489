// The bytes of one memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "models/common/time.h"

namespace marrow {

/// Real bytes at offsets from the memory's start. Little endian.
class Memory {
 public:
  void resize(std::uint64_t bytes) { bytes_.assign(bytes, 0); }
  std::uint64_t size() const { return bytes_.size(); }

  std::uint64_t load(std::uint64_t offset, std::uint32_t bytes) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + offset, bytes < 8 ? bytes : 8);
    return value;
  }
  void store(std::uint64_t offset, std::uint64_t value, std::uint32_t bytes) {
    std::memcpy(bytes_.data() + offset, &value, bytes < 8 ? bytes : 8);
  }
  std::uint8_t* data(std::uint64_t offset) { return bytes_.data() + offset; }

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace marrow
