#include "servers/tensors/server_terms.h"

#include "core/error.h"
#include "core/text.h"
#include "strategies/replicas/local_replicas.h"

namespace troupe::detail {

Staleness staleness_of(const ServerOptions& options) {
  Staleness pace;
  pace.staleness_bound = options.staleness_bound;
  pace.prefetch = options.prefetch;
  return pace;
}

JoinTerms terms_of(const StrategyOptions& options, const Replica& replica) {
  JoinTerms terms{signature(state_of(replica)), options.must_match};
  // The servers add their own: pace and placement. Shares of the data are counted by replicas.
  terms.must_match["--strategy"] = "parameter-server";
  terms.must_match["--replicas"] = text(options.local_replicas());
  return terms;
}

void check_server_options(const StrategyOptions& options) {
  const Cluster& cluster = options.cluster;
  const ServerOptions& servers = options.servers;
  if (cluster.servers.empty()) {
    throw ConfigError(text("--strategy parameter-server was asked for, and the cluster (",
                           cluster.origin, ") has no parameter servers."),
                      "start with troupe run --ps N, or list \"ps\" addresses in TF_CONFIG.");
  }
  if (servers.staleness_bound && *servers.staleness_bound < 0) {
    throw ConfigError(text("--staleness-bound is ", *servers.staleness_bound, "."),
                      "give 0 (synchronous) or more, or leave it out for no bound.");
  }
  if (servers.min_shard_bytes < 1) {
    throw ConfigError(text("--min-shard-bytes is ", servers.min_shard_bytes, "."),
                      "give at least 1.");
  }
  const bool synchronous = staleness_of(servers).synchronous();
  if (synchronous && cluster.world_size() > 1 && options.step.clip_norm > 0) {
    throw ConfigError(
        "--clip-norm with --staleness-bound 0 and more than one worker: no process has the sum of "
        "all gradients, whose norm is the limit.",
        "use --strategy multi-worker, leave --staleness-bound 0 out (each worker's gradient is "
        "then "
        "clipped by itself), or train without clipping.");
  }
}

}  // namespace troupe::detail
