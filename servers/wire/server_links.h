// ServerLinks: a worker's connections to all servers: reaching them, heartbeats, and what ends
// them.
//
// Everything that is not about the connection itself goes to the inbox as it is.
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/membership/failure.h"
#include "distributed/membership/liveness.h"
#include "distributed/worker_group.h"
#include "net/connection.h"
#include "net/connector.h"
#include "options/cluster.h"
#include "servers/wire/client_inbox.h"
#include "servers/wire/placement.h"

namespace troupe {

class ServerLinks {
 public:
  using Payload = std::shared_ptr<const std::vector<std::byte>>;

  /// `cluster`, `model` and `inbox` outlive this object. `terms` are server_terms().
  ServerLinks(const Cluster& cluster, const GroupOptions& options, const ServedModel& model,
              JoinTerms terms, boost::asio::io_context& context, ClientInbox& inbox);

  void join();
  void send(int server, FrameType type, std::uint64_t sequence, const std::string& payload);
  void send_bulk(int server, FrameType type, Payload payload,
                 std::function<void()> on_written = nullptr);
  /// Tells all servers why this worker fails, then the inbox.
  void fail(const Failure& failure) { fail(failure, Tell::servers); }
  void goodbye();

 private:
  enum class Stage { reaching, greeting, joined, leaving, left };
  struct ServerLink {
    std::unique_ptr<Connector> connector;
    std::shared_ptr<Connection> connection;
    Stage stage = Stage::reaching;
    std::uint64_t received_bytes = 0;  // at the last tick
  };

  /// A worker that is turned away, or was given up, is no reason for others to stop.
  enum class Tell { servers, nobody };
  void fail(const Failure& failure, Tell whom);
  void reach(int server, std::chrono::milliseconds pause, const std::string& why);
  void on_connected(int server, boost::asio::ip::tcp::socket socket);
  void on_frame(int server, const FrameHeader& header, std::vector<std::byte> payload);
  [[nodiscard]] bool on_control(int server, const FrameHeader& header,
                                const std::vector<std::byte>& payload);
  void on_signature(int server, const std::string& lines);
  void on_closed(int server, const std::string& reason, FrameFault fault);
  void on_tick();
  void look_at(int server, std::chrono::steady_clock::time_point now);
  void lose(int server, const std::string& how);
  void finish_failing();
  [[nodiscard]] FrameHeader header_of(FrameType type) const;
  [[nodiscard]] const Member& member(int server) const {
    return cluster_.servers[static_cast<std::size_t>(server)];
  }
  [[nodiscard]] ServerLink& link(int server) { return links_[static_cast<std::size_t>(server)]; }
  [[nodiscard]] int count() const { return static_cast<int>(links_.size()); }

  const Cluster& cluster_;
  const GroupOptions options_;
  const ServedModel& model_;
  const JoinTerms terms_;
  const std::string fingerprint_;
  const std::string signature_hash_;
  boost::asio::io_context& context_;
  ClientInbox& inbox_;
  Liveness liveness_;  // by server
  boost::asio::steady_timer tick_;
  boost::asio::steady_timer flush_;
  std::vector<ServerLink> links_;
  std::optional<Failure> failing_;  // on its way to the servers
  std::chrono::steady_clock::time_point flush_limit_;
};

}  // namespace troupe
