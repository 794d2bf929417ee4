// Options of strategies/: how many processes train and where. Plain data, free of LibTorch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/core/options/group_options.h"

namespace troupe {

/// Number type of the forward passes. bfloat16: they run under LibTorch's autocast, but parameters
/// stay float32.
enum class Precision { float32, bfloat16 };
[[nodiscard]] constexpr const char* name_of(Precision precision) {
  return precision == Precision::float32 ? "float32" : "bfloat16";
}

/// One training step.
struct StepOptions {
  /// Parts of each replica's share of a step, computed one after the other: their gradients are
  /// added up, with one reduction and one update at the end. The step's examples stay the same.
  std::int64_t accumulate = 1;
  /// Limit of the gradients' global 2-norm, after the reduction; 0: none.
  double clip_norm = 0;
  Precision precision = Precision::float32;

  /// Throws: ConfigError naming the flag whose value is out of range.
  void validate() const;
};

/// Options of workers and parameter servers.
struct ServerOptions {
  /// How many clocks (its own steps) a worker may be ahead of the slowest one. 0: synchronous, one
  /// update from the sum of all workers' gradients; unset: no bound.
  /// Source: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel
  /// parameter server".
  std::optional<std::int64_t> staleness_bound;
  /// Asynchronous: the more updates a gradient has missed, the smaller its step.
  bool correct_staleness = true;
  /// Lower limit, in bytes, of the shards of a tensor that is split over servers.
  std::int64_t min_shard_bytes = 256 * 1024;

  [[nodiscard]] bool synchronous() const { return staleness_bound && *staleness_bound == 0; }
};

/// When gradients are summed over workers: bucket by bucket while backward still computes, or after
/// it. Automatic: after it if all workers are on one machine, while it computes between machines.
enum class Overlap { automatic, on, off };
/// As --overlap spells it.
[[nodiscard]] constexpr const char* name_of(Overlap overlap) {
  constexpr const char* kNames[] = {"auto", "on", "off"};
  return kNames[static_cast<int>(overlap)];
}

/// How gradients are sent and applied. The numbers do not depend on it.
struct BucketOptions {
  Overlap overlap = Overlap::automatic;
  std::int64_t bytes = std::int64_t{25} * 1024 * 1024;       // limit of a bucket
  std::int64_t first_bytes = std::int64_t{1} * 1024 * 1024;  // of the first, which starts early
  bool fused_step = true;  // Adam and AdamW step block by block, with the same bits
};

/// How replicas are spread over devices and processes; automatic: chosen by their numbers.
enum class StrategyKind {
  automatic,
  one_device,
  mirrored,
  central_storage,
  multi_worker,
  parameter_server
};
/// As --strategy spells it: "auto", "one-device", ...
[[nodiscard]] constexpr const char* name_of(StrategyKind kind) {
  constexpr const char* kNames[] = {
      "auto", "one-device", "mirrored", "central-storage", "multi-worker", "parameter-server"};
  return kNames[static_cast<int>(kind)];
}

/// The engine that sums gradients over workers; automatic: chosen by the devices and the build.
enum class Communication { automatic, native, gloo, nccl, mpi };
/// As --communication spells it: "auto", "native", ...
[[nodiscard]] constexpr const char* name_of(Communication engine) {
  constexpr const char* kNames[] = {"auto", "native", "gloo", "nccl", "mpi"};
  return kNames[static_cast<int>(engine)];
}

/// Number type of gradients sent between workers; none: their own.
enum class Compression { none, float16, bfloat16 };
/// As --compress spells it: "none", "float16", "bfloat16".
[[nodiscard]] constexpr const char* name_of(Compression type) {
  constexpr const char* kNames[] = {"none", "float16", "bfloat16"};
  return kNames[static_cast<int>(type)];
}

struct StrategyOptions {
  StrategyKind kind = StrategyKind::automatic;
  Cluster cluster;
  GroupOptions group;
  std::string device = "cpu";  // of the first replica: "cpu" or "cuda:0"; see replicas
  /// Replicas of this worker; 0: one for each of `devices`, else one. Without `devices` they share
  /// the CPU, or use cuda:N, cuda:N+1, ... from `device` on.
  int replicas = 0;
  /// Shares of every global batch, for the whole run and whatever the number of workers and
  /// devices: a device computes those that it hosts one after the other, and the bits do not depend
  /// on how many it hosts (docs/elastic.md). 0: one share for each replica.
  int virtual_replicas = 0;
  /// Computes every training step twice before it counts, and fails where the bits differ.
  bool check_repeat = false;
  /// Every replica keeps the optimisers' state of a part of the parameters alone, updates these,
  /// and gets the others' new values: the memory of the state is divided by the number of replicas,
  /// and the numbers stay the same (docs/training_step.md). Source: Rajbhandari et al. 2020, "ZeRO:
  /// memory optimizations toward training trillion parameter models" (stage 1).
  bool shard_optimizer = false;
  std::vector<std::string> devices;  // one per replica: {"cuda:0", "cuda:1"} or {"cpu:0", "cpu:1"}
  int threads = 0;                   // compute threads of each replica; 0: as the machine allows
  Communication communication = Communication::automatic;
  Compression compress = Compression::none;
  BucketOptions buckets;
  StepOptions step;
  ServerOptions servers;
  /// Settings that must be equal on all workers, by user-visible name ("--batch-size" -> "64").
  std::map<std::string, std::string> must_match;

  /// How many replicas this worker has.
  [[nodiscard]] int local_replicas() const {
    return std::max({1, replicas, static_cast<int>(devices.size())});
  }
  /// `kind`, or what automatic stands for: parameter-server for a cluster with servers, else
  /// multi-worker for more than one worker, else mirrored for more than one replica, else
  /// one-device.
  [[nodiscard]] StrategyKind chosen_kind() const;
  /// Throws: ConfigError naming the flags that contradict each other or the cluster.
  void validate() const;
};

}  // namespace troupe
