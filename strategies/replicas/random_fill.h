// Random numbers that depend on what is computed and not on where: LibTorch's generators are filled
// before each virtual replica's step.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <initializer_list>

namespace troupe::detail {

/// Fills the whole state of the CPU's default generator, and of `device`'s where it is another,
/// with numbers that depend on `key` alone: every one of its numbers matters, and its order.
/// Source: Steele, Lea and Flood 2014 (SplitMix64); Matsumoto and Nishimura 1998 (MT19937, whose
/// state LibTorch's seeds fill from 32 bits).
void fill_generators(c10::Device device, std::initializer_list<std::uint64_t> key);

}  // namespace troupe::detail
