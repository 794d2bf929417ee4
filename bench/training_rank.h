// One rank of the training benchmark: the convolutional network of examples/mnist on generated
// digits in memory, as Troupe trains it and as a loop written by hand does.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bench/rank_processes.h"

namespace troupe::bench {

inline constexpr int kGlobalBatch = 64;

struct TrainingPlan {
  int rounds = 0;
  int steps = 0;  // of one way to train, in one round
};

/// Trains a few steps both ways from the same weights and compares (where there is Gloo); then
/// measures in rounds, every way once in each. An object of "seconds" of one step per round, those
/// of the slowest rank:
///   "troupe"            all ranks: the multi-worker strategy
///   "gloo"              all ranks: by hand, gradients summed by Gloo; only where there is Gloo
///   "alone"             rank 0, others wait: by hand, a rank's share of the global batch
///   "one_device"        rank 0, others wait: the one-device strategy, the global batch
///   "one_device_bare"   rank 0, others wait: by hand, the global batch
/// Collective: yes.  Throws: InternalError when the two ways disagree; NetError.
[[nodiscard]] nlohmann::ordered_json measure_training(const RankPlace& place,
                                                      const TrainingPlan& plan);

}  // namespace troupe::bench
