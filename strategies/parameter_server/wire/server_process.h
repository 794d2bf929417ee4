// ServerProcess: one parameter server: admits workers, keeps their pace, hands updates to the store
// and new values back. docs/algorithms.md has the protocol, docs/wire.md its bytes. This class
// knows the members, from the first connection to the last goodbye; ServerSteps carries out what
// they ask for, ServerEnding the end.
//
// Server 0 is the clock of the job: it numbers the steps and holds workers back before the last
// step and during a collection. A worker that is lost is dropped and may join again; the chief or a
// server that is lost ends the job.
//
// Thread rule: the thread that calls run().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/distributed/membership/door.h"
#include "troupe/distributed/membership/start_watch.h"
#include "troupe/distributed/net/acceptor.h"
#include "troupe/strategies/parameter_server/wire/server_ending.h"
#include "troupe/strategies/parameter_server/wire/server_steps.h"

namespace troupe {

class ServerProcess : private DoorKeeper, private LineOwner {
 public:
  /// Binds this server's address. `store` outlives this object.
  /// Blocks: until its own name is known, at most start_timeout.
  /// Throws: EnvironmentError (port taken, address not ours), RendezvousError (the name did not
  /// become known), ConfigError (as check_server_cluster).
  ServerProcess(Cluster cluster, GroupOptions options, ServerOptions pace, ServedModel model,
                ParameterStore& store);
  /// Serves until the chief has ended training and the workers have left. A signal to
  /// stop (kStopSignals) is a request that waits for the chief's end, at most close_timeout after
  /// it; before training has begun it ends the job at once.
  /// Blocks: as long as training; for the chief's first sign at most start_timeout.
  /// Throws: RendezvousError (the chief did not come), PeerLost naming the chief or the server that
  /// is lost, PeerFailed with the reason of a worker that failed, Stopped after a signal.
  void run(const JoinTerms& terms);

 private:
  /// One worker's place at this server.
  struct Seat {
    bool awaits_clock = false;  // server 0: it has not been told where to start
    bool was_lost = false;
  };

  [[nodiscard]] std::optional<Refusal> objection(const Hello& hello) const override;
  void on_seated(const Hello& hello) override;
  void on_agreed(int rank) override;
  void on_difference(int rank, const Failure& failure) override;
  void tell_clock(int rank, std::int64_t clock);

  void on_frame(int rank, const FrameHeader& header, std::vector<std::byte> payload) override;
  [[nodiscard]] bool take(int rank, const FrameHeader& header, std::vector<std::byte> payload);
  [[nodiscard]] bool on_report(int rank, Span<const std::byte> payload);
  [[nodiscard]] bool on_enter(int rank, const FrameHeader& header);
  void on_goodbye(int rank);
  void on_closed(int rank, const std::string& reason, FrameFault fault) override;
  void lose(int rank, const std::string& how) override;
  void lose_by(int rank, const std::string& how, const Failure& failure);
  void await_losses();
  void examine();
  void on_start_timeout();
  [[nodiscard]] std::string waited_for() const;
  void fail(const Failure& failure) { lines_.fail(failure, FrameType::abort); }
  void fail_by(const std::exception& error);
  [[nodiscard]] const std::string& task(int rank) const { return cluster_.member(rank).task; }
  [[nodiscard]] Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }

  const Cluster cluster_;
  const GroupOptions options_;
  const ServerOptions pace_;
  const ServedModel model_;
  boost::asio::io_context context_{1};
  std::unique_ptr<Acceptor> acceptor_;
  boost::asio::posix::stream_descriptor losses_{context_};  // Cluster::losses
  std::int32_t lost_ = 0;                                   // a rank that is being read
  ControlLines lines_;                                      // by rank
  std::optional<Door> door_;                                // once the terms are known
  StartWatch start_watch_;
  ServerSteps steps_;
  ServerEnding ending_;
  std::vector<Seat> seats_;       // by rank
  std::exception_ptr own_error_;  // it came from the store
};

}  // namespace troupe
