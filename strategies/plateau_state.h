// PlateauState: what a plateau schedule of the learning rate remembers. Free of LibTorch.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe::detail {

struct PlateauState {
  std::optional<double> best;  // of the metric; unset: no validation yet
  std::int64_t since = 0;      // validations without improvement since then, or since the last drop
  std::int64_t drops = 0;      // of the learning rate
  std::int64_t observed_epoch = -1;  // whose validation was the last to count; -1: none
};

}  // namespace troupe::detail
