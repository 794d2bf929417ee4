// The secret of every group of a test.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "troupe/core/secret.h"

namespace troupe::testing {

/// With another `filling` that of another group.
inline std::shared_ptr<const Secret> test_secret(unsigned char filling = 7) {
  return std::make_shared<const Secret>(
      std::vector<std::byte>(Secret::kMinBytes, std::byte{filling}));
}

}  // namespace troupe::testing
