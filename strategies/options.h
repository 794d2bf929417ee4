// Options of strategies/: how many processes train and on what. Plain data, free of LibTorch.
#pragma once

#include <map>
#include <string>

#include "distributed/cluster.h"
#include "distributed/worker_group.h"

namespace troupe {

struct StrategyOptions {
  std::string name = "auto";  // auto | one-device | multi-worker; auto follows the cluster's size
  Cluster cluster;
  GroupOptions group;
  std::string device = "cpu";  // "cpu" or "cuda:0"
  int threads = 0;             // compute threads of this process; 0: as the machine allows
  /// Settings that must be equal on all workers, by the name a user knows ("--batch-size" -> "64").
  std::map<std::string, std::string> must_match;
};

}  // namespace troupe
