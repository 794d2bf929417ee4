// GroupView: who trains together, and which replicas this worker has. Made where a strategy is
// constructed and where the next round of an elastic group begins; nothing of it changes.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/distributed/group/tree_cut.h"

namespace troupe {
namespace detail {

/// Which virtual replicas the devices of a worker compute.
struct Hosting {
  int virtual_replicas;  // of the run
  TreeCut::Node block;   // this worker's
  TreeCut devices;       // of the block, among this worker's devices

  /// Of a device, among all virtual replicas.
  [[nodiscard]] TreeCut::Node of_device(int device) const {
    const TreeCut::Node node = devices.node(device);
    return {block.begin + node.begin, block.begin + node.end};
  }
};

}  // namespace detail

struct GroupView {
  std::uint64_t generation = 0;                    // Cluster::generation
  std::vector<std::string> tasks = {"worker/0"};   // of the workers, by rank
  int rank = 0;                                    // -1: this worker waits to be admitted
  std::vector<c10::Device> devices = {c10::kCPU};  // of this worker, one for each replica
  bool in_lockstep = true;                         // the replicas of all workers make one update
  std::optional<detail::Hosting> hosting;          // of virtual replicas; unset: there are none

  [[nodiscard]] int world_size() const { return static_cast<int>(tasks.size()); }
  [[nodiscard]] int local_replicas() const { return static_cast<int>(devices.size()); }
  /// Of all workers; each has as many.
  [[nodiscard]] int replicas() const { return world_size() * local_replicas(); }
  /// Whose examples make one update together.
  [[nodiscard]] int replicas_in_sync() const { return in_lockstep ? replicas() : local_replicas(); }
  /// This worker's first one, among all.
  [[nodiscard]] int first_replica() const { return rank * local_replicas(); }
};

/// Of this process in `cluster`.
/// Throws: ConfigError naming the flag that does not go with virtual replicas, or what cannot host
/// them; as detail::replica_devices.
[[nodiscard]] GroupView view_of(const Cluster& cluster, const StrategyOptions& options);

}  // namespace troupe
