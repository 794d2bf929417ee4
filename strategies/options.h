// Options of strategies/: how many processes train and on what. Plain data, free of LibTorch.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "distributed/cluster.h"
#include "distributed/worker_group.h"

namespace troupe {

struct StrategyOptions {
  std::string name = "auto";  // auto | one-device | mirrored | multi-worker; auto follows the sizes
  Cluster cluster;
  GroupOptions group;
  std::string device = "cpu";  // of the first replica: "cpu" or "cuda:0"; see replicas
  /// Replicas of this worker; 0: one for each of `devices`, else one. Without `devices` they share
  /// the CPU, or take cuda:N, cuda:N+1, ... from `device` on.
  int replicas = 0;
  std::vector<std::string> devices;  // one per replica: {"cuda:0", "cuda:1"} or {"cpu:0", "cpu:1"}
  int threads = 0;                   // compute threads of each replica; 0: as the machine allows
  /// Settings that must be equal on all workers, by the name a user knows ("--batch-size" -> "64").
  std::map<std::string, std::string> must_match;

  /// How many replicas this worker has.
  [[nodiscard]] int local_replicas() const {
    return std::max({1, replicas, static_cast<int>(devices.size())});
  }
};

}  // namespace troupe
