// RemoteWorkers: the workers of an elastic group on other nodes, as node 0 sees them. Their
// launchers pass on what they say and how they end, and carry node 0's orders out
// (launch_round_relay.h).
//
// A node that cannot be reached is *fenced*: its workers may live, and write, until its launcher's
// guard has killed them, which it does by its own clock (launch_node_lease.h). Until then they
// count as living, and no round begins without them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/core/span.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {

/// A node that is silent for so long is lost.
inline constexpr std::chrono::milliseconds kNodeLimit{5'000};

class RemoteWorkers {
 public:
  /// What the present start of the group makes of what happens. `index`: the worker's rank at the
  /// start, of all nodes.
  struct Events {
    std::function<void(int index, Span<const std::byte> message)> on_said;
    std::function<void(int index, const Endpoint& listens)> on_started;  // it is about to
    std::function<void(int index, const EndedProcess& process)> on_ended;
    /// It has ended with its node, of which nothing was heard since then.
    std::function<void(int index, std::chrono::steady_clock::time_point heard)> on_gone;
    std::function<void(int index)> on_back;  // its node has come again, where it does not run
  };
  using Send =
      std::function<void(int node, FrameType, const std::string& payload, std::uint64_t sequence)>;

  /// `send` does nothing where the node is not there.
  RemoteWorkers(boost::asio::io_context& io, Send send);
  RemoteWorkers(const RemoteWorkers&) = delete;
  RemoteWorkers& operator=(const RemoteWorkers&) = delete;

  /// A start of the group: `workers` by node, of which node 0's are not remote.
  void begin(const std::vector<int>& workers);
  void listen(Events events) { events_ = std::move(events); }

  // What node 0's end of the lines sees.

  void heard(int node);
  /// False: it is what no launcher says, or about another node's worker.
  [[nodiscard]] bool take(int node, const FrameHeader& header, Span<const std::byte> payload);
  /// The way to the node is gone; `on_over`: when its workers have ended for certain.
  void fence(int node, std::function<void()> on_over);
  /// It has come again, and runs nothing.
  void back(int node);
  /// It runs nothing, and nobody starts anything there.
  void leave(int node);

  // What the group does.

  [[nodiscard]] bool has(int index) const { return node_of(index) > 0; }
  void say(int index, const std::string& message);
  /// `starts`: its process again; else it gets SIGKILL.
  void order(int index, bool starts);
  [[nodiscard]] bool any_lives() const;
  /// A worker of the group holds the state: from now on nodes may be lost.
  void set_heals() { heals_ = true; }
  [[nodiscard]] bool heals() const { return heals_; }
  /// Training is over: a node where nothing runs is told so.
  void set_over();
  [[nodiscard]] bool is_over() const { return is_over_; }

 private:
  struct Node {
    explicit Node(boost::asio::io_context& io) : until_dead(io) {}
    std::chrono::steady_clock::time_point heard{};
    boost::asio::steady_timer until_dead;
    bool is_over = false;  // it knows that training is
  };

  [[nodiscard]] int node_of(int index) const;  // 0: not of another node
  [[nodiscard]] Node& at(int node) const { return *nodes_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] bool take_news(int node, Span<const std::byte> payload);
  [[nodiscard]] bool lives_on(int node) const;
  void dismiss_idle();

  struct Worker {
    int node = 0;
    bool lives = true;
  };
  [[nodiscard]] Worker& worker(int index) { return workers_[static_cast<std::size_t>(index)]; }

  boost::asio::io_context& io_;
  const Send send_;
  Events events_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by node
  std::vector<Worker> workers_;               // by index
  bool heals_ = false;
  bool is_over_ = false;
};

}  // namespace troupe
