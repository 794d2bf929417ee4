#include "troupe/core/options/strategy_options.h"

#include <cmath>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

bool uses_servers(const StrategyOptions& strategy) {
  return strategy.chosen_kind() == StrategyKind::parameter_server;
}

void check_replicas(const StrategyOptions& strategy) {
  if (strategy.kind != StrategyKind::one_device || strategy.local_replicas() == 1) return;
  throw ConfigError(text("--strategy one-device trains with one replica, but --devices asks for ",
                         strategy.local_replicas(), "."),
                    "use --strategy mirrored, or name one device.");
}

/// Gradients are summed at the servers, or in one copy of the variables.
void check_virtual_replicas(const StrategyOptions& strategy) {
  if (strategy.check_repeat && strategy.virtual_replicas == 0) {
    throw ConfigError("--check-repeat is given without --virtual-replicas.",
                      "add --virtual-replicas V: only such steps can be computed again.");
  }
  const bool is_central = strategy.kind == StrategyKind::central_storage;
  if (strategy.virtual_replicas == 0 || (!is_central && !uses_servers(strategy))) return;
  throw ConfigError(text("--virtual-replicas is given, but --strategy ",
                         is_central ? "central-storage" : "parameter-server", " has none."),
                    "use --strategy one-device, mirrored or multi-worker, or leave it out.");
}

/// Elsewhere there is one state for all replicas already.
void check_shard_optimizer(const StrategyOptions& strategy) {
  const bool is_central = strategy.kind == StrategyKind::central_storage;
  if (!strategy.shard_optimizer || (!is_central && !uses_servers(strategy))) return;
  throw ConfigError(
      is_central ? "--shard-optimizer is given, but --strategy central-storage keeps the "
                   "optimiser's state once for all replicas already."
                 : "--shard-optimizer is given, but parameter servers keep the optimiser's state, "
                   "each that of its own shards.",
      "leave it out, or use --strategy mirrored or multi-worker.");
}

/// Workers and parameter servers exchange gradients by a protocol of their own.
void check_exchange(const StrategyOptions& strategy) {
  if (strategy.communication != Communication::automatic) {
    throw ConfigError(text("--communication ", name_of(strategy.communication),
                           " is given, but parameter servers sum the gradients."),
                      "leave it out, or train without parameter servers.");
  }
  if (strategy.group.transport != Transport::automatic) {
    throw ConfigError(text("--transport ", name_of(strategy.group.transport),
                           " is given, but workers reach parameter servers by TCP."),
                      "leave it out, or train without parameter servers.");
  }
  if (strategy.compress != Compression::none) {
    throw ConfigError(text("--compress ", name_of(strategy.compress),
                           " is given, but gradients travel to parameter servers as they are."),
                      "leave it out, or use --strategy multi-worker.");
  }
  if (strategy.buckets.overlap == Overlap::on) {
    throw ConfigError("--overlap on is given, but parameter servers sum the gradients.",
                      "leave it out, or use --strategy multi-worker.");
  }
}

/// Those that train in one process.
void check_alone(const StrategyOptions& strategy) {
  const bool alone = strategy.kind == StrategyKind::one_device ||
                     strategy.kind == StrategyKind::mirrored ||
                     strategy.kind == StrategyKind::central_storage;
  if (!alone || strategy.cluster.world_size() == 1) return;
  throw ConfigError(
      text("--strategy ", name_of(strategy.kind), " trains with one worker, but ",
           strategy.cluster.origin, " describes ", strategy.cluster.world_size(), " workers."),
      "use --strategy multi-worker, or --world-size 1 to train alone.");
}

/// Strategy and cluster must agree on whether there are parameter servers.
void check_servers(const StrategyOptions& strategy) {
  const auto servers = static_cast<int>(strategy.cluster.servers.size());
  if (servers == 0 || uses_servers(strategy)) return;
  throw ConfigError(text("--strategy ", name_of(strategy.kind),
                         " trains without parameter servers, but the cluster of ",
                         strategy.cluster.origin, " has ", servers, "."),
                    "use --strategy parameter-server, or describe a cluster without them.");
}

}  // namespace

void StepOptions::validate() const {
  if (accumulate < 1) {
    throw ConfigError(text("--accumulate is ", accumulate, "."),
                      "give a whole number of at least 1.");
  }
  if (!std::isfinite(clip_norm) || clip_norm < 0) {
    throw ConfigError(text("--clip-norm is ", clip_norm, "."),
                      "give a number greater than 0, or 0 for no limit.");
  }
}

StrategyKind StrategyOptions::chosen_kind() const {
  if (kind != StrategyKind::automatic) return kind;
  if (!cluster.servers.empty()) return StrategyKind::parameter_server;
  if (cluster.world_size() > 1) return StrategyKind::multi_worker;
  return local_replicas() > 1 ? StrategyKind::mirrored : StrategyKind::one_device;
}

void StrategyOptions::validate() const {
  check_servers(*this);
  check_alone(*this);
  check_replicas(*this);
  check_virtual_replicas(*this);
  check_shard_optimizer(*this);
  if (!cluster.servers.empty()) check_exchange(*this);
}

}  // namespace troupe
