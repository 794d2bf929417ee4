// What a worker computes with: the devices that flags name, and how many threads.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "troupe/core/options/strategy_options.h"

namespace troupe {
namespace detail {

/// "cpu", "cpu:1", "cuda" or "cuda:1". A number of the CPU tells replicas apart and means nothing
/// else. `flag` is who names it, for messages. Throws: ConfigError for a name that is none,
/// EnvironmentError when this LibTorch or this machine has no such device.
[[nodiscard]] c10::Device parse_device(const std::string& name, const char* flag = "--devices");

/// One device for each replica of this worker.
/// Throws: as parse_device; ConfigError when replicas and devices disagree.
[[nodiscard]] std::vector<c10::Device> replica_devices(const StrategyOptions& options);

/// What every worker that uses the GPU `device` calls it, and no other: the machine, by its boot,
/// and the entry of `visible` (CUDA_VISIBLE_DEVICES; null: unset), which numbers GPUs anew.
[[nodiscard]] std::string gpu_identity(const std::string& device, const char* visible);

/// Where a model alone in this process goes: the first replica's device.
[[nodiscard]] std::string first_device(const StrategyOptions& options);

}  // namespace detail

/// Once per process, before it computes. Sets LibTorch's intra-op threads, and OpenBLAS's to one
/// unless OPENBLAS_NUM_THREADS says otherwise: two pools that each fill the cores cost 1.7 times
/// the step (docs/performance.md). `requested` 0: OMP_NUM_THREADS (or MKL_NUM_THREADS) if set, else
/// `share`, this worker's part of the machine's cores (compute_threads in core/machine.h); then
/// divided by the `replicas` of this worker, whose threads compute side by side with a pool each.
/// Call before the first tensor operation. Returns the number of LibTorch's threads for one
/// replica.
int configure_compute_threads(int requested, int share, int replicas);

/// What decides how sums round: the same run on another of these is equal up to rounding only.
struct Arithmetic {
  std::string libtorch;
  std::string cpu_capability;  // LibTorch picks kernels by it
  std::string blas;            // the library's file
  std::string blas_version;  // what it says of itself: OpenBLAS names the processor it is tuned to
  int compute_threads = 1;
};
[[nodiscard]] Arithmetic arithmetic_here();

/// What to warn of where `found` workers turn out to share this machine when they have met, and
/// only `counted` did when its cores were divided: "" if the threads of all fit its cores all the
/// same.
[[nodiscard]] std::string crowding(int found, int counted, int replicas);

}  // namespace troupe
