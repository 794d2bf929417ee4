#include "troupe/train/checkpoint/random_streams.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/hooks/tensors/random_guard.h"
#include "troupe/train/checkpoint/run_snapshot.h"

namespace troupe::detail {

at::Generator default_generator(c10::Device device) {
  return at::globalContext().defaultGenerator(device);
}

std::vector<RandomStream> random_streams(const std::vector<c10::Device>& devices,
                                         const GeneratorOf& generator_of) {
  std::vector<RandomStream> streams = {{kRandom, generator_of(c10::Device(c10::DeviceType::CPU))}};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].is_cpu()) continue;
    streams.push_back({replica_prefix(i) + kDeviceRandom, generator_of(devices[i])});
  }
  return streams;
}

std::vector<NamedTensor> states_of(const std::vector<RandomStream>& streams) {
  std::vector<NamedTensor> states;
  for (const RandomStream& stream : streams) {
    states.emplace_back(stream.name, random_state(stream.generator));
  }
  return states;
}

void restore_states(const std::vector<RandomStream>& streams,
                    const std::vector<NamedTensor>& saved) {
  for (const RandomStream& stream : streams) {
    const auto state = std::find_if(saved.begin(), saved.end(),
                                    [&](const NamedTensor& t) { return t.first == stream.name; });
    if (state == saved.end() && stream.name != kRandom) {
      log_warning("the checkpoint has no random state for ", stream.generator.device(),
                  ": its random stream starts anew");
      continue;
    }
    const at::Tensor& value = find(saved, stream.name);
    try {
      set_random_state(stream.generator, value);
    } catch (const c10::Error&) {  // its own words name neither file nor remedy
      throw CheckpointError(
          text("\"", stream.name, "\" of the checkpoint, ", value.scalar_type(), " ", value.sizes(),
               ", is not a state of LibTorch's random generator."),
          "the checkpoint is damaged or another LibTorch made it; use another one.");
    }
  }
}

}  // namespace troupe::detail
