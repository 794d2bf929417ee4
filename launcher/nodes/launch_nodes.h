// Nodes: launchers on several machines that run one group. Node 0 listens at the rendezvous; the
// others connect, say how many workers they start, and get their part of the plan; from then on
// each tells when its part fails or ends, and node 0 tells all what follows. Both ends of a line
// know the other as lost after 5 s of silence.
//
// An elastic group goes on without a node that leaves, or that is lost once a worker holds the
// state; it may come again, as this launcher or as another. A node that loses node 0 ends its
// workers and looks for it.
//
// Lines are proven and encrypted, also on one machine (Purpose::agent,
// distributed/net/handshake.h). The workers' secret is derived from the launchers' and the start's
// generation: nobody has to send it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/distributed/membership/control_lines.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/net/connector.h"
#include "troupe/launcher/nodes/launch_direction.h"
#include "troupe/launcher/nodes/launch_node_lease.h"
#include "troupe/launcher/nodes/launch_node_messages.h"
#include "troupe/launcher/nodes/launch_remote_workers.h"
#include "troupe/launcher/nodes/launch_round.h"
#include "troupe/launcher/nodes/launch_round_relay.h"

namespace troupe {

/// After the loss of a node, for the processes of the others to end: they have nothing to save.
inline constexpr std::chrono::milliseconds kLostNodeLimit{200};
/// Between two lines that say whom a node waits for.
inline constexpr std::chrono::milliseconds kProgressPause{5'000};

/// The launchers as the members of a group, "node/0" and so on.
[[nodiscard]] Cluster cluster_of_nodes(int nodes, int own);
/// What the workers of one start hold.
[[nodiscard]] std::shared_ptr<const Secret> secret_of_start(const Secret& secret,
                                                            std::uint64_t generation);

/// Node 0.
class ChiefNode final : public DecidingDirection, private LineOwner {
 public:
  /// Listens. Blocks: while the rendezvous's name is not this machine's, until the start timeout.
  /// Throws: EnvironmentError, RendezvousError, ConfigError.
  ChiefNode(boost::asio::io_context& io, const LaunchOptions& options, LaunchConsole& console,
            LaunchOrders orders);

  void begin() override;
  void on_part(const PartEnd& part, bool has_ended) override { on_report(0, {has_ended, part}); }
  void on_signal(int number) override;
  /// Where it listens, "10.0.0.1:41999".
  [[nodiscard]] std::string rendezvous() const;

 private:
  enum class Stage { gathering, running, pausing, ending };

  void start_group(const NodePlan& plan) override;
  void end_all(int exit_code) override;
  void on_introduction(Introduction first);
  [[nodiscard]] std::optional<NodeRefusal> objection(const NodeHello& hello) const;
  void on_frame(int node, const FrameHeader& header, std::vector<std::byte> payload) override;
  void on_closed(int node, const std::string& reason, FrameFault /*fault*/) override {
    on_lost(node, reason);
  }
  void lose(int node, const std::string& how) override;
  void on_lost(int node, const std::string& how);
  void on_report(int node, const NodeReport& report);
  void stop_all(const PartEnd& why, std::chrono::milliseconds limit);
  void finish_if_complete();
  void gather();
  void say_missing();
  void welcome_back(int node);
  void send_plan(int node);
  void finish();
  [[nodiscard]] std::string name_of(int node) const;

  const LaunchOptions& options_;
  LaunchConsole& console_;
  const std::shared_ptr<const Secret> secret_;  // of all launchers of the group
  const Cluster nodes_;                         // as the members of a group: "node/0", "node/1"
  Acceptor acceptor_;
  ControlLines lines_;
  std::vector<int> workers_;        // by node; 0: it has not come
  std::vector<std::string> peers_;  // by node: its address
  LaunchRound round_;
  NodePlan plan_;         // of the present start
  RemoteWorkers remote_;  // of an elastic group
  Stage stage_ = Stage::gathering;
  std::chrono::steady_clock::time_point gathering_since_{};
  boost::asio::steady_timer timer_;  // of the stage
  std::optional<int> exit_code_;
};

/// Any other.
class MemberNode final : public LaunchDirection, private LineOwner {
 public:
  MemberNode(boost::asio::io_context& io, const LaunchOptions& options, LaunchConsole& console,
             LaunchOrders orders);

  void begin() override;
  void on_part(const PartEnd& part, bool has_ended) override;
  void on_signal(int number) override;

 private:
  enum class Stage { joining, running, waiting, alone, ending };

  void look_for_node_0(std::chrono::milliseconds limit);
  void say_waiting();
  void beat();
  void reach(std::chrono::milliseconds pause, const std::string& why);
  void on_connected(ProvenSocket proven);
  void on_frame(int chief, const FrameHeader& header, std::vector<std::byte> payload) override;
  void on_closed(int /*chief*/, const std::string& reason, FrameFault /*fault*/) override {
    on_lost(reason);
  }
  void lose(int chief, const std::string& how) override;
  void on_refusal(const NodeRefusal& refusal);
  void on_plan(const NodePlan& plan);
  void on_stop(const NodeStop& stop);
  void on_answer(std::uint64_t beat);
  void on_lost(const std::string& how);
  void end(int exit_code);

  const LaunchOptions& options_;
  LaunchConsole& console_;
  const LaunchOrders orders_;
  const std::shared_ptr<const Secret> secret_;
  const Cluster nodes_;
  ControlLines lines_;
  Connector connector_;
  boost::asio::steady_timer start_timer_;
  std::chrono::steady_clock::time_point started_{};
  std::chrono::milliseconds limit_;  // since then, for node 0 to be found and to start the group
  Stage stage_ = Stage::joining;
  NodeLease lease_;
  NodeLink link_;          // of an elastic group
  RestartPolicy none_{0};  // node 0 has the run's
};

}  // namespace troupe
