#include "train/callback_list.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {

CallbackList::CallbackList(Strategy& strategy, const TrainOptions& options, Actions given)
    : strategy_(strategy), options_(options), given_(std::move(given)) {
  for (const auto& action : given_) {
    if (strategy.is_chief() || !action->chief_only()) acting_.push_back(action);
  }
  for (auto& action : acting_) action->begin();
}

void CallbackList::complete(const StepRange& steps, const Clock& clock) {
  if (strategy_.is_chief()) {
    const Actions stock = stock_actions(options_, steps, clock);
    for (const auto& action : stock) action->begin();
    acting_.insert(acting_.begin(), stock.begin(), stock.end());
  }
  // An action that only some workers have would make them exchange different messages.
  const auto counts = strategy_.gather(text(given_.size()));
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    if (counts[rank] == counts[0]) continue;
    throw ConfigError(
        text("rank ", rank, " has ", counts[rank], " actions, the chief ", counts[0], "."),
        "give every worker the same list; chief_only() says who acts.");
  }
}

void CallbackList::ready(RunControl& run) {
  seen_step_ = run.step();
  first_step_ = seen_step_ + 1;
  ready_ = true;
  for (auto& action : acting_) action->ready(run);
}

void CallbackList::before_step(RunControl& run) {
  for (auto& action : acting_) action->before_step(run);
}

bool CallbackList::wants_losses(std::int64_t step) const {
  // At an own pace numbers skip: those between were other workers'. An action that wants one of
  // them gets this step's losses.
  for (std::int64_t number = seen_step_ + 1; number <= step; ++number) {
    if (stock_wants_losses(options_, number, first_step_)) return true;
    for (const auto& action : given_) {
      if (action->wants_losses(number, number == first_step_)) return true;
    }
  }
  return false;
}

void CallbackList::after_step(const StepReport& report, RunControl& run) {
  for (auto& action : acting_) action->after_step(report, run);
  seen_step_ = report.step;
}

void CallbackList::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  for (auto& action : acting_) action->after_epoch(epoch, train, validation);
}

void CallbackList::after_log(const LoggedValue& value) {
  for (auto& action : acting_) action->after_log(value);
}

void CallbackList::end(RunControl& run) {
  if (!ready_) return;
  for (auto& action : acting_) action->end(run);
}

}  // namespace troupe::detail
