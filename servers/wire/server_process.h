// ServerProcess: one parameter server: admits workers, keeps their pace, hands updates to the store
// and new values back. docs/algorithms.md has the protocol, docs/wire.md its bytes.
//
// Server 0 is the clock of the job: it numbers the steps and holds workers back before the last
// step and during a collection. A worker that is lost is dropped and may join again; the chief or a
// server that is lost ends the job.
//
// A frame changes what the keepers know; examine() then does all that has become possible. Requests
// that must wait lie in the keepers until then, so there is one place that answers.
//
// Sources: server_process.cpp (life, losses, ending), server_admission.cpp (who may take part),
// server_steps.cpp (steps, updates, values).
// Thread rule: the thread that calls run().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/membership/control_messages.h"
#include "distributed/membership/failure.h"
#include "distributed/membership/liveness.h"
#include "distributed/worker_group.h"
#include "net/acceptor.h"
#include "net/connection.h"
#include "options/cluster.h"
#include "servers/wire/busy_pulse.h"
#include "servers/wire/change_log.h"
#include "servers/wire/pace_keeper.h"
#include "servers/wire/parameter_store.h"
#include "servers/wire/placement.h"
#include "servers/wire/row_messages.h"

namespace troupe {

class ServerProcess {
 public:
  /// Binds this server's address. `store` outlives this object.
  /// Throws: EnvironmentError (port taken, address not ours), ConfigError (an address outside
  /// loopback without `insecure`).
  ServerProcess(Cluster cluster, GroupOptions options, Staleness pace, ServedModel model,
                ParameterStore& store);
  /// Serves until the chief has ended training and the workers have left. SIGTERM is a request that
  /// waits for the chief's end, at most close_timeout after it.
  /// Blocks: as long as training; for the chief's first sign at most start_timeout.
  /// Throws: RendezvousError (the chief did not come), PeerLost naming the chief or the server that
  /// is lost, PeerFailed with the reason of a worker that failed, Stopped after SIGTERM.
  void run(const JoinTerms& terms);

 private:
  /// One worker's place at this server.
  struct Seat {
    std::shared_ptr<Connection> connection;  // null: not here
    bool awaits_clock = false;               // server 0: it has not been told where to start
    bool was_lost = false;
    bool left = false;                           // it said goodbye
    std::int64_t version = ChangeLog::kNothing;  // of the values it has
    std::uint64_t received_bytes = 0;            // at the last tick
    std::optional<ReceivedPush> push;            // waits for its round
  };

  // server_admission.cpp
  void take(FirstFrame first);
  void decide(FirstFrame first);
  [[nodiscard]] bool taken(int rank) const;
  [[nodiscard]] std::optional<Refusal> objection(const FrameHeader& header,
                                                 const std::optional<Hello>& hello) const;
  void refuse(const std::shared_ptr<Connection>& connection, const Refusal& refusal);
  void admit(const std::shared_ptr<Connection>& connection, const Hello& hello);
  void note_difference(int rank, const Failure& failure);
  void tell_clock(int rank, std::int64_t clock);
  void on_enter(int rank, const FrameHeader& header);
  void launch_if_complete();
  [[nodiscard]] std::vector<int> absent() const;

  // server_steps.cpp
  void on_frame(int rank, const FrameHeader& header, std::vector<std::byte> payload);
  [[nodiscard]] bool take_request(int rank, const FrameHeader& header,
                                  std::vector<std::byte> payload);
  [[nodiscard]] bool take_chief_request(const FrameHeader& header, std::vector<std::byte> payload);
  [[nodiscard]] bool on_report(int rank, Span<const std::byte> payload);
  [[nodiscard]] bool on_begin(int rank, std::int64_t clock);
  [[nodiscard]] bool on_push(int rank, std::vector<std::byte> payload);
  [[nodiscard]] bool on_launch(Span<const std::byte> payload);
  [[nodiscard]] bool on_finish(Span<const std::byte> payload);
  void examine();
  void apply_round(const RoundKeeper::Update& update);
  void apply(const std::vector<const Push*>& pushes, double scale);
  void answer_push(int rank, PushOutcome outcome);
  void fail_on_conflict();
  void send_values(int rank);
  void send_state();
  [[nodiscard]] std::string waits_for(int rank) const;

  // server_process.cpp
  void on_closed(int rank, const std::string& reason);
  void lose(int rank, const std::string& how);
  void on_goodbye(int rank);
  void on_tick();
  void on_start_timeout();
  void limit_start();
  void on_sigterm();
  void end_if_left();
  void fail(const Failure& failure);
  void fail_by(const std::exception& error);
  void finish_failing();
  void stop_at(std::chrono::milliseconds limit);
  void send(int rank, FrameType type, std::uint64_t sequence, const std::string& payload);
  [[nodiscard]] bool failing() const { return failing_.has_value(); }
  [[nodiscard]] bool is_clock() const { return cluster_.server == 0; }
  [[nodiscard]] const std::string& task(int rank) const {
    return cluster_.members[static_cast<std::size_t>(rank)].task;
  }
  [[nodiscard]] Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Seat& seat(int rank) const { return seats_[static_cast<std::size_t>(rank)]; }

  const Cluster cluster_;
  const GroupOptions options_;
  const Staleness pace_;
  const ServedModel model_;
  ParameterStore& store_;
  JoinTerms terms_;
  std::string fingerprint_;
  std::string signature_hash_;

  boost::asio::io_context context_{1};
  std::unique_ptr<Acceptor> acceptor_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer tick_;
  boost::asio::steady_timer start_limit_;
  boost::asio::steady_timer grace_;
  boost::asio::steady_timer stop_limit_;
  Liveness liveness_;

  WorkerClocks clocks_;
  RoundKeeper rounds_;
  PaceKeeper keeper_;
  ChangeLog changes_;
  std::vector<Seat> seats_;  // by rank
  struct Encoded {
    std::int64_t from = -1;
    std::int64_t to = -1;
    std::shared_ptr<const std::vector<std::byte>> bytes;
  };
  Encoded encoded_;                         // the last values message: often several want the same
  std::vector<std::byte> initial_state_;    // came before launch
  std::optional<Launch> pending_launch_;    // until all workers are here
  std::optional<TargetClocks> collecting_;  // the chief waits for our state
  bool statistics_sent_ = false;
  bool sigterm_ = false;
  int refusals_logged_ = 0;
  std::optional<Failure> terms_failure_;
  std::optional<Failure> failing_;  // decided; on its way to the workers
  std::exception_ptr own_error_;    // it came from the store
  std::chrono::steady_clock::time_point flush_limit_;
  BusyPulse pulse_;  // while the store works; last: it uses the seats
};

}  // namespace troupe
