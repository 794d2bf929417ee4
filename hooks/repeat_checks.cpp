#include "troupe/hooks/repeat_checks.h"

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {

void RepeatChecks::begin(const StepContext& context) {
  context_ = context;
  if (context.phase != Phase::train || context.part != 0) return;
  if (context.step != step_) calls_ = 0;
  step_ = context.step;
  versions_.clear();
  if (!is_repeated()) return;
  for (const auto& [name, parameter] : unowned_)
    versions_.push_back(static_cast<std::uint32_t>(parameter._version()));
}

void RepeatChecks::refuse_second_update(const std::string& optimizer) const {
  if (!is_repeated()) return;
  throw ConfigError(
      text("train_step took two steps of optimizer \"", optimizer,
           "\", and with --accumulate or --virtual-replicas all losses of a step are computed "
           "before the first of them: the second would be that of the old weights."),
      "take one step of an optimiser in a train_step; for several updates on one batch leave "
      "--accumulate and --virtual-replicas out.");
}

void RepeatChecks::after_call(const std::vector<double>& options) {
  if (++calls_ == 1) options_ = options;
  // What is set from progress() is the same after every call.
  if (calls_ != 2 || options == options_) return;
  throw ConfigError(
      "train_step changed an optimiser's options, and changed them again when it was called again "
      "for the same step, as --accumulate and --virtual-replicas do.",
      "set options to a function of replica.progress(), change them in after_step, or use the "
      "schedules (--lr-schedule).");
}

void RepeatChecks::end() const {
  if (!is_repeated()) return;
  for (std::size_t i = 0; i < unowned_.size(); ++i) {
    const auto& [name, parameter] = unowned_[i];
    if (static_cast<std::uint32_t>(parameter._version()) == versions_[i]) continue;
    throw ConfigError(
        text(
            "train_step changed \"", name,
            "\", which no optimiser owns, and with --accumulate or --virtual-replicas it is called "
            "several times for a step."),
        "change it in after_step, which is called once a step: a target network, an average of "
        "weights, a codebook.");
  }
}

}  // namespace troupe::detail
