#include "strategies/device.h"

#include <torch/cuda.h>

#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {
namespace {

/// The N of "cuda:N"; 0 without a colon; unset for anything else.
std::optional<int> number_of(const std::string& name, std::size_t kind_length) {
  if (name.size() == kind_length) return 0;
  const std::string digits = name.substr(kind_length);
  if (digits.size() < 2 || digits.size() > 3 || digits[0] != ':' ||
      digits.find_first_not_of("0123456789", 1) != std::string::npos) {
    return std::nullopt;
  }
  return std::stoi(digits.substr(1));
}

}  // namespace

c10::Device parse_device(const std::string& name, const char* flag) {
  const bool cuda = name.rfind("cuda", 0) == 0;
  const bool cpu = name.rfind("cpu", 0) == 0;
  const auto number = cuda ? number_of(name, 4) : cpu ? number_of(name, 3) : std::nullopt;
  if (!number) {
    throw ConfigError(text(flag, " ", name, " is no device."), "use cpu, cuda or cuda:N.");
  }
  if (cpu) return c10::Device(c10::DeviceType::CPU);
  const auto count = static_cast<int>(torch::cuda::device_count());  // newer LibTorch: a char
  if (*number >= count) {
    throw EnvironmentError(
        text(flag, " ", name, " was asked for, and LibTorch sees ", count, " CUDA devices."),
        "use the CPU (cpu), or a LibTorch built for CUDA on a machine that has the device.");
  }
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(*number));
}

std::vector<c10::Device> replica_devices(const StrategyOptions& options) {
  std::vector<c10::Device> devices;
  if (!options.devices.empty()) {
    const auto named = static_cast<int>(options.devices.size());
    if (options.replicas != 0 && options.replicas != named) {
      throw ConfigError(text("--replicas is ", options.replicas, ", and --devices names ", named,
                             named == 1 ? " device." : " devices."),
                        "name one device for each replica, or leave one of the two flags out.");
    }
    for (const auto& name : options.devices) devices.push_back(parse_device(name, "--devices"));
    return devices;
  }
  devices.push_back(parse_device(options.device));
  const c10::Device first = devices.front();
  for (int i = 1; i < options.local_replicas(); ++i) {
    devices.push_back(
        first.is_cpu() ? first : parse_device(text("cuda:", first.index() + i), "--replicas"));
  }
  return devices;
}

std::string first_device(const StrategyOptions& options) {
  return options.devices.empty() ? options.device : options.devices.front();
}

}  // namespace troupe::detail
