#include "troupe/export/onnx/onnx_model.h"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/version.h"
#include "troupe/export/onnx/conversion.h"
#include "troupe/export/onnx/in_place.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kIrVersion = 8;  // of opset 17
// A message of Protocol Buffers has at most 2 GiB; what is beside the weights is far below this.
constexpr std::size_t kMostWeightBytes = (std::size_t{1} << 31) - (std::size_t{1} << 26);

void check_covered(const TracedGraph& trace) {
  std::set<std::string> missing;
  for (const TracedNode& node : trace.nodes) {
    if (find_converter(node.op) == nullptr) missing.insert(node.op);
  }
  if (missing.empty()) return;
  throw ConfigError(
      text("the export to ONNX does not cover ",
           join(std::vector<std::string>(missing.begin(), missing.end())), "."),
      "write that part of the model with other operators (docs/onnx.md lists those that are "
      "covered), or export with --export-format torchscript.");
}

void check_names(const OnnxInterface& interface) {
  const std::set<std::string> inputs(interface.inputs.begin(), interface.inputs.end());
  for (const std::string& output : interface.outputs) {
    if (inputs.count(output) == 0) continue;
    throw ConfigError(text("\"", output,
                           "\" is the name of an input and of a prediction, which in "
                           "ONNX are names of one list."),
                      "give the prediction another name.");
  }
}

void check_size(const TracedGraph& trace) {
  std::set<const Weights*> counted;
  std::size_t bytes = 0;
  for (const TracedValue& value : trace.values) {
    const auto* tensor = std::get_if<TracedTensor>(&value);
    if (tensor == nullptr || tensor->weights == nullptr) continue;
    if (counted.insert(tensor->weights.get()).second) bytes += tensor->weights->bytes;
  }
  if (bytes <= kMostWeightBytes) return;
  throw ConfigError(text("the model has ", bytes, " bytes of weights, and an ONNX file holds ",
                         kMostWeightBytes, " at most."),
                    "export with --export-format torchscript.");
}

/// Type and shape of an input or output.
void describe(onnx::ValueInfoProto& info, const std::string& name, const TracedTensor& tensor,
              const std::vector<DynamicSize>& sizes) {
  info.set_name(name);
  onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(tensor.element));
  onnx::TensorShapeProto& shape = *type.mutable_shape();
  for (const Size& size : tensor.shape) {
    onnx::TensorShapeProto::Dimension& dimension = *shape.add_dim();
    if (size.is_known() && size.is_fixed()) dimension.set_dim_value(size.fixed());
    // A dynamic size itself has its name; what is computed from them has none.
    for (std::size_t s = 0; s < sizes.size() && size.is_known() && !size.is_fixed(); ++s) {
      std::vector<std::int64_t> itself(size.coefficients.size(), 0);
      itself[std::size_t{1} << s] = 1;
      if (size.coefficients == itself) dimension.set_dim_param(sizes[s].name);
    }
  }
}

const TracedTensor& tensor_of(const TracedGraph& trace, ValueId id) {
  return std::get<TracedTensor>(trace.values[id]);
}

/// ONNX allows them for float64, onnxruntime computes them for float32 alone. Source: its
/// docs/OperatorKernels.md, CPU, of 1.32.
const std::set<std::string>& without_float64() {
  static const std::set<std::string> names = {"Acos",
                                              "Asin",
                                              "Atan",
                                              "AveragePool",
                                              "Conv",
                                              "ConvTranspose",
                                              "Cosh",
                                              "Elu",
                                              "Erf",
                                              "GRU",
                                              "GlobalAveragePool",
                                              "HardSigmoid",
                                              "HardSwish",
                                              "InstanceNormalization",
                                              "LSTM",
                                              "RNN",
                                              "Resize",
                                              "Selu",
                                              "Sinh",
                                              "Softplus",
                                              "Tan"};
  return names;
}

void fill_graph(onnx::GraphProto& to, const TracedGraph& trace, const OnnxInterface& interface) {
  TROUPE_CHECK_EQ(trace.inputs.size(), interface.inputs.size());
  TROUPE_CHECK_EQ(trace.outputs.size(), interface.outputs.size());
  to.set_name("predict_step");
  OnnxGraph graph(to, interface.inputs, interface.outputs, interface.sizes);
  OnnxNames names;
  for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
    names[trace.inputs[i]] = interface.inputs[i];
    describe(*to.add_input(), interface.inputs[i], tensor_of(trace, trace.inputs[i]),
             interface.sizes);
  }
  for (const TracedNode& node : trace.nodes) {
    Conversion conversion(trace, node, graph, names);
    const int before = to.node_size();
    (*find_converter(node.op))(conversion);
    const auto* const made = std::get_if<TracedTensor>(&trace.values[node.outputs.at(0)]);
    if (made == nullptr || made->element != ElementType::float64) continue;
    for (int i = before; i < to.node_size(); ++i) {
      if (without_float64().count(to.node(i).op_type()) == 0) continue;
      conversion.refuse("in float64, for which runtimes lack ONNX's " + to.node(i).op_type());
    }
  }
  for (std::size_t i = 0; i < trace.outputs.size(); ++i) {
    const TracedTensor& tensor = tensor_of(trace, trace.outputs[i]);
    const auto computed = names.find(trace.outputs[i]);
    if (computed == names.end() && tensor.weights == nullptr) {
      throw ConfigError(
          text("the export to ONNX does not cover what prediction \"", interface.outputs[i],
               "\" is: its values come from no operator, or "
               "from a second result of one that is covered for its first alone."),
          "write that part of the model with other operators (docs/onnx.md lists "
          "those that are covered), or export with --export-format torchscript.");
    }
    const OnnxValue value = computed != names.end() ? computed->second : graph.weights(tensor);
    graph.add_named("Identity", value, interface.outputs[i]);
    describe(*to.add_output(), interface.outputs[i], tensor, interface.sizes);
  }
}

void check_by_onnx(const onnx::ModelProto& model) {
  try {
    onnx::checker::check_model(model);
    onnx::ModelProto inferred(model);
    onnx::shape_inference::InferShapes(inferred, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions(/*check_type=*/true,
                                                                   /*strict_mode=*/1));
  } catch (const std::exception& error) {
    throw ConfigError(
        text("ONNX refuses the model that was made of the trace: ", error.what(), "."),
        "please report it; meanwhile export with --export-format torchscript.");
  }
}

void write_file(const onnx::ModelProto& model, const std::string& path) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  const bool written = out && model.SerializeToOstream(&out);
  out.close();
  if (written && out) return;
  throw EnvironmentError(
      text("cannot write '", path, "': ", std::strerror(errno != 0 ? errno : EIO), "."),
      "make the directory writable and free space on its file system.");
}

}  // namespace

void write_onnx_model(const TracedGraph& traced, const OnnxInterface& interface,
                      const std::string& path) {
  TracedGraph trace = traced;
  replace_in_place(trace);
  check_covered(trace);
  check_names(interface);
  check_size(trace);
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("troupe");
  model.set_producer_version(kVersion);
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOnnxOpset);
  onnx::StringStringEntryProto& step = *model.add_metadata_props();
  step.set_key("global_step");
  step.set_value(text(interface.global_step));
  fill_graph(*model.mutable_graph(), trace, interface);
  check_by_onnx(model);
  if (!path.empty()) write_file(model, path);
}

}  // namespace troupe::detail
