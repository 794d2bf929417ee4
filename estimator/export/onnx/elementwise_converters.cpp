// Operators that compute each element from those at its place.
#include <cmath>
#include <string>

#include "estimator/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

bool is_real(ElementType element) {
  return element == ElementType::float16 || element == ElementType::bfloat16 ||
         element == ElementType::float32 || element == ElementType::float64;
}

/// One ONNX operator of self, in the result's type.
Converter unary(const char* name) {
  return
      [name](Conversion& op) { op.give(op.graph.add(name, {op.as(op.result().element, "self")})); };
}

/// Of self and other, in the result's type.
Converter binary(const char* name) {
  return [name](Conversion& op) {
    const ElementType element = op.result().element;
    op.give(op.graph.add(name, {op.as(element, "self"), op.as(element, "other")}));
  };
}

/// The type in which a tensor and a tensor or number are compared.
ElementType common_type(const Conversion& op) {
  const auto rank = [](ElementType element) {
    if (element == ElementType::boolean) return 0;
    if (element == ElementType::float16 || element == ElementType::bfloat16) return 20;
    return is_real(element) ? 10 + static_cast<int>(element) * 10 : static_cast<int>(element);
  };
  const TracedTensor& self = op.tensor("self");
  if (op.is_tensor("other")) {
    const TracedTensor& other = op.tensor("other");
    const bool same_kind = is_real(self.element) == is_real(other.element);
    // A tensor without dimensions weighs as a number does.
    if (same_kind && self.shape.empty() != other.shape.empty()) {
      return self.shape.empty() ? other.element : self.element;
    }
    return rank(self.element) >= rank(other.element) ? self.element : other.element;
  }
  if (is_real(self.element)) return self.element;
  return op.is_real_number("other")             ? ElementType::float32
         : self.element == ElementType::boolean ? ElementType::int64
                                                : self.element;
}

Converter compare(const char* name) {
  return [name](Conversion& op) {
    const ElementType element = common_type(op);
    op.give(op.graph.add(name, {op.as(element, "self"), op.as(element, "other")}));
  };
}

void differs(Conversion& op) {
  const ElementType element = common_type(op);
  op.give(op.graph.add("Not",
                       {op.graph.add("Equal", {op.as(element, "self"), op.as(element, "other")})}));
}

/// Of truth values; aten::logical_and takes any, aten::bitwise_and whole numbers too.
Converter logical(const char* name) {
  return [name](Conversion& op) {
    if (op.result().element != ElementType::boolean) op.refuse("on whole numbers");
    op.give(op.graph.add(
        name, {op.as(ElementType::boolean, "self"), op.as(ElementType::boolean, "other")}));
  };
}

void logical_not(Conversion& op) {
  if (op.result().element != ElementType::boolean) op.refuse("on whole numbers");
  op.give(op.graph.add("Not", {op.as(ElementType::boolean, "self")}));
}

/// Other, alpha times.
OnnxValue scaled_other(Conversion& op, ElementType element) {
  const OnnxValue other = op.as(element, "other");
  if (!op.has("alpha") || op.real("alpha") == 1) return other;
  return op.graph.add("Mul", {other, op.as(element, "alpha")});
}

void add(Conversion& op) {
  const ElementType element = op.result().element;
  if (element == ElementType::boolean) op.refuse("on truth values");
  op.give(op.graph.add("Add", {op.as(element, "self"), scaled_other(op, element)}));
}

void subtract(Conversion& op) {
  const ElementType element = op.result().element;
  op.give(op.graph.add("Sub", {op.as(element, "self"), scaled_other(op, element)}));
}

void subtract_from(Conversion& op) {
  const ElementType element = op.result().element;
  if (op.real("alpha", 1) != 1) op.refuse("with another alpha than 1");
  op.give(op.graph.add("Sub", {op.as(element, "other"), op.as(element, "self")}));
}

void multiply(Conversion& op) {
  const ElementType element = op.result().element;
  op.give(op.graph.add(element == ElementType::boolean ? "And" : "Mul",
                       {op.as(element, "self"), op.as(element, "other")}));
}

void divide(Conversion& op) {
  const ElementType element = op.result().element;
  const std::string rounding = op.has("rounding_mode") ? op.word("rounding_mode") : "";
  if (!rounding.empty() && !is_real(element)) op.refuse("with rounding on whole numbers");
  OnnxValue quotient = op.graph.add("Div", {op.as(element, "self"), op.as(element, "other")});
  if (rounding == "floor") quotient = op.graph.add("Floor", {quotient});
  if (rounding == "trunc") {
    const OnnxValue size = op.graph.add("Floor", {op.graph.add("Abs", {quotient})});
    quotient = op.graph.add("Mul", {op.graph.add("Sign", {quotient}), size});
  }
  op.give(quotient);
}

void remainder(Conversion& op) {
  const ElementType element = op.result().element;
  const OnnxValue a = op.as(element, "self");
  const OnnxValue b = op.as(element, "other");
  if (!is_real(element)) {
    op.give(op.graph.add("Mod", {a, b}));
    return;
  }
  const OnnxValue whole = op.graph.add("Floor", {op.graph.add("Div", {a, b})});
  op.give(op.graph.add("Sub", {a, op.graph.add("Mul", {whole, b})}));
}

void power(Conversion& op) {
  const ElementType element = op.result().element;
  op.give(op.graph.add("Pow", {op.as(element, "self"), op.as(element, "exponent")}));
}

void square(Conversion& op) {
  const OnnxValue self = op["self"];
  op.give(op.graph.add("Mul", {self, self}));
}

void reciprocal_root(Conversion& op) {
  const OnnxValue root = op.graph.add("Sqrt", {op.as(op.result().element, "self")});
  op.give(op.graph.add("Reciprocal", {root}));
}

void log_of_one_more(Conversion& op) {
  const ElementType element = op.result().element;
  const OnnxValue one = op.graph.scalar(1.0, element);
  op.give(op.graph.add("Log", {op.graph.add("Add", {op.as(element, "self"), one})}));
}

void clamp(Conversion& op, const char* low, const char* high) {
  const ElementType element = op.result().element;
  OnnxValue value = op.as(element, "self");
  if (op.has(low)) value = op.graph.add("Max", {value, op.as(element, low)});
  if (op.has(high)) value = op.graph.add("Min", {value, op.as(element, high)});
  op.give(value);
}
void clamp_between(Conversion& op) { clamp(op, "min", "max"); }
void hard_tanh(Conversion& op) { clamp(op, "min_val", "max_val"); }
void relu6(Conversion& op) {
  const ElementType element = op.result().element;
  op.give(op.graph.add("Min", {op.graph.add("Relu", {op["self"]}), op.graph.scalar(6.0, element)}));
}

void where(Conversion& op) {
  const ElementType element = op.result().element;
  op.give(op.graph.add("Where", {op.as(ElementType::boolean, "condition"), op.as(element, "self"),
                                 op.as(element, "other")}));
}

void masked_fill(Conversion& op) {
  const ElementType element = op.result().element;
  op.give(op.graph.add("Where", {op.as(ElementType::boolean, "mask"), op.as(element, "value"),
                                 op.as(element, "self")}));
}

void cast(Conversion& op) { op.give(op.as(op.result().element, "self")); }

void same(Conversion& op) { op.give(op[op.has("input") ? "input" : "self"]); }

void dropout(Conversion& op) {
  if (op.flag("train")) op.refuse("in training: let the model draw nothing outside training");
  op.give(op["input"]);
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

void softplus(Conversion& op) {
  if (op.real("beta") != 1) op.refuse("with another beta than 1");
  op.give(op.graph.add("Softplus", {op["self"]}));
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

const Converters& elementwise_converters() {
  static const Converters table = {
      {"aten::__and__", logical("And")},
      {"aten::__or__", logical("Or")},
      {"aten::__xor__", logical("Xor")},
      {"aten::abs", unary("Abs")},
      {"aten::acos", unary("Acos")},
      {"aten::add", add},
      {"aten::alias", same},
      {"aten::asin", unary("Asin")},
      {"aten::atan", unary("Atan")},
      {"aten::bitwise_and", logical("And")},
      {"aten::bitwise_not", logical_not},
      {"aten::bitwise_or", logical("Or")},
      {"aten::bitwise_xor", logical("Xor")},
      {"aten::ceil", unary("Ceil")},
      {"aten::clamp", clamp_between},
      {"aten::clamp_max", clamp_between},
      {"aten::clamp_min", clamp_between},
      {"aten::clone", same},
      {"aten::contiguous", same},
      {"aten::cos", unary("Cos")},
      {"aten::cosh", unary("Cosh")},
      {"aten::detach", same},
      {"aten::div", divide},
      {"aten::dropout", dropout},
      {"aten::elu", elu},
      {"aten::eq", compare("Equal")},
      {"aten::erf", unary("Erf")},
      {"aten::exp", unary("Exp")},
      {"aten::feature_dropout", dropout},
      {"aten::floor", unary("Floor")},
      {"aten::ge", compare("GreaterOrEqual")},
      {"aten::gelu", gelu},
      {"aten::glu", glu},
      {"aten::gt", compare("Greater")},
      {"aten::hardsigmoid", hard_sigmoid},
      {"aten::hardswish", unary("HardSwish")},
      {"aten::hardtanh", hard_tanh},
      {"aten::le", compare("LessOrEqual")},
      {"aten::leaky_relu", leaky_relu},
      {"aten::log", unary("Log")},
      {"aten::log1p", log_of_one_more},
      {"aten::log_sigmoid", log_sigmoid},
      {"aten::logical_and", logical("And")},
      {"aten::logical_not", logical_not},
      {"aten::logical_or", logical("Or")},
      {"aten::logical_xor", logical("Xor")},
      {"aten::lt", compare("Less")},
      {"aten::masked_fill", masked_fill},
      {"aten::maximum", binary("Max")},
      {"aten::minimum", binary("Min")},
      {"aten::mish", mish},
      {"aten::mul", multiply},
      {"aten::ne", differs},
      {"aten::neg", unary("Neg")},
      {"aten::pow", power},
      {"aten::prelu", prelu},
      {"aten::reciprocal", unary("Reciprocal")},
      {"aten::relu", unary("Relu")},
      {"aten::relu6", relu6},
      {"aten::remainder", remainder},
      {"aten::round", unary("Round")},
      {"aten::rsqrt", reciprocal_root},
      {"aten::rsub", subtract_from},
      {"aten::selu", unary("Selu")},
      {"aten::sigmoid", unary("Sigmoid")},
      {"aten::sign", unary("Sign")},
      {"aten::silu", silu},
      {"aten::sin", unary("Sin")},
      {"aten::sinh", unary("Sinh")},
      {"aten::softplus", softplus},
      {"aten::softsign", unary("Softsign")},
      {"aten::sqrt", unary("Sqrt")},
      {"aten::square", square},
      {"aten::sub", subtract},
      {"aten::tan", unary("Tan")},
      {"aten::tanh", unary("Tanh")},
      {"aten::to", cast},
      {"aten::type_as", cast},
      {"aten::where", where},
  };
  return table;
}

}  // namespace troupe::detail
