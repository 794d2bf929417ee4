#include "distributed/membership/failure.h"

#include "core/error.h"
#include "core/text.h"

namespace troupe {

int number_of(const Cluster& cluster) {
  return cluster.is_server() ? cluster.world_size() + cluster.server : cluster.rank;
}

void raise(const Failure& failure, const Cluster& cluster, const std::string& where) {
  std::string cause = failure.cause;
  if (failure.kind == FailureKind::peer_lost && failure.culprit == number_of(cluster)) {
    const char* const what = cluster.is_server() ? "this server (" : "this worker (";
    cause = text(what, cluster.task(), ") was expelled from the group: ", cause);
  }
  if (!where.empty()) cause += " " + where;
  switch (failure.kind) {
    case FailureKind::peer_lost:
      throw PeerLost(cause, failure.fix);
    case FailureKind::peer_failed:
      throw PeerFailed(cause, failure.fix, failure.exit_code);
    case FailureKind::timeout:
      throw TimeoutError(cause, failure.fix);
    case FailureKind::desync:
      throw DesyncError(cause, failure.fix);
    case FailureKind::config:
      throw ConfigError(cause, failure.fix);
    case FailureKind::rendezvous:
      throw RendezvousError(cause, failure.fix);
    case FailureKind::internal:
      break;
  }
  throw InternalError(cause, failure.fix);
}

Failure peer_lost(const Cluster& cluster, int number, const std::string& how) {
  const int server = number - cluster.world_size();
  const std::string& task = server >= 0 ? cluster.servers[static_cast<std::size_t>(server)].task
                                        : cluster.members[static_cast<std::size_t>(number)].task;
  return {FailureKind::peer_lost, number, text(task, " is gone: ", how, "."),
          text("look at the log of ", task, ", then start the whole group again."), kExitPeerLost};
}

}  // namespace troupe
