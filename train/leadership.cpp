#include "troupe/train/leadership.h"

#include <algorithm>
#include <string>
#include <vector>

#include "troupe/core/log.h"
#include "troupe/core/trace.h"
#include "troupe/strategies/pace.h"

namespace troupe::detail {

StepFlags Leadership::agree(const Ask& ask) {
  for (;;) {
    const StepFlags all = vote(ask());
    if (all.leads > 0 || !outbox_.may_lead()) {
      // Why training ends is not said yet: the leader that knows may be lost.
      if (all.stop == 0) outbox_.acknowledge();
      return all;
    }
    do {
      follow();
      is_known_ = outbox_.leads();
    } while (vote({}).leads == 0);
  }
}

/// Of the leader all learn what was saved.
StepFlags Leadership::vote(StepFlags mine) {
  mine.leads = is_known_ && strategy_.is_chief();
  if (mine.leads > 0 && checkpoints_ != nullptr)
    mine.saved = 1 + checkpoints_->saved_step().value_or(-1);
  const StepFlags all = sum(mine);
  if (all.leads > 0 && checkpoints_ != nullptr)
    checkpoints_->know(all.saved > 0 ? std::optional(all.saved - 1) : std::nullopt);
  return all;
}

StepFlags Leadership::save(Checkpointer::Save which, const Ask& ask) {
  using Save = Checkpointer::Save;
  is_stopping_ = which == Save::stopping;
  // Nobody leaves before the leader has saved. Where it may be lost nobody continues, either: the
  // state of this step would be gone.
  const bool waits = which != Save::periodic || strategy_.elastic() != nullptr;
  return agree([&] {
    checkpoints_->save(which);
    if (waits) checkpoints_->wait();
    return ask();
  });
}

void Leadership::follow() {
  if (!strategy_.is_chief() || outbox_.leads()) return;
  events_.leads();
  outbox_.lead();
  if (checkpoints_ != nullptr) checkpoints_->lead(/*tells=*/!is_stopping_);
}

StepFlags Leadership::sum(const StepFlags& mine) {
  std::vector<double> values = to_values(mine);
  const std::size_t flags = values.size();
  const std::vector<std::string>& tasks = strategy_.pace().tasks();
  const bool together = tasks.size() > 1 && strategy_.pace().voices() == strategy_.world_size();
  if (together && (!stragglers_ || stragglers_->tasks() != tasks)) {  // the group is another one
    stragglers_.emplace(tasks);
    met_at_ = 0;
  }
  if (together) {
    // In an elastic group a worker may come here in another round than those that it meets: the
    // message has one length in all of them.
    values.resize(flags +
                  std::max(tasks.size(), static_cast<std::size_t>(strategy_.virtual_replicas())));
  }
  if (together && met_at_ != 0) {
    const double elapsed = static_cast<double>(trace_time() - met_at_) / 1e9;
    values[flags + static_cast<std::size_t>(strategy_.rank())] =
        elapsed - (strategy_.pace().waited_seconds() - waited_);
  }
  strategy_.sum(Span<double>(values));
  if (together) {
    const std::int64_t now = trace_time();
    if (met_at_ != 0 && tasks == stragglers_->tasks()) {
      stragglers_->add(Span<const double>(values).subspan(flags, tasks.size()),
                       static_cast<double>(now - met_at_) / 1e9);
      const std::string warning = stragglers_->take_warning();
      if (!warning.empty() && strategy_.is_chief()) log_warning(warning);
    }
    met_at_ = now;
    waited_ = strategy_.pace().waited_seconds();
  }
  if (events_.regrouped) events_.regrouped();
  return from_values(Span<const double>(values));
}

}  // namespace troupe::detail
