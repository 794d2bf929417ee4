#include "troupe/train/step_flags.h"

#include <csignal>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

/// Visits every flag, in the order in which they travel.
template <class Flags, class Visit>
void each(Flags& flags, Visit&& visit) {
  for (auto* const flag :
       {&flags.workers, &flags.leads, &flags.save, &flags.stop, &flags.not_finite, &flags.left,
        &flags.at_end, &flags.admit, &flags.depart, &flags.too_few, &flags.saved})
    visit(*flag);
  for (auto& signal : flags.signals) visit(signal);
}

/// A loop that some have left would have the others wait for steps that do not come. Streams are
/// read by each worker for itself: one that ends earlier is another one.
void check_all_alike(const StepFlags& all) {
  const auto are_some = [&](std::int64_t count) { return count != 0 && count != all.workers; };
  if (are_some(all.left)) {
    throw DesyncError(text(all.left, " of ", all.workers,
                           " workers left the training loop, and the others continue."),
                      "leave a loop on all workers at the same place, for a reason that all have; "
                      "what one alone wants is run.stop().");
  }
  if (are_some(all.at_end)) {
    throw DesyncError(
        text("the epoch ends here on ", all.at_end, " of ", all.workers,
             " workers, and the others continue."),
        "give every worker the same stream: the same files, and blocks that depend on their "
        "number alone.");
  }
}

}  // namespace

std::vector<double> to_values(const StepFlags& flags) {
  std::vector<double> values;
  each(flags, [&](std::int64_t flag) { values.push_back(static_cast<double>(flag)); });
  return values;
}

StepFlags from_values(Span<const double> sums) {
  StepFlags flags;
  std::size_t next = 0;
  each(flags, [&](std::int64_t& flag) {
    TROUPE_CHECK(next < sums.size());
    flag = static_cast<std::int64_t>(sums[next++]);
  });
  return flags;
}

StepDecision decide(const StepFlags& all, bool is_last) {
  check_all_alike(all);
  StepDecision decision;
  decision.not_finite = all.not_finite > 0;
  // Where nobody is left to continue, a departure is the end of all.
  if (all.depart == all.workers) decision.signal = SIGTERM;
  for (std::size_t i = kStopSignals.size(); i-- > 0;)
    if (all.signals[i] > 0) decision.signal = kStopSignals[i];
  decision.too_few = all.too_few > 0;
  decision.stops = all.stop > 0;
  decision.is_over = decision.stops || is_last;
  decision.saves = all.save > 0 || decision.is_over;
  decision.admits = !decision.is_over && all.admit + all.depart > 0;
  return decision;
}

}  // namespace troupe::detail
