// Hosting: which virtual replicas the devices of a worker compute.
#pragma once

#include <optional>

#include "troupe/core/options/strategy_options.h"
#include "troupe/distributed/group/tree_cut.h"

namespace troupe::detail {

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

/// Unset: the options ask for no virtual replicas.
/// Throws: ConfigError naming the flag that does not go with them, or what cannot host them.
[[nodiscard]] std::optional<Hosting> hosting_of(const StrategyOptions& options);

}  // namespace troupe::detail
