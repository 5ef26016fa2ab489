// Lists of a state, kept in one order for one content.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "models/common/error.h"

namespace marrow::order {

enum ItemKind : std::uint8_t { kSet, kAdd, kCompletion };

constexpr std::int8_t kDevice = -1;  ///< who wrote: no lane

[[noreturn]] inline void too_large(const char* what, std::size_t most) {
  throw InputError(what, fmt::format("more than {} at once", most),
                   "make the program smaller: fewer operations, threads or queues");
}

/// Inserts at the end of those with the same key: one order for one set of lists.
template <class List, class Key>
void insert_sorted(List& list, std::uint8_t& count, const typename List::value_type& item, Key key,
                   const char* what) {
  if (count == list.size()) too_large(what, list.size());
  std::size_t at = count;
  while (at > 0 && key(list[at - 1]) > key(item)) {
    list[at] = list[at - 1];
    --at;
  }
  list[at] = item;
  ++count;
}

template <class List>
void erase(List& list, std::uint8_t& count, std::size_t at) {
  for (std::size_t i = at; i + 1 < count; ++i) list[i] = list[i + 1];
  list[--count] = {};
}

}  // namespace marrow::order
