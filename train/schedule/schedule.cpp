#include "troupe/train/schedule/schedule.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/train/callbacks/stop_rules.h"

namespace troupe {
namespace {

/// Every optimiser of one replica, in the order of create_model.
std::vector<torch::optim::Optimizer*> optimizers_of(Replica& replica) {
  std::vector<torch::optim::Optimizer*> all;
  for (const auto& name : replica.optimizer_names()) all.push_back(&replica.optimizer(name));
  return all;
}

double rate_of(torch::optim::OptimizerParamGroup& group) {
  try {
    return group.options().get_lr();
  } catch (const c10::Error&) {  // the base class has none
    throw ConfigError("an optimiser is of a kind that has no learning rate.",
                      "use one of LibTorch's, or train without a learning rate schedule.");
  }
}

void set_rates(TrainState& state, double factor) {
  for (const auto& replica : state.replicas) {
    const auto optimizers = optimizers_of(*replica);
    for (std::size_t o = 0; o < optimizers.size(); ++o) {
      auto& groups = optimizers[o]->param_groups();
      for (std::size_t g = 0; g < groups.size(); ++g) {
        groups[g].options().set_lr(state.base_rates.at(o).at(g) * factor);
      }
    }
  }
}

}  // namespace

LearningRateSchedule::LearningRateSchedule(ScheduleOptions options, TrainState& state,
                                           std::optional<std::int64_t> last_step)
    : options_(std::move(options)), state_(state) {
  validate(options_);
  if (options_.kind == Schedule::cosine && options_.decay_steps == 0) {
    if (!last_step || *last_step == std::numeric_limits<std::int64_t>::max()) {
      throw ConfigError("--lr-schedule cosine has no end: the last step is not known.",
                        "set --decay-steps or --max-steps, or --epochs of data that is no stream.");
    }
    // A run that ends in its warm-up has no decay.
    options_.decay_steps = std::max<std::int64_t>(1, *last_step - options_.warmup_steps);
  }
  detail::remember_rates(state_);
}

LearningRateSchedule::LearningRateSchedule(RateFactor factor, TrainState& state)
    : factor_(std::move(factor)), state_(state) {
  detail::remember_rates(state_);
}

void LearningRateSchedule::apply(std::int64_t step) {
  const double factor = factor_ ? factor_(step) : schedule_factor(options_, step, state_.plateau);
  if (!std::isfinite(factor) || factor < 0) {
    throw ConfigError(text("the learning rate's factor of step ", step, " is ", factor, "."),
                      "return a finite number of at least 0.");
  }
  set_rates(state_, factor);
  if (!state_.base_rates.empty()) rate_ = state_.base_rates.front().at(0) * factor;
}

std::optional<LearningRateSchedule::Watched> LearningRateSchedule::watched(
    const Report& validation) const {
  if (factor_ || options_.kind != Schedule::plateau) return std::nullopt;
  const Judged seen = judged(validation, {options_.metric}, "--plateau");
  const double sign = seen.better == Better::lower ? 1 : -1;
  return Watched{sign * seen.value, sign};
}

void LearningRateSchedule::observe(const Report& validation) {
  const auto seen = watched(validation);
  if (!seen) return;
  const auto answer = troupe::observe(options_, seen->value, state_.plateau);
  if (answer == PlateauAnswer::none) return;
  log_info(options_.metric, " has not been ", seen->sign > 0 ? "below " : "above ",
           seen->sign * state_.plateau.best.value_or(seen->value), " in ", options_.patience,
           " validations: the learning rate drops to ",
           schedule_factor(options_, state_.step + 1, state_.plateau), " of its base");
}

namespace detail {

void remember_rates(TrainState& state) {
  if (!state.base_rates.empty()) return;
  for (auto* optimizer : optimizers_of(*state.replicas.front())) {
    auto& rates = state.base_rates.emplace_back();
    for (auto& group : optimizer->param_groups()) rates.push_back(rate_of(group));
  }
}

void forget_rates(TrainState& state) {
  if (state.base_rates.empty()) return;
  set_rates(state, 1);
  state.base_rates.clear();
}

}  // namespace detail
}  // namespace troupe
