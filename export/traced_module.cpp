#include "troupe/export/traced_module.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/fuse_linear.h>
#include <torch/nn/module.h>

#include <cctype>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

namespace jit = torch::jit;

using CompilationUnit = std::shared_ptr<jit::CompilationUnit>;

/// `name` with everything replaced that cannot be in an identifier of TorchScript's language.
std::string identifier(const std::string& name) {
  std::string result;
  for (const char c : name) {
    result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return result;
}

/// A module below `parent`. Its type is named by its place: the number keeps types apart whose
/// names differ in what identifiers cannot have, and an address would make every file another.
jit::Module make_child(const jit::Module& parent, std::size_t number, const std::string& name,
                       const CompilationUnit& unit) {
  const std::string type =
      text(parent.type()->name()->qualifiedName(), ".m", number, "_", identifier(name));
  return {c10::QualifiedName(type), unit};
}

/// Registers the tensors and children of `from` in `to`: the same tensors, by which the tracer
/// knows them again.
void mirror(const torch::nn::Module& from, jit::Module& to, const CompilationUnit& unit) {
  for (const auto& item : from.named_parameters(/*recurse=*/false)) {
    to.register_parameter(item.key(), item.value(), /*is_buffer=*/false);
  }
  for (const auto& item : from.named_buffers(/*recurse=*/false)) {
    to.register_buffer(item.key(), item.value());
  }
  std::size_t number = 0;
  for (const auto& item : from.named_children()) {
    jit::Module child = make_child(to, number++, item.key(), unit);
    mirror(*item.value(), child, unit);
    to.register_module(item.key(), child);
  }
  // Python's eval() and train() set it.
  if (!to.hasattr("training")) to.register_attribute("training", c10::BoolType::get(), false);
}

/// All models in one tree: "model" is the root, others are its children.
jit::Module mirror_models(const Replica& replica) {
  const auto unit = std::make_shared<jit::CompilationUnit>();
  jit::Module root(c10::QualifiedName("__torch__.Model"), unit);
  for (const auto& [name, model] : replica.models()) {
    if (name == "model") mirror(*model, root, unit);
  }
  std::size_t number = 0;
  for (const auto& [name, model] : replica.models()) {
    if (name == "model") continue;
    if (root.hasattr(name)) {
      throw ConfigError(text("the model \"", name, "\" has the name of a part of \"model\"."),
                        "give it another name in create_model.");
    }
    // A number of its own kind: m0 may be a part of "model".
    jit::Module child({text("__torch__.Models.m", number++, "_", identifier(name))}, unit);
    mirror(*model, child, unit);
    root.register_module(name, child);
  }
  if (!root.hasattr("training")) {
    root.register_attribute("training", c10::BoolType::get(), false);
  }
  return root;
}

/// Arguments of forward by the names of the inputs, as far as the language can spell them.
std::vector<std::string> argument_names(const std::vector<NamedTensor>& inputs) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : inputs) {
    const bool digit_first = std::isdigit(static_cast<unsigned char>(name.front())) != 0;
    names.push_back((digit_first ? "x_" : "") + identifier(name));
  }
  return names;
}

c10::IValue as_result(const Predictions& predictions) {
  if (predictions.size() == 1) return predictions.front().second;
  std::vector<c10::IValue> values;
  for (const auto& [name, tensor] : predictions) values.emplace_back(tensor);
  return c10::ivalue::Tuple::create(std::move(values));
}

}  // namespace

jit::Module trace_module(const Predictor& predictor, const std::vector<NamedTensor>& inputs) {
  jit::Module module = mirror_models(predictor.replica());
  jit::Stack stack;
  for (const auto& [name, tensor] : inputs) stack.emplace_back(tensor);
  const auto traced = [&](const jit::Stack& arguments) -> jit::Stack {
    std::vector<at::Tensor> fields;
    for (const c10::IValue& argument : arguments) fields.push_back(argument.toTensor());
    return {as_result(predictor.run(fields))};
  };
  std::shared_ptr<jit::Graph> graph;
  try {
    graph = jit::tracer::trace(
                std::move(stack), traced, [](const at::Tensor&) { return std::string(); },
                /*strict=*/true, /*force_outplace=*/false, &module, argument_names(inputs))
                .first->graph;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw ConfigError(text("predict_step cannot be traced: ", torch_reason(error)),
                      "compute every prediction from the batch and from tensors that the models "
                      "register as parameters or buffers.");
  }
  // A traced Linear is t and addmm, which the executor takes apart into mm and add: other bits than
  // the original's. As aten::linear it stays whole.
  jit::FuseLinear(graph);
  jit::EliminateDeadCode(graph);
  const c10::QualifiedName name(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, graph));
  return module;
}

std::string torch_reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string message =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  // The interpreter shows its stack first and the operation's own message last.
  static constexpr char kMark[] = "RuntimeError: ";
  const std::size_t mark = message.rfind(kMark);
  const std::size_t begin = mark == std::string::npos ? 0 : mark + sizeof kMark - 1;
  return message.substr(begin, message.find('\n', begin) - begin);
}

}  // namespace troupe::detail
