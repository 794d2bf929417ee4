#include "strategies/device.h"

#include <torch/cuda.h>

#include <regex>

#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {

c10::Device parse_device(const std::string& name, const char* flag) {
  std::smatch parts;
  if (!std::regex_match(name, parts, std::regex("(cpu|cuda)(:([0-9]{1,2}))?"))) {
    throw ConfigError(text(flag, " ", name, " is no device."), "use cpu, cuda or cuda:N.");
  }
  if (parts[1] == "cpu") return c10::Device(c10::DeviceType::CPU);
  const int number = parts[3].matched ? std::stoi(parts[3]) : 0;
  if (static_cast<std::size_t>(number) >= torch::cuda::device_count()) {
    throw EnvironmentError(
        text(flag, " ", name, " was asked for, and LibTorch sees ", torch::cuda::device_count(),
             " CUDA devices."),
        "use the CPU (cpu), or a LibTorch built for CUDA on a machine that has the device.");
  }
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(number));
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
