#include "troupe/strategies/parameter_server/wire/server_ending.h"

#include <csignal>
#include <utility>

#include "troupe/core/clock.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace troupe {
ServerEnding::ServerEnding(boost::asio::io_context& context, const Cluster& cluster,
                           std::chrono::milliseconds patience, ControlLines& lines,
                           PaceKeeper& keeper)
    : context_(context),
      cluster_(cluster),
      patience_(patience),
      lines_(lines),
      keeper_(keeper),
      signals_(context),
      limit_(context) {}

void ServerEnding::watch_signals() {
  boost::system::error_code ignored;
  for (const int number : kStopSignals)
    if (number != SIGHUP || !is_ignored(number)) signals_.add(number, ignored);
  await_signal();
}

void ServerEnding::await_signal() {
  signals_.async_wait([this](const boost::system::error_code& cancelled, int number) {
    if (cancelled) return;
    await_signal();
    on_signal(number);
  });
}

void ServerEnding::forget_signals() {
  boost::system::error_code ignored;
  signals_.clear(ignored);
}

void ServerEnding::on_signal(int number) {
  const auto now = std::chrono::steady_clock::now();
  if (stop_signal_ != 0) {
    if (number != SIGINT || now - stopped_at_ < kSameRequest) return;
    forget_signals();
    std::raise(SIGINT);
    return;
  }
  stop_signal_ = number;
  stopped_at_ = now;
  if (keeper_.finished()) return;  // that has its own limit
  if (!keeper_.launched())
    return stop_job();  // nothing is trained, so the chief has nothing to save
  log_info(signal_name(number), ": serving on until the chief ends training, at most ",
           Seconds(patience_).count(), " s.");
  run_after(limit_, patience_, [this] { stop_job(); });
}

void ServerEnding::stop_job() {
  if (keeper_.finished()) return;
  lines_.fail({FailureKind::peer_failed, number_of(cluster_),
               text(cluster_.task(), " was stopped by ", signal_name(stop_signal_), "."),
               "start the job again to go on.", kExitSignal + stop_signal_},
              FrameType::abort);
}

void ServerEnding::stop_soon() {
  run_after(limit_, patience_, [this] { on_patience_over(); });
}

// The chief says goodbye when it has saved and tested, which may take long: as long as it lives it
// finds its servers.
void ServerEnding::on_patience_over() {
  if (statistics_told_) return stop_signal_ != 0 || !is_here(0) ? context_.stop() : stop_soon();
  for (int rank = 1; rank < lines_.count(); ++rank) {
    if (!is_here(rank)) continue;
    log_warning(cluster_.member(rank).task, " has not left within ", Seconds(patience_).count(),
                " s after the end of training.");
  }
  tell_statistics();
  stop_soon();
}

void ServerEnding::tell_statistics() {
  if (std::exchange(statistics_told_, true) || cluster_.server != 0) return;
  lines_.send(0, FrameType::statistics, to_json(keeper_.statistics()));
}

void ServerEnding::end_if_left() {
  if (!keeper_.finished() || lines_.failed()) return;
  for (int rank = 1; rank < lines_.count(); ++rank) {
    if (is_here(rank)) return;
  }
  tell_statistics();
  if (lines_.empty()) context_.stop();
}

}  // namespace troupe
