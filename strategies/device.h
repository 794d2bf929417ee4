// The devices that flags name.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "options/strategy_options.h"

namespace troupe::detail {

/// "cpu", "cpu:1", "cuda" or "cuda:1". A number of the CPU tells replicas apart and means nothing
/// else. `flag` is who names it, for messages. Throws: ConfigError for a name that is none,
/// EnvironmentError when this LibTorch or this machine has no such device.
[[nodiscard]] c10::Device parse_device(const std::string& name, const char* flag = "--device");

/// One device for each replica of this worker.
/// Throws: as parse_device; ConfigError when replicas and devices disagree.
[[nodiscard]] std::vector<c10::Device> replica_devices(const StrategyOptions& options);

/// Where a model alone in this process goes: the first replica's device.
[[nodiscard]] std::string first_device(const StrategyOptions& options);

}  // namespace troupe::detail
