#include "troupe/launcher/run/launch_outcome.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {

std::size_t LaunchOutcome::add_loss(EndedProcess process, const LaunchedWorker* worker,
                                    std::string now, std::string later) {
  losses_.push_back({std::move(process), worker, std::move(now), std::move(later), false});
  return losses_.size() - 1;
}

std::string LaunchOutcome::tell(std::size_t loss) {
  Loss& lost = losses_[loss];
  if (std::exchange(lost.told, true)) return "";
  return text(end_text(lost.process), "; ", lost.now, ".");
}

bool LaunchOutcome::failed() const {
  return interrupted_by_ == 0 &&
         (has_culprit() || (first_victim_ != nullptr && !is_ordered_) || servers_overdue_);
}

std::string LaunchOutcome::cause() const {
  if (!failed()) return "";
  if (verdict_.exit_code != 0) return verdict_.cause;
  if (culprit_ != nullptr) return end_text(culprit_->ended());
  if (first_victim_ == nullptr) return "the servers did not end after training";
  return end_text(first_victim_->ended()) +
         (unresponsive_.empty() ? "" : text("; ", unresponsive_, " did not answer"));
}

int LaunchOutcome::exit_code() const {
  if (verdict_.exit_code != 0) return verdict_.exit_code;
  if (culprit_ != nullptr) return culprit_->end()->code;
  if (interrupted_by_ != 0) return 128 + interrupted_by_;
  if (first_victim_ != nullptr && !is_ordered_) return kExitPeerLost;
  if (servers_overdue_) return kExitFailed;
  return failed_evaluator_ != nullptr ? failed_evaluator_->end()->code : 0;
}

std::vector<std::string> LaunchOutcome::report(
    const std::vector<std::unique_ptr<LaunchedWorker>>& processes) const {
  std::vector<std::string> lines;
  for (const Loss& loss : losses_) {
    if (loss.told || exit_code() == 0)
      lines.push_back(text(end_text(loss.process), "; ", loss.later, "."));
  }
  if (verdict_.exit_code != 0) {
    lines.push_back(verdict_.cause + ".");
  } else if (culprit_ != nullptr) {
    lines.push_back(culprit_text(culprit_->ended()));
  } else if (first_victim_ != nullptr && interrupted_by_ == 0 && !is_ordered_) {
    lines.push_back(culprit_text(first_victim_->ended()));
    if (!unresponsive_.empty())
      lines.push_back(
          text(unresponsive_, " did not end and did not answer the others: look there first."));
  } else if (failed_evaluator_ != nullptr) {
    lines.push_back(culprit_text(failed_evaluator_->ended()));
  }
  for (const auto& process : processes) {
    if (interrupted_by_ != 0 && stopped_uncleanly(*process))
      lines.push_back(
          text(process->name(), " ", describe(*process->end()), " instead of stopping cleanly."));
  }
  return lines;
}

bool LaunchOutcome::stopped_uncleanly(const LaunchedWorker& process) const {
  if (!process.end()) return false;  // it could not be started again
  const bool earlier =               // it had ended by itself
      &process == failed_evaluator_ ||
      std::any_of(losses_.begin(), losses_.end(),
                  [&](const Loss& loss) { return loss.worker == &process; });
  const ChildEnd& end = *process.end();
  return !earlier && end.failed() && end.code != exit_code() && end.signal != SIGKILL &&
         end.code != kExitPeerLost;
}

}  // namespace troupe
