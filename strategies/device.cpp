#include "strategies/device.h"

#include <torch/cuda.h>

#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {

c10::Device parse_device(const std::string& name) {
  const bool cuda = name.rfind("cuda", 0) == 0;
  if (name != "cpu" && !cuda) {
    throw ConfigError("--device " + name + " is no device.", "use cpu, cuda or cuda:N.");
  }
  if (!cuda) return c10::Device(c10::DeviceType::CPU);
  std::size_t index = 0;
  if (name != "cuda") {
    const std::string digits = name.substr(4);
    if (digits.size() < 2 || digits.size() > 3 || digits[0] != ':' ||
        digits.find_first_not_of("0123456789", 1) != std::string::npos) {
      throw ConfigError("--device " + name + " is no device.", "use cpu, cuda or cuda:N.");
    }
    index = static_cast<std::size_t>(std::stoi(digits.substr(1)));
  }
  if (index >= torch::cuda::device_count()) {
    throw EnvironmentError(
        text("--device ", name, " was asked for, and LibTorch sees ", torch::cuda::device_count(),
             " CUDA devices."),
        "use --device cpu, or a LibTorch built for CUDA on a machine that has it.");
  }
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
}

}  // namespace troupe::detail
