// Chief: rank 0's end of the control plane, and the arbiter of the group.
//
// Before the welcome a worker may come, go and come again; a stranger or a worker of another job is
// turned away without harm. From the welcome on, whoever is lost stops the group, and the first
// failure that arrives here is the reason that every worker reports.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/membership/control_messages.h"
#include "distributed/membership/control_plane.h"
#include "distributed/membership/group_state.h"
#include "distributed/membership/link_maker.h"
#include "distributed/membership/liveness.h"
#include "net/acceptor.h"
#include "net/connection.h"

namespace troupe {

class Chief final : public ControlPlane {
 public:
  /// `acceptor` and `state` outlive this object.
  Chief(GroupState& state, boost::asio::io_context& context, Acceptor& acceptor,
        const JoinTerms& terms);

  void join() override;
  void report(const Failure& failure) override;
  void suspect(int peer, const std::string& what) override;
  void goodbye() override;

 private:
  enum class Stage { gathering, linking, running };
  struct Peer {
    std::shared_ptr<Connection> connection;  // null: not here
    Hello hello;
    std::uint64_t entered = 0;  // collectives, by its last heartbeat
    bool awaits_difference = false;
    bool ready = false;
    bool said_goodbye = false;
    bool gone = false;  // after the goodbye
  };

  void take(FirstFrame first);
  [[nodiscard]] std::optional<Refusal> objection(const FrameHeader& header,
                                                 const std::optional<Hello>& hello) const;
  void refuse(const std::shared_ptr<Connection>& connection, const Refusal& refusal);
  void admit(const std::shared_ptr<Connection>& connection, const Hello& hello);
  void compare_terms(int rank);
  void note_difference(int rank, const std::string& what, const TermsDifference& difference);
  void proceed_if_complete();
  void welcome_all();
  void start_if_ready();

  void on_frame(int rank, const FrameHeader& header, const std::vector<std::byte>& payload);
  void on_closed(int rank, const std::string& reason);
  void on_tick();
  void on_start_timeout();
  void announce_soon();
  void announce_missing();
  void finish_goodbye();

  void hold_suspicion(int reporter, const Suspicion& suspicion);
  void fail(const Failure& failure);
  void finish_failing();
  [[nodiscard]] bool failing() const;
  [[nodiscard]] Failure blame_the_late(Failure failure, std::uint64_t sequence) const;
  void send(int rank, FrameType type, const std::string& payload);
  void send_all(FrameType type, const std::string& payload);
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] const std::string& task(int rank) const;
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  GroupState& state_;
  boost::asio::io_context& context_;
  Acceptor& acceptor_;
  const JoinTerms terms_;
  const std::string fingerprint_;
  const std::string signature_hash_;
  LinkMaker links_;
  Liveness liveness_;
  boost::asio::steady_timer tick_;
  boost::asio::steady_timer start_limit_;
  boost::asio::steady_timer announce_;
  boost::asio::steady_timer progress_;
  boost::asio::steady_timer grace_;
  std::chrono::steady_clock::time_point began_;
  std::vector<Peer> peers_;  // by rank; [0] is this process
  Stage stage_ = Stage::gathering;
  bool announcing_ = false;  // announce_ is about to
  std::optional<Failure> terms_failure_;
  std::optional<Failure> suspicion_;
  std::optional<Failure> failing_;  // decided; on its way to the workers
  std::chrono::steady_clock::time_point flush_limit_;
  int refusals_logged_ = 0;
};

/// How often heartbeats are sent and silence is looked at: at most every heartbeat_interval, and at
/// least four times per heartbeat_timeout; the last look before a loss comes when the timeout is
/// over.
[[nodiscard]] std::chrono::milliseconds tick_of(const GroupOptions& options);

/// "worker/1 at 127.0.0.1:2223"
[[nodiscard]] std::string describe_member(const Member& member);

/// "a, b and 7 more"
[[nodiscard]] std::string join_names(const std::vector<std::string>& names);

}  // namespace troupe
