// One start of a group: what all of its processes must agree on, and which of them this machine
// runs.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/secret.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/elastic/rendezvous.h"
#include "troupe/launcher/run/launch_policy.h"

namespace troupe {

class RemoteWorkers;
struct NodeLink;

/// The socket on which the chief meets its workers, bound before any of them starts: there is no
/// moment at which another program could take the port.
class LaunchListener {
 public:
  /// Listens on a free port of `address`, which belongs to this machine.  Throws: EnvironmentError.
  explicit LaunchListener(const boost::asio::ip::address& address);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Once the chief has it: when the chief ends, a late worker is refused instead of kept waiting.
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  std::uint16_t port_ = 0;
};

/// What an elastic run keeps from one start of its group to the next.
struct ElasticRun {
  RestartPolicy* restarts = nullptr;  // a worker that is started again takes one, too
  StepLosses* losses = nullptr;
  std::function<std::uint64_t()> next_generation;  // of a round
  RemoteWorkers* remote = nullptr;                 // of node 0; null: there are none
  NodeLink* link = nullptr;  // of any other node: node 0 has the rendezvous, and the rest of this
};

/// What every machine of the group is told of a start.
struct NodePlan {
  std::uint64_t generation = 0;
  int attempt = 0;  // 0 for the first
  int world_size = 0;
  int first_rank = 0;           // of the workers of this machine
  std::string chief_host = {};  // [] around it where IPv6 wants them
  std::uint16_t chief_port = 0;
  bool is_under_way = false;  // an elastic group trains: nothing starts here by itself
};

struct GroupStart {
  NodePlan plan;
  std::shared_ptr<const Secret> secret = nullptr;  // of this start; null: this launcher's to make
  int progress_fd = -1;                            // of this machine's workers (launch_screen.h)
  /// Of the servers, of the chief, or of all workers of an elastic group; empty where none of them
  /// runs on this machine.
  std::vector<LaunchListener> listeners = {};
  std::string host = "127.0.0.1";  // where the workers of this machine listen
  ElasticRun elastic = {};         // nulls: the group is not elastic
};

}  // namespace troupe
