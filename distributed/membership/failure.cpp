#include "troupe/distributed/membership/failure.h"

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/address.h"

namespace troupe {
namespace {

constexpr std::size_t kMaxNames = 16;  // in one sentence

/// How the cause of peer_lost() begins; that of a lost link names both of its ends instead.
std::string gone(const std::string& task) { return task + " is gone: "; }

const std::string& task_of(const Cluster& cluster, int number) {
  const int server = number - cluster.world_size();
  return server >= 0 ? cluster.servers[static_cast<std::size_t>(server)].task
                     : cluster.member(number).task;
}

}  // namespace

int number_of(const Cluster& cluster) {
  return cluster.is_server() ? cluster.world_size() + cluster.server : cluster.rank;
}

void raise(const Failure& failure, const Cluster& cluster, const std::string& where) {
  std::string cause = failure.cause;
  if (failure.kind == FailureKind::peer_lost && failure.culprit == number_of(cluster) &&
      cause.rfind(gone(cluster.task()), 0) == 0) {
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

std::string describe_member(const Member& member) {
  if (!member.address) return member.task;
  return text(member.task, " at ", to_text(member.address->host, member.address->port));
}

std::string join_names(const std::vector<std::string>& names) {
  if (names.size() <= kMaxNames) return join(names);
  const auto begin = names.begin();
  return text(join({begin, begin + kMaxNames}), " and ", names.size() - kMaxNames, " more");
}

Failure other_version(const Cluster& cluster, const std::string& peer,
                      const std::string& versions) {
  return {FailureKind::config, cluster.rank,
          text(peer, " and ", cluster.task(), " cannot train together: ", versions, "."),
          kSameBuild, kExitUsage};
}

Failure start_timeout(int culprit, const std::string& what, std::chrono::milliseconds limit,
                      const std::string& why, const std::string& whom) {
  return {FailureKind::rendezvous, culprit,
          text(what, " in ", Seconds(limit).count(), " s (limit --start-timeout): ", why, "."),
          text("start every task, and check that each can reach ", whom, "."), kExitPeerLost};
}

// Either end may be at fault, and most likely neither.
Failure bytes_damaged(const Cluster& cluster, int from, int to, const std::string& address,
                      const std::string& where) {
  return {FailureKind::peer_lost, from,
          text("the link from ", task_of(cluster, from), " to ", task_of(cluster, to), " (",
               address, ") delivered damaged bytes", where,
               ": they do not have the checksum that they had ", "when they were sent."),
          "look for a faulty network card, cable, switch or proxy between the two, or faulty "
          "memory; then start the whole group again.",
          kExitPeerLost};
}

Failure peer_lost(const Cluster& cluster, int number, const std::string& how) {
  const std::string& task = task_of(cluster, number);
  return {FailureKind::peer_lost, number, text(gone(task), how, "."),
          text("look at the log of ", task, ", then start the whole group again."), kExitPeerLost};
}

}  // namespace troupe
