#include "troupe/launcher/run/launch_losses.h"

#include <chrono>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

// Before a lost worker is started again, and before one that lost its peers counts as lost itself:
// if a server is the cause, that one shows first.
constexpr std::chrono::milliseconds kLossPause{1'000};

}  // namespace

LaunchLosses::LaunchLosses(boost::asio::io_context& io, LaunchConsole& console,
                           LaunchPolicy& policy, LaunchOutcome& outcome, Events events)
    : io_(io), console_(console), policy_(policy), outcome_(outcome), events_(std::move(events)) {}

/// A killed worker is reported at once; one that lost its peers may be the first to see that a
/// server is gone.
void LaunchLosses::add(const EndedProcess& process, const LaunchedWorker* worker, int index,
                       Consequence consequence, bool is_elastic) {
  const bool again = consequence == Consequence::start_again;
  const std::string done = is_elastic ? "training had ended" : "the chief had ended well";
  std::string now = "training continues without it";
  std::string later = "training continued without it";
  if (again) {
    now = text("it is started again (", policy_.restart_text(index), ")");
    later = "it was started again";
  } else if (policy_.training_is_done()) {
    now = later = done;
  }
  const std::size_t loss = outcome_.add_loss(process, worker, std::move(now), std::move(later));
  if (again) events_.on_expected(index);
  if (process.end.signal != 0) tell(loss);
  pauses_.push_back(std::make_unique<Timer>(io_));
  run_after(*pauses_.back(), kLossPause, [this, loss, again, index] {
    if (!events_.is_running()) return;
    tell(loss);
    if (again && !policy_.training_is_done()) start_again(index);
  });
}

void LaunchLosses::tell(std::size_t loss) {
  const std::string sentence = outcome_.tell(loss);
  if (!sentence.empty()) console_.say(sentence);
}

void LaunchLosses::start_again(int index) {
  policy_.on_start_again();
  start_ordered(index);
}

/// That it cannot be started is no reason to end the others.
void LaunchLosses::start_ordered(int index) {
  if (!events_.is_running()) return;
  try {
    events_.on_start_again(index);
  } catch (const Error& error) {
    console_.say(text("worker/", index, " is not started again: ", error.what()));
  }
}

void LaunchLosses::start_returned(int index) {
  if (!events_.is_running() || policy_.training_is_done()) return;
  if (!policy_.takes_back()) {
    return console_.say(text("worker/", index, " is not started again: no restart is left."));
  }
  console_.say(text("worker/", index, " is started again (", policy_.restart_text(index), ")."));
  start_again(index);
}

}  // namespace troupe
