// Activations, and dropout, which does nothing outside training.
#include <cmath>

#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

void relu6(Conversion& op) {
  const ElementType element = op.result().element;
  op.give(op.graph.add("Min", {op.graph.add("Relu", {op["self"]}), op.graph.scalar(6.0, element)}));
}

void dropout(Conversion& op) {
  if (op.flag("train")) op.refuse("in training: let the model draw nothing outside training");
  op.give(op["input"]);
}

/// Of whole numbers, too, for which runtimes lack Relu.
void relu_of_any(Conversion& op) {
  if (op.result().element == ElementType::float32) return unary("Relu")(op);
  op.give(op.graph.add("Max", {op["self"], op.graph.scalar(std::int64_t{0}, op.result().element)}));
}

/// ONNX's default slope is another.
void hard_sigmoid(Conversion& op) {
  op.give(op.graph.add("HardSigmoid", {op["self"]}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}}));
}

void leaky_relu(Conversion& op) {
  const auto slope = static_cast<float>(op.real("negative_slope"));
  op.give(op.graph.add("LeakyRelu", {op["self"]}, {{"alpha", slope}}));
}

void elu(Conversion& op) {
  if (op.real("scale", 1) != 1 || op.real("input_scale", 1) != 1) op.refuse("with a scale");
  op.give(op.graph.add("Elu", {op["self"]}, {{"alpha", static_cast<float>(op.real("alpha", 1))}}));
}

/// The slopes lie along dimension 1.
void prelu(Conversion& op) {
  const std::size_t rank = op.tensor("self").shape.size();
  OnnxValue slopes = op["weight"];
  if (rank > 1) {
    std::vector<Size> shape(rank, 1);
    shape[1] = op.tensor("weight").shape.front();
    slopes = op.reshape(slopes, shape);
  }
  op.give(op.graph.add("PRelu", {op["self"], slopes}));
}

/// log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold.
void softplus(Conversion& op) {
  const ElementType element = op.result().element;
  OnnxGraph& graph = op.graph;
  const OnnxValue x = op["self"];
  const OnnxValue beta = op.as(element, "beta");
  const OnnxValue scaled = op.real("beta") == 1 ? x : graph.add("Mul", {x, beta});
  OnnxValue result = graph.add("Softplus", {scaled});
  if (op.real("beta") != 1) result = graph.add("Div", {result, beta});
  const OnnxValue beyond = graph.add("Greater", {scaled, op.as(element, "threshold")});
  op.give(graph.add("Where", {beyond, x, result}));
}

void log_sigmoid(Conversion& op) {
  const OnnxValue negative = op.graph.add("Neg", {op["self"]});
  op.give(op.graph.add("Neg", {op.graph.add("Softplus", {negative})}));
}

void silu(Conversion& op) {
  const OnnxValue self = op["self"];
  op.give(op.graph.add("Mul", {self, op.graph.add("Sigmoid", {self})}));
}

void mish(Conversion& op) {
  const OnnxValue self = op["self"];
  const OnnxValue tanh = op.graph.add("Tanh", {op.graph.add("Softplus", {self})});
  op.give(op.graph.add("Mul", {self, tanh}));
}

/// x / 2 (1 + erf(x / sqrt(2))), or the approximation by tanh.
void gelu(Conversion& op) {
  const ElementType element = op.result().element;
  OnnxGraph& graph = op.graph;
  const OnnxValue x = op["self"];
  const auto number = [&](double value) { return graph.scalar(value, element); };
  OnnxValue inner;
  if (op.has("approximate") && op.word("approximate") == "tanh") {
    const OnnxValue cube = graph.add("Mul", {graph.add("Mul", {x, x}), x});
    const OnnxValue sum = graph.add("Add", {x, graph.add("Mul", {cube, number(0.044715)})});
    inner = graph.add("Tanh", {graph.add("Mul", {sum, number(std::sqrt(2 / M_PI))})});
  } else {
    inner = graph.add("Erf", {graph.add("Mul", {x, number(std::sqrt(0.5))})});
  }
  const OnnxValue half = graph.add("Mul", {x, number(0.5)});
  op.give(graph.add("Mul", {half, graph.add("Add", {inner, number(1)})}));
}

void glu(Conversion& op) {
  const std::int64_t axis = op.axis("dim", op.tensor("self").shape.size());
  const OnnxValues halves = op.graph.add("Split", {op["self"]}, {{"axis", axis}}, 2);
  op.give(op.graph.add("Mul", {halves[0], op.graph.add("Sigmoid", {halves[1]})}));
}

}  // namespace

const Converters& activation_converters() {
  static const Converters table = {
      {"aten::dropout", dropout},
      {"aten::elu", elu},
      {"aten::feature_dropout", dropout},
      {"aten::gelu", gelu},
      {"aten::glu", glu},
      {"aten::hardsigmoid", hard_sigmoid},
      {"aten::hardswish", unary("HardSwish")},
      {"aten::leaky_relu", leaky_relu},
      {"aten::log_sigmoid", log_sigmoid},
      {"aten::mish", mish},
      {"aten::prelu", prelu},
      {"aten::relu", relu_of_any},
      {"aten::relu6", relu6},
      {"aten::selu", unary("Selu")},
      {"aten::sigmoid", unary("Sigmoid")},
      {"aten::silu", silu},
      {"aten::softplus", softplus},
      {"aten::softsign", unary("Softsign")},
      {"aten::tanh", unary("Tanh")},
  };
  return table;
}

}  // namespace troupe::detail
