#include "troupe/distributed/elastic/step_losses.h"

#include "troupe/core/text.h"

namespace troupe {

void StepLosses::add(std::int64_t step, const std::vector<std::string>& lost) {
  if (step != step_) {
    count_ = 0;
    lost_.clear();
  }
  step_ = step;
  ++count_;
  lost_.insert(lost_.end(), lost.begin(), lost.end());
}

std::string StepLosses::summary() const {
  return text("step ", step_ + 1, " was lost ", count_, " times in a row: ", join(lost_, "; "));
}

}  // namespace troupe
