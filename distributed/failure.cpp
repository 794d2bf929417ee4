#include "distributed/failure.h"

#include "core/error.h"
#include "core/text.h"

namespace troupe {

void raise(const Failure& failure, const Cluster& cluster, const std::string& where) {
  std::string cause = failure.cause;
  if (failure.kind == FailureKind::peer_lost && failure.culprit == cluster.rank) {
    cause = text("this worker (", cluster.task(), ") was expelled from the group: ", cause);
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

Failure peer_lost(const Cluster& cluster, int rank, const std::string& how) {
  const std::string& task = cluster.members[static_cast<std::size_t>(rank)].task;
  return {FailureKind::peer_lost, rank, text(task, " is gone: ", how, "."),
          text("look at the log of ", task, ", then start the whole group again."), kExitPeerLost};
}

}  // namespace troupe
