#include "troupe/launcher/nodes/launch_direction.h"

#include <algorithm>
#include <boost/asio/ip/address_v4.hpp>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {

DecidingDirection::DecidingDirection(boost::asio::io_context& io, const LaunchOptions& options,
                                     LaunchConsole& console, LaunchOrders orders)
    : options_(options),
      console_(console),
      orders_(std::move(orders)),
      policy_(options.max_restarts),
      pause_(io) {}

/// Of a start, or of an elastic group's round: a later one of the same job has a larger number.
std::uint64_t DecidingDirection::take_generation() {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return generation_ = std::max(generation_ + 1, static_cast<std::uint64_t>(now.count()));
}

void DecidingDirection::start_now() {
  started_ = std::chrono::steady_clock::now();
  start_group({take_generation(), policy_.used()});
}

void DecidingDirection::start_group(const NodePlan& plan) {
  GroupStart start{plan};
  start.plan.world_size = options_.workers;
  const int listening = options_.is_elastic() ? options_.workers : std::max(1, options_.servers);
  for (int i = 0; i < listening; ++i)
    start.listeners.emplace_back(boost::asio::ip::address_v4::loopback());
  start.plan.chief_host = start.host;
  start.plan.chief_port = start.listeners.front().port();
  if (options_.is_elastic()) start.elastic = elastic_run();
  orders_.start(std::move(start));
}

ElasticRun DecidingDirection::elastic_run(RemoteWorkers* remote) {
  return {&policy_, &losses_, [this] { return take_generation(); }, remote};
}

void DecidingDirection::decide(const PartEnd& verdict) {
  const auto lived = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  const auto pause = policy_.after(verdict, lived);
  if (pause) {
    console_.say(text(verdict.cause, "; restart ", policy_.used(), " of ", policy_.most(), " in ",
                      seconds_text(*pause), ", from the newest checkpoint."));
    return run_after(pause_, *pause, [this] { start_now(); });
  }
  if (verdict.failed && policy_.most() > 0) {
    const bool worth = is_worth_a_restart(verdict.exit_code);
    console_.say(
        worth && verdict.can_recover
            ? text(verdict.cause, "; no restart is left of ", policy_.most(), ".")
            : text(verdict.cause, "; not restarted: ",
                   worth ? "the others cannot be reached." : "something has to be fixed first."));
  }
  end_all(verdict.exit_code);
}

void DecidingDirection::give_up(int exit_code) {
  pause_.cancel();
  end_all(exit_code);
}

void DecidingDirection::on_signal(int number) { give_up(kExitSignal + number); }

}  // namespace troupe
