#include "train/callbacks/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "core/text.h"

namespace troupe {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr std::int64_t kWidth = 30;

void write_to_terminal(const std::string& characters) {
  std::fwrite(characters.data(), 1, characters.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

ProgressBar::ProgressBar(std::int64_t total_steps, const Clock& clock)
    : total_steps_(std::max<std::int64_t>(total_steps, 1)),
      clock_(clock),
      last_drawn_(clock.now()) {}

bool ProgressBar::has_terminal() { return isatty(STDERR_FILENO) == 1; }

void ProgressBar::after_step(const StepReport& report, RunControl& /*run*/) {
  const auto now = clock_.now();
  if (!report.losses.empty()) write_to_terminal("\r\033[K");  // a log line takes the bar's place
  if (now - last_drawn_ < kInterval && report.step != total_steps_) return;
  last_drawn_ = now;
  const auto done = std::min(kWidth, report.step * kWidth / total_steps_);
  write_to_terminal(text("\r[", std::string(static_cast<std::size_t>(done), '='),
                         std::string(static_cast<std::size_t>(kWidth - done), ' '), "] step ",
                         report.step, " of ", total_steps_));
}

void ProgressBar::after_epoch(std::int64_t, const Report&, const Report*) {
  write_to_terminal("\r\033[K");
}

}  // namespace troupe
