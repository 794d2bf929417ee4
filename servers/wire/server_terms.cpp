#include "servers/wire/server_terms.h"

#include "core/check.h"
#include "core/error.h"
#include "core/sha256.h"
#include "core/text.h"
#include "distributed/membership/failure.h"
#include "net/address.h"
#include "net/frame.h"

namespace troupe {

JoinTerms server_terms(JoinTerms terms, const Staleness& pace, const ServedModel& model) {
  terms.must_match["staleness bound"] =
      pace.staleness_bound ? text(*pace.staleness_bound) : "(none)";
  terms.must_match["prefetch"] = pace.prefetch ? "yes" : "no";
  std::string placement;
  for (const Shard& shard : model.shards) {
    const ServedTensor& tensor = model.tensor_of(shard);
    placement += text(tensor.name, "\t", tensor.optimizer, "\t", tensor.row_bytes, "\t",
                      shard.server, "\t", shard.first_row, "\t", shard.rows, "\n");
  }
  terms.must_match["placement of the parameters"] = sha256_hex(placement);
  return terms;
}

void check_server_addresses(const Cluster& cluster, const GroupOptions& options) {
  TROUPE_CHECK(!cluster.servers.empty());
  const auto processes = cluster.members.size() + cluster.servers.size();
  if (processes > kMaxWorldSize) {
    throw ConfigError(text("the cluster has ", processes, " workers and parameter servers (limit ",
                           kMaxWorldSize, ")."),
                      "use fewer processes.");
  }
  for (const Member& server : cluster.servers) {
    TROUPE_CHECK(server.address.has_value());
    if (options.insecure || is_loopback_host(server.address->host)) continue;
    throw ConfigError(
        text(describe_member(server), " (from ", cluster.origin,
             ") is outside loopback, and traffic with parameter servers is neither authenticated "
             "nor encrypted."),
        "pass --insecure if you trust everybody on that network.");
  }
}

}  // namespace troupe
