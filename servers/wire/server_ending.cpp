#include "servers/wire/server_ending.h"

#include <csignal>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "net/timer.h"
#include "servers/wire/server_messages.h"

namespace troupe {
namespace {

using ErrorCode = boost::system::error_code;

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

ServerEnding::ServerEnding(boost::asio::io_context& context, const Cluster& cluster,
                           std::chrono::milliseconds patience, ControlLines& lines,
                           const Heartbeats& heartbeats, FailureBroadcast& failures,
                           PaceKeeper& keeper)
    : context_(context),
      cluster_(cluster),
      patience_(patience),
      lines_(lines),
      heartbeats_(heartbeats),
      failures_(failures),
      keeper_(keeper),
      signals_(context),
      limit_(context) {}

void ServerEnding::watch_sigterm() {
  ErrorCode ignored;
  signals_.add(SIGTERM, ignored);
  signals_.async_wait([this](const ErrorCode& cancelled, int) {
    if (!cancelled) on_sigterm();
  });
}

void ServerEnding::forget_sigterm() {
  ErrorCode ignored;
  signals_.clear(ignored);
}

void ServerEnding::on_sigterm() {
  is_by_sigterm_ = true;
  log_info("SIGTERM: serving on until the chief ends training, at most ", seconds_of(patience_),
           " s.");
  if (keeper_.finished()) return;  // that has its own limit
  run_after(limit_, patience_, [this] {
    if (keeper_.finished()) return;
    failures_.begin({FailureKind::peer_failed, number_of(cluster_),
                     text(cluster_.task(), " was stopped by SIGTERM."),
                     "start the job again to go on.", kExitStopped},
                    FrameType::abort);
  });
}

void ServerEnding::stop_soon() {
  run_after(limit_, patience_, [this] { on_patience_over(); });
}

// The chief says goodbye when it has saved and tested, which may take long: as long as it lives it
// finds its servers.
void ServerEnding::on_patience_over() {
  if (statistics_told_) return is_by_sigterm_ || !is_here(0) ? context_.stop() : stop_soon();
  for (int rank = 1; rank < lines_.count(); ++rank) {
    if (!is_here(rank)) continue;
    log_warning(cluster_.member(rank).task, " has not left within ", seconds_of(patience_),
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
  if (!keeper_.finished() || failures_.begun()) return;
  for (int rank = 1; rank < lines_.count(); ++rank) {
    if (is_here(rank)) return;
  }
  tell_statistics();
  if (lines_.empty()) context_.stop();
}

}  // namespace troupe
