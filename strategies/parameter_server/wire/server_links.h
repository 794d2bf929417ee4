// ServerLinks: a worker's connections to all servers: reaching them, heartbeats, and what ends
// them.
//
// Everything that is not about the connection itself goes to the inbox as it is.
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/distributed/membership/control_lines.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/net/connector.h"
#include "troupe/distributed/worker_group.h"
#include "troupe/strategies/parameter_server/wire/placement.h"
#include "troupe/strategies/parameter_server/wire/server_answers.h"

namespace troupe {

class ServerLinks : private LineOwner {
 public:
  using Payload = std::shared_ptr<const std::vector<std::byte>>;

  /// `cluster`, `model` and `inbox` outlive this object. `terms` are server_terms().
  ServerLinks(const Cluster& cluster, const GroupOptions& options, const ServedModel& model,
              JoinTerms terms, boost::asio::io_context& context, ClientInbox& inbox);

  void join();
  void send(int server, FrameType type, std::uint64_t sequence, const std::string& payload) {
    lines_.send(server, type, payload, sequence);
  }
  void send_bulk(int server, FrameType type, Payload payload,
                 std::function<void()> on_written = nullptr);
  /// Tells all servers why this worker fails, then the inbox.
  void fail(const Failure& failure) { lines_.fail(failure, FrameType::report); }
  void goodbye();

 private:
  enum class Stage { reaching, greeting, joined, leaving };
  void reach(int server, std::chrono::milliseconds pause, const std::string& why);
  void on_connected(int server, ProvenSocket proven);
  void on_frame(int server, const FrameHeader& header, std::vector<std::byte> payload) override;
  [[nodiscard]] bool on_control(int server, const FrameHeader& header,
                                const std::vector<std::byte>& payload);
  [[nodiscard]] bool on_refused(int server, Span<const std::byte> payload);
  [[nodiscard]] bool on_abort(Span<const std::byte> payload);
  [[nodiscard]] bool on_signature(int server, const std::string& lines);
  void on_closed(int server, const std::string& reason, FrameFault fault) override;
  void lose(int server, const std::string& how) override;
  void give_up(int server, const std::string& how);
  [[nodiscard]] const Member& member(int server) const {
    return cluster_.servers[static_cast<std::size_t>(server)];
  }
  [[nodiscard]] Stage& stage(int server) { return stages_[static_cast<std::size_t>(server)]; }

  const Cluster& cluster_;
  const ServedModel& model_;
  const JoinTerms terms_;
  const Hello hello_;
  ClientInbox& inbox_;
  ControlLines lines_;                                  // by server
  std::vector<std::unique_ptr<Connector>> connectors_;  // by server
  std::vector<Stage> stages_;                           // by server
};

}  // namespace troupe
