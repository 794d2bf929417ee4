#include "troupe/hooks/step_checks.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <unordered_set>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

const char* const kUseGlobalMean =
    "give one loss per example, [B], to replica.global_mean; declare with replica.local_loss(loss) "
    "what is meant to be added up over replicas as it is.";

}  // namespace

StepChecks::StepChecks(const OwnedTensors& owned, const std::vector<NamedTensor>& parameters,
                       std::vector<NamedTensor> unowned, bool warns)
    : owned_(owned),
      warns_(warns),
      leaves_(parameters),
      repeats_(std::move(unowned)),
      unused_(owned, warns),
      gradients_(owned) {}

void StepChecks::begin(const StepContext& context, int replicas) {
  context_ = context;
  repeats_.begin(context);
  gradients_.begin(context, replicas);
  declarations_ = 0;
  has_local_loss_ = false;
  has_gathered_ = false;
  declared_.clear();
  if (context.phase != Phase::train || context.part != 0) return;
  leaves_.begin();
  unused_.begin(context);
  ++steps_;
  if (watches_parameters()) remember_parameters();
}

void StepChecks::declare(const at::Tensor& value) {
  ++declarations_;
  if (const auto& node = value.grad_fn()) declared_.push_back(weak_of(node));
}

void StepChecks::check_loss(const at::Tensor& loss, const std::string& optimizer, bool is_first) {
  leaves_.look(loss);
  const Origin origin = origin_of(loss);
  if (origin == Origin::other) {
    throw ConfigError(
        text("train_step gave apply_gradients of optimizer \"", optimizer,
             "\" a loss that did not come from replica.global_mean. Gradients are added up over "
             "replicas, so that a mean over one replica's examples is right with one replica "
             "only."),
        kUseGlobalMean);
  }
  if (origin == Origin::mixed && warns_ && is_first) {
    log_warning("the loss of optimizer \"", optimizer,
                "\" has a term that did not come from replica.global_mean: every replica adds it, "
                "so that it counts as often as there are replicas. Added to the losses [B] before "
                "their mean, replica.global_mean(losses + term), it counts once; "
                "replica.local_loss(term) says that it is meant as it is");
  }
}

void StepChecks::check_result(const std::string& name, const at::Tensor& loss) const {
  const bool look = context_.phase == Phase::train && steps_ <= kChecks && loss.requires_grad();
  if (declarations_ > 0 && (!look || origin_of(loss) != Origin::other)) return;
  throw ConfigError(
      text(to_string(context_.phase), "_step returned loss \"", name,
           "\", which did not come from replica.global_mean. What steps return is added up over "
           "replicas, so that a mean over one replica's examples is right with one replica only."),
      kUseGlobalMean);
}

StepChecks::Origin StepChecks::origin_of(const at::Tensor& loss) const {
  std::unordered_set<const torch::autograd::Node*> declared;
  for (const auto& weak : declared_) {
    if (const auto node = weak.lock()) declared.insert(node.get());
  }
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open;
  const auto visit = [&](const GraphNode& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node.get());
  };
  bool has_declared = false;
  bool has_other = false;  // a way to a parameter past everything declared
  visit(loss.grad_fn());
  while (!open.empty()) {
    const auto* const node = open.back();
    open.pop_back();
    if (declared.count(node) > 0) {
      has_declared = true;
      continue;
    }
    has_other = has_other || dynamic_cast<const torch::autograd::AccumulateGrad*>(node) != nullptr;
    for (const auto& edge : node->next_edges()) visit(edge.function);
  }
  if (!has_declared) return Origin::other;
  return has_other ? Origin::mixed : Origin::declared;
}

void StepChecks::remember_parameters() {
  values_.clear();
  for (const auto& [optimizer, parameters] : owned_) {
    for (const auto& [name, parameter] : parameters) values_.push_back(value_sum(parameter));
  }
}

void StepChecks::check_parameters(Changes allowed) const {
  std::size_t i = 0;
  for (const auto& [optimizer, parameters] : owned_) {
    for (const auto& [name, parameter] : parameters) {
      const ValueSum now = value_sum(parameter);
      const ValueSum& then = values_[i++];
      const bool is_same = now.version == then.version || allowed == Changes::put_back;
      if (is_same && now.bits == then.bits) continue;
      throw ConfigError(
          text("train_step changed parameter \"", name, "\" of optimizer \"", optimizer,
               "\" itself. Such a change sees one replica's gradients or examples, and replicas "
               "would differ."),
          "call replica.apply_gradients(loss) in place of loss.backward() and optimizer.step(); "
          "clip weights in the loop's body, after run.step(), as examples/custom_loop does.");
    }
  }
}

}  // namespace troupe::detail
