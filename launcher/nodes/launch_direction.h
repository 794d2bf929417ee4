// Who decides when the processes of this machine start, stop and end: this launcher where it is
// the only one, node 0 where the group spreads over several machines.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>

#include "troupe/launcher/run/launch_options.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_policy.h"
#include "troupe/launcher/run/launch_start.h"

namespace troupe {

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
  /// The part of this machine has ended, or is being stopped for a reason of its own.
  virtual void on_part(const PartEnd& part, bool has_ended) = 0;
  /// SIGINT, SIGTERM or SIGHUP came while no process ran.
  virtual void on_signal(int number) = 0;
};

/// Decides whether the group starts again. As it is, on this machine alone: nobody else has to be
/// asked.
class DecidingDirection : public LaunchDirection {
 public:
  /// `options` and `console` outlive it.
  DecidingDirection(boost::asio::io_context& io, const LaunchOptions& options,
                    LaunchConsole& console, LaunchOrders orders);
  void begin() override { start_now(); }
  void on_part(const PartEnd& part, bool has_ended) override {
    if (has_ended) decide(part);
  }
  void on_signal(int number) override;

 protected:
  /// Starts the group, on all machines.
  virtual void start_group(const NodePlan& plan);
  /// All have ended, and nothing follows.
  virtual void end_all(int exit_code) { orders_.finish(exit_code); }
  void start_now();
  [[nodiscard]] ElasticRun elastic_run(RemoteWorkers* remote = nullptr);
  /// All processes of one start have ended.
  void decide(const PartEnd& verdict);
  /// Instead of the next start.
  void give_up(int exit_code);
  [[nodiscard]] const LaunchOrders& orders() const { return orders_; }

 private:
  [[nodiscard]] std::uint64_t take_generation();

  const LaunchOptions& options_;
  LaunchConsole& console_;
  const LaunchOrders orders_;
  RestartPolicy policy_;
  StepLosses losses_;  // of an elastic run
  boost::asio::steady_timer pause_;
  std::chrono::steady_clock::time_point started_{};
  std::uint64_t generation_ = 0;
};

}  // namespace troupe
