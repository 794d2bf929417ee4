#include "troupe/train/step_meeting.h"

#include <algorithm>
#include <string>
#include <vector>

#include "troupe/core/log.h"
#include "troupe/core/trace.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/pace.h"

namespace troupe::detail {

Wishes StepMeeting::agree(const std::function<Wishes()>& wishes) {
  for (;;) {
    Wishes mine = wishes();
    mine.told = outbox_.leads();
    const Wishes agreed = meet(mine);
    if (agreed.told > 0 || strategy_.elastic() == nullptr) {
      // Why training ends is not said yet: the chief that knows may be lost.
      if (agreed.stop == 0) outbox_.acknowledge();
      return agreed;
    }
    follow_();
  }
}

Wishes StepMeeting::meet(const Wishes& mine) {
  const std::vector<std::string>& tasks = strategy_.pace().tasks();
  if (tasks.size() < 2 || strategy_.pace().voices() != strategy_.world_size())
    return detail::agree(strategy_, mine);
  if (!stragglers_ || stragglers_->tasks() != tasks) {  // the group is another one
    stragglers_.emplace(tasks);
    met_at_ = 0;
  }
  // In an elastic group a worker may come here in another round than those that it meets: the
  // message has one length in all of them.
  std::vector<double> busy(
      std::max(tasks.size(), static_cast<std::size_t>(strategy_.virtual_replicas())), 0.0);
  const double elapsed = static_cast<double>(trace_time() - met_at_) / 1e9;
  if (met_at_ != 0) {
    busy[static_cast<std::size_t>(strategy_.rank())] =
        elapsed - (strategy_.pace().waited_seconds() - waited_);
  }
  const Wishes agreed = detail::agree(strategy_, mine, Span<double>(busy.data(), busy.size()));
  const std::int64_t now = trace_time();
  if (met_at_ != 0 && tasks == stragglers_->tasks()) {
    stragglers_->add(Span<const double>(busy.data(), tasks.size()),
                     static_cast<double>(now - met_at_) / 1e9);
    const std::string warning = stragglers_->take_warning();
    if (!warning.empty() && strategy_.is_chief()) log_warning(warning);
  }
  met_at_ = now;
  waited_ = strategy_.pace().waited_seconds();
  return agreed;
}

}  // namespace troupe::detail
