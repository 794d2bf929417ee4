// examples/regression/generated_births.h -- births that never happened: what the example trains on
// when it is given no files. Rules of thumb with noise; they describe nobody and prove nothing.
//
// Bit-identical on every machine: integers only, up to the last division by 1000.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/regression/births.h"

namespace births {

inline constexpr std::int64_t kEvalRows = 4000;

/// `count` births; fewer give a prefix of more. Another seed gives others.
[[nodiscard]] std::vector<Birth> generate(std::int64_t count, std::uint64_t seed);

}  // namespace births
