#include "troupe/export/predictor.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <set>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/export/traced_module.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/tensors/random_guard.h"

namespace troupe::detail {
namespace {

constexpr double kTolerance = 1e-6;  // absolute plus relative

/// Puts the replica back into the step that its caller is in.
class StepGuard {
 public:
  explicit StepGuard(Replica& replica) : driver_(replica), context_(driver_.context()) {}
  ~StepGuard() { driver_.begin_step(context_); }
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;

 private:
  ReplicaDriver driver_;
  const StepContext context_;
};

void check_names(const std::vector<NamedTensor>& tensors, const std::string& what,
                 const std::string& fix) {
  if (tensors.empty()) throw ConfigError(text("there is no ", what, "."), fix);
  std::set<std::string> seen;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty()) throw ConfigError(text("the name of a ", what, " is empty."), fix);
    if (!seen.insert(name).second) {
      throw ConfigError(text("two ", what, "s are named \"", name, "\"."), fix);
    }
  }
}

/// Throws: ConfigError where a tensor is not [examples, ...] of a type that files can name.
void check_tensors(const std::vector<NamedTensor>& tensors, std::int64_t examples,
                   const std::string& what, const std::string& fix) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || tensor.dim() == 0 || tensor.size(0) != examples) {
      throw ConfigError(text("the ", what, " \"", name, "\" has shape ",
                             tensor.defined() ? text(tensor.sizes()) : "undefined", " for ",
                             examples, " examples."),
                        fix);
    }
    static_cast<void>(type_name(tensor.scalar_type(), text("the ", what, " \"", name, "\"")));
  }
}

/// Throws: ConfigError unless these are the features of a batch of two or more.
void check_examples(const std::vector<NamedTensor>& examples) {
  const std::string fix = "pass the features of one batch, by name, each [B, ...] with B >= 2.";
  check_names(examples, "example input", fix);
  const at::Tensor& first = examples.front().second;
  const std::int64_t count = first.defined() && first.dim() > 0 ? first.size(0) : 0;
  if (count < 2) {
    throw ConfigError(text("a model is exported from ", count, " examples."), fix);
  }
  check_tensors(examples, count, "example input", fix);
}

}  // namespace

std::vector<NamedTensor> select(const std::vector<NamedTensor>& examples, std::int64_t count) {
  const std::int64_t all = examples.front().second.size(0);
  const at::Tensor which = torch::arange(1, count + 1, torch::kLong).remainder(all);
  std::vector<NamedTensor> selected;
  for (const auto& [name, tensor] : examples) {
    selected.emplace_back(name, tensor.detach().to(at::kCPU).index_select(0, which));
  }
  return selected;
}

Predictions Predictor::run(const std::vector<at::Tensor>& fields) const {
  const std::int64_t count = fields.front().size(0);
  // A padding batch's metrics count nowhere.
  ReplicaDriver(replica_).begin_step({Phase::predict, count, count, /*padding=*/true});
  Predictions predictions = hooks_.predict_step(replica_, {fields, count, false});
  const std::string fix = "return {{\"name\", tensor [B, ...]}} from predict_step.";
  check_names(predictions, "prediction", fix);
  check_tensors(predictions, count, "prediction", fix);
  return predictions;
}

Predictions Predictor::run(const std::vector<NamedTensor>& examples, std::int64_t count) const {
  std::vector<at::Tensor> fields;
  for (const auto& [name, tensor] : select(examples, count)) fields.push_back(tensor);
  try {
    return run(fields);
  } catch (const c10::Error& error) {
    throw ConfigError(text("predict_step fails for ", count, " examples: ", torch_reason(error)),
                      "let predict_step take the features as given, in a batch of any size.");
  }
}

Predictions Predictor::run_twice(const std::vector<NamedTensor>& examples) const {
  const std::int64_t count = examples.front().second.size(0);
  Predictions once = run(examples, count);
  const Predictions again = run(examples, count);
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (i < again.size() && agree(once[i].second, again[i].second)) continue;
    throw ConfigError(text("the prediction \"", once[i].first,
                           "\" differs between two runs on the same batch: the model draws random "
                           "numbers."),
                      "switch its random parts off outside training: use the Dropout modules, or "
                      "pass is_training() where a function asks for the mode.");
  }
  return once;
}

bool agree(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  if (at::equal(a, b)) return true;
  return at::isFloatingType(a.scalar_type()) &&
         at::allclose(a.to(at::kDouble), b.to(at::kDouble), kTolerance, kTolerance,
                      /*equal_nan=*/true);
}

void check_predictions(const Hooks& hooks, Replica& replica,
                       const std::vector<NamedTensor>& examples) {
  check_examples(examples);
  (void)Predictor(hooks, replica).run(examples, 1);
}

ModelSignature with_predictor(const Hooks& hooks, Replica& replica,
                              const std::vector<NamedTensor>& examples,
                              const std::function<ModelSignature(const Predictor&)>& body) {
  check_examples(examples);
  const RandomGuard random(replica.place().device);
  const torch::NoGradGuard no_grad;
  if (replica.place().device == c10::Device(at::kCPU)) {
    const StepGuard step(replica);
    return body(Predictor(hooks, replica));
  }
  // The same models on the CPU. Moving the replica itself there and back would take the memory away
  // from under the strategy that trains it.
  ParameterUpdate none;
  Replica copy(hooks.create_model(), hooks.create_losses(), hooks.create_metrics(), ReplicaPlace(),
               none);
  const std::vector<NamedTensor> from = state_of(replica);
  const std::vector<NamedTensor> to = state_of(copy);
  const auto same = [](const NamedTensor& a, const NamedTensor& b) {
    return a.first == b.first && a.second.sizes() == b.second.sizes();
  };
  if (!std::equal(from.begin(), from.end(), to.begin(), to.end(), same)) {
    throw ConfigError("create_model makes models with other tensors than the trained ones.",
                      "let create_model make the same models every time.");
  }
  copy_values(from, to);
  return body(Predictor(hooks, copy));
}

}  // namespace troupe::detail
