// LibTorch's generators, filled with numbers that depend on what is computed: before each virtual
// replica's step, and for other replicas when training begins.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <initializer_list>

#include "troupe/strategies/train_state.h"

namespace troupe::detail {

/// Fills the whole state of the CPU's default generator, and of `device`'s where it is another,
/// with numbers that depend on `key` alone: every one of its numbers matters, and its order.
/// Source: Steele, Lea and Flood 2014 (SplitMix64); Matsumoto and Nishimura 1998 (MT19937, whose
/// state LibTorch's seeds fill from 32 bits).
void fill_generators(c10::Device device, std::initializer_list<std::uint64_t> key);

/// Starts the generators of this worker's replicas, for what their steps draw: by seed, step and
/// the first replica that a device has. So no two workers, and no two seeds of a study, draw alike.
void start_random_streams(const TrainState& state, std::uint64_t seed);

}  // namespace troupe::detail
