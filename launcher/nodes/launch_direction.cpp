#include "troupe/launcher/nodes/launch_direction.h"

#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {

DecidingDirection::DecidingDirection(boost::asio::io_context& io, int most_restarts,
                                     LaunchConsole& console, LaunchOrders orders)
    : console_(console), orders_(std::move(orders)), policy_(most_restarts), pause_(io) {}

std::uint64_t DecidingDirection::take_generation() {
  return generation_ = next_generation(generation_);
}

void DecidingDirection::start_now() {
  started_ = std::chrono::steady_clock::now();
  start_group(take_generation(), policy_.used());
}

void DecidingDirection::decide(const PartEnd& verdict) {
  const auto lived = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - started_);
  const auto pause = policy_.after(verdict.end, lived);
  if (pause) {
    console_.say(text(verdict.cause, "; restart ", policy_.used(), " of ", policy_.most(), " in ",
                      seconds_text(std::chrono::duration<double>(*pause).count()),
                      ", from the newest checkpoint."));
    return run_after(pause_, *pause, [this] { start_now(); });
  }
  if (verdict.end.failed && policy_.most() > 0) {
    const bool worth = is_worth_a_restart(verdict.end.exit_code);
    console_.say(
        worth && verdict.end.can_recover
            ? text(verdict.cause, "; no restart is left of ", policy_.most(), ".")
            : text(verdict.cause, "; not restarted: ",
                   worth ? "the others cannot be reached." : "something has to be fixed first."));
  }
  end_all(verdict.end.exit_code);
}

void DecidingDirection::give_up(int exit_code) {
  pause_.cancel();
  end_all(exit_code);
}

void OneMachine::on_signal(int number) { give_up(kExitSignal + number); }

void OneMachine::start_group(std::uint64_t generation, int attempt) {
  GroupStart start = start_here(options_, generation);
  start.attempt = attempt;
  if (options_.min_workers > 0)
    start.elastic = {&restarts(), &losses_, [this] { return take_generation(); }};
  orders().start(std::move(start));
}

}  // namespace troupe
