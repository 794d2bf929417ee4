#include "troupe/train/step_profile.h"

#include <memory>
#include <utility>

#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/strategies/pace.h"

namespace troupe::detail {
namespace {

constexpr int kMeetings = 32;

/// When an operator began.
struct Begun final : at::ObserverContext {
  std::int64_t start = trace_time();
};

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& /*function*/) {
  return std::make_unique<Begun>();
}

void end_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context != nullptr) add_to_trace(function.name(), static_cast<Begun*>(context)->start);
}

/// Moments that all workers have passed through together: nobody has a sum before all have given
/// their part of it. Collective: yes.
std::vector<Meeting> meet(Strategy& strategy) {
  std::vector<Meeting> meetings(kMeetings);
  for (Meeting& met : meetings) {
    double nothing = 0;
    met.before = trace_time();
    strategy.sum(Span<double>(&nothing, 1));
    met.after = trace_time();
  }
  return meetings;
}

}  // namespace

StepProfile::~StepProfile() {
  if (!operators_) return;
  (void)stop_trace();  // of a run that failed
  at::removeCallback(*operators_);
}

void StepProfile::before_step(RunControl& run) {
  ++begun_;
  if (begun_ == kWarmUp + 1) {
    name_this_thread("step thread");
    start_trace();
    // LibTorch's operators, on whatever thread they run.
    operators_ = at::addGlobalCallback(at::RecordFunctionCallback(&begin_operator, &end_operator));
    steps_.first = run.step() + 1;
    log_info("profiling ", options_.profile_steps, options_.profile_steps == 1 ? " step" : " steps",
             " from step ", steps_.first, " on");
  }
  step_start_ = trace_time();
}

void StepProfile::after_step(const StepReport& report, RunControl& /*run*/) {
  if (!operators_) return;
  add_to_trace(text("step ", report.step).c_str(), step_start_);
  steps_.last = report.step;
  if (++recorded_ == options_.profile_steps) finish();
}

void StepProfile::end(RunControl& /*run*/) {
  if (operators_ && recorded_ > 0) {
    log_warning("--profile ", options_.profile_steps, ": training ended after ", recorded_,
                recorded_ == 1 ? " of these steps." : " of these steps.");
    finish();
  } else if (recorded_ == 0) {
    log_warning("--profile recorded nothing: training took ", begun_, " steps, and the first ",
                kWarmUp, " warm up.");
  }
}

void StepProfile::finish() {
  at::removeCallback(*std::exchange(operators_, std::nullopt));
  WorkerProfile mine{text("worker/", strategy_.rank()), clock_name(), {}, stop_trace()};
  const bool together = strategy_.pace().voices() == strategy_.world_size();
  if (!together) {
    write_profile(path(), {mine}, steps_);
    log_info("profile of steps ", steps_.first, " to ", steps_.last, ": ", path());
    return;
  }
  mine.meetings = meet(strategy_);
  const std::vector<std::byte> bytes = encode(mine);
  const auto all = strategy_.gather_to_chief(bytes);
  if (!strategy_.is_chief()) return;
  std::vector<WorkerProfile> workers;
  for (const auto& worker : all) workers.push_back(decode_profile(worker));
  write_profile(path(), workers, steps_);
  log_info("profile of steps ", steps_.first, " to ", steps_.last, ": ", path(),
           " (open it in ui.perfetto.dev)");
}

std::string StepProfile::path() const {
  const std::string name =
      strategy_.is_chief() ? text("profile-", steps_.last, ".json")
                           : text("profile-", steps_.last, ".worker-", strategy_.rank(), ".json");
  return options_.model_dir.empty() ? name : options_.model_dir + "/" + name;
}

}  // namespace troupe::detail
