// ParameterServer: one server process's part: admits workers, keeps their pace, hands updates to
// the store and new values back. docs/algorithms.md has the protocol, docs/wire.md its bytes.
//
// Server 0 is the clock of the job: it numbers the steps, holds workers back before the last step,
// during a collection, and in synchronous training decides whose gradients count. A worker that is
// lost is dropped and may join again; the chief or a server that is lost ends the job.
//
// Thread rule: everything runs on the thread that calls run().
#pragma once

#include <memory>

#include "distributed/worker_group.h"
#include "options/cluster.h"
#include "servers/wire/parameter_store.h"
#include "servers/wire/placement.h"
#include "servers/wire/staleness.h"

namespace troupe {

class ParameterServer {
 public:
  /// Binds this server's address. `store` outlives the server.
  /// Throws: EnvironmentError (port taken, address not ours), ConfigError (an address outside
  /// loopback without `insecure`).
  ParameterServer(Cluster cluster, GroupOptions options, Staleness pace, ServedModel model,
                  ParameterStore& store);
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  /// Serves until the chief has ended training and the workers have left. SIGTERM is a request that
  /// waits for the chief's end, at most close_timeout after it.
  /// Blocks: as long as training; for the chief's first sign at most start_timeout.
  /// Throws: RendezvousError (the chief did not come), PeerLost naming the chief or the server that
  /// is lost, PeerFailed with the reason of a worker that failed, Stopped after SIGTERM.
  void run(const JoinTerms& terms);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
