// OneProcess: the strategies of one process, however many replicas it has. No communication.
//
// one-device: one replica, whose gradients are the step's already.
// mirrored: several replicas, parameters equal on all, gradients summed in memory.
// central-storage: several replicas that train one copy of the variables. Gradients are summed as
// mirrored does; then one optimiser, the first replica's, takes one step for all. The variables are
// on the first replica's device. Replicas on that device read and train the very same memory;
// replicas elsewhere have parameters of their own, which get the new values after every step. The
// optimiser's state exists once. Buffers stay each replica's own.
#pragma once

#include <memory>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

// Of options that StrategyOptions::validate() takes: one worker, and with one-device one replica.
// Each throws ConfigError for unknown devices, EnvironmentError for devices that are not there.

[[nodiscard]] std::unique_ptr<Strategy> make_one_device(const StrategyOptions& options);
[[nodiscard]] std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options);
[[nodiscard]] std::unique_ptr<Strategy> make_central_storage(const StrategyOptions& options);

}  // namespace troupe
