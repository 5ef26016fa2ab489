// A cache of finite size for connection contexts or address translations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

namespace marrow::nic {

/// Least recently used goes first. O(1) a look.
class ContextCache {
 public:
  explicit ContextCache(std::size_t entries) : entries_(entries) {}
  void clear() {
    order_.clear();
    places_.clear();
    hits_ = misses_ = 0;
  }
  void clear_counters() { hits_ = misses_ = 0; }

  /// Was it there? It is from now on.
  bool look(std::uint64_t key) {
    if (const auto it = places_.find(key); it != places_.end()) {
      if (it->second != order_.begin()) order_.splice(order_.begin(), order_, it->second);
      ++hits_;
      return true;
    }
    ++misses_;
    if (places_.size() >= entries_ && !order_.empty()) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(key);
    places_[key] = order_.begin();
    return false;
  }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

 private:
  const std::size_t entries_;
  std::list<std::uint64_t> order_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace marrow::nic
