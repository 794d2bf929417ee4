// Averages of weights over the steps, which evaluate better than the latest ones: after every step
//   average = d average + (1 - d) weight,  d = min(decay, (1 + n) / (10 + n)),
// n the number of updates so far. With the rising d the initial weights soon fade; TensorFlow's
// ExponentialMovingAverage does the same with num_updates.
// Source: Polyak & Juditsky 1992, "Acceleration of stochastic approximation by averaging".
//
// Every floating point parameter that requires a gradient when the averages begin is averaged, in
// its own type. Each worker keeps one copy, on its first replica's device; workers have the same
// weights, so they have the same averages without a message. Frozen parameters and buffers are not
// averaged: an evaluation uses them as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/strategies/train_state.h"

namespace troupe {

/// d of the update that follows `updates` others.
[[nodiscard]] double averaging_decay(double decay, std::int64_t updates);

/// Keeps averages with that decay from now on: the existing ones, or new ones that begin at the
/// present weights. 0: none; existing ones are dropped.
/// Throws: ConfigError unless 0 <= decay < 1.
void keep_averages(TrainState& state, double decay);
/// Call after a step, if averages are kept.
void update_averages(TrainState& state);

/// While it lives, the replicas hold the averages instead of their own weights; if none are kept,
/// it does nothing. No step may be taken meanwhile.
class AveragesInUse {
 public:
  /// All replicas of `state`, which outlives this.
  explicit AveragesInUse(TrainState& state);
  ~AveragesInUse();
  AveragesInUse(const AveragesInUse&) = delete;
  AveragesInUse& operator=(const AveragesInUse&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> own_;  // a parameter, and what it was
};

}  // namespace troupe
