// TrainState: all that changes while training, held by the framework and never by hooks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/loader.h"
#include "hooks/loss_meter.h"
#include "hooks/replica.h"

namespace troupe {

struct TrainState {
  std::vector<std::unique_ptr<Replica>> replicas;  // of this worker; at least one
  std::int64_t step = 0;                           // optimiser updates so far
  DataPosition position;                           // the next step to read
  LossMeter epoch_loss;                            // of the epoch's steps so far
  std::string ended;                               // why Strategy::begin_step gave no further step
};

}  // namespace troupe
