#include "estimator/export/torch_script.h"

#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

#include "core/check.h"
#include "core/error.h"
#include "estimator/export/traced_module.h"
#include "hooks/replica_driver.h"
#include "train/random_guard.h"

namespace troupe {
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
  detail::ReplicaDriver driver_;
  const detail::StepContext context_;
};

class NoReduction final : public ParameterUpdate {
 public:
  void reduce(const std::vector<NamedTensor>&) override {}
};

void copy_values(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  const auto same = [](const NamedTensor& a, const NamedTensor& b) {
    return a.first == b.first && a.second.sizes() == b.second.sizes();
  };
  if (!std::equal(from.begin(), from.end(), to.begin(), to.end(), same)) {
    throw ConfigError("create_model makes models with other tensors than the trained ones.",
                      "let create_model make the same models every time.");
  }
  for (std::size_t i = 0; i < from.size(); ++i) to[i].second.copy_(from[i].second);
}

/// The same models on the CPU. Moving the replica itself there and back would take the memory away
/// from under the strategy that trains it.
std::unique_ptr<Replica> copy_to_cpu(const Hooks& hooks, const Replica& replica,
                                     ParameterUpdate& reduction) {
  auto copy = std::make_unique<Replica>(hooks.create_model(), hooks.create_losses(),
                                        hooks.create_metrics(), ReplicaPlace(), reduction);
  copy_values(replica.parameters(), copy->parameters());
  copy_values(replica.buffers(), copy->buffers());
  return copy;
}

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

/// `count` of the examples, beginning with the second: values of their own, so that a model which
/// changes its input in place changes nothing else.
std::vector<NamedTensor> select(const std::vector<NamedTensor>& examples, std::int64_t count) {
  const std::int64_t all = examples.front().second.size(0);
  const at::Tensor which = torch::arange(1, count + 1, torch::kLong).remainder(all);
  std::vector<NamedTensor> selected;
  for (const auto& [name, tensor] : examples) {
    selected.emplace_back(name, tensor.detach().to(at::kCPU).index_select(0, which));
  }
  return selected;
}

std::vector<at::Tensor> values_of(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  return values;
}

/// predict_step as the framework calls it.
class Predictor {
 public:
  Predictor(const Hooks& hooks, Replica& replica) : hooks_(hooks), replica_(replica) {}

  [[nodiscard]] Predictions run(const std::vector<at::Tensor>& fields) const {
    const std::int64_t count = fields.front().size(0);
    // A padding batch's metrics count nowhere.
    detail::ReplicaDriver(replica_).begin_step({Phase::predict, count, count, /*padding=*/true});
    Predictions predictions = hooks_.predict_step(replica_, {fields, count, false});
    const std::string fix = "return {{\"name\", tensor [B, ...]}} from predict_step.";
    check_names(predictions, "prediction", fix);
    check_tensors(predictions, count, "prediction", fix);
    return predictions;
  }

  /// run on `count` of the examples.
  [[nodiscard]] Predictions run(const std::vector<NamedTensor>& examples,
                                std::int64_t count) const {
    try {
      return run(values_of(select(examples, count)));
    } catch (const c10::Error& error) {
      throw ConfigError(
          text("predict_step fails for ", count, " examples: ", detail::torch_reason(error)),
          "let predict_step take the features as given, in a batch of any size.");
    }
  }

 private:
  const Hooks& hooks_;
  Replica& replica_;
};

bool agree(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  if (at::equal(a, b)) return true;
  return at::isFloatingType(a.scalar_type()) &&
         at::allclose(a.to(at::kDouble), b.to(at::kDouble), kTolerance, kTolerance,
                      /*equal_nan=*/true);
}

void check_repeatable(const Predictions& once, const Predictions& again) {
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (i < again.size() && agree(once[i].second, again[i].second)) continue;
    throw ConfigError(text("the prediction \"", once[i].first,
                           "\" differs between two runs on the same batch: the model draws random "
                           "numbers."),
                      "switch its random parts off outside training: use the Dropout modules, or "
                      "pass is_training() where a function asks for the mode.");
  }
}

/// Throws: ConfigError where `other`, for another batch size, has other names or shapes.
void check_same_form(const Predictions& predictions, const Predictions& other) {
  const auto same = [](const NamedTensor& a, const NamedTensor& b) {
    return a.first == b.first && a.second.scalar_type() == b.second.scalar_type() &&
           a.second.sizes().slice(1) == b.second.sizes().slice(1);
  };
  if (std::equal(predictions.begin(), predictions.end(), other.begin(), other.end(), same)) return;
  throw ConfigError("predict_step returns other names, types or shapes for another batch size.",
                    "return the same predictions always, each [B, ...] with B alone depending on "
                    "the batch.");
}

[[noreturn]] void refuse_export(std::int64_t count, std::int64_t traced, const std::string& what) {
  if (count == traced) {
    throw ConfigError(
        text("the exported model is not the original: for the ", count,
             " examples that it was traced on, ", what, "."),
        "compute predictions from the batch and from tensors that the models register "
        "as parameters or buffers, and change none of them.");
  }
  throw ConfigError(
      text("a batch size seems baked into the exported model: traced on ", traced,
           " examples, for ", count, " of them ", what, "."),
      "in the model use flatten(1) or -1 instead of x.size(0), zeros_like or expand to "
      "make tensors of B rows, and no branch that depends on sizes or values. LibTorch's own "
      "MultiheadAttention and Transformer layers do so and cannot be exported.");
}

std::vector<at::Tensor> run_module(torch::jit::Module& module,
                                   const std::vector<NamedTensor>& inputs) {
  torch::jit::Stack stack;
  for (const auto& [name, tensor] : inputs) stack.emplace_back(tensor);
  const c10::IValue result = module.forward(std::move(stack));
  if (result.isTensor()) return {result.toTensor()};
  std::vector<at::Tensor> outputs;
  for (const c10::IValue& value : result.toTuple()->elements()) outputs.push_back(value.toTensor());
  return outputs;
}

void compare(torch::jit::Module& module, const std::vector<NamedTensor>& examples,
             const Predictions& expected) {
  const std::int64_t count = expected.front().second.size(0);
  const std::int64_t traced = examples.front().second.size(0);
  std::vector<at::Tensor> outputs;
  try {
    outputs = run_module(module, select(examples, count));
  } catch (const std::exception& error) {
    refuse_export(count, traced, "it fails: " + detail::torch_reason(error));
  }
  TROUPE_CHECK_EQ(outputs.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!agree(outputs[i], expected[i].second)) {
      refuse_export(count, traced, text("\"", expected[i].first, "\" differs from predict_step's"));
    }
  }
}

/// `file`: a path or a stream.
template <class File>
torch::jit::Module load(File& file) {
  try {
    return torch::jit::load(file, at::kCPU);
  } catch (const std::exception& error) {
    // A part named "class" is written as it is, and is a keyword to the reader.
    throw ConfigError(
        text("LibTorch cannot read the model it wrote: ", detail::torch_reason(error)),
        "give the parts of the models names that are not words of Python's language.");
  }
}

/// Reads the file and holds it against predict_step.
template <class File>
void verify(File& file, const Predictor& predictor, const std::vector<NamedTensor>& examples,
            const Predictions& predictions) {
  const std::int64_t traced = examples.front().second.size(0);
  std::vector<Predictions> expected = {predictions};
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{traced == 7 ? 8 : 7}}) {
    expected.push_back(predictor.run(examples, count));
    check_same_form(predictions, expected.back());
  }
  torch::jit::Module module = load(file);
  // Twice: the executor optimises what it has seen before.
  for (int round = 0; round < 2; ++round) {
    for (const Predictions& wanted : expected) compare(module, examples, wanted);
  }
}

void save(const torch::jit::Module& module, const std::string& path) {
  try {
    module.save(path);
  } catch (const std::exception& error) {
    throw EnvironmentError(text("cannot write '", path, "': ", detail::torch_reason(error)),
                           "make the directory writable and free space on its file system.");
  }
}

std::vector<TensorSignature> signature_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSignature> signature;
  for (const auto& [name, tensor] : tensors) {
    signature.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    signature.back().shape.front() = -1;
  }
  return signature;
}

/// Saves the trace to `path` and verifies it, in memory if the path is empty.
ModelSignature write_from_cpu(const Predictor& predictor, const Replica& replica,
                              const std::vector<NamedTensor>& examples, const std::string& path) {
  const std::int64_t count = examples.front().second.size(0);
  const Predictions predictions = predictor.run(examples, count);
  check_repeatable(predictions, predictor.run(examples, count));
  const torch::jit::Module module = detail::trace_module(
      replica, select(examples, count),
      [&](const std::vector<at::Tensor>& fields) { return predictor.run(fields); });
  if (path.empty()) {
    std::stringstream memory;
    module.save(memory);
    verify(memory, predictor, examples, predictions);
    return {signature_of(examples), signature_of(predictions)};
  }
  try {
    save(module, path);
    verify(path, predictor, examples, predictions);
  } catch (...) {
    static_cast<void>(std::remove(path.c_str()));
    throw;
  }
  return {signature_of(examples), signature_of(predictions)};
}

ModelSignature write_anywhere(const Hooks& hooks, Replica& replica,
                              const std::vector<NamedTensor>& examples, const std::string& path) {
  check_examples(examples);
  const detail::RandomGuard random(replica.place().device);
  const torch::NoGradGuard no_grad;
  if (replica.place().device == c10::Device(at::kCPU)) {
    const StepGuard step(replica);
    return write_from_cpu(Predictor(hooks, replica), replica, examples, path);
  }
  NoReduction reduction;
  const std::unique_ptr<Replica> copy = copy_to_cpu(hooks, replica, reduction);
  return write_from_cpu(Predictor(hooks, *copy), *copy, examples, path);
}

}  // namespace

ModelSignature write_torch_script(const Hooks& hooks, Replica& replica,
                                  const std::vector<NamedTensor>& examples,
                                  const std::string& path) {
  TROUPE_CHECK(!path.empty());
  return write_anywhere(hooks, replica, examples, path);
}

void check_predictions(const Hooks& hooks, Replica& replica,
                       const std::vector<NamedTensor>& examples) {
  check_examples(examples);
  (void)Predictor(hooks, replica).run(examples, 1);
}

void check_torch_script(const Hooks& hooks, Replica& replica,
                        const std::vector<NamedTensor>& examples) {
  static_cast<void>(write_anywhere(hooks, replica, examples, ""));
}

}  // namespace troupe
