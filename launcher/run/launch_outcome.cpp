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
  return interrupted_by == 0 &&
         (has_culprit() || (first_victim != nullptr && !is_ordered) || servers_overdue);
}

std::string LaunchOutcome::cause() const {
  if (!failed()) return "";
  if (verdict.exit_code != 0) return verdict.cause;
  if (culprit != nullptr) return end_text(culprit->ended());
  if (first_victim == nullptr) return "the servers did not end after training";
  return end_text(first_victim->ended()) +
         (unresponsive.empty() ? "" : text("; ", unresponsive, " did not answer"));
}

int LaunchOutcome::exit_code() const {
  if (verdict.exit_code != 0) return verdict.exit_code;
  if (culprit != nullptr) return culprit->end()->code;
  if (interrupted_by != 0) return 128 + interrupted_by;
  if (first_victim != nullptr && !is_ordered) return kExitPeerLost;
  if (servers_overdue) return kExitFailed;
  return failed_evaluator != nullptr ? failed_evaluator->end()->code : 0;
}

std::vector<std::string> LaunchOutcome::report(
    const std::vector<std::unique_ptr<LaunchedWorker>>& processes) const {
  std::vector<std::string> lines;
  for (const Loss& loss : losses_) {
    if (loss.told || exit_code() == 0)
      lines.push_back(text(end_text(loss.process), "; ", loss.later, "."));
  }
  if (verdict.exit_code != 0) {
    lines.push_back(verdict.cause + ".");
  } else if (culprit != nullptr) {
    lines.push_back(culprit_text(culprit->ended()));
  } else if (first_victim != nullptr && interrupted_by == 0 && !is_ordered) {
    lines.push_back(culprit_text(first_victim->ended()));
    if (!unresponsive.empty())
      lines.push_back(
          text(unresponsive, " did not end and did not answer the others: look there first."));
  } else if (failed_evaluator != nullptr) {
    lines.push_back(culprit_text(failed_evaluator->ended()));
  }
  for (const auto& process : processes) {
    if (interrupted_by != 0 && stopped_uncleanly(*process))
      lines.push_back(
          text(process->name(), " ", describe(*process->end()), " instead of stopping cleanly."));
  }
  return lines;
}

bool LaunchOutcome::stopped_uncleanly(const LaunchedWorker& process) const {
  if (!process.end()) return false;  // it could not be started again
  const bool earlier =               // it had ended by itself
      &process == failed_evaluator ||
      std::any_of(losses_.begin(), losses_.end(),
                  [&](const Loss& loss) { return loss.worker == &process; });
  const ChildEnd& end = *process.end();
  return !earlier && end.failed() && end.code != exit_code() && end.signal != SIGKILL &&
         end.code != kExitPeerLost;
}

}  // namespace troupe
