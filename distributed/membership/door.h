// Door: which processes are admitted, at the chief and at a parameter server.
//
// A hello is compared with what this process is; one that fits gets the line of its rank; then its
// terms are compared. Where that line is taken, the newcomer waits: a worker that was killed and
// started again at once may knock before the end of its old connection has been read, and where its
// machine went with it there is no such end, only silence until heartbeat_timeout. If the holder
// speaks meanwhile, two processes were given one task, and the newcomer is sent away for good.
//
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "troupe/distributed/membership/control_lines.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/join_terms.h"
#include "troupe/distributed/net/strangers.h"

namespace troupe {

/// What only the process behind the door knows.
class DoorKeeper {
 public:
  virtual ~DoorKeeper() = default;
  /// To a worker of this cluster, whoever holds its seat; none: it may come in.
  [[nodiscard]] virtual std::optional<Refusal> objection(const Hello& hello) const = 0;
  /// It has its line; whether it trains the same thing, one of the next two says.
  virtual void on_seated(const Hello& hello) = 0;
  virtual void on_agreed(int rank) = 0;
  /// A difference in the model the worker may find itself, and report.
  virtual void on_difference(int rank, const Failure& failure) = 0;
  /// Nobody waits any more for a seat that another holds.
  virtual void proceed() {}
};

class Door {
 public:
  /// All but the terms outlive this object.
  Door(boost::asio::io_context& context, const Cluster& cluster, const JoinTerms& terms,
       ControlLines& lines, DoorKeeper& keeper);

  /// A hello, from who has proven to be of this job.
  void take(Introduction first);
  /// Stops the group for this reason, unless there is one already, when those that have yet to come
  /// have had time to learn it too instead of finding nobody.
  void note_difference(const Failure& failure);
  [[nodiscard]] const std::optional<Failure>& difference() const { return difference_; }
  /// Whether the holder of a seat may be gone: another waits for it.
  [[nodiscard]] bool has_doubts() const { return !twins_.empty(); }

 private:
  /// Somebody whose seat is taken.
  struct Twin {
    std::shared_ptr<Connection> connection;
    Hello hello;
    std::chrono::steady_clock::time_point listens_from;  // to the holder
  };

  [[nodiscard]] std::optional<Refusal> objection(const FrameHeader& header,
                                                 const Hello& hello) const;
  [[nodiscard]] Refusal already_taken(const Hello& hello, Retry retry) const;
  void refuse(const std::shared_ptr<Connection>& connection, const Refusal& refusal,
              std::uint16_t version = kProtocolVersion);
  [[nodiscard]] bool is_taken(int rank) const;
  void wait_for_seat(const std::shared_ptr<Connection>& connection, const Hello& hello);
  void look_again();
  void settle(const Twin& twin);
  void let_in(const std::shared_ptr<Connection>& connection, const Hello& hello);
  void compare_terms(const Hello& hello);

  const Cluster& cluster_;
  const Hello own_;
  const std::string signature_;  // its lines
  ControlLines& lines_;
  DoorKeeper& keeper_;
  std::map<int, Twin> twins_;  // by rank
  boost::asio::steady_timer look_;
  std::optional<Failure> difference_;
  boost::asio::steady_timer difference_limit_;
  int refusals_logged_ = 0;
};

}  // namespace troupe
