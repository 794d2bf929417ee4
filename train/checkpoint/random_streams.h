// Random streams of a worker in a checkpoint: LibTorch's generator for the CPU, and that of every
// other device that a replica computes on.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe::detail {

inline constexpr char kRandom[] = "random";               // the CPU's
inline constexpr char kDeviceRandom[] = "device_random";  // behind the replica's prefix

/// A generator, and the name under which a checkpoint has its state.
struct RandomStream {
  std::string name;
  at::Generator generator;
};

/// Gives the default generator of a device.
using GeneratorOf = std::function<at::Generator(c10::Device)>;
[[nodiscard]] at::Generator default_generator(c10::Device device);

/// The streams of a worker whose replicas compute on `devices`, in their order. Replicas that share
/// a device share its generator and save the same state.
[[nodiscard]] std::vector<RandomStream> random_streams(
    const std::vector<c10::Device>& devices, const GeneratorOf& generator_of = default_generator);

/// Each stream's state as a tensor of bytes on the host.
[[nodiscard]] std::vector<NamedTensor> states_of(const std::vector<RandomStream>& streams);

/// Restores what states_of() returned. A device's stream that `saved` lacks (another device made
/// the checkpoint) stays as it is, with a warning.
/// Throws: CheckpointError naming the state that is missing for the CPU or that its generator does
/// not accept.
void restore_states(const std::vector<RandomStream>& streams,
                    const std::vector<NamedTensor>& saved);

}  // namespace troupe::detail
