// The device a flag names.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace troupe::detail {

/// "cpu", "cuda" or "cuda:1".  Throws: ConfigError for a name that is none, EnvironmentError when
/// this LibTorch or this machine has no such device.
[[nodiscard]] c10::Device parse_device(const std::string& name);

}  // namespace troupe::detail
