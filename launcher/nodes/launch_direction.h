// Who decides when the processes of this machine start, stop and end: this launcher where it is
// the only one, node 0 where the group spreads over several machines.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "troupe/launcher/run/launch_options.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_restarts.h"
#include "troupe/launcher/run/launch_start.h"

namespace troupe {

/// How the part of the group on one machine ended, or why it is being stopped.
struct PartEnd {
  GroupEnd end;
  int signal = 0;     // what told its launcher to stop; 0: nothing did
  std::string cause;  // "worker/1 was killed by signal 9 (Killed) after 3.2 s"; empty: none
};

/// What is to be done here.
struct LaunchOrders {
  std::function<void(GroupStart)> start;
  /// As LaunchGroup::stop; nothing where no process runs.
  std::function<void(int signal, std::chrono::milliseconds limit)> stop;
  std::function<void(int exit_code)> finish;
  /// What runs here may live until then (LaunchGuard::allow_until).
  std::function<void(std::chrono::steady_clock::time_point)> allow_until;
};

class LaunchDirection {
 public:
  virtual ~LaunchDirection() = default;
  /// Orders come from now on.  Throws: ConfigError, EnvironmentError, RendezvousError.
  virtual void begin() = 0;
  /// The part of this machine is being stopped, for a reason of its own.
  virtual void on_failing(const PartEnd& part) = 0;
  virtual void on_end(const PartEnd& part) = 0;
  /// SIGINT, SIGTERM or SIGHUP came while no process ran.
  virtual void on_signal(int number) = 0;
};

/// Decides whether the group starts again; how it does is its descendants' business.
class DecidingDirection : public LaunchDirection {
 public:
  /// `console` outlives it.
  DecidingDirection(boost::asio::io_context& io, int most_restarts, LaunchConsole& console,
                    LaunchOrders orders);

 protected:
  /// Starts the group, on all machines.
  virtual void start_group(std::uint64_t generation, int attempt) = 0;
  /// All have ended, and nothing follows.
  virtual void end_all(int exit_code) = 0;
  void start_now();
  /// Of a start, or of an elastic group's round.
  [[nodiscard]] std::uint64_t take_generation();
  [[nodiscard]] RestartPolicy& restarts() { return policy_; }
  /// All processes of one start have ended.
  void decide(const PartEnd& verdict);
  /// Instead of the next start.
  void give_up(int exit_code);
  [[nodiscard]] const LaunchOrders& orders() const { return orders_; }

 private:
  LaunchConsole& console_;
  const LaunchOrders orders_;
  RestartPolicy policy_;
  boost::asio::steady_timer pause_;
  std::chrono::steady_clock::time_point started_{};
  std::uint64_t generation_ = 0;
};

/// Nobody else has to be asked.
class OneMachine final : public DecidingDirection {
 public:
  OneMachine(boost::asio::io_context& io, const LaunchOptions& options, LaunchConsole& console,
             LaunchOrders orders)
      : DecidingDirection(io, options.max_restarts, console, std::move(orders)),
        options_(options) {}
  void begin() override { start_now(); }
  void on_failing(const PartEnd& part) override { static_cast<void>(part); }
  void on_end(const PartEnd& part) override { decide(part); }
  void on_signal(int number) override;

 private:
  void start_group(std::uint64_t generation, int attempt) override;
  void end_all(int exit_code) override { orders().finish(exit_code); }

  const LaunchOptions& options_;
  StepLosses losses_;  // of an elastic run
};

}  // namespace troupe
