// Suggestion: the known name that a mistyped one most likely means.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe {

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`
/// (optimal string alignment).
[[nodiscard]] std::size_t edit_distance(const std::string& a, const std::string& b);

/// The nearest of `known`, or "" where none is near: more than a third of the letters differ.
[[nodiscard]] std::string nearest_name(const std::string& name,
                                       const std::vector<std::string>& known);

}  // namespace troupe
