#include "troupe/report/outbox.h"

#include <utility>

namespace troupe {

void Outbox::add(Tell tell) {
  if (leads()) return tell(repeats_ || takes_over_);
  if (may_lead()) kept_.push_back(std::move(tell));
}

void Outbox::lead() {
  role_ = Role::leader;
  takes_over_ = true;
  for (; !kept_.empty(); kept_.pop_front()) kept_.front()(/*again=*/true);
}

void Outbox::acknowledge() {
  kept_.clear();
  takes_over_ = false;
}

}  // namespace troupe
