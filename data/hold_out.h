// Divides one data set into training and validation examples.
#pragma once

#include <cstdint>
#include <memory>

#include "troupe/data/dataset.h"

namespace troupe {

/// The last `validation_examples` of `all` validate (0: none, null); of the others the first
/// `train_examples` train (0: all of them).
/// Throws: ConfigError if there are fewer than requested.
[[nodiscard]] Splits hold_out(const std::shared_ptr<const Dataset>& all,
                              std::int64_t validation_examples, std::int64_t train_examples);

}  // namespace troupe
