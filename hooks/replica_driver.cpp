#include "hooks/replica_driver.h"

#include <torch/nn/module.h>

#include "core/error.h"
#include "core/text.h"
#include "hooks/step_checks.h"
#include "hooks/step_weights.h"

namespace troupe::detail {
namespace {

thread_local Replica* running = nullptr;

/// "for no optimiser", or "for critic, actor (2 times)".
std::string calls_of(const std::map<std::string, int>& calls) {
  std::string list;
  for (const auto& [optimizer, times] : calls) {
    list += text(list.empty() ? "" : ", ", "\"", optimizer, "\"");
    if (times > 1) list += text(" (", times, " times)");
  }
  return list.empty() ? "for no optimiser" : "for " + list;
}

}  // namespace

void ReplicaDriver::begin_step(const StepContext& context) {
  if (context.part == 1) replica_.first_calls_ = replica_.calls_;
  replica_.context_ = context;
  replica_.calls_.clear();
  replica_.layer_sums_ = 0;
  if (context.part == 0) replica_.accumulated_.clear();
  for (const auto& [name, model] : replica_.models()) model->train(context.phase == Phase::train);
  replica_.checks_->begin(context);
  replica_.weights_->begin(context);
}

void ReplicaDriver::check_result(const StepResult& result) const {
  for (const auto& [name, loss] : result.losses) {
    if (loss.defined() && loss.numel() == 1) {
      replica_.checks_->check_result(name, loss);
      continue;
    }
    throw ConfigError(text("the ", to_string(context().phase), " step returned loss \"", name,
                           "\" of shape ", loss.defined() ? text(loss.sizes()) : "undefined", "."),
                      "return the scalar that replica.global_mean gives.");
  }
  if (context().part == 0 || replica_.calls_ == replica_.first_calls_) return;
  throw ConfigError(
      text("part ", context().part + 1, " of a step of ", context().parts,
           " called apply_gradients ", calls_of(replica_.calls_), ", and the first part ",
           calls_of(replica_.first_calls_), "."),
      "with --accumulate every part of a step decides alike: by replica.progress().step or .epoch, "
      "not by a count of calls of train_step.");
}

bool ReplicaDriver::has_updated() const { return replica_.checks_->has_updated(); }

void ReplicaDriver::describe(StepResult& result) const { replica_.weights_->describe(result); }

std::optional<double> ReplicaDriver::undivided_weight() const {
  const StepWeights& weights = *replica_.weights_;
  if (!weights.is_late() || !replica_.update_.divides_later()) return std::nullopt;
  return weights.own();
}

void ReplicaDriver::divide(StepResult& total) {
  StepWeights& weights = *replica_.weights_;
  if (!weights.is_late() || replica_.update_.divides_later()) return;
  redivide(total, static_cast<double>(context().global_examples), weights.total());
}

void ReplicaDriver::end_step() {
  replica_.checks_->end();
  for (const auto& [name, buffer] : replica_.trainable_.buffers) {
    if (!buffer.requires_grad()) continue;
    throw ConfigError(
        text("buffer \"", name, "\" was given a value that still depends on parameters."),
        text("change it by values without a graph: replica.buffer(\"", name,
             "\").copy_(value.detach())."));
  }
}

void ReplicaDriver::sum_over_replicas(const at::Tensor& flat, const std::string& what) {
  const std::int64_t number = ++replica_.layer_sums_;
  replica_.update_.sum(flat, text("sum ", number, " of the step's layers, ", what));
}

ReplicaScope::ReplicaScope(Replica& replica)
    : former_(running), autocast_(replica.place().device, replica.step_options().precision) {
  running = &replica;
}

ReplicaScope::~ReplicaScope() { running = former_; }

Replica* running_replica() { return running; }

}  // namespace troupe::detail
