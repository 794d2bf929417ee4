#include "troupe/train/admission.h"

#include "troupe/core/log.h"
#include "troupe/strategies/elastic.h"

namespace troupe::detail {
namespace {

constexpr char kBeganAt[] = "began_at";  // beside what a checkpoint holds

}  // namespace

void Admission::enter(const DataIdentity& data) {
  data_ = data;
  Elasticity* const group = strategy_.elastic();
  has_joined_ = group != nullptr && group->is_joining();
  if (!has_joined_) return;
  group->enter([this] { take(); });
  log_info("joined the run after step ", state_.step);
}

std::int64_t Admission::began_at() {
  if (!began_at_) began_at_ = state_.step;
  return *began_at_;
}

void Admission::admit() {
  strategy_.elastic()->admit([this] {
    RunSnapshot snapshot = capture(strategy_, state_, data_);
    if (strategy_.is_chief()) snapshot.facts[kBeganAt] = began_at();
    (void)copy_to_all(strategy_, snapshot);
  });
}

/// The other side of admit().
void Admission::take() {
  // All of it first: until then a loss leaves the state as it is.
  const RunSnapshot snapshot = copy_to_all(strategy_, {});
  restore(strategy_, state_, data_, snapshot, Holder::every_worker);
  began_at_ = snapshot.facts.at(kBeganAt).get<std::int64_t>();
}

}  // namespace troupe::detail
