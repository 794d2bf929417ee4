#include "troupe/launcher/run/launch_start.h"

#include <algorithm>
#include <chrono>

namespace troupe {

std::uint64_t next_generation(std::uint64_t former) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::max(former + 1,
                  static_cast<std::uint64_t>(
                      std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
}

GroupStart start_here(const LaunchOptions& options, std::uint64_t generation) {
  GroupStart start;
  start.generation = generation;
  start.world_size = options.workers;
  const int listening = options.min_workers > 0 ? options.workers : std::max(1, options.servers);
  for (int i = 0; i < listening; ++i) start.listeners.push_back(std::make_unique<LaunchListener>());
  start.chief_port = start.listeners.front()->port();
  return start;
}

}  // namespace troupe
