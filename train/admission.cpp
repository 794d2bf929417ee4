#include "troupe/train/admission.h"

#include "troupe/core/log.h"
#include "troupe/strategies/elastic.h"

namespace troupe::detail {
namespace {

constexpr char kRun[] = "run";  // what a run knows beside what a checkpoint holds

}  // namespace

void Admission::enter(const DataIdentity& data) {
  data_ = data;
  ElasticGroup* const group = strategy_.elastic();
  has_joined_ = group != nullptr && group->is_joining();
  if (!has_joined_) return;
  group->enter([this] { take(); });
  log_info("joined the run after step ", state_.step);
}

std::int64_t Admission::began_at() {
  if (!began_at_) began_at_ = state_.step;
  return *began_at_;
}

void Admission::admit(std::optional<std::int64_t> saved) {
  strategy_.elastic()->admit([this, saved] {
    RunSnapshot snapshot = capture(strategy_, state_, data_);
    if (strategy_.is_chief()) {
      snapshot.facts[kRun] = {{"began_at", began_at()}};
      if (saved) snapshot.facts[kRun]["saved_step"] = *saved;
    }
    (void)copy_to_all(strategy_, snapshot);
  });
}

/// The other side of admit().
void Admission::take() {
  // All of it first: until then a loss leaves the state as it is.
  const RunSnapshot snapshot = copy_to_all(strategy_, {});
  restore(strategy_, state_, data_, snapshot, Holder::every_worker);
  const nlohmann::json& told = snapshot.facts.at(kRun);
  began_at_ = told.at("began_at").get<std::int64_t>();
  saved_step_.reset();
  if (told.contains("saved_step")) saved_step_ = told.at("saved_step").get<std::int64_t>();
}

}  // namespace troupe::detail
