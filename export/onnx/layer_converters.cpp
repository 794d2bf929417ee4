// Operators of layers: products of matrices, convolutions, pooling, normalisation, embeddings.
#include <algorithm>
#include <cmath>

#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

/// The input's rows times the weights, whose rows are the outputs, plus bias.
void linear(Conversion& op) {
  OnnxGraph& graph = op.graph;
  if (op.tensor("input").shape.size() == 2) {
    OnnxValues inputs = {op["input"], op["weight"]};
    if (op.has("bias")) inputs.push_back(op["bias"]);
    op.give(graph.add("Gemm", inputs, {{"transB", std::int64_t{1}}}));
    return;
  }
  const OnnxValue turned = graph.add("Transpose", {op["weight"]}, {{"perm", Integers{1, 0}}});
  OnnxValue result = graph.add("MatMul", {op["input"], turned});
  if (op.has("bias")) result = graph.add("Add", {result, op["bias"]});
  op.give(result);
}

/// beta self + alpha the product of two matrices.
void add_product(Conversion& op) {
  op.give(op.graph.add("Gemm", {op["mat1"], op["mat2"], op["self"]},
                       {{"alpha", static_cast<float>(op.real("alpha", 1))},
                        {"beta", static_cast<float>(op.real("beta", 1))}}));
}

void add_batched_product(Conversion& op) {
  const ElementType element = op.result().element;
  const auto scaled = [&](const OnnxValue& value, const char* factor) {
    if (op.real(factor, 1) == 1) return value;
    return op.graph.add("Mul", {value, op.as(element, factor)});
  };
  const OnnxValue product = scaled(op.graph.add("MatMul", {op["batch1"], op["batch2"]}), "alpha");
  // Whatever self holds, infinity too.
  if (op.real("beta", 1) == 0) return op.give(product);
  op.give(op.graph.add("Add", {scaled(op["self"], "beta"), product}));
}

void einsum(Conversion& op) {
  std::string equation = op.word("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  op.give(op.graph.add("Einsum", op.tensors("tensors"), {{"equation", equation}}));
}

/// What comes before and after, in ONNX's order, of a padding that is the same on both sides.
Integers on_both_sides(const Integers& padding) {
  Integers pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

void convolution(Conversion& op) {
  const std::size_t spatial = op.tensor("weight").shape.size() - 2;
  if (op.tensor("input").shape.size() != spatial + 2) op.refuse("of an input without a batch");
  OnnxValues inputs = {op["input"], op["weight"]};
  if (op.has("bias")) inputs.push_back(op["bias"]);
  OnnxAttributes attributes = {{"strides", op.wholes("stride", spatial)},
                               {"pads", on_both_sides(op.wholes("padding", spatial))},
                               {"dilations", op.wholes("dilation", spatial)},
                               {"group", op.whole("groups", 1)}};
  const bool transposed = op.has("transposed") && op.flag("transposed");
  if (transposed) {
    attributes.push_back({"output_padding", op.wholes("output_padding", spatial)});
  }
  op.give(op.graph.add(transposed ? "ConvTranspose" : "Conv", inputs, attributes));
}

/// Kernel, strides and pads of a pooling over `spatial` dimensions.
OnnxAttributes pooling(const Conversion& op, std::size_t spatial) {
  if (op.tensor("self").shape.size() != spatial + 2) op.refuse("of an input without a batch");
  if (op.flag("ceil_mode")) op.refuse("with ceil_mode");
  const Integers kernel = op.wholes("kernel_size", spatial);
  const bool stepped = op.has("stride") && !op.wholes("stride").empty();
  return {{"kernel_shape", kernel},
          {"strides", stepped ? op.wholes("stride", spatial) : kernel},
          {"pads", on_both_sides(op.wholes("padding", spatial))}};
}

Converter max_pool(std::size_t spatial) {
  return [spatial](Conversion& op) {
    OnnxAttributes attributes = pooling(op, spatial);
    attributes.push_back({"dilations", op.wholes("dilation", spatial)});
    op.give(op.graph.add("MaxPool", {op["self"]}, attributes));
  };
}

Converter average_pool(std::size_t spatial) {
  return [spatial](Conversion& op) {
    OnnxAttributes attributes = pooling(op, spatial);
    if (op.has("divisor_override")) op.refuse("with divisor_override");
    attributes.push_back({"count_include_pad", std::int64_t{op.flag("count_include_pad") ? 1 : 0}});
    op.give(op.graph.add("AveragePool", {op["self"]}, attributes));
  };
}

/// To a given number of places: one of all, or kernels that fit the input exactly.
Converter adaptive_pool(std::size_t spatial, const char* of_all, const char* of_windows) {
  return [=](Conversion& op) {
    const std::vector<Size>& from = op.tensor("self").shape;
    if (from.size() != spatial + 2) op.refuse("of an input without a batch");
    const Integers to = op.wholes("output_size", spatial);
    if (std::all_of(to.begin(), to.end(), [](auto places) { return places == 1; })) {
      op.give(op.graph.add(of_all, {op["self"]}));
      return;
    }
    Integers kernel;
    for (std::size_t i = 0; i < spatial; ++i) {
      if (!from[i + 2].is_fixed() || from[i + 2].fixed() % to[i] != 0) {
        op.refuse("to places that do not divide the input's size");
      }
      kernel.push_back(from[i + 2].fixed() / to[i]);
    }
    op.give(
        op.graph.add(of_windows, {op["self"]}, {{"kernel_shape", kernel}, {"strides", kernel}}));
  };
}

/// The argument, or `value` in that shape where it is None.
OnnxValue or_filled(Conversion& op, const char* name, std::int64_t value,
                    const std::vector<Size>& shape) {
  if (op.has(name)) return op[name];
  const OnnxValue one = op.graph.scalar(value, op.result().element);
  return op.graph.add("Expand", {one, op.graph.sizes(shape)});
}

OnnxAttribute epsilon(const Conversion& op) {
  return {"epsilon", static_cast<float>(op.real("eps"))};
}

void batch_norm(Conversion& op) {
  if (op.flag("training") || !op.has("running_mean") || !op.has("running_var")) {
    op.refuse("that normalises by its batch: keep running statistics");
  }
  const Size& channels = op.tensor("input").shape.at(1);
  op.give(
      op.graph.add("BatchNormalization",
                   {op["input"], or_filled(op, "weight", 1, {channels}),
                    or_filled(op, "bias", 0, {channels}), op["running_mean"], op["running_var"]},
                   {epsilon(op)}));
}

void layer_norm(Conversion& op) {
  const std::vector<Size> shape = op.sizes("normalized_shape");
  op.give(op.graph.add(
      "LayerNormalization",
      {op["input"], or_filled(op, "weight", 1, shape), or_filled(op, "bias", 0, shape)},
      {{"axis", -static_cast<std::int64_t>(shape.size())}, epsilon(op)}));
}

void instance_norm(Conversion& op) {
  if (!op.flag("use_input_stats")) op.refuse("by running statistics");
  const Size& channels = op.tensor("input").shape.at(1);
  op.give(op.graph.add(
      "InstanceNormalization",
      {op["input"], or_filled(op, "weight", 1, {channels}), or_filled(op, "bias", 0, {channels})},
      {epsilon(op)}));
}

/// Each group is normalised as one channel; then every channel has its weight and bias.
void group_norm(Conversion& op) {
  OnnxGraph& graph = op.graph;
  const std::vector<Size> shape = op.known(op.tensor("input").shape);
  const Size groups = op.whole("num_groups");
  const ElementType element = op.result().element;
  const auto of_groups = [&](std::int64_t value) {
    return graph.add("Expand", {graph.scalar(value, element), graph.sizes({groups})});
  };
  const OnnxValue grouped =
      graph.add("Reshape", {op["input"], graph.sizes({shape[0], groups, -1})});
  const OnnxValue normal =
      graph.add("InstanceNormalization", {grouped, of_groups(1), of_groups(0)}, {epsilon(op)});
  OnnxValue result = graph.add("Reshape", {normal, graph.sizes(shape)});
  std::vector<Size> channels(shape.size() - 1, 1);
  channels[0] = shape[1];
  if (op.has("weight")) result = graph.add("Mul", {result, op.reshape(op["weight"], channels)});
  if (op.has("bias")) result = graph.add("Add", {result, op.reshape(op["bias"], channels)});
  op.give(result);
}

void embedding(Conversion& op) { op.give(op.graph.add("Gather", {op["weight"], op["indices"]})); }

/// To the result's size. Where LibTorch was given a factor that is no whole number it goes by that,
/// and ONNX by the quotient of the sizes.
void resize(Conversion& op, const OnnxAttributes& attributes) {
  for (const char* const factors : {"scale_factors", "scales", "scales_h", "scales_w"}) {
    if (!op.has(factors)) continue;
    for (const double factor : op.reals(factors)) {
      if (factor == std::floor(factor)) continue;
      op.refuse("by a factor that is no whole number: give the size, or recompute_scale_factor");
    }
  }
  const char* const input = op.has("input") ? "input" : "self";
  const OnnxValue sizes = op.graph.sizes(op.known(op.result().shape));
  op.give(op.graph.add("Resize", {op[input], "", "", sizes}, attributes));
}
void upsample_nearest(Conversion& op) {
  resize(op, {{"mode", std::string("nearest")},
              {"coordinate_transformation_mode", std::string("asymmetric")},
              {"nearest_mode", std::string("floor")}});
}
void upsample_linear(Conversion& op) {
  const bool corners = op.flag("align_corners");
  resize(op, {{"mode", std::string("linear")},
              {"coordinate_transformation_mode",
               std::string(corners ? "align_corners" : "half_pixel")}});
}

}  // namespace

const Converters& layer_converters() {
  static const Converters table = {
      {"aten::_convolution", convolution},
      {"aten::adaptive_avg_pool1d", adaptive_pool(1, "GlobalAveragePool", "AveragePool")},
      {"aten::adaptive_avg_pool2d", adaptive_pool(2, "GlobalAveragePool", "AveragePool")},
      {"aten::adaptive_avg_pool3d", adaptive_pool(3, "GlobalAveragePool", "AveragePool")},
      {"aten::adaptive_max_pool1d", adaptive_pool(1, "GlobalMaxPool", "MaxPool")},
      {"aten::adaptive_max_pool2d", adaptive_pool(2, "GlobalMaxPool", "MaxPool")},
      {"aten::addmm", add_product},
      {"aten::avg_pool1d", average_pool(1)},
      {"aten::avg_pool2d", average_pool(2)},
      {"aten::avg_pool3d", average_pool(3)},
      {"aten::baddbmm", add_batched_product},
      {"aten::batch_norm", batch_norm},
      {"aten::bmm", operator_of("MatMul", {"self", "mat2"})},
      {"aten::conv1d", convolution},
      {"aten::conv2d", convolution},
      {"aten::conv3d", convolution},
      {"aten::convolution", convolution},
      {"aten::dot", operator_of("MatMul", {"self", "tensor"})},
      {"aten::einsum", einsum},
      {"aten::embedding", embedding},
      {"aten::group_norm", group_norm},
      {"aten::instance_norm", instance_norm},
      {"aten::layer_norm", layer_norm},
      {"aten::linear", linear},
      {"aten::matmul", operator_of("MatMul", {"self", "other"})},
      {"aten::max_pool1d", max_pool(1)},
      {"aten::max_pool2d", max_pool(2)},
      {"aten::max_pool3d", max_pool(3)},
      {"aten::mm", operator_of("MatMul", {"self", "mat2"})},
      {"aten::mv", operator_of("MatMul", {"self", "vec"})},
      {"aten::upsample_bilinear2d", upsample_linear},
      {"aten::upsample_nearest1d", upsample_nearest},
      {"aten::upsample_nearest2d", upsample_nearest},
  };
  return table;
}

}  // namespace troupe::detail
