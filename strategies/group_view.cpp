#include "troupe/strategies/group_view.h"

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/group/topology.h"
#include "troupe/strategies/device.h"

namespace troupe {
namespace detail {
namespace {

/// What would make the bits depend on the number of workers, or needs all replicas at once.
void check_flags(const StrategyOptions& options) {
  const auto refuse = [&](const std::string& flag, const char* why, const char* fix) {
    throw ConfigError(text(flag, " and --virtual-replicas ", options.virtual_replicas,
                           " do not go together: ", why),
                      fix);
  };
  if (options.compress != Compression::none) {
    refuse(text("--compress ", name_of(options.compress)),
           "each worker rounds, so that the sum depends on their number.",
           "leave one of the two out.");
  }
  const Communication engine = options.communication;
  if (engine != Communication::automatic && engine != Communication::native) {
    refuse(text("--communication ", name_of(engine)),
           "the order of its sums depends on the number of workers.",
           "use --communication native.");
  }
  if (options.buckets.overlap == Overlap::on) {
    refuse("--overlap on",
           "gradients of a device's virtual replicas are added up before they travel.",
           "leave --overlap out.");
  }
}

/// Unset: the options ask for no virtual replicas.
std::optional<Hosting> hosting_of(const Cluster& cluster, const StrategyOptions& options) {
  const int count = options.virtual_replicas;
  if (count == 0) return std::nullopt;
  check_flags(options);
  GroupOptions group = options.group;
  group.virtual_replicas = count;
  const TreeCut workers = cut_of(cluster, group);
  const int local = options.local_replicas();
  for (int rank = 0; rank < workers.parts(); ++rank) {  // all workers see alike
    const int hosted = workers.node(rank).size();
    if (hosted >= local) continue;
    throw ConfigError(
        text("of --virtual-replicas ", count, " worker ", rank, " of ", workers.parts(),
             " would host ", hosted, ", fewer than its ", local, " replicas."),
        "use fewer workers or --devices, or give more virtual replicas to a new run.");
  }
  const TreeCut::Node block = workers.node(cluster.rank);
  return Hosting{count, block, TreeCut(block.size(), local)};
}

}  // namespace
}  // namespace detail

GroupView view_of(const Cluster& cluster, const StrategyOptions& options) {
  GroupView view;
  view.generation = cluster.generation;
  view.tasks = cluster.tasks();
  view.rank = cluster.rank;
  view.devices = detail::replica_devices(options);
  view.hosting = detail::hosting_of(cluster, options);
  return view;
}

}  // namespace troupe
