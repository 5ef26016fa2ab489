// Small helps for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace marrow::trace {

/// The candidate most like `word` (edit distance), or empty if none is near.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

/// "a, b, c"
std::string listed(std::span<const std::string_view> words);

/// "did you mean 'x'? " (or nothing if none is near) and "known: a, b, c".
std::string choose_from(std::string_view word, std::span<const std::string_view> candidates);

/// What a person can read of a piece of a file: cut to 40 characters, others than printable ASCII
/// shown as '?'.
std::string shown(std::string_view text);

}  // namespace marrow::trace
