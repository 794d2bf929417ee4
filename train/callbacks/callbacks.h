// Callbacks: what happens around the steps of a training, beside what the options ask for.
#pragma once

#include "train/callbacks/periodic_action.h"
#include "train/checkpoint/saving_listener.h"
#include "train/learning/schedule.h"

namespace troupe {

struct Callbacks {
  /// Where the validation data is looked at: by the training loop (TrainingRun::validate), or by
  /// listeners that evaluate checkpoints, as under train_and_evaluate. A plateau schedule looks at
  /// it after every epoch all the same.
  enum class Validation { every_epoch, at_checkpoints };

  Actions actions;            // on every worker the same list
  SavingListeners listeners;  // told on the chief only
  /// Of the learning rate, instead of options.schedule; the same on every worker. Null: none.
  RateFactor rate_factor = nullptr;
  Validation validation = Validation::every_epoch;
};

/// The name of former releases; gone with the next one.
using Companions = Callbacks;

}  // namespace troupe
