#include "troupe/distributed/membership/start_watch.h"

#include <utility>

#include "troupe/core/clock.h"
#include "troupe/core/log.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

constexpr std::chrono::seconds kProgressEvery{5};

}  // namespace

StartWatch::StartWatch(boost::asio::io_context& context, std::chrono::milliseconds limit,
                       std::function<std::string()> whom, std::function<void()> on_over)
    : limit_(limit),
      whom_(std::move(whom)),
      on_over_(std::move(on_over)),
      over_(context),
      progress_(context) {}

void StartWatch::begin() {
  began_ = std::chrono::steady_clock::now();
  extend(limit_);
  log_progress();
}

void StartWatch::extend(std::chrono::milliseconds time) { run_after(over_, time, on_over_); }

void StartWatch::end() {
  over_.cancel();
  progress_.cancel();
}

void StartWatch::log_progress() {
  run_after(progress_, kProgressEvery, [this] {
    const auto waited =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began_);
    const std::string whom = whom_();
    if (!whom.empty()) {
      log_info("waiting for ", whom, " (", waited.count(), " s of ", Seconds(limit_).count(),
               " s)");
    }
    log_progress();
  });
}

}  // namespace troupe
