// MemberPlane: every worker's end of the control plane except the chief's.
//
// It connects to the chief until that answers, follows what the chief says, and finds out by itself
// when the chief is gone.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/membership/control_messages.h"
#include "distributed/membership/control_plane.h"
#include "distributed/membership/group_state.h"
#include "distributed/membership/link_maker.h"
#include "distributed/membership/liveness.h"
#include "net/acceptor.h"
#include "net/connection.h"
#include "net/connector.h"

namespace troupe {

class MemberPlane final : public ControlPlane {
 public:
  /// `acceptor` may be null: then one is made on the address that reaches the chief.
  MemberPlane(GroupState& state, boost::asio::io_context& context,
              std::unique_ptr<Acceptor>& acceptor, const JoinTerms& terms);
  ~MemberPlane() override;

  void join() override;
  void report(const Failure& failure) override;
  void suspect(int peer, const std::string& what) override;
  void goodbye() override;

 private:
  enum class Stage { reaching, waiting, linking, running, leaving };

  void reach(const std::string& why, std::chrono::milliseconds pause);
  void on_connected(boost::asio::ip::tcp::socket socket);
  void ensure_acceptor();
  void on_frame(const FrameHeader& header, const std::vector<std::byte>& payload);
  void on_refused(const Refusal& refusal);
  void on_welcome(const Welcome& welcome);
  void on_closed(const std::string& reason, FrameFault fault);
  void on_tick();
  void on_start_timeout();
  void log_progress();
  void lose_chief(const std::string& how);
  void send(FrameType type, const std::string& payload);
  [[nodiscard]] const std::string& chief_task() const { return state_.cluster.members[0].task; }

  GroupState& state_;
  boost::asio::io_context& context_;
  std::unique_ptr<Acceptor>& acceptor_;
  const JoinTerms terms_;
  const std::string hello_fingerprint_;
  const std::string hello_signature_;
  LinkMaker links_;
  Liveness liveness_;
  Connector connector_;  // to the chief
  boost::asio::steady_timer tick_;
  boost::asio::steady_timer start_limit_;
  boost::asio::steady_timer progress_;
  std::chrono::steady_clock::time_point began_;
  std::shared_ptr<Connection> connection_;
  Stage stage_ = Stage::reaching;
  bool accepting_ = false;
  bool awaits_verdict_ = false;
  std::string missing_;  // who the chief is waiting for, by its word
};

}  // namespace troupe
