#include "troupe/strategies/device.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "troupe/core/error.h"
#include "troupe/core/machine.h"
#include "troupe/core/text.h"

namespace troupe {
namespace detail {

c10::Device parse_device(const std::string& name, const char* flag) {
  std::smatch parts;
  if (!std::regex_match(name, parts, std::regex("(cpu|cuda)(:([0-9]{1,2}))?"))) {
    throw ConfigError(text(flag, " ", name, " is no device."), "use cpu, cuda or cuda:N.");
  }
  if (parts[1] == "cpu") return c10::Device(c10::DeviceType::CPU);
  const int number = parts[3].matched ? std::stoi(parts[3]) : 0;
  const auto count = static_cast<int>(torch::cuda::device_count());  // newer LibTorch: a char
  if (number >= count) {
    throw EnvironmentError(
        text(flag, " ", name, " was requested, but LibTorch sees ", count, " CUDA devices."),
        "use the CPU (cpu), or a LibTorch built for CUDA on a machine that has the device.");
  }
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(number));
}

std::vector<c10::Device> replica_devices(const StrategyOptions& options) {
  std::vector<c10::Device> devices;
  if (!options.devices.empty()) {
    const auto named = static_cast<int>(options.devices.size());
    if (options.replicas != 0 && options.replicas != named) {
      throw ConfigError(text(options.replicas, " replicas were asked for, but --devices names ",
                             named, named == 1 ? " device." : " devices."),
                        "name one device for each replica.");
    }
    for (const auto& name : options.devices) devices.push_back(parse_device(name, "--devices"));
    return devices;
  }
  devices.push_back(parse_device(options.device));
  const c10::Device first = devices.front();
  for (int i = 1; i < options.local_replicas(); ++i) {
    devices.push_back(first.is_cpu() ? first : parse_device(text("cuda:", first.index() + i)));
  }
  return devices;
}

std::string gpu_identity(const std::string& device, const char* visible) {
  const auto colon = device.find(':');
  std::string gpu = colon == std::string::npos ? "0" : device.substr(colon + 1);
  if (visible != nullptr) {
    std::istringstream entries(visible);
    for (int i = std::stoi(gpu); i >= 0 && std::getline(entries, gpu, ',');) --i;
  }
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return text(boot, "/", gpu);
}

std::string first_device(const StrategyOptions& options) {
  return options.devices.empty() ? options.device : options.devices.front();
}

}  // namespace detail

int configure_compute_threads(int requested, int share, int replicas) {
  int threads = requested;
  if (threads == 0) {
    // LibTorch reads both variables. Its own default counts physical cores, which the launcher and
    // other processes of the same run may see differently: another number of threads rounds
    // differently.
    const bool told =
        std::getenv("OMP_NUM_THREADS") != nullptr || std::getenv("MKL_NUM_THREADS") != nullptr;
    threads = std::max(1, (told ? at::get_num_threads() : share) / replicas);
  }
  at::set_num_threads(threads);
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) {
    // OpenBLAS is behind libblas.so.3 or not there at all; ask the loaded libraries.
    if (auto* set =
            reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) {
      set(1);
    }
  }
  return threads;
}

Arithmetic arithmetic_here() {
  static const Machine machine = inspect_machine();  // looked at once; it does not change
  return {TORCH_VERSION, machine.cpu_capability, machine.blas.path, machine.blas.version,
          at::get_num_threads()};
}

std::string crowding(int found, int counted, int replicas) {
  const int cores = inspect_cores().usable;
  const int threads = at::get_num_threads() * replicas;
  if (found <= counted || found * threads <= cores) return "";
  return text(found, " workers share this machine, and each computes with ", threads, " of its ",
              cores, " cores: give every worker --threads ", std::max(1, cores / found / replicas));
}

}  // namespace troupe
