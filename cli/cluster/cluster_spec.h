// Which group this process belongs to, and its place in it. The first of these that is set wins:
// flags, TROUPE_* variables and --config; TF_CONFIG; torchrun; Slurm; Open MPI; MPICH; none of
// them: one worker. See docs/cluster.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"

namespace troupe {

/// Variables by name. Functions take it as an argument, so that a test never depends on
/// the process it runs in; process_environment() is the only place that reads the real one.
using Environment = std::map<std::string, std::string>;

/// The variables of this process. Call it before any other thread runs.
[[nodiscard]] Environment process_environment();

inline constexpr int kMaxWorkers = 4096;  // the wire's limit, distributed/net/frame.h

/// One value that was given for the cluster. `origin` is where the user gave it ("--rank",
/// "TROUPE_RANK", "train.json: rank"); `level` orders flag (0), environment (1) and --config (2).
template <class T>
struct GivenValue {
  T value{};
  std::string origin;
  int level = 0;
};

/// What flags, TROUPE_* variables and --config say about the cluster.
struct ClusterRequest {
  std::optional<GivenValue<std::string>> cluster_file;   // --cluster
  std::optional<GivenValue<std::string>> task;           // --task, "worker:1"
  std::optional<GivenValue<std::int64_t>> rank;          // --rank
  std::optional<GivenValue<std::int64_t>> world_size;    // --world-size
  std::optional<GivenValue<std::string>> chief_address;  // --chief-address, "host:port"
  std::optional<GivenValue<std::string>> servers;        // --servers, "host:port,host:port"
  std::optional<GivenValue<std::uint64_t>> generation;   // --generation
};

/// The group, and what to log about where it came from.
struct ResolvedCluster {
  Cluster cluster;
  std::optional<std::string> model_dir;  // as a TF_CONFIG or --cluster file names it
  std::string model_dir_of;              // the document that does
  std::vector<std::string> information;
  std::vector<std::string> warnings;
};

/// Reads no file but --cluster's.
/// Throws: ConfigError naming the wrong or missing flag, variable or JSON path.
[[nodiscard]] ResolvedCluster resolve_cluster(const ClusterRequest& request,
                                              const Environment& environment);

}  // namespace troupe
