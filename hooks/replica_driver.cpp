#include "troupe/hooks/replica_driver.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <set>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/hooks/step_checks.h"
#include "troupe/hooks/step_weights.h"

namespace troupe::detail {
namespace {

thread_local Replica* running = nullptr;

/// "for no optimiser", or "for critic, actor (2 times)".
std::string calls_of(const std::map<std::string, int>& calls) {
  const std::string list = join(calls, ", ", [](const auto& call) {
    return text("\"", call.first, "\"", call.second > 1 ? text(" (", call.second, " times)") : "");
  });
  return list.empty() ? "for no optimiser" : "for " + list;
}

/// Collects the numbers among an optimiser's options.
class OptionValues final : public FieldVisitor {
 public:
  explicit OptionValues(std::vector<double>& values) : values_(values) {}
  void operator()(const char* /*name*/, bool& value) override { values_.push_back(value ? 1 : 0); }
  void operator()(const char* /*name*/, std::int64_t& value) override {
    values_.push_back(static_cast<double>(value));
  }
  void operator()(const char* /*name*/, double& value) override { values_.push_back(value); }
  void operator()(const char* /*name*/, at::Tensor& /*value*/) override {}

 private:
  std::vector<double>& values_;
};

/// Of all optimisers of registered kinds, in order.
std::vector<double> options_of(Replica& replica) {
  std::vector<double> values;
  OptionValues visitor(values);
  for (const std::string& name : replica.optimizer_names()) {
    torch::optim::Optimizer& optimizer = replica.optimizer(name);
    const OptimizerKind* const kind = find_kind(optimizer);
    if (kind == nullptr) continue;
    for (auto& group : optimizer.param_groups()) kind->options(group.options(), visitor);
  }
  return values;
}

}  // namespace

void ReplicaDriver::begin_step(const StepContext& context) {
  replica_.context_ = context;
  replica_.updates_->begin(context);
  set_modes(context.phase == Phase::train);
  replica_.checks_->begin(context, replica_.place_.count);
  replica_.weights_->begin(context);
  const bool speaks_for_all = replica_.place_.index == 0 && context.part == 0 && !context.padding;
  const bool trains = context.phase == Phase::train;
  replica_.recorder_.listen(speaks_for_all, trains ? "" : text(to_string(context.phase), "/"));
}

void ReplicaDriver::check_result(const StepResult& result) const {
  for (const auto& [name, loss] : result.losses) {
    if (loss.defined() && loss.numel() == 1) {
      replica_.checks_->check_result(name, loss);
      continue;
    }
    throw ConfigError(text("the ", to_string(context().phase), " step returned loss \"", name,
                           "\" of shape ", shape_text(loss), "."),
                      "return the scalar that replica.global_mean gives.");
  }
  const ReplicaUpdates& updates = *replica_.updates_;
  RepeatChecks& repeats = replica_.checks_->repeats();
  if (repeats.is_repeated()) repeats.after_call(options_of(replica_));
  if (context().part == 0 || updates.calls() == updates.first_calls()) return;
  throw ConfigError(
      text("part ", context().part + 1, " of a step of ", context().parts,
           " called apply_gradients ", calls_of(updates.calls()), ", and the first part ",
           calls_of(updates.first_calls()), "."),
      "with --accumulate every part of a step decides alike: by replica.progress().step or .epoch, "
      "not by a count of calls of train_step.");
}

/// Evaluation puts everything into evaluation mode, and training finds the modes that it left.
void ReplicaDriver::set_modes(bool trains) {
  auto& modes = replica_.training_modes_;
  if (trains) {
    // In the order of modules(), where a module comes before those below it, which it sets, too.
    for (const auto& [module, mode] : modes) module->train(mode);
    modes.clear();
    return;
  }
  if (!modes.empty()) return;
  for (const auto& [name, model] : replica_.models()) {
    for (auto& module : model->modules()) modes.emplace_back(module, module->is_training());
    model->eval();
  }
}

Freezing ReplicaDriver::freezing() const {
  Freezing frozen;
  for (const auto& [name, parameter] : replica_.parameters()) {
    if (!parameter.requires_grad()) frozen.parameters.push_back(name);
  }
  std::map<const torch::nn::Module*, bool> modes;
  for (const auto& [module, mode] : replica_.training_modes_) modes[module.get()] = mode;
  for (const auto& [name, model] : replica_.models()) {
    for (const auto& item : model->named_modules(name)) {
      const auto mode = modes.find(item.value().get());
      const bool trains = mode == modes.end() ? item.value()->is_training() : mode->second;
      if (!trains) frozen.modules.push_back(item.key());
    }
  }
  return frozen;
}

void ReplicaDriver::freeze(const Freezing& frozen) {
  const std::set<std::string> parameters(frozen.parameters.begin(), frozen.parameters.end());
  const std::set<std::string> modules(frozen.modules.begin(), frozen.modules.end());
  for (const auto& [name, parameter] : replica_.parameters()) {
    if (parameter.requires_grad() != (parameters.count(name) == 0)) {
      at::Tensor(parameter).requires_grad_(!parameter.requires_grad());
    }
  }
  auto& modes = replica_.training_modes_;
  const bool is_evaluating = !modes.empty();
  modes.clear();
  for (const auto& [name, model] : replica_.models()) {
    for (const auto& item : model->named_modules(name)) {
      modes.emplace_back(item.value(), modules.count(item.key()) == 0);
    }
  }
  if (!is_evaluating) set_modes(/*trains=*/true);
}

bool ReplicaDriver::has_all_gradients(const std::string& optimizer) const {
  return replica_.updates_->has_all_gradients(optimizer);
}

void ReplicaDriver::keep_gradients(bool keep) { replica_.update_.keep_gradients(keep); }

void ReplicaDriver::expect_repeats() { replica_.checks_->repeats().expect(); }

bool ReplicaDriver::is_comparable() const {
  return !replica_.checks_->has_local_loss() && !replica_.weights_->has_several();
}

bool ReplicaDriver::has_gathered() const { return replica_.checks_->has_gathered(); }

std::string ReplicaDriver::non_finite_loss() const {
  const auto& [loss, optimizer] = replica_.updates_->last_loss();
  if (!loss.defined() || loss.isfinite().item<bool>()) return "";
  return text("the loss for optimizer \"", optimizer, "\" is ", loss.item<double>());
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

void ReplicaDriver::end_step(const Batch& batch) {
  // In a step of parts gradients are still to be used; else more is wrong than they are.
  const bool is_used = context().parts == 1;
  if (!is_used) replica_.checks_->gradients().after_call();
  replica_.updates_->end();
  replica_.checks_->end(batch.fields);
  if (is_used) replica_.checks_->gradients().after_call();
  for (const auto& [name, buffer] : replica_.trainable_.buffers) {
    if (!buffer.requires_grad()) continue;
    throw ConfigError(
        text("buffer \"", name, "\" was given a value that still depends on parameters."),
        text("change it by values without a graph: replica.buffer(\"", name,
             "\").copy_(value.detach())."));
  }
}

void ReplicaDriver::sum_over_replicas(const at::Tensor& flat, const std::string& what) {
  const std::int64_t number = replica_.updates_->count_layer_sum();
  replica_.update_.sum(flat, text("sum ", number, " within the step, ", what));
}

ReplicaScope::ReplicaScope(Replica& replica)
    : former_(running),
      autocast_(replica.place().device, ReplicaDriver(replica).step_options().precision) {
  running = &replica;
}

ReplicaScope::~ReplicaScope() { running = former_; }

Replica* running_replica() { return running; }

}  // namespace troupe::detail
