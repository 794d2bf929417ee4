// TrainState: everything that changes during training, held by the framework and never by hooks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/data/loader.h"
#include "troupe/hooks/losses.h"
#include "troupe/hooks/replica.h"
#include "troupe/strategies/plateau_state.h"

namespace troupe {

namespace detail {

/// Averages of the parameters over the steps; train/schedule/averaged_weights.h updates
/// them.
struct WeightAverages {
  double decay = 0;
  std::int64_t updates = 0;          // steps since the averages began
  std::vector<NamedTensor> values;   // on the first replica's device; equal on every worker
  std::vector<NamedTensor> weights;  // the first replica's parameters, whose averages they are
};

}  // namespace detail

struct TrainState {
  std::vector<std::unique_ptr<Replica>> replicas;  // of this worker; at least one
  std::function<void(Replica&)> after_step;        // the hooks'; empty: nothing
  int optimizer_shards = 1;      // optimisers' state in parts, by replica of all workers; 1: whole
  std::int64_t step = 0;         // optimiser updates so far
  DataPosition position;         // the next step to read
  detail::LossMeter epoch_loss;  // of the epoch's steps so far
  std::string ended;             // why Pace::next_step gave no further step
  // The learning rates of create_model by optimiser and parameter group, if a schedule changes
  // them: the optimisers then have those of the present step. Empty: no schedule.
  std::vector<std::vector<double>> base_rates;
  /// The options of each optimiser as create_model made them, JSON, by name; empty: no checkpoint
  /// is kept, so nobody asks.
  std::map<std::string, std::string> made_options;
  detail::PlateauState plateau;
  std::map<std::string, double> kept;  // numbers of the user's loop; any value, names in UTF-8
  std::optional<detail::WeightAverages> averages;  // unset: none are kept
};

}  // namespace troupe
