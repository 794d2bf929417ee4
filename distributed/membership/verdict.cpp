#include "distributed/membership/verdict.h"

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

// How long a worker waits to hear the chief's verdict before it reports what it saw itself: the
// chief's own grace for a suspicion, and time for two messages on a busy machine.
constexpr std::chrono::milliseconds kVerdictWait{1'000};

}  // namespace

std::string describe_collective(const FrameHeader& header) {
  std::string what = text(name_of(header.operation), " #", header.sequence);
  if (header.dtype != DType::none) {
    what += text(" of ", header.total_bytes, " bytes");
    if (header.dtype != DType::bytes) what += text(" of ", name_of(header.dtype));
  }
  if (header.operation == Operation::broadcast) what += text(" with root ", header.root);
  return what;
}

std::string place_of_failure(const Cluster& cluster, const FrameHeader& header) {
  return text(cluster.task(), " was in ", describe_collective(header), ".");
}

Failure desynchronised(const Cluster& cluster, const FrameHeader& mine, int peer,
                       const FrameHeader& theirs) {
  const std::string here = describe_collective(mine);
  const std::string there = describe_collective(theirs);
  const std::string& me = cluster.task();
  const std::string& other = cluster.member(peer).task;
  // One wording, whichever side saw it.
  const std::string both = peer < cluster.rank
                               ? text(other, " is in ", there, ", ", me, " in ", here)
                               : text(me, " is in ", here, ", ", other, " in ", there);
  return {FailureKind::desync, peer, both + (here == there ? " for other values." : "."),
          "every worker must call the same collectives in the same order: look for a branch that "
          "depends on the rank or on data.",
          kExitFailed};
}

Failure timed_out(const Cluster& cluster, const FrameHeader& mine, const Deadline& deadline,
                  int peer, const std::string& wait) {
  return {FailureKind::timeout, peer,
          text(describe_collective(mine), ": after ", deadline.elapsed_seconds(), " s ",
               cluster.task(), " ", wait, " (limit ", deadline.limit_seconds(), " s)."),
          "look for what holds that worker up; raise --timeout if it is only slow.", kExitPeerLost};
}

void settle(CallEnvironment& environment, const Failure& mine, const std::string& where) {
  environment.report(mine);
  if (!environment.state.wait_failed(kVerdictWait)) environment.state.fail(mine);
  environment.state.raise_if_failed(where);
  throw InternalError("a failed collective left no failure.", "please report this.");
}

void settle_broken(CallEnvironment& environment, const LinkBroken& broken,
                   const std::string& where) {
  const Cluster& cluster = environment.state.cluster;
  environment.suspect(broken.peer, broken.what);
  if (!environment.state.wait_failed(kVerdictWait)) {
    environment.state.fail(peer_lost(
        cluster, broken.peer, text("its link to ", cluster.task(), " broke: ", broken.what)));
  }
  environment.state.raise_if_failed(where);
  throw InternalError("a broken link left no failure.", "please report this.");
}

}  // namespace troupe
