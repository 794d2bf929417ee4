#include "cli/cluster_spec.h"

#include "cli/address.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe {

ResolvedCluster resolve_cluster(const ClusterRequest& request, const Environment&) {
  ResolvedCluster out;
  if (request.rank || request.world_size) {
    const int size = request.world_size ? static_cast<int>(request.world_size->value) : 1;
    out.cluster.members.clear();
    for (int i = 0; i < size; ++i)
      out.cluster.members.push_back({text("worker/", i), std::nullopt});
    out.cluster.rank = request.rank ? static_cast<int>(request.rank->value) : 0;
    if (request.chief_address) {
      out.cluster.members[0].address =
          parse_address(request.chief_address->value, request.chief_address->origin);
    }
    out.cluster.origin = "--rank and --world-size";
  }
  if (request.generation) out.cluster.generation = request.generation->value;
  return out;
}

}  // namespace troupe
