// Layers that draw random numbers in every step.
#pragma once

#include <string>

#include "hooks/replica.h"

namespace troupe::detail {

/// The name of the first submodule that looks random by the name of its type (dropout of every
/// kind, RReLU); "" where there is none. What a forward function draws by itself cannot be seen.
[[nodiscard]] std::string random_layer(const Replica& replica);

}  // namespace troupe::detail
