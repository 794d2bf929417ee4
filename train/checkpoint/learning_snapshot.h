// What a checkpoint holds of learning rates and averaged weights; part of run_snapshot.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/checkpoint/run_snapshot.h"

namespace troupe::detail {

inline constexpr char kAveragesFile[] = "averages.safetensors";

/// Adds the plateau, the averages and their file, and where a schedule moves the rates, puts those
/// of create_model in place of the moved ones in `facts`, which describes the optimisers already.
void capture_learning(const TrainState& state, nlohmann::ordered_json& facts,
                      RunSnapshot& snapshot);

/// Before the optimisers are restored: where a schedule moves the rates, those of create_model take
/// the place of the saved ones in `facts`, with a line in the chief's log where they differ.
void keep_base_rates(const Strategy& strategy, const TrainState& state,
                     nlohmann::ordered_json& facts);

/// After the weights are restored: the plateau, and the averages where `state` keeps some. The
/// chief's log says where they begin anew, go on with another decay, or are dropped. Throws:
/// CheckpointError where they do not fit the model.
void restore_learning(const Strategy& strategy, TrainState& state,
                      const nlohmann::ordered_json& facts, const RunSnapshot& snapshot);

}  // namespace troupe::detail
