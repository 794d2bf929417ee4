// The built-in flags about evaluation, exports, early stopping, and the use of a trained model.
#pragma once

#include <vector>

#include "cli/flags.h"
#include "options/train_options.h"

namespace troupe::detail {

/// Appends the flags, in the order of --help. `eval` and `use` must outlive them.
void add_evaluation_flags(std::vector<Flag>& flags, EvalOptions& eval);
void add_early_stopping_flags(std::vector<Flag>& flags, EvalOptions& eval);
void add_use_flags(std::vector<Flag>& flags, UseOptions& use);

}  // namespace troupe::detail
