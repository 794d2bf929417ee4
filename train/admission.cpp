#include "train/admission.h"

namespace troupe::detail {
namespace {

constexpr char kRun[] = "run";

}  // namespace

void share_run(Strategy& strategy, const TrainState& state, const DataIdentity& data,
               const RunUnderWay& run) {
  RunSnapshot snapshot = capture(strategy, state, data);
  if (strategy.is_chief()) {
    snapshot.facts[kRun] = {{"began_at", run.began_at}};
    if (run.saved_step) snapshot.facts[kRun]["saved_step"] = *run.saved_step;
  }
  (void)copy_to_all(strategy, snapshot);
}

RunUnderWay take_run(Strategy& strategy, TrainState& state, const DataIdentity& data) {
  // All of it first: until then a loss leaves the state as it is.
  const RunSnapshot snapshot = copy_to_all(strategy, {});
  restore_copy(strategy, state, data, snapshot);
  const nlohmann::json& told = snapshot.facts.at(kRun);
  RunUnderWay run;
  run.began_at = told.at("began_at").get<std::int64_t>();
  if (told.contains("saved_step")) run.saved_step = told.at("saved_step").get<std::int64_t>();
  return run;
}

}  // namespace troupe::detail
