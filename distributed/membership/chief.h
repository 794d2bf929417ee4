// Chief: rank 0's end of the control plane, and the arbiter of the group.
//
// Before the welcome a worker may come, go and come again; a stranger or a worker of another job is
// turned away without harm, and one that fails or says what nobody says then loses its line. From
// the welcome on, whoever is lost stops the group, and the first failure that arrives here is the
// reason that every worker reports.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <vector>

#include "troupe/distributed/membership/door.h"
#include "troupe/distributed/membership/group_state.h"
#include "troupe/distributed/membership/link_maker.h"
#include "troupe/distributed/membership/membership.h"
#include "troupe/distributed/membership/start_watch.h"

namespace troupe {

class Chief final : public ControlPlane, private DoorKeeper, private LineOwner {
 public:
  /// `acceptor` and `state` outlive this object.
  Chief(GroupState& state, boost::asio::io_context& context, Acceptor& acceptor,
        const JoinTerms& terms);

  void join() override;
  void report(const Failure& failure) override;
  void suspect(int peer, const std::string& what) override;
  void goodbye(const Deadline& limit) override;

 private:
  enum class Stage { gathering, linking, running, closing };
  struct Peer {
    LinkAddress listens;
    std::uint64_t entered = 0;  // collectives, by its last heartbeat
    bool has_agreed = false;    // to the terms, or its difference is known
    bool ready = false;
    bool gave_up = false;  // at its own start timeout
  };

  [[nodiscard]] std::optional<Refusal> objection(const Hello& hello) const override;
  void on_seated(const Hello& hello) override;
  void on_agreed(int rank) override;
  void on_difference(int rank, const Failure& failure) override;
  void proceed() override;
  void start_if_ready();

  void on_frame(int rank, const FrameHeader& header, std::vector<std::byte> payload) override;
  [[nodiscard]] bool on_report(int rank, const FrameHeader& header, Span<const std::byte> body);
  void on_closed(int rank, const std::string& reason, FrameFault fault) override;
  void lose(int rank, const std::string& how) override;
  void on_start_timeout();
  void announce_soon();
  void finish_goodbye();

  void hold_suspicion(int reporter, const Suspicion& suspicion);
  void fail(const Failure& failure);
  [[nodiscard]] bool failing() const { return lines_.failed() || state_.failed(); }
  [[nodiscard]] Failure blame_the_late(Failure failure, std::uint64_t sequence) const;
  [[nodiscard]] std::vector<int> late() const;
  [[nodiscard]] std::string names_of(const std::vector<int>& ranks) const;
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  GroupState& state_;
  Acceptor& acceptor_;
  ControlLines lines_;
  Door door_;
  LinkMaker links_;
  StartWatch start_watch_;
  boost::asio::steady_timer announce_;
  boost::asio::steady_timer suspicion_limit_;
  boost::asio::steady_timer goodbye_limit_;
  std::vector<Peer> peers_;  // by rank; [0] is this process
  Stage stage_ = Stage::gathering;
  bool is_announcing_ = false;  // announce_ is about to
  std::optional<Failure> suspicion_;
};

}  // namespace troupe
