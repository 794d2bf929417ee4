// How LibTorch finds the state of one parameter in an optimiser: by the parameter's address.
#pragma once

#include <torch/optim/optimizer.h>

#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace troupe::detail {

using StateMap = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

/// LibTorch's key of a parameter's state: its address, before 2.0 as the text a stream makes of it.
template <class Key = StateMap::key_type>
[[nodiscard]] Key state_key(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<Key, std::string>) {
    std::ostringstream address;
    address << static_cast<const void*>(parameter.unsafeGetTensorImpl());
    return address.str();
  } else {
    return static_cast<Key>(parameter.unsafeGetTensorImpl());
  }
}

}  // namespace troupe::detail
