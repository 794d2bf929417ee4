// The built-in flags about the learning rate's schedule and averaged weights.
#pragma once

#include <vector>

#include "cli/flags.h"
#include "options/train_options.h"

namespace troupe::detail {

/// Appends the flags, in the order of --help. `train` must outlive them.
void add_learning_flags(std::vector<Flag>& flags, TrainOptions& train);

/// The names of those flags: all workers must be told the same.
[[nodiscard]] const std::vector<const char*>& learning_flag_names();

}  // namespace troupe::detail
