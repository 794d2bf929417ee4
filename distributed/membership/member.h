// GroupMember: every worker's end of the control plane except the chief's.
//
// It connects to the chief until that answers, follows what the chief says, and finds out by itself
// when the chief is gone.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "troupe/distributed/membership/control_lines.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/group_state.h"
#include "troupe/distributed/membership/link_maker.h"
#include "troupe/distributed/membership/membership.h"
#include "troupe/distributed/membership/start_watch.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/distributed/net/connector.h"

namespace troupe {

class GroupMember final : public ControlPlane, private LineOwner {
 public:
  /// `acceptor` may be null: then one is made on the address that reaches the chief.
  GroupMember(GroupState& state, boost::asio::io_context& context,
              std::unique_ptr<Acceptor>& acceptor, const JoinTerms& terms);

  void join() override;
  void report(const Failure& failure) override;
  void suspect(int peer, const std::string& what) override;
  void goodbye(const Deadline& limit) override;

 private:
  enum class Stage { reaching, waiting, linking, running };

  void reach(const std::string& why, std::chrono::milliseconds pause);
  void on_connected(ProvenSocket proven);
  void ensure_acceptor(const Connection& connection);
  void on_frame(int chief, const FrameHeader& header, std::vector<std::byte> payload) override;
  [[nodiscard]] bool on_signature(const std::string& lines);
  void on_refused(const Refusal& refusal);
  void on_welcome(const Welcome& welcome);
  void on_closed(int chief, const std::string& reason, FrameFault fault) override;
  void lose(int chief, const std::string& how) override;
  void on_start_timeout();
  [[nodiscard]] Failure overdue() const;
  [[nodiscard]] std::string waited_for() const;
  void lose_chief(const std::string& how);
  void lose_chief_by(const Failure& failure);
  void send(FrameType type, const std::string& payload);
  [[nodiscard]] const Member& chief() const { return state_.cluster.members[0]; }

  GroupState& state_;
  boost::asio::io_context& context_;
  std::unique_ptr<Acceptor>& acceptor_;
  const JoinTerms terms_;
  Hello hello_;
  ControlLines lines_;  // one: to the chief
  LinkMaker links_;
  Connector connector_;
  StartWatch start_watch_;
  Stage stage_ = Stage::reaching;
  bool accepting_ = false;
  bool awaits_verdict_ = false;
  std::string missing_;  // who the chief is waiting for, by its word
};

}  // namespace troupe
