// One start of a group: what all of its processes must agree on, and which of them this machine
// runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/secret.h"
#include "troupe/distributed/elastic/rendezvous.h"
#include "troupe/launcher/run/launch_listener.h"
#include "troupe/launcher/run/launch_options.h"
#include "troupe/launcher/run/launch_restarts.h"

namespace troupe {

class RemoteWorkers;
struct NodeLink;

/// What an elastic run keeps from one start of its group to the next.
struct ElasticRun {
  RestartPolicy* restarts = nullptr;  // a worker that is started again takes one, too
  StepLosses* losses = nullptr;
  std::function<std::uint64_t()> next_generation;  // of a round
  RemoteWorkers* remote = nullptr;                 // of node 0; null: there are none
  NodeLink* link = nullptr;  // of any other node: node 0 has the rendezvous, and the rest of this
};

struct GroupStart {
  std::uint64_t generation = 0;
  int attempt = 0;  // 0 for the first
  int world_size = 1;
  int first_rank = 0;  // of the workers of this machine
  std::string chief_host = "127.0.0.1";
  std::uint16_t chief_port = 0;
  std::shared_ptr<const Secret> secret = nullptr;  // of this start; null: this launcher's to make
  int progress_fd = -1;                            // of this machine's workers (launch_screen.h)
  /// Of the servers, of the chief, or of all workers of an elastic group; empty where none of them
  /// runs on this machine.
  std::vector<std::unique_ptr<LaunchListener>> listeners = {};
  std::string host = kLoopback;  // where the workers of this machine listen
  bool is_under_way = false;     // an elastic group trains: nothing starts here by itself
  ElasticRun elastic = {};       // nulls: the group is not elastic
};

/// A later start of the same job has a larger number. `former`: that of the last one; 0: none.
[[nodiscard]] std::uint64_t next_generation(std::uint64_t former);

/// A start of which this machine runs everything.  Throws: EnvironmentError.
[[nodiscard]] GroupStart start_here(const LaunchOptions& options, std::uint64_t generation);

}  // namespace troupe
