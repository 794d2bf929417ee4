#include "troupe/hooks/leaf_checks.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/tensors/torch_versions.h"

namespace troupe::detail {

LeafChecks::LeafChecks(const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, tensor] : parameters) known_.insert(tensor.unsafeGetTensorImpl());
}

void LeafChecks::look(const at::Tensor& loss) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](const GraphNode& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node.get());
  };
  visit(loss.grad_fn());
  while (!open.empty()) {
    torch::autograd::Node* const node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge.function);
    const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    if (leaf == nullptr || known_.count(leaf->variable.unsafeGetTensorImpl()) > 0) continue;
    strangers_.emplace_back(leaf->variable.getIntrusivePtr());
  }
}

void LeafChecks::check(const std::vector<at::Tensor>& fields) {
  for (const WeakTensor& stranger : std::exchange(strangers_, {})) {
    const at::Tensor leaf(stranger.lock());
    const auto is_leaf = [&](const at::Tensor& field) { return field.is_same(leaf); };
    if (!leaf.defined() || not_trained_.count(leaf.unsafeGetTensorImpl()) > 0 ||
        std::any_of(fields.begin(), fields.end(), is_leaf)) {
      continue;
    }
    throw ConfigError(
        text("the loss of train_step depends on a tensor of shape ", leaf.sizes(),
             " that requires a gradient and is a parameter of no model: nothing trains or saves "
             "it."),
        "register the layer that has it (register_module, register_parameter); change a registered "
        "layer's weight in place, since another tensor put there is not registered; declare what "
        "train_step changes by itself with replica.not_trained(tensor).");
  }
}

}  // namespace troupe::detail
